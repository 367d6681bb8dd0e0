"""PolicyEngine: plans, judges and settles calls, without clock or store."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from sys import maxsize

from looptrap.bounded import LruMap
from looptrap.build import mypyc_attr
from looptrap.detect import near
from looptrap.detect.edit_chat import read_edit_chat
from looptrap.detect.fingerprint import Fingerprint, conversation_opening
from looptrap.detect.harness import ends_with_idle_talk
from looptrap.detect.round import is_random_id
from looptrap.detect.trajectory import is_fresh
from looptrap.detect.window import STREAK_MEMORY_S
from looptrap.dialect.descriptor import OWN_SESSION, SESSION_HEADERS
from looptrap.dialect.model import NO_USAGE, AnsweredTurn, Call, Outcome
from looptrap.engine import judge, plan
from looptrap.engine.counters import Counters
from looptrap.engine.model import Plan, Ticket
from looptrap.engine.run_fitting import RunFitting, remember_answer
from looptrap.engine.run_memory import RunMemory
from looptrap.money.meters import Meters
from looptrap.money.price import Price, Prices
from looptrap.policy.budget import Budget
from looptrap.policy.kill_switch import KillSwitchMatcher
from looptrap.policy.policy import KillSwitch, Policy, Project
from looptrap.policy.rule import ToolRule
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.policy.watch import BoundPolicy, HistoryWatch
from looptrap.store.model import Balance, Count, Hit, Note

MAX_RECENT_ENDS = 20_000


class RecentPromptEnds:
    """Two-generation set of texts seen in the last one to two spans; its size is bounded."""

    __slots__ = ("_current", "_ends_at", "_previous", "_span")

    def __init__(self, span: float) -> None:
        self._span = span
        self._ends_at = 0.0
        self._current: dict[bytes, None] = {}
        self._previous: dict[bytes, None] = {}

    def has_seen(self, text: bytes, now: float) -> bool:
        """Return whether a text was seen before, and remember it."""
        if now >= self._ends_at or len(self._current) >= MAX_RECENT_ENDS:
            is_stale = now >= self._ends_at + self._span
            self._previous, self._current = {} if is_stale else self._current, {}
            self._ends_at = now + self._span
        is_known = text in self._current or text in self._previous
        self._current[text] = None
        return is_known


MIN_PAUSE_S = 5.0
"""Seconds after an answer in which only a program sends a message again: a person has to read the
answer, and a timer waits for its time."""

MAX_PAUSES = 20_000


class HarnessPauses:
    """Remembers when conversations were answered in which a user's message comes back; bounded."""

    __slots__ = ("_pauses",)

    def __init__(self) -> None:
        self._pauses: dict[bytes, tuple[float, bool]] = {}

    def comes_after_pause(self, conversation: bytes, is_new: bool, now: float) -> bool:
        """Return whether the message comes after a pause; `is_new` says that it was just sent.

        Of the first one nothing is known: it may.
        """
        latest, is_after_pause = self._pauses.pop(conversation, (-MIN_PAUSE_S, True))
        if is_new:
            is_after_pause = now - latest >= MIN_PAUSE_S
        self._pauses[conversation] = now, is_after_pause
        if len(self._pauses) > MAX_PAUSES:
            del self._pauses[next(iter(self._pauses))]
        return is_after_pause

    def note_answer(self, conversation: bytes, now: float) -> None:
        """Note that the latest request is answered: a pause begins now."""
        if (known := self._pauses.get(conversation)) is not None:
            self._pauses[conversation] = now, known[1]


MAX_RETRIED_PROMPTS = 20_000

MAX_SKIPPED_RETRIES = 4
"""Retries in a row that other instances may have seen."""


