"""The settings of policies, their selectors, projects and kill switches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from looptrap.errors import Problem
from looptrap.policy.action import Action
from looptrap.policy.policy import KillSwitch, Policy, Project, Selector
from looptrap.policy.rule import ToolRule
from looptrap.policy.setting.rate import RATE
from looptrap.policy.setting.rule import (
    ACTIONS,
    COOLDOWN,
    DESCRIPTOR,
    HEADER,
    NAME,
    PATH,
    PLAIN,
    RULE,
    THRESHOLD,
    THRESHOLDS,
    TOKEN,
    WINDOW,
    ladder_of,
)
from looptrap.schema import Choice, Field, Flag, Listing, Mapped, Moment, Table, Text


def _path_mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    if "path_exact" in given and "path_prefix" in given:
        yield Problem("", "has path_exact and path_prefix, needs one or the other")


def _selector(*, headers: Mapping[str, str], **settings: Any) -> Selector:
    return Selector(headers=tuple(headers.items()), **settings)


SELECTOR = Table(
    check=_path_mistakes,
    build=_selector,
    fields=[
        Field(name="path_exact", kind=PATH, doc="the whole path"),
        Field(name="path_prefix", kind=PATH, doc="how the path begins"),
        Field(
            name="methods",
            kind=Listing(Text(form="an HTTP method", pattern=TOKEN, into=str.upper), "methods"),
            default=(),
            doc="HTTP methods; a `request` rule counts GET and HEAD only when they are named here",
        ),
        Field(
            name="hosts",
            kind=Listing(
                Text(form="a host name without port", pattern=r"[^\s/:?#@]+", into=str.lower),
                "host names",
            ),
            default=(),
            doc="host names the call was sent to, without port",
        ),
        Field(
            name="headers",
            kind=Mapped(HEADER, PLAIN, "header names and values"),
            default={},
            doc='names and values; the value `"*"` asks only that the header is there',
        ),
        Field(
            name="models",
            kind=Listing(Text(), "model names"),
            default=(),
            doc="model names; `*` and `?` are wild",
        ),
    ],
)


def _policy_mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    if "rules" not in given and "rates" not in given:
        yield Problem("", "has neither rules nor rates, needs one of them, or both")


POLICY = Table(
    check=_policy_mistakes,
    build=Policy,
    fields=[
        Field(name="name", kind=NAME, required=True, doc="what verdicts and incidents call it"),
        Field(
            name="mode",
            kind=Choice(["enforce", "shadow"]),
            default="enforce",
            doc="`shadow` counts and reports, and lets everything pass",
        ),
        Field(
            name="select",
            kind=SELECTOR,
            default=Selector(),
            doc="which calls it binds; what is not set matches everything",
        ),
        Field(
            name="rules",
            kind=Listing(RULE, "tables", unique="name"),
            default=(),
            doc="its rules; the severest verdict wins, on a tie the first rule",
        ),
        Field(
            name="rates",
            kind=Listing(RATE, "tables", unique="name"),
            default=(),
            doc="how fast calls, or their tokens, may come",
        ),
        Field(
            name="compat",
            kind=Listing(Choice(["fairvisor"]), "names of systems"),
            default=(),
            doc="systems whose own answer headers are sent beside ours",
        ),
    ],
)

PROJECT = Table(
    build=Project,
    fields=[
        Field(name="name", kind=NAME, required=True, doc="what it is called"),
        Field(
            name="keys",
            kind=Listing(Text(), "names of gateway keys"),
            default=(),
            doc="the gateway keys whose callers belong to it",
        ),
        Field(
            name="detection",
            kind=Choice(["on", "shadow", "off"]),
            default="on",
            doc="`shadow` only reports, `off` does not even count",
        ),
        Field(
            name="threshold",
            kind=THRESHOLD,
            doc="of the severest action of every rule that counts across requests",
        ),
        Field(name="window", kind=WINDOW, doc="of every such rule"),
        Field(name="cooldown", kind=COOLDOWN, doc="of every rule"),
        Field(name="action", kind=ACTIONS, doc="every rule's severest action"),
    ],
)


def _kill_switch(*, match: Mapping[str, str], **settings: Any) -> KillSwitch:
    return KillSwitch(match=tuple(match.items()), **settings)


KILL_SWITCH = Table(
    check=_path_mistakes,
    build=_kill_switch,
    fields=[
        Field(
            name="match",
            kind=Mapped(DESCRIPTOR, Text(), "descriptors and values", least=1),
            required=True,
            doc="descriptors and the values they must have; all must match",
        ),
        Field(name="reason", kind=PLAIN, default="", doc="what the refused client is told"),
        Field(name="expires", kind=Moment(), doc="when it ends; without it, never"),
        Field(name="path_exact", kind=PATH, doc="only on this path"),
        Field(name="path_prefix", kind=PATH, doc="only on paths that begin so"),
    ],
)


def _tool(*, thresholds: Mapping[Action, int] | None, exempt: bool) -> ToolRule:
    return ToolRule(ladder=ladder_of(thresholds) if thresholds else None, exempt=exempt)


def _tool_mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    if given.get("exempt") and "thresholds" in given:
        yield Problem("", "is exempt and has thresholds, needs one or the other")


TOOL = Table(
    check=_tool_mistakes,
    build=_tool,
    fields=[
        Field(
            name="thresholds",
            kind=THRESHOLDS,
            get=lambda tool: tool.ladder and tool.ladder.steps,
            doc="in place of those of every history rule, where the latest round calls nothing but"
            " this tool; polling is counted in full",
        ),
        Field(
            name="exempt",
            kind=Flag(),
            default=False,
            doc="leave rounds that call nothing but exempt tools out of the history",
        ),
    ],
)
