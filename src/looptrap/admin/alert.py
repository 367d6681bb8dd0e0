"""Alerts for operators: through which channels people hear, whether they work, what got stuck."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, get_args
from urllib.parse import urlsplit

from aiohttp import web

from looptrap.admin.answer import Api, answer, error, mistakes, sent
from looptrap.admin.audit import record
from looptrap.admin.history import CURSOR, LIMIT, MOST, ask, moment, parameters, wrong_cursor
from looptrap.errors import ConfigError
from looptrap.incident.alert.channel import Channel
from looptrap.incident.alert.failure import DeliveryError
from looptrap.incident.alert.trial import test_event
from looptrap.incident.history import Letter, Outbox
from looptrap.incident.history.letter import LetterState
from looptrap.incident.setting import ChannelSettings
from looptrap.schema import Choice, Field, Table, Text, read
from looptrap.schema.wording import listed

PATH = "/api/v1/alerts"

PATIENCE = 8.0
"""Seconds for a channel that is tried: whoever asks waits for ten."""

LATEST = 1_000
"""Letters of each state that are looked at to say how channels are doing."""

STATES: tuple[LetterState, ...] = get_args(LetterState)

_CHANNEL = Field(name="channel", kind=Text(), doc="this channel only")

LETTERS: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(name="state", kind=Choice((*STATES, "all")), default="all", doc="how far they are"),
        LIMIT,
        CURSOR,
    ],
)
TRIAL: Table[dict[str, Any]] = Table(build=dict, fields=[_CHANNEL])
RESENT: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(name="event", kind=Text(), doc="the letters of this event"),
        Field(name="state", kind=Choice(("dead",)), doc="all that are dead"),
        _CHANNEL,
    ],
)

log = logging.getLogger("looptrap")


class AlertApi(Api):
    """Answers under `/api/v1/alerts`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [
            web.get(PATH, self._list),
            web.get(PATH + "/letters", self._letters),
            web.post(PATH + "/test", self._test),
            web.post(PATH + "/resend", self._resend),
        ]

    async def _list(self, _request: web.Request) -> web.Response:
        outbox = self._app.desk.history.outbox
        total = await ask(outbox.counts)
        by_channel = await ask(partial(_counted, outbox))
        channels = [{**described(one.settings), **by_channel[one.name]} for one in self._channels()]
        return answer({"channels": channels, "letters": total})

    async def _letters(self, request: web.Request) -> web.Response:
        wanted = parameters(request, LETTERS)
        try:
            page = await ask(partial(self._app.desk.history.outbox.letters, **wanted))
        except (ValueError, OverflowError):
            return wrong_cursor()
        return answer({"letters": list(map(_plain, page.items)), "next": page.next_cursor})

    async def _test(self, request: web.Request) -> web.Response:
        try:
            wanted = read(TRIAL, _given(await sent(request)))
        except ConfigError as found:
            return mistakes(found)
        name, channels = wanted["channel"], self._channels()
        if name is not None:
            channels = [one for one in channels if one.name == name]
            if not channels:
                return error(404, "not_found", self._unknown(name))
        results = await tried(channels)
        await record(self._app, request, "alert.test", name or "", after=results)
        return answer({"channels": results})

    async def _resend(self, request: web.Request) -> web.Response:
        try:
            wanted = read(RESENT, _given(await sent(request)))
        except ConfigError as found:
            return mistakes(found)
        event, channel = wanted["event"], wanted["channel"]
        if (event is None) == (wanted["state"] is None):
            return error(400, "bad_request", 'Send {"event": "evt_…"} or {"state": "dead"}.')
        outbox = self._app.desk.history.outbox
        resent = await ask(partial(_put_back, outbox, event, channel))
        await record(self._app, request, "alert.resend", event or channel or "", after=resent)
        if resent:
            self._app.desk.deliverer.wake()
        return answer({"resent": resent})

    def _channels(self) -> Sequence[Channel]:
        return self._app.desk.channels

    def _unknown(self, name: str) -> str:
        names = [one.name for one in self._channels()]
        known = f"there {'is' if len(names) == 1 else 'are'} {listed(names, 'and')}"
        return f"No channel is called {name}; {known if names else 'none is set'}."


def described(settings: ChannelSettings) -> dict[str, Any]:
    """Return what may be shown of a channel: of where it leads, nothing that may be a secret."""
    return {
        "name": settings.name,
        "kind": settings.kind,
        "to": _place(settings),
        "events": settings.events,
        "projects": settings.projects,
    }


async def tried(channels: Iterable[Channel]) -> list[dict[str, Any]]:
    """Send the test event through each channel at once; return how that went, in words."""
    return list(await asyncio.gather(*map(_tried, channels)))


async def _tried(channel: Channel) -> dict[str, Any]:
    reason = None
    try:
        async with asyncio.timeout(PATIENCE):
            await channel.send(test_event(channel, time.time()))
    except TimeoutError:
        reason = f"no answer in {PATIENCE:g} s"
    except DeliveryError as failure:
        reason = failure.reason
    except Exception as failure:
        log.exception("channel %s", channel.name)
        reason = f"internal error ({type(failure).__name__})"
    return {"channel": channel.name, "ok": reason is None, "error": reason}


def _place(settings: ChannelSettings) -> str:
    """Say where a channel leads: its host, the service, or the variable that knows."""
    if settings.url is None:
        return f"${settings.url_env}"
    # In many of Apprise's URLs a token stands where others have their host.
    if settings.kind == "apprise":
        return settings.url.partition(":")[0]
    return urlsplit(settings.url).hostname or ""


def _counted(outbox: Outbox) -> defaultdict[str, Counter[str]]:
    """Return how many of the latest letters each channel has, by state, and all attempts."""
    found: defaultdict[str, Counter[str]] = defaultdict(
        lambda: Counter(dict.fromkeys((*STATES, "attempts"), 0))
    )
    for state in STATES:
        for letter in outbox.letters(state, LATEST).items:
            found[letter.channel].update({state: 1, "attempts": letter.attempts})
    return found


def _put_back(outbox: Outbox, event: str | None, channel: str | None) -> int:
    """Have dead letters tried anew: of an event, of a channel, or all; return how many."""
    resent, cursor = 0, None
    while True:
        page = outbox.letters("dead", MOST, cursor)
        for letter in page.items:
            if event in (None, letter.event.id) and channel in (None, letter.channel):
                resent += outbox.resend(letter.event.id, letter.channel)
        cursor = page.next_cursor
        if cursor is None:
            return resent


def _given(value: Any) -> Any:
    """Return what was sent without what is null: that is not given."""
    if not isinstance(value, dict):
        return value
    return {name: one for name, one in value.items() if one is not None}


def _plain(letter: Letter) -> dict[str, Any]:
    event = letter.event
    return {
        "event": event.id,
        "name": event.name,
        "title": event.title,
        "incident": event.incident or None,
        "channel": letter.channel,
        "state": letter.state,
        "time": moment(event.time),
        "created": moment(letter.created),
        "due": moment(letter.due) if letter.state == "pending" else None,
        "ended": moment(letter.ended),
        "attempts": letter.attempts,
        "error": letter.last_error or None,
    }
