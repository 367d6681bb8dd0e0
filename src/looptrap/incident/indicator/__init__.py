"""Leading indicators: what tends to come before an incident. Pure: time is an argument.

indicators  Observation, Indicators: all of them together; those of tool errors and of latency
session     tool calls a turn, tokens against other sessions, burn rate
alarm       IndicatorAlarm: one alert a scope and hour, summed up when there are many
"""

from looptrap.incident.indicator.indicators import Indicators, Observation

__all__ = ["Indicators", "Observation"]
