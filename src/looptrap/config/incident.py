"""Settings of incidents, indicators, channels and traces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, get_args

from looptrap.config.kind import NAME, VARIABLE, BaseUrl, HookUrl, Size
from looptrap.errors import ConfigError, Problem
from looptrap.incident.model import EventName
from looptrap.incident.setting import (
    ChannelKind,
    ChannelSettings,
    IncidentSettings,
    IndicatorSettings,
    TraceSettings,
)
from looptrap.schema import Choice, Field, Flag, Kind, Listing, Number, Table, Text
from looptrap.schema.wording import listed

EVENTS: tuple[str, ...] = get_args(EventName)


def _fits_an_event(pattern: str) -> str:
    """Return a pattern that some event fits: `loop.*`, `store.degraded`."""
    # Stars in a row mean no more than one, and would be tried in every combination.
    pattern = re.sub(r"\*+", "*", pattern)
    fitting = re.escape(pattern).replace(r"\*", ".*")
    if not any(re.fullmatch(fitting, event) for event in EVENTS):
        message = f"fits no event; there are {listed(EVENTS, 'and')}"
        raise ConfigError([Problem("", message)])
    return pattern


def _channel_mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    if ("url" in given) == ("url_env" in given):
        yield Problem("", "needs url or url_env, one of them")
    if given.get("kind", "webhook") != "webhook" and "secret_env" in given:
        yield Problem("secret_env", "is of use to a webhook only")


def _fields_of(settings: type, kinds: Mapping[str, tuple[Kind, str]]) -> list[Field]:
    defaults = {one.name: one.default for one in fields(settings)}
    return [
        Field(name=name, kind=kind, doc=doc, default=defaults[name])
        for name, (kind, doc) in kinds.items()
    ]


def _factor(low: float, high: float) -> Number:
    return Number(low=low, high=high)


INCIDENTS: Table[IncidentSettings] = Table(
    build=IncidentSettings,
    fields=_fields_of(
        IncidentSettings,
        {
            "quiet": (
                Number(low=1, high=86_400, unit="seconds"),
                "without a further sighting for so long, an incident is over",
            ),
            "keep": (
                Number(low=60, high=10 * 365 * 86_400, unit="seconds"),
                "how long closed incidents, delivered alerts and spending are kept",
            ),
            "max_size": (
                Size(1 << 20, 1 << 40),
                "what the history may take; beyond it, the oldest incidents and spending go",
            ),
        },
    ),
)

INDICATORS: Table[IndicatorSettings] = Table(
    build=IndicatorSettings,
    fields=_fields_of(
        IndicatorSettings,
        {
            "window": (
                Number(low=10, high=86_400, unit="seconds"),
                "over how long they are told",
            ),
            "tool_errors": (
                _factor(0, 1),
                "fires when more than this share of the tool calls in the window failed; 1 never",
            ),
            "tool_calls": (
                Number(low=1, high=1_000_000, whole=True),
                "fires when a session makes more tool calls than this since a person last spoke",
            ),
            "latency": (
                _factor(1, 1_000_000),
                "fires when the p95 of the time to first byte is this many times its baseline",
            ),
            "tokens": (
                _factor(1, 1_000_000),
                "fires when a session uses this many times the tokens of an average one",
            ),
            "burn_rate": (
                _factor(1, 1_000_000),
                "fires when a session uses this many times the tokens a minute that it mostly did",
            ),
        },
    ),
)

CHANNEL: Table[ChannelSettings] = Table(
    build=ChannelSettings,
    check=_channel_mistakes,
    fields=[
        Field(name="name", kind=NAME, default="", doc="what logs and `looptrap alerts` call it"),
        Field(
            name="kind",
            kind=Choice(get_args(ChannelKind)),
            default="webhook",
            doc="`webhook` is signed JSON, `slack` an incoming webhook of Slack, `apprise` any URL"
            " that Apprise knows: Discord, Teams, PagerDuty, e-mail, …",
        ),
        Field(name="url", kind=HookUrl(), doc="where it goes"),
        Field(name="url_env", kind=VARIABLE, doc="the variable with the URL, where that is secret"),
        Field(name="secret_env", kind=VARIABLE, doc="the variable with the signing secret"),
        Field(
            name="events",
            kind=Listing(Text(form="an event or pattern", into=_fits_an_event), "events"),
            default=("*",),
            doc="the events it is told of; `loop.*` stands for all that begin so",
        ),
        Field(
            name="projects",
            kind=Listing(NAME, "names of projects"),
            default=(),
            doc="the projects it is told of; without any, all",
        ),
        Field(
            name="allow_private",
            kind=Flag(),
            default=False,
            doc="whether the URL may lead to a private, loopback or link-local address",
        ),
        Field(
            name="allow_http",
            kind=Flag(),
            default=False,
            doc="whether the URL may be plain http",
        ),
    ],
)

TRACES: Table[TraceSettings] = Table(
    build=TraceSettings,
    fields=_fields_of(
        TraceSettings,
        {
            "endpoint": (
                BaseUrl(),
                "where spans go: a collector that speaks OTLP over HTTP; without it none are made",
            ),
            "service": (NAME, "the name of this service in traces"),
            "sample": (
                _factor(0, 1),
                "the share of traces begun here that is kept; a client's own are kept as it says",
            ),
        },
    ),
)


def named(channels: tuple[ChannelSettings, ...]) -> tuple[ChannelSettings, ...]:
    """Return the channels with a name each: `webhook`, `webhook-2` where none was given."""
    taken = {one.name for one in channels}
    found = []
    for one in channels:
        name, number = one.name or one.kind, 2
        while not one.name and name in taken:
            name, number = f"{one.kind}-{number}", number + 1
        taken.add(name)
        found.append(replace(one, name=name))
    return tuple(found)


def same_names(channels: tuple[ChannelSettings, ...]) -> Iterator[Problem]:
    """Find channels of one name: what waits for one would be sent through the other."""
    given = [one.name for one in channels]
    for i, name in enumerate(given):
        if name and name in given[:i]:
            yield Problem(f"channels[{i}].name", f"is {name!r} like that of another channel")
