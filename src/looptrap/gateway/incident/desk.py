"""The desk: sightings come in, incidents are kept, people are told."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from secrets import token_hex
from typing import TypeVar

from looptrap.admission import Ticket
from looptrap.call.model import Outcome
from looptrap.config import Config
from looptrap.gateway.decision_log import decision_log
from looptrap.gateway.incident.budget import BudgetTeller
from looptrap.gateway.incident.ledger import Ledger
from looptrap.gateway.incident.numbers import Numbers
from looptrap.gateway.incident.outage import Outage
from looptrap.gateway.incident.sharing import Sharing
from looptrap.gateway.incident.sighting import Witness
from looptrap.gateway.incident.strip import Strips
from looptrap.incident.alert.channel import channels_of
from looptrap.incident.alert.deliverer import Deliverer
from looptrap.incident.history import History, Outgoing, Work, Writer
from looptrap.incident.indicator import Indicators, Observation
from looptrap.incident.model import Event, Incident, Sighting
from looptrap.incident.remark import Remark
from looptrap.incident.sighting import Estimate, no_price
from looptrap.incident.tracker import Tracker
from looptrap.policy.verdict import ALLOWED
from looptrap.store.redis import RedisStore

MOST_WAITING = 50_000
"""Sightings that wait to be gathered; one more is dropped and counted."""

MOST_OBSERVED = 100
"""Calls that indicators see between two looks: of more than 1,000 a second, a sample is enough."""

TICK = 1.0
"""Seconds between two looks for what is over, at the indicators, and at what was spent."""

LAST_CLAIMS = 1.0
"""Seconds to agree with other instances on what was seen last, when the gateway stops."""

T = TypeVar("T")


class Desk:
    """Gathers what the gateway saw; a request pays for no more than one append."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        *,
        secret: bytes,
        store: RedisStore | None = None,
        estimate: Estimate = no_price,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.dropped = 0
        """Sightings for which there was no room to wait."""
        self.false_alarms = 0
        """Incidents that somebody here said were none."""
        self.history = History(config.history, config.incidents, clock=clock)
        self.indicators = Indicators(config.indicators)
        self.channels = channels_of(config.channels, env, clock=clock)
        self._most_tool_calls = config.indicators.tool_calls
        self._estimate = estimate
        self._witness = Witness(secret, self._most_tool_calls, estimate)
        self._strips = Strips(secret)
        self._ledger = Ledger()
        self._budgets = BudgetTeller(self.tell)
        form = config.gateway.decision_log
        self._log = decision_log(form) if form != "off" else None
        self._clock = clock
        self._quiet = config.incidents.quiet
        self._store = store
        self._outage = Outage(store)
        self._sightings: deque[Sighting] = deque()
        self._observations: deque[Observation] = deque()
        self._next_tick = 0.0
        self._held: dict[str, set[str]] = {}
        """Events of an incident that somebody may tell already; till then it is not written."""
        self._later: dict[tuple[str, str], Incident] = {}
        self._asked: set[str] = set()
        self._told: deque[Event] = deque()
        self.sharing: Sharing | None = None
        self.numbers = Numbers(self)
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
            self.sharing = Sharing(self._store, self.history.id, quiet=self._quiet)
            self.sharing.start()
            self._running.push_async_callback(self.sharing.stop)
        if self._log is not None:
            self._log.start()
            self._running.push_async_callback(asyncio.to_thread, self._log.stop)
        self._begin_to_write()
        self.deliverer = Deliverer(
            self.history.outbox, self.channels, owner=instance, clock=self._clock
        )
        self.deliverer.start()
        self._running.push_async_callback(self.deliverer.close)

    def _begin_to_write(self) -> None:
        self._loop = loop = asyncio.get_running_loop()

        def wake(written: Work) -> None:
            if written.events:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(self.deliverer.wake)

        self.writer = Writer(self.history, self._work, on_written=wake, clock=self._clock)
        self.writer.start()
        self._running.push_async_callback(asyncio.to_thread, self.writer.stop)

    async def stop(self) -> None:
        """Write what waits, and end; what is not delivered by then is, after the next start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_CLAIMS):
                while self._sightings or self._held or self._asked:
                    await asyncio.sleep(0.02)
        self._ledger.hand_over()
        await self._running.aclose()

    def rekey(self, secret: bytes) -> None:
        """Make digests under another secret from now on."""
        self._witness = Witness(secret, self._most_tool_calls, self._estimate)
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
        if len(observed) < MOST_OBSERVED and outcome is not None and ticket.call.generates:
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

    async def remark(self, remark: Remark) -> None:
        """Keep what somebody says of an incident, and tell the other instances; for good at once.

        Raises sqlite3.Error where it cannot be kept.
        """
        await asyncio.to_thread(lambda: self.history.put(remarks=[remark]))
        self.false_alarms += remark.kind == "label" and remark.text == "false_alarm"
        if self.sharing is not None:
            self.sharing.publish([remark])

    def tell(self, event: Event) -> None:
        """Have people told of something that is no loop; an event of the same id only once."""
        self._take(self._told, event)

    def _take(self, waiting: deque[T], one: T) -> None:
        if len(waiting) < MOST_WAITING:
            waiting.append(one)
        else:
            self.dropped += 1

    # On the writer's thread

    def _work(self, now: float) -> Work:
        """Gather all that waits; return what is to be written, in one go."""
        learned, remarks = self._hear()
        events = self._gather()
        if now >= self._next_tick:
            self._next_tick = now + TICK
            events += self._look(now)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._ledger.hand_over)
        told = self._claim(events)
        changed = self._unheld(self.tracker.take_changed())
        if self.sharing is not None:
            self.sharing.publish(changed)
        outgoing = [self._outgoing(event) for event in told]
        return Work([*changed, *learned], outgoing, self._ledger.take(), remarks)

    def _gather(self) -> list[Event]:
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

    def _look(self, now: float) -> list[Event]:
        # Counted here: whoever wants to know must not wait for the disk.
        kept = self.history.outbox.counts()
        self.numbers.outbox = {str(state): number for state, number in kept.items()}
        return [*self.tracker.tick(now), *self.indicators.tick(now), *self._outage.look(now)]

    def _hear(self) -> tuple[list[Incident], list[Remark]]:
        """Take what other instances saw, and were told; return what is not in this history yet."""
        if self.sharing is None:
            return [], []
        learned = self.sharing.learned()
        for part in learned:
            self.tracker.learn(part)
        others = [part for part in learned if not self.sharing.is_of_this_history(part)]
        return others, self.sharing.remarked()

    def _claim(self, events: list[Event]) -> list[Event]:
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

    def _outgoing(self, event: Event) -> Outgoing:
        return Outgoing(event, tuple(one.name for one in self.channels if one.wants(event)))
