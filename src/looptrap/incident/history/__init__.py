"""History: incidents, alerts, spending and changes, in SQLite; no request waits for its writer.

history    History: what is kept, and where
writer     Writer: the thread that writes it
part       what one instance saw of an incident, as a row
remark     what people said of incidents, as rows
audit      Audit: who changed what while the gateway ran
query      incidents to be shown and followed
letter     Letter: an event on its way through one channel
outbox     Outbox: letters that wait to be delivered, and what became of them
booking    what was spent, as rows that add up
spending   Books: what was spent, asked by time, caller, project, session and model
retention  what is dropped: the old, and what there is no room for
rows       many rows as few statements
database   Database: connections, transactions, what is done when the file is gone
file       the file, and who can read it
backup     Backup: a copy of a history that is in use
schema     tables, and how a file of an older version gets them
"""

from looptrap.incident.history.audit import Audit
from looptrap.incident.history.history import History
from looptrap.incident.history.letter import Letter, Outgoing
from looptrap.incident.history.outbox import Outbox
from looptrap.incident.history.page import Page
from looptrap.incident.history.spending import Books
from looptrap.incident.history.writer import Work, Writer

__all__ = ["Audit", "Books", "History", "Letter", "Outbox", "Outgoing", "Page", "Work", "Writer"]
