"""Leading indicators: what tends to come before an incident. Pure: time is an argument.

model       Observation (what one call shows), IndicatorScope, RecentMap
indicators  Indicators: all of them together: observe calls, tick, hear what fired
tool_error  the share of a caller's tool calls that failed
latency     the time to first byte against its baseline
session     tool calls a turn, tokens against other sessions, burn rate
alarm       fires once, again only after quiet, and never in storms
"""

from looptrap.incident.indicator.indicators import Indicators
from looptrap.incident.indicator.model import IndicatorName, IndicatorScope, Observation

__all__ = ["IndicatorName", "IndicatorScope", "Indicators", "Observation"]
