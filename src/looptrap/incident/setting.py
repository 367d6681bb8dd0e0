"""Settings of incidents, indicators and channels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from looptrap.errors import ConfigError, Problem
from looptrap.incident.model import EventName
from looptrap.schema import (
    ANY_NAME,
    VARIABLE,
    Listing,
    Number,
    Size,
    Table,
    Text,
    setting,
    settings,
)
from looptrap.schema.wording import listed

DAY_S = 86_400.0

EVENT_NAMES: tuple[str, ...] = get_args(EventName)

ChannelKind = Literal["webhook", "slack", "apprise"]

_FACTOR = Number(low=1, high=1_000_000)


@settings
class IncidentSettings:
    """When an incident is over, and how long it is stored."""

    quiet: float = setting(
        "an incident is over after this time without a further sighting",
        Number(low=1, high=86_400, unit="seconds"),
        default=300.0,
    )
    keep: float = setting(
        "how long closed incidents, delivered alerts and spending are kept",
        Number(low=60, high=10 * 365 * 86_400, unit="seconds"),
        default=90 * DAY_S,
    )
    max_size: int = setting(
        "size of the history; beyond it, the oldest logged calls are deleted, then incidents and"
        " spending",
        Size(1 << 20, 1 << 40),
        default=1 << 30,
    )


INCIDENTS = Table.of(IncidentSettings)


@settings
class IndicatorSettings:
    """The threshold of each indicator; None switches it off."""

    window: float = setting(
        "the time over which they are measured",
        Number(low=10, high=86_400, unit="seconds"),
        default=300.0,
    )
    tool_errors: float | None = setting(
        "fires when more than this share of the tool calls in the window failed; 1 never",
        Number(low=0, high=1),
        default=0.5,
    )
    tool_calls: int | None = setting(
        "fires when a session makes more tool calls than this since a person last spoke",
        Number(low=1, high=1_000_000, whole=True),
        default=15,
    )
    latency: float | None = setting(
        "fires when the p95 of the time to first byte is this many times its baseline",
        _FACTOR,
        default=5.0,
    )
    tokens: float | None = setting(
        "fires when a session uses this many times the tokens of an average one",
        _FACTOR,
        default=3.0,
    )
    burn_rate: float | None = setting(
        "fires when a session uses this many times its usual tokens a minute",
        _FACTOR,
        default=5.0,
    )


INDICATORS = Table.of(IndicatorSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookUrl(Text):
    """A URL that a service gave out, and so a key to it: only where it leads is shown."""

    form: str = "a URL"

    def plain(self, value: Any) -> Any:
        try:
            parts = urlsplit(value)
            host = parts.hostname if parts.scheme in ("http", "https") else ""
        except ValueError:
            return "***"
        return f"{parts.scheme}://{host}/***" if host else f"{parts.scheme}://***"


def event_matcher(patterns: Iterable[str]) -> Callable[[str], object]:
    """Return a function that matches an event name with any of the patterns."""
    return re.compile("|".join(re.escape(one).replace(r"\*", ".*") for one in patterns)).fullmatch


def _fits_an_event(pattern: str) -> str:
    """Return a pattern that some event fits: `loop.*`, `store.degraded`."""
    # Stars in a row mean no more than one, and would be tried in every combination.
    pattern = re.sub(r"\*+", "*", pattern)
    if not any(map(event_matcher([pattern]), EVENT_NAMES)):
        message = f"fits no event; there are {listed(EVENT_NAMES, 'and')}"
        raise ConfigError([Problem("", message)])
    return pattern


@settings
class ChannelSettings:
    """One alert channel."""

    name: str = setting("what logs and `looptrap alerts` call it", ANY_NAME, default="")
    kind: ChannelKind = setting(
        "`webhook` is signed JSON, `slack` an incoming webhook of Slack, `apprise` any URL that"
        " Apprise knows: Discord, Teams, PagerDuty, e-mail, …",
        default="webhook",
    )
    url: str | None = setting("where it goes", HookUrl(), default=None)
    url_env: str | None = setting(
        "the variable with the URL, where that is secret", VARIABLE, default=None
    )
    secret_env: str | None = setting("the variable with the signing secret", VARIABLE, default=None)
    events: tuple[str, ...] = setting(
        "the events that are sent to it; `loop.*` stands for all that begin so",
        Listing(Text(form="an event or pattern", into=_fits_an_event), "events"),
        default=("*",),
    )
    projects: tuple[str, ...] = setting(
        "the projects whose events are sent to it; without any, all",
        Listing(ANY_NAME, "names of projects"),
        default=(),
    )
    allow_private: bool = setting(
        "whether the URL may lead to a private, loopback or link-local address", default=False
    )
    allow_http: bool = setting("whether the URL may be plain http", default=False)


def _channel_problems(given: Mapping[str, Any]) -> Iterator[Problem]:
    if ("url" in given) == ("url_env" in given):
        yield Problem("", "needs url or url_env, one of them")
    if given.get("kind", "webhook") != "webhook" and "secret_env" in given:
        yield Problem("secret_env", "is of use to a webhook only")


CHANNEL = Table.of(ChannelSettings, check=_channel_problems)


def name_channels(channels: tuple[ChannelSettings, ...]) -> tuple[ChannelSettings, ...]:
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


def duplicate_names(channels: tuple[ChannelSettings, ...]) -> Iterator[Problem]:
    """Find channels of one name: what waits for one would be sent through the other."""
    given = [one.name for one in channels]
    for i, name in enumerate(given):
        if name and name in given[:i]:
            yield Problem(f"channels[{i}].name", f"is {name!r} like that of another channel")
