"""The recorder: takes sightings on the loop, keeps incidents on a thread, has people alerted."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from secrets import token_hex
from typing import Protocol, TypeVar

from looptrap.dialect.model import Outcome
from looptrap.engine import Ticket
from looptrap.incident.alert.channel import make_channels
from looptrap.incident.alert.deliverer import AlertDeliverer
from looptrap.incident.budget_alert import BudgetAlerter
from looptrap.incident.event import store_degraded_event
from looptrap.incident.history import HistoryWriter, IncidentHistory, OutgoingEvent, WriteBatch
from looptrap.incident.indicator import Indicators, Observation
from looptrap.incident.model import AlertEvent, Annotation, Incident, Sighting
from looptrap.incident.setting import ChannelSettings, IncidentSettings, IndicatorSettings
from looptrap.incident.sharing import IncidentSharing
from looptrap.incident.sighting import InputCostEstimator, SightingFactory, no_price
from looptrap.incident.strip import StripBuilder
from looptrap.incident.tracker import Tracker
from looptrap.policy.verdict import ALLOWED
from looptrap.store.redis import RedisStore
from looptrap.usage.recorder import UsageRecorder

OUTAGE_GRACE_S = 2.0
"""Seconds that a store may be away before people are told."""


class StoreOutageMonitor:
    """Looks at a store now and then."""

    def __init__(self, store: RedisStore | None) -> None:
        self._store = store
        self._since: float | None = None
        self._is_told = False

    def look(self, now: float) -> list[AlertEvent]:
        """Return what people are to be told."""
        if self._store is None or not self._store.is_degraded:
            self._since, self._is_told = None, False
            return []
        if self._since is None:
            self._since = now
        if self._is_told or now < self._since + OUTAGE_GRACE_S:
            return []
        self._is_told = True
        return [store_degraded_event(self._since)]


class RecorderStats:
    """Reads the numbers of a desk that has been started."""

    def __init__(self, desk: IncidentRecorder) -> None:
        self._desk = desk
        self.outbox: Mapping[str, int] = {}
        """Alerts kept, by state, as last counted."""

    @property
    def open(self) -> int:
        """Incidents that are not over."""
        return self._desk.tracker.open

    @property
    def opened(self) -> int:
        """Incidents that began."""
        return self._desk.tracker.opened

    @property
    def saved(self) -> int:
        """What calls refused for a loop would have cost, in nano-dollars."""
        return self._desk.tracker.saved

    @property
    def dropped(self) -> int:
        """Sightings for which there was no room to wait."""
        return self._desk.dropped

    @property
    def false_alarms(self) -> int:
        """Incidents that somebody said were none."""
        return self._desk.false_alarms

    @property
    def written(self) -> int:
        """Incidents written to the history, each time one was."""
        return self._desk.writer.written

    @property
    def failed(self) -> int:
        """Times that nothing could be written."""
        return self._desk.writer.failed

    @property
    def lost(self) -> int:
        """Incidents, alerts and rows of spending that will never be in the history."""
        return self._desk.writer.lost + self._desk.history.unwritable

    @property
    def deliveries(self) -> Mapping[tuple[str, str], int]:
        """Alerts, by channel and outcome."""
        return self._desk.deliverer.deliveries

    @property
    def indicators(self) -> Mapping[str, tuple[float, bool]]:
        """Of every indicator the value of its worst scope, and whether it fires."""
        return self._desk.indicators.gauges


MAX_PENDING_SIGHTINGS = 50_000
"""Sightings that wait to be gathered; one more is dropped and counted."""

MAX_OBSERVATIONS_PER_TICK = 100
"""Calls that indicators see between two looks: of more than 1,000 a second, a sample is enough."""

TICK_S = 1.0
"""Seconds between two looks for what is over, at the indicators, and at what was spent."""

STOP_TIMEOUT_S = 1.0
"""Seconds to agree with other instances on what was seen last, when the gateway stops."""

T = TypeVar("T")


class RecorderConfig(Protocol):
    """What a recorder needs of a configuration."""

    @property
    def history(self) -> str: ...
    @property
    def incidents(self) -> IncidentSettings: ...
    @property
    def indicators(self) -> IndicatorSettings: ...
    @property
    def channels(self) -> Sequence[ChannelSettings]: ...


class SightingLog(Protocol):
    """Writes a line for each sighting: the decision log."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def add(self, entry: Sighting, /) -> None: ...


