"""Alerts for operators: channels, deliveries, test and resend."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Literal, TypedDict, cast, get_args
from urllib.parse import urlsplit

from looptrap.admin.api import (
    CURSOR,
    LIMIT,
    ApiError,
    ApiRequest,
    IsoTime,
    all_items,
    field,
    fields,
    iso_time,
    query_history,
    query_page,
    view_of,
)
from looptrap.admin.audit import record_change
from looptrap.admin.operation import Api, get, nullable_body, post
from looptrap.incident.alert.channel import AlertChannel, channel_test_event
from looptrap.incident.alert.webhook import DeliveryError
from looptrap.incident.history import Delivery, Outbox
from looptrap.incident.history.outbox import DeliveryState
from looptrap.incident.setting import ChannelSettings
from looptrap.schema import Choice, Text
from looptrap.schema.wording import listed

ALERTS_PATH = "/api/v1/alerts"

TEST_TIMEOUT_S = 8.0
"""Seconds for a channel to take a test: the client waits for ten."""

MAX_COUNTED_DELIVERIES = 1_000
"""Deliveries of each state that are counted by channel."""

DELIVERY_STATES: tuple[DeliveryState, ...] = get_args(DeliveryState)

_STATE = Choice((*DELIVERY_STATES, "all"))
_CHANNEL = field("channel", Text(), "this channel only")

DELIVERY_PARAMETERS = fields(
    field("state", _STATE, "the state of the delivery", "all"), LIMIT, CURSOR
)
TEST_FIELDS = fields(_CHANNEL)
RESEND_FIELDS = fields(
    field("event", Text(), "the deliveries of this event"),
    field("state", Choice(("dead",)), "all dead deliveries"),
    _CHANNEL,
)

log = logging.getLogger("looptrap")


class DeliveryCounts(TypedDict):
    """All deliveries by state."""

    pending: int
    delivered: int
    dead: int


class ChannelView(DeliveryCounts):
    """A channel, and its latest deliveries by state."""

    name: str
    kind: Literal["webhook", "slack", "apprise"]
    to: str
    events: list[str]
    projects: list[str]
    attempts: int


class ChannelList(TypedDict):
    """All channels, and how they are doing."""

    channels: list[ChannelView]
    letters: DeliveryCounts


class DeliveryView(TypedDict):
    """The delivery of an event through one channel."""

    event: str
    name: str
    title: str
    incident: str | None
    breach: str | None
    channel: str
    state: Literal["pending", "delivered", "dead"]
    time: IsoTime
    created: IsoTime
    due: IsoTime | None
    ended: IsoTime | None
    attempts: int
    error: str | None


class DeliveryPage(TypedDict):
    """A page of deliveries, the newest first."""

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
    """How many dead deliveries are tried again."""

    resent: int


class AlertApi(Api):
    """Answers under `/api/v1/alerts`."""

    @get(ALERTS_PATH, "channels, and how they are doing")
    async def _list(self, _request: ApiRequest) -> ChannelList:
        outbox = self._history.outbox
        total = await query_history(outbox.counts)
        by_channel = await query_history(_count_by_channel, outbox)
        channels = [
            {**channel_settings_view(one.settings), **by_channel[one.name]}
            for one in self._app.recorder.channels
        ]
        return cast(ChannelList, {"channels": channels, "letters": total})

    @get(
        f"{ALERTS_PATH}/letters",
        "alerts on their way, delivered and given up",
        parameters=DELIVERY_PARAMETERS,
    )
    async def _deliveries(self, request: ApiRequest) -> DeliveryPage:
        page = await query_page(self._history.outbox.deliveries, **request.query)
        return {"letters": list(map(_delivery_view, page.items)), "next": page.next_cursor}

    @post(
        f"{ALERTS_PATH}/test",
        "sends a test event through channels",
        body=nullable_body(TEST_FIELDS),
        errors=(404,),
    )
    async def _test(self, request: ApiRequest) -> ChannelTestResults:
        name, channels = request.body["channel"], self._app.recorder.channels
        if name is not None:
            names = [one.name for one in channels]
            channels = [one for one in channels if one.name == name]
            if not channels:
                known = f"there {'is' if len(names) == 1 else 'are'} {listed(names, 'and')}"
                message = f"No channel is called {name}; {known if names else 'none is set'}."
                raise ApiError(404, "not_found", message)
        results = await try_channels(channels)
        await record_change(self._app, request, "alert.test", name or "", after=results)
        return cast(ChannelTestResults, {"channels": results})

    @post(
        f"{ALERTS_PATH}/resend",
        "sends again what was given up",
        body=nullable_body(RESEND_FIELDS),
    )
    async def _resend(self, request: ApiRequest) -> ResendResult:
        event, channel = request.body["event"], request.body["channel"]
        if (event is None) == (request.body["state"] is None):
            raise ApiError(400, "bad_request", 'Send {"event": "evt_…"} or {"state": "dead"}.')
        resent = await query_history(_resend_dead, self._history.outbox, event, channel)
        target = event or channel or ""
        await record_change(self._app, request, "alert.resend", target, after=resent)
        if resent:
            self._app.recorder.deliverer.wake()
        return {"resent": resent}


def channel_settings_view(settings: ChannelSettings) -> dict[str, Any]:
    """Return the settings of a channel without secrets."""
    return {
        "name": settings.name,
        "kind": settings.kind,
        "to": _destination(settings),
        "events": settings.events,
        "projects": settings.projects,
    }


async def try_channels(channels: Iterable[AlertChannel]) -> list[dict[str, Any]]:
    """Send the test event through all channels at once; return the results."""
    return await asyncio.gather(*map(_try_channel, channels))


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


def _destination(settings: ChannelSettings) -> str:
    """Return the host, the service, or the variable that holds the URL."""
    if settings.url is None:
        return f"${settings.url_env}"
    # Many Apprise URLs have a token in place of the host.
    if settings.kind == "apprise":
        return settings.url.partition(":")[0]
    return urlsplit(settings.url).hostname or ""


def _count_by_channel(outbox: Outbox) -> defaultdict[str, Counter[str]]:
    """Return the latest deliveries of each channel by state, and their attempts."""
    found: defaultdict[str, Counter[str]] = defaultdict(
        lambda: Counter(dict.fromkeys((*DELIVERY_STATES, "attempts"), 0))
    )
    for state in DELIVERY_STATES:
        for delivery in outbox.deliveries(state, MAX_COUNTED_DELIVERIES).items:
            found[delivery.channel].update({state: 1, "attempts": delivery.attempts})
    return found


def _resend_dead(outbox: Outbox, event: str | None, channel: str | None) -> int:
    """Retry dead deliveries of an event, of a channel, or all; return their number."""
    return sum(
        outbox.resend(one.event.id, one.channel)
        for one in all_items(outbox.deliveries, state="dead")
        if event in (None, one.event.id) and channel in (None, one.channel)
    )


def _delivery_view(delivery: Delivery) -> DeliveryView:
    event = delivery.event
    return view_of(
        DeliveryView,
        delivery,
        event=event.id,
        name=event.name,
        title=event.title,
        incident=event.incident or None,
        breach=event.data.get("breach_id"),
        time=iso_time(event.time),
        created=iso_time(delivery.created),
        due=iso_time(delivery.due) if delivery.state == "pending" else None,
        ended=iso_time(delivery.ended),
        error=delivery.last_error or None,
    )
