"""Leading indicators: what tends to come before an incident. Pure: time is an argument.

model       Observation (what one call shows), Scope (whom an indicator is about)
indicators  all of them together: observe calls, tick, hear what fired
tool_error  the share of a caller's tool calls that failed
latency     the time to first byte against its baseline
session     tool calls a turn, and tokens against other sessions
alarm       fires once, again only after quiet, and never in storms
latest      what is remembered by key, within bounds
"""

from looptrap.incident.indicator.indicators import Indicators
from looptrap.incident.indicator.model import IndicatorName, Observation, Scope

__all__ = ["IndicatorName", "Indicators", "Observation", "Scope"]