class IncidentRecorder:
    """Gathers what the gateway saw; a request pays for no more than one append."""

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
        """Sightings for which there was no room to wait."""
        self.false_alarms = 0
        """Incidents that somebody here said were none."""
        self.history = IncidentHistory(config.history, config.incidents, clock=clock)
        self.indicators = Indicators(config.indicators)
        self.channels = make_channels(config.channels, env, clock=clock)
        self._most_tool_calls = config.indicators.tool_calls
        self._estimate = estimate
        self._witness = SightingFactory(secret, self._most_tool_calls, estimate)
        self._strips = StripBuilder(secret)
        self._ledger = UsageRecorder()
        self._budgets = BudgetAlerter(self.tell)
        self._log = log
        self._clock = clock
        self._quiet = config.incidents.quiet
        self._store = store
        self._outage = StoreOutageMonitor(store)
        self._sightings: deque[Sighting] = deque()
        self._observations: deque[Observation] = deque()
        self._next_tick = 0.0
        self._held: dict[str, set[str]] = {}
        """Events of an incident that somebody may tell already; till then it is not written."""
        self._later: dict[tuple[str, str], Incident] = {}
        self._asked: set[str] = set()
        self._told: deque[AlertEvent] = deque()
        self.sharing: IncidentSharing | None = None
        self.numbers = RecorderStats(self)
        self._running = AsyncExitStack()

    # On the loop

    async def start(self) -> None:
        """Open the history, take up what it left open, and begin; a ConfigError says why not."""
        self.history.open()
        self._running.callback(self.history.close)
        instance = f"{self.history.id}.{token_hex(4)}"
        self.tracker = Tracker(
            instance,
            quiet=self._quiet,
            # In the order of time: so rows are written next to each other.
            new_id=lambda: f"inc_{int(self._clock() * 1000):011x}{token_hex(4)}",
            is_shared=self._store is not None,
            is_heard=bool(self.channels),
        )
        for part in self.history.open_incidents():
            self.tracker.learn(part)
        if self._store is not None:
            self.sharing = IncidentSharing(self._store, self.history.id, quiet=self._quiet)
            self.sharing.start()
            self._running.push_async_callback(self.sharing.stop)
        if self._log is not None:
            self._log.start()
            self._running.push_async_callback(asyncio.to_thread, self._log.stop)
        self._begin_to_write()
        self.deliverer = AlertDeliverer(
            self.history.outbox, self.channels, owner=instance, clock=self._clock
        )
        self.deliverer.start()
        self._running.push_async_callback(self.deliverer.close)

    def _begin_to_write(self) -> None:
        self._loop = loop = asyncio.get_running_loop()

        def wake(written: WriteBatch) -> None:
            if written.events:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(self.deliverer.wake)

        self.writer = HistoryWriter(self.history, self._work, on_written=wake, clock=self._clock)
        self.writer.start()
        self._running.push_async_callback(asyncio.to_thread, self.writer.stop)

    async def stop(self) -> None:
        """Write what waits, and end; what is not delivered by then is, after the next start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                while self._sightings or self._held or self._asked:
                    await asyncio.sleep(0.02)
        self._ledger.hand_over()
        await self._running.aclose()

    def rekey(self, secret: bytes) -> None:
        """Make digests under another secret from now on."""
        self._witness = SightingFactory(secret, self._most_tool_calls, self._estimate)
        self._strips.secret = secret

    def settled(
        self,
        ticket: Ticket,
        outcome: Outcome | None,
        request_id: bytes,
        provider: str = "",
        first_byte: float | None = None,
    ) -> None:
        """Take what was decided about a call and, where it went upstream, what became of it."""
        now, witness = self._clock(), self._witness
        session = witness.running_session(ticket)
        self._ledger.settled(ticket, outcome, now, provider, session)
        observed = self._observations
        if (
            len(observed) < MAX_OBSERVATIONS_PER_TICK
            and outcome is not None
            and ticket.call.generates
        ):
            observed.append(
                witness.observation(ticket, outcome, now, provider, first_byte, session)
            )
        if ticket.standings:
            project = ticket.call.request.project
            self._budgets.settled(ticket.standings, now, project, request_id)
        if ticket.verdict is ALLOWED and ticket.heard is None and ticket.shadow is None:
            return
        told = witness.sightings(ticket, outcome, now, request_id.decode("latin-1"), provider)
        if self._log is not None:
            for one in told:
                self._log.add(one)
        for one in told:
            if one.reason == "loop_detected":
                self._take(self._sightings, one)
                self._strips.take(one, ticket)

    async def remark(self, remark: Annotation) -> None:
        """Keep what somebody says of an incident, and tell the other instances; for good at once.

        Raises sqlite3.Error where it cannot be kept.
        """
        await asyncio.to_thread(lambda: self.history.put(remarks=[remark]))
        self.false_alarms += remark.kind == "label" and remark.text == "false_alarm"
        if self.sharing is not None:
            self.sharing.publish([remark])

    def tell(self, event: AlertEvent) -> None:
        """Have people told of something that is no loop; an event of the same id only once."""
        self._take(self._told, event)

    def _take(self, waiting: deque[T], one: T) -> None:
        if len(waiting) < MAX_PENDING_SIGHTINGS:
            waiting.append(one)
        else:
            self.dropped += 1

    # On the writer's thread

    def _work(self, now: float) -> WriteBatch:
        """Gather all that waits; return what is to be written, in one go."""
        learned, remarks = self._hear()
        events = self._gather()
        if now >= self._next_tick:
            self._next_tick = now + TICK_S
            events += self._look(now)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._ledger.hand_over)
        told = self._claim(events)
        changed = self._unheld(self.tracker.take_changed())
        if self.sharing is not None:
            self.sharing.publish(changed)
        outgoing = [self._outgoing(event) for event in told]
        return WriteBatch([*changed, *learned], outgoing, self._ledger.take(), remarks)

    def _gather(self) -> list[AlertEvent]:
        events = [self._told.popleft() for _ in range(len(self._told))]
        to_draw = self._strips.waiting()
        for _ in range(len(self._sightings)):
            seen, saved = self._sightings.popleft(), self.tracker.saved
            events += self.tracker.sight(seen)
            if saved != self.tracker.saved:
                self._ledger.save(seen, self.tracker.saved - saved)
        for marks, strip in self._strips.draw(to_draw):
            self.tracker.draw(marks, strip)
        if self.sharing is not None:
            for key, incident_id in self.sharing.adopted():
                self._asked.discard(key)
                events += self.tracker.adopt(key, incident_id)
            opened = self.tracker.unsettled().items()
            self._asked |= self.sharing.ask(one for one in opened if one[0] not in self._asked)
        observed = [self._observations.popleft() for _ in range(len(self._observations))]
        self.indicators.observe(observed)
        return events

    def _look(self, now: float) -> list[AlertEvent]:
        # Counted here: whoever wants to know must not wait for the disk.
        kept = self.history.outbox.counts()
        self.numbers.outbox = {str(state): number for state, number in kept.items()}
        return [*self.tracker.tick(now), *self.indicators.tick(now), *self._outage.look(now)]

    def _hear(self) -> tuple[list[Incident], list[Annotation]]:
        """Take what other instances saw, and were told; return what is not in this history yet."""
        if self.sharing is None:
            return [], []
        learned = self.sharing.learned()
        for part in learned:
            self.tracker.learn(part)
        others = [part for part in learned if not self.sharing.is_of_this_history(part)]
        return others, self.sharing.remarked()

    def _claim(self, events: list[AlertEvent]) -> list[AlertEvent]:
        """Return the events that are this instance's to tell; of new ones that is to be asked."""
        if self.sharing is None:
            return events
        # In a storm, better twice under one id than never.
        told = list(self.sharing.claim(events))
        for event in events[: len(events) - len(told)]:
            self._held.setdefault(event.incident, set()).add(event.id)
        for event, is_ours in self.sharing.claimed():
            waiting = self._held.get(event.incident, set())
            waiting.discard(event.id)
            if not waiting:
                self._held.pop(event.incident, None)
            if is_ours:
                told.append(event)
        return told

    def _unheld(self, changed: list[Incident]) -> list[Incident]:
        """Return what may be written: of what people are about to be told, that comes first.

        Else whoever is killed in between would never tell it.
        """
        every = self._later | {(one.id, one.instance): one for one in changed}
        self._later = {key: one for key, one in every.items() if one.id in self._held}
        return [one for one in every.values() if one.id not in self._held]

    def _outgoing(self, event: AlertEvent) -> OutgoingEvent:
        return OutgoingEvent(event, tuple(one.name for one in self.channels if one.wants(event)))
