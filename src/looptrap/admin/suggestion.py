"""What to do about a false alarm: rules that look otherwise at the tool that caused it. Pure."""

from __future__ import annotations

from math import ceil
from typing import Any, TypedDict

from looptrap.config import Config
from looptrap.incident.model import Incident, Opinion
from looptrap.policy.action import Ladder
from looptrap.policy.rule import SIGNALS

MOST_ROUNDS = 50
"""Above it a tool may as well be exempt: hardly any history is as long."""


class Suggestion(TypedDict):
    """What could be set of a tool, and why."""

    tool: str
    setting: dict[str, Any]
    why: str


def suggested(incident: Incident, tool: str | None, config: Config) -> Suggestion | None:
    """Return what would have kept a false alarm from being raised; None where no setting would.

    Thresholds of tools are for what is read from histories.
    """
    opinions = [one for one in incident.opinions if one.signal in SIGNALS]
    if not tool or not opinions:
        return None
    severest = max(opinions, key=lambda one: one.count)
    seen = severest.count
    known = config.tools.get(tool)
    ladder = known.ladder if known is not None else None
    if known is not None and (known.exempt or (ladder is not None and ladder.first > seen)):
        return None  # that has been done
    ladder = ladder or ladder_of(incident, severest.policy, severest.rule, config)
    if ladder is None:
        return None
    times = f"It was called {seen} times in a row, or nearly, and that was all right."
    factor = max((seen + 1) / ladder.first, 1.0)
    raised = {action.value: ceil(threshold * factor) for action, threshold in ladder.steps}
    if max(raised.values()) > MOST_ROUNDS:
        return {"tool": tool, "setting": {"exempt": True}, "why": times}
    return {"tool": tool, "setting": {"thresholds": raised}, "why": times}


def thresholds_of(
    incident: Incident, said: Opinion, tool: str | None, config: Config
) -> Ladder | None:
    """Return the ladder that binds a rule in an incident, as it is now: a tool may have its own."""
    ladder = ladder_of(incident, said.policy, said.rule, config)
    known = config.tools.get(tool) if tool and said.signal in SIGNALS else None
    return known.ladder if known is not None and known.ladder is not None else ladder


def ladder_of(incident: Incident, policy: str, rule: str, config: Config) -> Ladder | None:
    """Return the ladder of a rule, for the project of an incident; None where there is no rule."""
    found = next((one for one in config.policies if one.name == policy), None)
    project = next((one for one in config.projects if one.name == incident.project), None)
    if found is not None and project is not None:
        found = project.adapt(found)
    rules = found.rules if found is not None else ()
    return next((one.ladder for one in rules if one.name == rule), None)
