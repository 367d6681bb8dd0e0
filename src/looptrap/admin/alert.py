"""Alerts for operators: through which channels people hear, whether they work, what got stuck."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal, TypedDict, get_args
from urllib.parse import urlsplit

from aiohttp import web

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    MAX_PAGE_SIZE,
    Api,
    IsoTime,
    bad_cursor_response,
    error_response,
    iso_time,
    json_response,
    problems_response,
    query_history,
    read_json,
    read_parameters,
)
from looptrap.admin.audit import record_change
from looptrap.errors import ConfigError
from looptrap.incident.alert.address import DeliveryError
from looptrap.incident.alert.channel import AlertChannel, channel_test_event
from looptrap.incident.history import Delivery, Outbox
from looptrap.incident.history.outbox import DeliveryState
from looptrap.incident.setting import ChannelSettings
from looptrap.schema import Choice, Field, Table, Text, read
from looptrap.schema.wording import listed

ALERTS_PATH = "/api/v1/alerts"

TEST_TIMEOUT_S = 8.0
"""Seconds for a channel that is tried: whoever asks waits for ten."""

MAX_COUNTED_DELIVERIES = 1_000
"""Letters of each state that are looked at to say how channels are doing."""

DELIVERY_STATES: tuple[DeliveryState, ...] = get_args(DeliveryState)

_CHANNEL = Field(name="channel", kind=Text(), doc="this channel only")

DELIVERY_PARAMETERS: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(
            name="state",
            kind=Choice((*DELIVERY_STATES, "all")),
            default="all",
            doc="how far they are",
        ),
        LIMIT,
        CURSOR,
    ],
)
TEST_FIELDS: Table[dict[str, Any]] = Table(build=dict, fields=[_CHANNEL])
RESEND_FIELDS: Table[dict[str, Any]] = Table(
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
            web.get(ALERTS_PATH, self._list),
            web.get(ALERTS_PATH + "/letters", self._letters),
            web.post(ALERTS_PATH + "/test", self._test),
            web.post(ALERTS_PATH + "/resend", self._resend),
        ]

    async def _list(self, _request: web.Request) -> web.Response:
        outbox = self._app.desk.history.outbox
        total = await query_history(outbox.counts)
        by_channel = await query_history(partial(_count_by_channel, outbox))
        channels = [
            {**channel_settings_view(one.settings), **by_channel[one.name]}
            for one in self._channels()
        ]
        return json_response({"channels": channels, "letters": total})

    async def _letters(self, request: web.Request) -> web.Response:
        wanted = read_parameters(request, DELIVERY_PARAMETERS)
        try:
            page = await query_history(partial(self._app.desk.history.outbox.letters, **wanted))
        except (ValueError, OverflowError):
            return bad_cursor_response()
        return json_response(
            {"letters": list(map(_delivery_view, page.items)), "next": page.next_cursor}
        )

    async def _test(self, request: web.Request) -> web.Response:
        try:
            wanted = read(TEST_FIELDS, _given(await read_json(request)))
        except ConfigError as found:
            return problems_response(found)
        name, channels = wanted["channel"], self._channels()
        if name is not None:
            channels = [one for one in channels if one.name == name]
            if not channels:
                return error_response(404, "not_found", self._unknown(name))
        results = await try_channels(channels)
        await record_change(self._app, request, "alert.test", name or "", after=results)
        return json_response({"channels": results})

    async def _resend(self, request: web.Request) -> web.Response:
        try:
            wanted = read(RESEND_FIELDS, _given(await read_json(request)))
        except ConfigError as found:
            return problems_response(found)
        event, channel = wanted["event"], wanted["channel"]
        if (event is None) == (wanted["state"] is None):
            return error_response(
                400, "bad_request", 'Send {"event": "evt_…"} or {"state": "dead"}.'
            )
        outbox = self._app.desk.history.outbox
        resent = await query_history(partial(_put_back, outbox, event, channel))
        await record_change(
            self._app, request, "alert.resend", event or channel or "", after=resent
        )
        if resent:
            self._app.desk.deliverer.wake()
        return json_response({"resent": resent})

    def _channels(self) -> Sequence[AlertChannel]:
        return self._app.desk.channels

    def _unknown(self, name: str) -> str:
        names = [one.name for one in self._channels()]
        known = f"there {'is' if len(names) == 1 else 'are'} {listed(names, 'and')}"
        return f"No channel is called {name}; {known if names else 'none is set'}."


def channel_settings_view(settings: ChannelSettings) -> dict[str, Any]:
    """Return what may be shown of a channel: of where it leads, nothing that may be a secret."""
    return {
        "name": settings.name,
        "kind": settings.kind,
        "to": _place(settings),
        "events": settings.events,
        "projects": settings.projects,
    }


async def try_channels(channels: Iterable[AlertChannel]) -> list[dict[str, Any]]:
    """Send the test event through each channel at once; return how that went, in words."""
    return list(await asyncio.gather(*map(_try_channel, channels)))


async def _try_channel(channel: AlertChannel) -> dict[str, Any]:
    reason = None
    try:
        async with asyncio.timeout(TEST_TIMEOUT_S):
            await channel.send(channel_test_event(channel, time.time()))
    except TimeoutError:
        reason = f"no answer in {TEST_TIMEOUT_S:g} s"
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


def _count_by_channel(outbox: Outbox) -> defaultdict[str, Counter[str]]:
    """Return how many of the latest letters each channel has, by state, and all attempts."""
    found: defaultdict[str, Counter[str]] = defaultdict(
        lambda: Counter(dict.fromkeys((*DELIVERY_STATES, "attempts"), 0))
    )
    for state in DELIVERY_STATES:
        for letter in outbox.letters(state, MAX_COUNTED_DELIVERIES).items:
            found[letter.channel].update({state: 1, "attempts": letter.attempts})
    return found


def _put_back(outbox: Outbox, event: str | None, channel: str | None) -> int:
    """Have dead letters tried anew: of an event, of a channel, or all; return how many."""
    resent, cursor = 0, None
    while True:
        page = outbox.letters("dead", MAX_PAGE_SIZE, cursor)
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


def _delivery_view(letter: Delivery) -> dict[str, Any]:
    event = letter.event
    return {
        "event": event.id,
        "name": event.name,
        "title": event.title,
        "incident": event.incident or None,
        "channel": letter.channel,
        "state": letter.state,
        "time": iso_time(event.time),
        "created": iso_time(letter.created),
        "due": iso_time(letter.due) if letter.state == "pending" else None,
        "ended": iso_time(letter.ended),
        "attempts": letter.attempts,
        "error": letter.last_error or None,
    }


class ChannelView(TypedDict):
    """A channel through which people hear, and its latest letters by state."""

    name: str
    kind: Literal["webhook", "slack", "apprise"]
    to: str
    events: list[str]
    projects: list[str]
    pending: int
    delivered: int
    dead: int
    attempts: int


class DeliveryCounts(TypedDict):
    """All letters by state."""

    pending: int
    delivered: int
    dead: int


class ChannelList(TypedDict):
    """All channels, and how they are doing."""

    channels: list[ChannelView]
    letters: DeliveryCounts


class DeliveryView(TypedDict):
    """An event on its way through one channel."""

    event: str
    name: str
    title: str
    incident: str | None
    channel: str
    state: Literal["pending", "delivered", "dead"]
    time: IsoTime
    created: IsoTime
    due: IsoTime | None
    ended: IsoTime | None
    attempts: int
    error: str | None


class DeliveryPage(TypedDict):
    """A page of letters, the newest first."""

    letters: list[DeliveryView]
    next: str | None


class ChannelTestResult(TypedDict):
    """Whether a test went through a channel."""

    channel: str
    ok: bool
    error: str | None


class ChannelTestResults(TypedDict):
    """How the test went, channel by channel."""

    channels: list[ChannelTestResult]


class ResendResult(TypedDict):
    """How many dead letters are tried anew."""

    resent: int