class RetryNumbers:
    """Remembers the latest number of prompts that say how often they were sent; bounded."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: LruMap[bytes, int] = LruMap(MAX_RETRIED_PROMPTS)

    def goes_on(self, prompt: bytes, number: int) -> bool:
        """Return whether a number goes on counting: a constant one is a part of the prompt."""
        before = self._numbers.get(prompt)
        self._numbers[prompt] = number
        return before is not None and 0 < number - before <= MAX_SKIPPED_RETRIES


MAX_TURN_ENDS = 20_000


class TurnEnds:
    """Remembers the last results of turns with several, to see which turns grow; bounded."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str], None] = {}

    def has_grown(self, caller: str, ids: Sequence[str]) -> bool:
        """Return whether a turn ended before with one of its results but the last.

        `ids` are those of its latest results, the latest first. Only those that no other turn
        has count.
        """
        found = [(caller, id_) for id_ in ids if is_random_id(id_)]
        if len(found) < len(ids) or len(found) < 2:
            return False
        is_grown = any(one in self._ends for one in found[1:])
        self._ends[found[0]] = None
        if len(self._ends) > MAX_TURN_ENDS:
            del self._ends[next(iter(self._ends))]
        return is_grown


def keeps_apart(call: Call) -> bool:
    """Return whether an application keeps calls apart on purpose, such as those of a sample."""
    return call.request.header(OWN_SESSION) is not None


def may_continue(call: Call) -> bool:
    """Return whether a call may continue one that others, of equal runs, count with."""
    return not (call.request.session or call.request.is_retry)


