"""Leading indicators: what tends to come before an incident. Pure: time is an argument.

model       Observation, IndicatorScope, ThresholdCrossing
indicators  Indicators: all of them together
tool_error  the share of a caller's tool calls that failed
latency     the time to first byte against its baseline
session     tool calls a turn, tokens against other sessions, burn rate
alarm       IndicatorAlarm: one alert a scope and hour, summed up when there are many
"""

from looptrap.incident.indicator.indicators import Indicators
from looptrap.incident.indicator.model import IndicatorName, IndicatorScope, Observation

__all__ = ["IndicatorName", "IndicatorScope", "Indicators", "Observation"]
