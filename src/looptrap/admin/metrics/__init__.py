"""Metrics: plain numbers of the gateway, made into Prometheus's form when it asks.

verdict    what was decided, and how long that took
upstream   what became of it at the providers
money      what calls used and cost, and what refusals saved
attempt    what was tried again, and circuits that are not closed
wire       clients and their connections
claim      tokens whose claims were not believed
store      who counts; captures
incident   incidents, alerts and indicators
"""

from looptrap.admin.metrics.collector import GatewayCollector, exposition
from looptrap.admin.metrics.incident import IncidentNumbers

__all__ = ["GatewayCollector", "IncidentNumbers", "exposition"]