@mypyc_attr(allow_interpreted_subclasses=True)
class PolicyEngine:
    """Judges calls by policies; its only state is its counters, and a few facts of recent calls.

    A `Transaction` takes a call through it.
    """

    def __init__(
        self,
        policies: Iterable[Policy],
        *,
        projects: Iterable[Project] = (),
        kill_switches: Iterable[KillSwitch] = (),
        tools: Mapping[str, ToolRule] | None = None,
        budgets: Iterable[Budget] = (),
        prices: Prices | None = None,
        secret: bytes | None = None,
        tally: Counters | None = None,
        session_headers: Iterable[str] = SESSION_HEADERS,
    ) -> None:
        policies = tuple(policies)
        self.tally = Counters() if tally is None else tally
        key = secret or secrets.token_bytes(32)
        self._tools = tools or {}
        self._bindings = tuple(BoundPolicy(policy, key, self._tools) for policy in policies)
        self._by_project = {
            project.name: tuple(
                BoundPolicy(adapted, key, self._tools)
                for policy in policies
                if (adapted := project.adapt(policy)) is not None
            )
            for project in projects
        }
        self._kill_switches = tuple(KillSwitchMatcher(switch) for switch in kill_switches)
        self._progress = (
            Fingerprint(key, ("progress",), ("caller", "session")),
            Fingerprint(key, ("progress",), ("caller",)),
        )
        self._runs = RunMemory(key)
        self.session_headers = tuple(name.lower().encode() for name in session_headers)
        self._recent_ends = RecentPromptEnds(STREAK_MEMORY_S)
        self._pauses = HarnessPauses()
        self._turn_ends = TurnEnds()
        self._retry_numbers = RetryNumbers()
        self._conversation = Fingerprint(key, ("pause",), ("caller", "session"))
        budgets = tuple(budgets)
        is_metered = bool(budgets) or any(policy.rates for policy in policies)
        if prices is None and is_metered:
            prices = Prices()
        self._prices = prices
        self._meters: Meters | None = None
        if prices is not None:
            self._meters = Meters(
                budgets, policies, secret=key, prices=prices, recent_accounts=self.tally.accounts
            )

    def plan(self, call: Call, now: float, *, is_local: bool = False) -> Plan:
        """Return what to count for a call, and the evidence in its history.

        Where the store is in this process (`is_local`), the run is looked up before its history
        is searched: that is faster, and asking twice costs nothing.
        """
        for switch in self._kill_switches:
            if switch.kills(call, now):
                return Plan(call, [], [], killed=switch.verdict)
        bindings = self._bindings
        if self._by_project and call.request.project:
            bindings = self._by_project.get(call.request.project, bindings)
        chat = read_edit_chat(call)
        if chat is not None:
            call = chat
        # With files that were never sent with these messages before, a call is certainly no retry.
        is_new_prompt = chat is not None and not self._recent_ends.has_seen(chat.state, now)
        planned = Plan(call, [], [])
        reading: Sequence[HistoryWatch] = ()
        fresh: bool | None = None  # is the last message a person's? None until needed
        for binding in bindings:
            if binding.selects is not None and not binding.selects(call):
                continue
            for content_of, watches in binding.counting_watches:
                content = content_of(call)
                if content is not None:
                    for watch in watches:
                        if watch.is_near:
                            if is_new_prompt:
                                continue
                            fresh = is_fresh(call) if fresh is None else fresh
                            # Most prompt ends are new: then no predecessor needs to be found.
                            if fresh and self._recent_ends.has_seen(
                                content[-near.PROMPT_END_BYTES :], now
                            ):
                                plan.count_near(planned, watch, content)
                                continue
                        elif (
                            watch.is_across
                            and (not (call.request.session or call.user) or keeps_apart(call))
                        ) or (
                            watch.counts_retries
                            and not self._retry_numbers.goes_on(
                                watch.fingerprint.key(call, content),
                                near.retry_number(call.tail(1)[0].text),
                            )
                        ):
                            continue
                        plan.count(planned, watch, content)
            reading = (*reading, *binding.history_watches) if reading else binding.history_watches
            if binding.listening and call.generates:
                listening = planned.listening
                planned.listening = (
                    (*listening, *binding.listening) if listening else binding.listening
                )
        if chat is not None and may_continue(call):
            # Equal runs send equal calls from the first to the last: these have no ids.
            plan.take_off_itself(planned)
        if reading and fresh is None:
            fresh = is_fresh(call)
        if reading and (not fresh or ends_with_idle_talk(call)):
            planned.history_watches = reading
            if call.request.progress:
                planned.now = now
                plan.await_progress(planned, *self._progress)
            else:
                after_pause = partial(self._comes_after_pause, call, now)
                has_grown = partial(self._turn_ends.has_grown, call.request.caller)
                history = plan.history_of(call, self._tools, maxsize, after_pause, has_grown)
                # The history of a guarded tool is whole, and its latest result only expected.
                if call.generates:
                    planned.fitting = fitting = RunFitting(self._runs, call, history, now, is_local)
                    planned.recalls = fitting.recalls
                    if fitting.continues_beginning and may_continue(call):
                        plan.take_off_continued(planned, history.starts.newest_place)
                if is_local and planned.recalls:
                    planned.trajectory, planned.is_unread = history, True
                else:
                    planned.follows = planned.follows or bool(planned.recalls)
                    plan.search(planned, reading, self._tools, history)
        if self._meters is not None:
            planned.metered, planned.now = self._meters.plan(call, now), now
        return planned

    def follow(
        self, planned: Plan, counts: Sequence[Count], recalled: Sequence[bytes] = ()
    ) -> Sequence[Hit]:
        """Return the further hits that the store's answer calls for: mostly none.

        The caller appends the counts of these hits to the ones given, recalls the plan's
        `recalls`, and follows again until there are neither.
        """
        known = len(planned.hits)
        queries, planned.predecessor_queries = planned.predecessor_queries, ()
        for query in queries:
            if marks := counts[query.place].marks:
                plan.predecessor(planned, query, marks)
        if planned.progress_index >= 0 and planned.trajectory is None:
            limit = plan.rounds_since_progress(planned, counts, maxsize)
            after_pause = partial(self._comes_after_pause, planned.call, planned.now)
            plan.read(planned, planned.history_watches, self._tools, limit, after_pause)
        if planned.recalls:
            self.fit_run(planned, recalled)
        return planned.hits[known:]

    def _comes_after_pause(self, call: Call, now: float, is_new: bool) -> bool:
        """Return whether a person or a timer may send the message that comes back."""
        conversation = self._conversation.key(call, conversation_opening(call))
        return self._pauses.comes_after_pause(conversation, is_new, now)

    def note_answer(self, ticket: Ticket, now: float) -> None:
        """Note the end of an answer, where a user's message comes back in the conversation."""
        trajectory = ticket.trajectory
        if trajectory is not None and trajectory.starts.has_repeats:
            call = ticket.call
            conversation = self._conversation.key(call, conversation_opening(call))
            self._pauses.note_answer(conversation, now)

    def fit_run(self, planned: Plan, recalled: Sequence[bytes]) -> None:
        """Fit a call to its run; then search what the run remembers, if it is more."""
        fitting = planned.fitting
        assert fitting is not None
        fitting.take(recalled)
        planned.recalls = fitting.recalls
        if planned.recalls:
            return
        shown = planned.trajectory
        assert shown is not None
        trajectory = fitting.run or shown
        trajectory.starts = shown.starts
        if fitting.restarts:
            trajectory.restarts = fitting.restarts
        if planned.is_unread or fitting.run is not None or fitting.restarts:
            planned.is_unread = False
            plan.search(planned, planned.history_watches, self._tools, trajectory)

    def judge(
        self,
        planned: Plan,
        counts: Sequence[Count],
        balances: Sequence[Balance] = (),
        *,
        is_local: bool = False,
    ) -> Ticket:
        """Return the severest verdict; on a tie the first rule's.

        `is_local` says that this process granted the charges in place of a shared store.
        """
        ticket = Ticket(planned.call)
        ticket.listening = planned.listening
        ticket.trajectory = planned.trajectory
        if planned.fitting is not None:
            ticket.notes, ticket.fitting = planned.fitting.notes, planned.fitting
            ticket.reads_answer = planned.fitting.reads_answer
        if planned.killed is not None:
            ticket.verdict = planned.killed
            return ticket
        for index, watch in enumerate(planned.watches):
            count = counts[index]
            if count.hits > 1:
                judge.note_streak(ticket, planned.hits[index], count)
            if count.hits >= watch.ladder.first or count.cooldown_left > 0:
                judge.judge_count(ticket, watch, planned.hits[index].key, count)
        for watch, place in planned.predecessors:
            judge.note_streak(ticket, planned.hits[place], counts[place])
            judge.judge_count(
                ticket, watch, planned.hits[place].key, counts[place], "similar_prompt"
            )
        for finding in planned.findings:
            judge.judge_history(ticket, finding, counts)
        if planned.metered:
            judge.judge_charges(ticket, planned, balances, is_local)
        return ticket

    def hear(self, ticket: Ticket, text: str) -> Verdict | None:
        """Judge an answer so far, or its latest part, by the rules that watch answers.

        Returns a verdict that is severer than all before, and stores it on the ticket.
        """
        return judge.hear(ticket, text)

    def remember_answer(
        self, ticket: Ticket, turn: AnsweredTurn, now: float, *, is_local: bool
    ) -> Sequence[Note]:
        """Return what to remember of the calls in an answer."""
        return remember_answer(self._runs, ticket.call, ticket.fitting, turn, now, is_local)

    def settle(
        self,
        ticket: Ticket,
        outcome: Outcome | None = None,
        provider: str = "",
        first_byte: float | None = None,
    ) -> None:
        """Count the verdict and, for a forwarded call, the outcome."""
        tally, call = self.tally, ticket.call
        verdict, shadow, heard = ticket.verdict, ticket.shadow, ticket.heard
        status = -1 if outcome is None else outcome.status
        if verdict is ALLOWED:
            tally.requests["allow", "", "", call.dialect, provider, status][0] += 1
        else:
            tally.count_verdict(verdict, call, provider, status)
        if heard is not None:
            tally.rules[heard.policy, heard.rule, heard.action] += 1
        if shadow is not None:
            tally.shadow_rules[shadow.policy, shadow.rule, shadow.action] += 1
        if outcome is not None:
            if outcome.usage is not NO_USAGE:
                tally.count_usage(call, outcome, provider)
            if first_byte is not None:
                tally.first_bytes[provider].observe(first_byte)

    def price(self, call: Call, model: str, provider: str, now: float) -> Price | None:
        """Return the price of a model; of a call that cannot be read, at least the dearest."""
        prices = self._prices
        if prices is None:
            return None
        price = prices.of(model, provider, now)
        return prices.dearest if price is None and call.is_opaque else price
