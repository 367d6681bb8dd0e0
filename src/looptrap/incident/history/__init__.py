"""History: incidents, deliveries, usage and changes, in SQLite; no request waits for its writer.

history        IncidentHistory: what is kept, and where
writer         HistoryWriter: the thread that writes it
incident_rows  incidents and annotations as rows, and how they are asked for
outbox         Outbox: deliveries that wait, and what became of them
audit          AuditLog: who changed what while the gateway ran
retention      what is dropped: the old, and what there is no room for
"""

from looptrap.database.database import Page
from looptrap.incident.history.audit import AuditLog
from looptrap.incident.history.history import IncidentHistory
from looptrap.incident.history.outbox import Delivery, Outbox, OutgoingEvent
from looptrap.incident.history.writer import HistoryWriter, WriteBatch
from looptrap.usage.table import UsageQuery

__all__ = [
    "AuditLog",
    "Delivery",
    "HistoryWriter",
    "IncidentHistory",
    "Outbox",
    "OutgoingEvent",
    "Page",
    "UsageQuery",
    "WriteBatch",
]
