"""IncidentRecorder: takes sightings on the loop, stores incidents on a thread, sends alerts."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from math import inf
from random import Random
from secrets import token_hex
from typing import Protocol, TypeVar

from looptrap.dialect.model import Outcome
from looptrap.engine import Ticket
from looptrap.errors import DatabaseError
from looptrap.incident.alert.channel import make_channels
from looptrap.incident.alert.deliverer import AlertDeliverer
from looptrap.incident.event import (
    BudgetAlerter,
    store_degraded_event,
    with_acknowledgement,
    with_link,
)
from looptrap.incident.history import HistoryWriter, IncidentHistory, OutgoingEvent, WriteBatch
from looptrap.incident.history.history import SpoolSettings
from looptrap.incident.indicator import Indicators, Observation
from looptrap.incident.model import (
    NO_ANNOTATIONS,
    AlertEvent,
    Annotation,
    Annotations,
    Incident,
    Sighting,
)
from looptrap.incident.setting import ChannelSettings, IncidentSettings, IndicatorSettings
from looptrap.incident.sharing import IncidentSharing, drain
from looptrap.incident.sighting import SightingFactory, no_price
from looptrap.incident.strip import StripBuilder
from looptrap.incident.tracker import Tracker
from looptrap.policy.verdict import ALLOWED
from looptrap.store.redis import RedisStore
from looptrap.usage.call_log import CallLog, CallLogSettings
from looptrap.usage.model import UsageKey
from looptrap.usage.recorder import InputCostEstimator, UsageRecorder

OUTAGE_GRACE_S = 2.0
"""Seconds that a store may be away before an alert is sent."""


class StoreOutageMonitor:
    """Reports each outage of the shared store once."""

    def __init__(self, store: RedisStore | None) -> None:
        self._store = store
        self._since: float | None = None
        """When the outage began; infinite once it was reported."""

    def check(self, now: float) -> list[AlertEvent]:
        """Return an event once the store has been away for the grace time."""
        if self._store is None or not self._store.is_degraded:
            self._since = None
            return []
        since = self._since = now if self._since is None else self._since
        if now < since + OUTAGE_GRACE_S:
            return []
        self._since = inf
        return [store_degraded_event(since)]


MAX_PENDING_SIGHTINGS = 50_000
"""Queued sightings; the next is dropped and counted."""

MAX_OBSERVATIONS_PER_TICK = 100
"""Calls that indicators observe per batch: above 1,000 a second, a sample is enough."""

TICK_S = 1.0
"""Seconds between two checks for quiet incidents, indicators and usage."""

LOOK_INTERVAL_S = 10.0
"""Seconds between two looks for what other instances did, without a store to say so."""

CLOSED_LOOKBACK_S = 60.0
"""Seconds by which the clocks of instances may differ."""

STOP_TIMEOUT_S = 1.0
"""Seconds to agree with other instances on the latest sightings, when the gateway stops."""

T = TypeVar("T")


class RecorderConfig(Protocol):
    """The part of a configuration that a recorder needs."""

    @property
    def history(self) -> str: ...
    @property
    def history_spool(self) -> str: ...
    @property
    def history_spool_size(self) -> int: ...
    @property
    def history_timeout(self) -> float: ...
    @property
    def incidents(self) -> IncidentSettings: ...
    @property
    def call_log(self) -> CallLogSettings: ...
    @property
    def indicators(self) -> IndicatorSettings: ...
    @property
    def channels(self) -> Sequence[ChannelSettings]: ...
    @property
    def public_url(self) -> str | None: ...


class SightingLog(Protocol):
    """Writes a line for each sighting: the decision log."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def add(self, entry: Sighting, /) -> None: ...


