"""The history: incidents, deliveries, usage and audit; no request waits for it.

history    IncidentHistory: the database; queries on incidents and annotations; who is alive
incident_table  the rows of incidents and of their parts: lists, groups, filters
writer     HistoryWriter, SpoolDrainer: the threads that write it
batch      WriteBatch: what is written in one transaction; BatchSpool: batches wait on disk
backup     a consistent copy, made while gateways write
outbox     Outbox: deliveries, pending, delivered and dead
audit      AuditLog: who changed what while the gateway ran
move       from a file into PostgreSQL
retention  drops what is expired or too large
"""

from looptrap.incident.history.batch import WriteBatch
from looptrap.incident.history.history import IncidentHistory
from looptrap.incident.history.outbox import Delivery, Outbox, OutgoingEvent
from looptrap.incident.history.writer import HistoryWriter
from looptrap.usage.table import UsageQuery

__all__ = [
    "Delivery",
    "HistoryWriter",
    "IncidentHistory",
    "Outbox",
    "OutgoingEvent",
    "UsageQuery",
    "WriteBatch",
]
