"""Channels, made ready from their settings: who wants to hear of what, and how it gets there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from looptrap.errors import ConfigError, Problem
from looptrap.incident.alert.address import Lookup, Target, look_up
from looptrap.incident.alert.apprise import Notifier
from looptrap.incident.alert.message import plain, webhook_body
from looptrap.incident.alert.post import Post
from looptrap.incident.alert.sign import Signer
from looptrap.incident.alert.slack import slack_body
from looptrap.incident.model import Event
from looptrap.incident.setting import ChannelSettings

Clock = Callable[[], float]


class Sender(Protocol):
    """Brings one event to where it should go; a DeliveryError says why it did not get there."""

    at_once: int
    """So many events may be on their way at the same time."""

    async def send(self, event: Event) -> None: ...


class Webhook:
    """Signed JSON."""

    at_once = 4

    def __init__(self, post: Post, signer: Signer, clock: Clock) -> None:
        self._post = post
        self._signer = signer
        self._clock = clock

    async def send(self, event: Event) -> None:
        body = webhook_body(event)
        await self._post.send(body, self._signer.headers(event.id, self._clock(), body))


class Slack:
    """An incoming webhook of Slack, which takes about one message a second."""

    at_once = 1

    def __init__(self, post: Post) -> None:
        self._post = post

    async def send(self, event: Event) -> None:
        await self._post.send(slack_body(event), {})


class Apprise:
    """Whatever Apprise knows."""

    at_once = 1

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def send(self, event: Event) -> None:
        await self._notifier.notify(*plain(event))


class Channel:
    """One way to reach people."""

    def __init__(self, settings: ChannelSettings, sender: Sender) -> None:
        self.name = settings.name
        self.settings = settings
        self.send = sender.send
        self.at_once = sender.at_once
        patterns = (re.escape(one).replace(r"\*", ".*") for one in settings.events)
        self._fits = re.compile("|".join(patterns)).fullmatch

    def wants(self, event: Event) -> bool:
        """Tell whether people are to hear of this event here."""
        projects = self.settings.projects
        return self._fits(event.name) is not None and (not projects or event.project in projects)


def channels_of(
    settings: Sequence[ChannelSettings],
    env: Mapping[str, str],
    *,
    clock: Clock = time.time,
    lookup: Lookup = look_up,
) -> list[Channel]:
    """Make all channels ready, or raise a ConfigError with every mistake in them."""
    channels, problems = [], []
    for i, one in enumerate(settings):
        try:
            channels.append(Channel(one, _sender(one, env, clock, lookup)))
        except ConfigError as error:
            place = f"channels[{i}]"
            problems += [Problem(f"{place}.{p.place}", p.message) for p in error.problems]
    if problems:
        raise ConfigError(problems)
    return channels


def mistakes_in(settings: Sequence[ChannelSettings], env: Mapping[str, str]) -> Iterator[Problem]:
    """Find what `channels_of` would refuse; what is in a variable that is not set is not judged."""
    for i, one in enumerate(settings):
        problems: list[Problem] = []
        if one.secret_env is None or env.get(one.secret_env, "").strip():
            _signer(one, env, problems)
        if one.url_env is None or env.get(one.url_env, "").strip():
            _made(one, env, problems)
        yield from (Problem(f"channels[{i}].{p.place}", p.message) for p in problems)


def _sender(
    settings: ChannelSettings, env: Mapping[str, str], clock: Clock, lookup: Lookup
) -> Sender:
    problems: list[Problem] = []
    signer = _signer(settings, env, problems)
    found = _made(settings, env, problems)
    if problems:
        raise ConfigError(problems)
    match found:
        case Notifier():
            return Apprise(found)
        case Target():
            post = Post(found, clock=clock, lookup=lookup)
            return Slack(post) if settings.kind == "slack" else Webhook(post, signer, clock)
    raise AssertionError("a channel without problems has somewhere to go")


def _signer(settings: ChannelSettings, env: Mapping[str, str], problems: list[Problem]) -> Signer:
    if settings.secret_env is None:
        return Signer([])
    try:
        return Signer.of(_variable(settings.secret_env, env))
    except ValueError as error:
        problems.append(Problem("secret_env", str(error)))
        return Signer([])


def _made(
    settings: ChannelSettings, env: Mapping[str, str], problems: list[Problem]
) -> Target | Notifier | None:
    """Return where a channel's events go; what is wrong with that is added to the problems."""
    place = "url" if settings.url_env is None else "url_env"
    allowed = {"allow_http": settings.allow_http, "allow_private": settings.allow_private}
    try:
        url = settings.url if settings.url_env is None else _variable(settings.url_env, env)
        if settings.kind == "apprise":
            return Notifier.of(url or "", **allowed)
        return Target.of(url or "", **allowed)
    except ValueError as error:
        problems.append(Problem(place, str(error)))
        return None


def _variable(name: str, env: Mapping[str, str]) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise ValueError(f"names the variable {name}, which is not set")
    return value