class IncidentRecorder:
    """Records what the gateway decided; a request pays for a sum and an append."""

    def __init__(
        self,
        config: RecorderConfig,
        env: Mapping[str, str],
        *,
        secret: bytes,
        store: RedisStore | None = None,
        log: SightingLog | None = None,
        estimate: InputCostEstimator = no_price,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.dropped = 0
        """Sightings and events dropped because the queue was full."""
        self.false_alarms = 0
        """Incidents labelled a false alarm on this instance."""
        self.outbox_counts: Mapping[str, int] = {}
        """Pending and dead deliveries, as last counted."""
        self.history = IncidentHistory(
            config.history,
            config.incidents,
            config.call_log,
            spool=SpoolSettings(
                config.history_spool, config.history_spool_size, config.history_timeout
            ),
            clock=clock,
        )
        self.indicators = Indicators(config.indicators)
        self.channels = make_channels(config.channels, env, clock=clock)
        self._sighting_factory = SightingFactory(secret, config.indicators.tool_calls, estimate)
        self._strips = StripBuilder(secret)
        self._usage = UsageRecorder()
        self._calls = CallLog(config.call_log, Random()) if config.call_log.enabled else None
        self._budget_alerter = BudgetAlerter(self.alert)
        self._estimate = estimate
        self._log = log
        self._clock = clock
        self._quiet = config.incidents.quiet
        self._public_url = config.public_url
        self._store = store
        self._outage = StoreOutageMonitor(store)
        self._sightings: deque[Sighting] = deque()
        self._observations: deque[Observation] = deque()
        self._next_tick = 0.0
        self._unclaimed: Counter[str] = Counter()
        """Events not claimed yet, by incident; until then the incident is not written."""
        self._delayed: dict[tuple[str, str], Incident] = {}
        self._undecided_keys: set[str] = set()
        """Keys of incidents whose shared id is not known yet."""
        self._events: deque[AlertEvent] = deque()
        self._abandoned: deque[Incident] = deque()
        """Parts of instances that have ended."""
        self._next_look = clock()
        self._closing: deque[str] = deque()
        """Incidents that an operator has closed."""
        self.sharing: IncidentSharing | None = None
        self._running = AsyncExitStack()

    @property
    def lost(self) -> int:
        """Incidents, alerts, usage rows and calls that will never be in the history."""
        refused = self.history.spool.lost if self.history.spool is not None else 0
        return self.writer.lost + self.history.unwritable + refused

    # On the event loop

    async def start(self) -> None:
        """Open the history, resume its open incidents, and start; raise ConfigError on failure."""
        self.history.open()
        self._running.callback(self.history.close)
        instance = self.history.instance
        self.tracker = Tracker(
            instance,
            quiet=self._quiet,
            # Ordered by time, so that rows are written next to each other.
            new_id=lambda: f"inc_{int(self._clock() * 1000):011x}{token_hex(4)}",
            is_shared=self._store is not None,
            has_channels=bool(self.channels),
        )
        self._resume()
        if self._store is not None:
            self.sharing = IncidentSharing(self._store, self.history.id, quiet=self._quiet)
            self.sharing.start()
            self._running.push_async_callback(self.sharing.stop)
        if self._log is not None:
            self._log.start()
            self._running.push_async_callback(asyncio.to_thread, self._log.stop)
        self._loop = asyncio.get_running_loop()
        self.writer = HistoryWriter(
            self.history,
            self._next_batch,
            on_written=self._written,
            upkeep=self._upkeep,
            clock=self._clock,
        )
        self.writer.start()
        self._running.push_async_callback(asyncio.to_thread, self.writer.stop)
        self.deliverer = AlertDeliverer(
            self.history.outbox, self.channels, owner=instance, clock=self._clock
        )
        self.deliverer.start()
        self._running.push_async_callback(self.deliverer.close)

    async def stop(self) -> None:
        """Write what is queued and stop; pending alerts are delivered after the next start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                while self._sightings or self._unclaimed or self._undecided_keys:
                    await asyncio.sleep(0.02)
        self._usage.flush()
        await self._running.aclose()

    def rekey(self, secret: bytes) -> None:
        """Make digests with another secret from now on."""
        self._sighting_factory.rekey(secret)
        self._strips.secret = secret

    def record_call(
        self,
        ticket: Ticket,
        outcome: Outcome | None,
        request_id: bytes,
        provider: str,
        first_byte: float | None,
        now: float,
        status: int,
        began: float,
        agent: str,
    ) -> None:
        """Record what was decided about a call and, if it was forwarded, its outcome.

        `status` is the one that the client got, `began` the time when the call was judged, `agent`
        the name of the program that sent it, if it was recognised.
        """
        factory = self._sighting_factory
        session = factory.running_session(ticket)
        self._usage.record(ticket, outcome, now, provider, session)
        has_room = len(self._observations) < MAX_OBSERVATIONS_PER_TICK
        if has_room and outcome is not None and ticket.call.generates:
            self._observations.append(
                factory.observation(ticket, outcome, now, provider, first_byte, session)
            )
        if ticket.standings:
            project = ticket.call.request.project
            self._budget_alerter.observe(ticket.standings, now, project, request_id)
            self._usage.record_breaches(ticket, now, request_id, self._estimate)
        is_allowed = ticket.verdict is ALLOWED and ticket.heard is None and ticket.shadow is None
        if self._calls is not None:
            # Under the session of its incident.
            named = session if is_allowed else factory.session(ticket.call)
            self._calls.add(
                ticket, outcome, now, began, status, provider, first_byte, named, agent,
                request_id,
            )  # fmt: skip
        if is_allowed:
            return
        sightings = factory.sightings(ticket, outcome, now, request_id.decode("latin-1"), provider)
        for one in sightings:
            if self._log is not None:
                self._log.add(one)
            if one.reason == "loop_detected":
                self._enqueue(self._sightings, one)
                self._strips.enqueue(one, ticket)

    def record_demo(self, ticket: Ticket, outcome: Outcome | None, now: float) -> None:
        """Record a call of the demo: its incident, without usage, alerts or log lines."""
        for one in self._sighting_factory.sightings(ticket, outcome, now, "", "demo"):
            if one.reason == "loop_detected":
                one.is_alarming = False
                self._enqueue(self._sightings, one)
                self._strips.enqueue(one, ticket)

    async def annotate(self, annotations: Sequence[Annotation]) -> None:
        """Store annotations durably and share them with the other instances.

        Raises DatabaseError if they cannot be written.
        """
        await asyncio.to_thread(lambda: self.history.put(annotations=annotations))
        self._closing.extend(one.incident for one in annotations if one.kind == "close")
        self.false_alarms += sum(
            one.kind == "label" and one.text == "false_alarm" for one in annotations
        )
        if self.sharing is not None:
            self.sharing.publish(annotations)

    def alert(self, event: AlertEvent) -> None:
        """Queue an alert that is not about a loop; channels get each event id once."""
        self._enqueue(self._events, event)

    def _enqueue(self, waiting: deque[T], one: T) -> None:
        if len(waiting) < MAX_PENDING_SIGHTINGS:
            waiting.append(one)
        else:
            self.dropped += 1

    # On the writer's thread

    def _next_batch(self, now: float) -> WriteBatch:
        """Process everything queued; return what to write in one transaction."""
        shared, annotations = self._take_shared()
        self._closing.extend(one.incident for one in annotations if one.kind == "close")
        events = self._collect_events()
        for part in drain(self._abandoned):
            self.tracker.merge_remote(part)
        if self._closing:
            events += self.tracker.close(set(drain(self._closing)), now)
        if now >= self._next_tick:
            self._next_tick = now + TICK_S
            events += self._tick(now)
            self._call_on_loop(self._usage.flush)
        outgoing = [
            OutgoingEvent(event, tuple(one.name for one in self.channels if one.wants(event)))
            for event in map(self._complete, self._claim(events))
        ]
        changed = self._writable(self.tracker.take_changed())
        if self.sharing is not None:
            self.sharing.publish(changed)
        calls = self._calls.take() if self._calls is not None else ()
        return WriteBatch([*changed, *shared], outgoing, self._usage.take(), annotations, calls)

    def _complete(self, event: AlertEvent) -> AlertEvent:
        """Return an event as it is kept and sent: with its link, and with who acknowledged it."""
        if event.name == "loop.resolved":
            known: Mapping[str, Annotations] = {}
            with suppress(DatabaseError):  # the alert matters more
                if not self.writer.is_failing:
                    known = self.history.annotations([event.incident])
            annotations = known.get(event.incident, NO_ANNOTATIONS)
            event = with_acknowledgement(event, annotations.acknowledged)
        return with_link(event, self._public_url)

    def _written(self, batch: WriteBatch) -> None:
        if batch.events or self.history.is_shared:
            self._call_on_loop(self.deliverer.wake)

    def _resume(self) -> None:
        """Go on with open incidents: of all instances, or of those that have ended.

        Without a shared store nobody says how the incidents of those that run go on.
        """
        with suppress(DatabaseError):  # it is away for now
            found = (
                self.history.open_incidents()
                if self._store is not None
                else self.history.abandoned_incidents()
            )
            for part in found:
                self.tracker.merge_remote(part)

    def _upkeep(self) -> None:
        """Read what is asked for often, so that nobody has to wait for the database."""
        self.outbox_counts = self.history.outbox.undelivered()
        now = self._clock()
        if self.history.is_shared and self._store is None and now >= self._next_look:
            self._closing.extend(self.history.closed_since(self._next_look - CLOSED_LOOKBACK_S))
            self._abandoned.extend(self.history.abandoned_incidents())
            self._next_look = now + LOOK_INTERVAL_S

    def _call_on_loop(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(callback)

    def _collect_events(self) -> list[AlertEvent]:
        events, histories = drain(self._events), self._strips.waiting()
        for _ in range(len(self._sightings)):
            one, saved, spent = self._sightings.popleft(), self.tracker.saved, self.tracker.spent
            events += self.tracker.add(one)
            saved, spent = self.tracker.saved - saved, self.tracker.spent - spent
            if saved or spent:
                spender = UsageKey(one.caller, one.project, one.provider, one.model)
                self._usage.add_loop(one.time, spender, saved=saved, spent=spent)
        for correlations, strip in self._strips.build(histories):
            self.tracker.set_strip(correlations, strip)
        if self.sharing is not None:
            for key, incident_id in drain(self.sharing.agreed_ids):
                self._undecided_keys.discard(key)
                events += self.tracker.adopt_id(key, incident_id)
            opened = self.tracker.unshared_ids().items()
            self._undecided_keys |= self.sharing.ask(
                one for one in opened if one[0] not in self._undecided_keys
            )
        self.indicators.observe(drain(self._observations))
        return events

    def _tick(self, now: float) -> list[AlertEvent]:
        return [*self.tracker.tick(now), *self.indicators.tick(now), *self._outage.check(now)]

    def _take_shared(self) -> tuple[list[Incident], list[Annotation]]:
        """Merge what other instances shared; return what this history does not have yet."""
        if self.sharing is None:
            return [], []
        shared = drain(self.sharing.incidents)
        for part in shared:
            self.tracker.merge_remote(part)
        others = [part for part in shared if not self.sharing.is_of_this_history(part)]
        return others, drain(self.sharing.annotations)

    def _claim(self, events: list[AlertEvent]) -> list[AlertEvent]:
        """Return the events that this instance may send; ask the store about new ones."""
        if self.sharing is None:
            return events
        # When the queue is full: better twice under one id than never.
        ours = list(self.sharing.claim(events))
        self._unclaimed.update(event.incident for event in events[: len(events) - len(ours)])
        claims = drain(self.sharing.claims)
        self._unclaimed.subtract(event.incident for event, _ in claims)
        self._unclaimed = +self._unclaimed  # without those that have none left
        return ours + [event for event, is_ours in claims if is_ours]

    def _writable(self, changed: list[Incident]) -> list[Incident]:
        """Return what may be written; an incident waits until its events are claimed.

        Otherwise an instance that is killed in between would never send them.
        """
        every = self._delayed | {(one.id, one.instance): one for one in changed}
        self._delayed = {key: one for key, one in every.items() if one.id in self._unclaimed}
        return [one for one in every.values() if one.id not in self._unclaimed]
