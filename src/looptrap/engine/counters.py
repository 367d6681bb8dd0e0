"""The tally: plain numbers of what was decided and what became of it, read when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from looptrap.dialect.model import LONGEST_NAME, Call, Outcome
from looptrap.money.budget_meter import RecentAccounts
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict

K = TypeVar("K")
V = TypeVar("V")

DECISION_BOUNDS = (
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2,
)  # fmt: skip
"""Seconds: 10 µs to 50 ms."""

FIRST_BYTE_BOUNDS = (
    0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 30.0, 60.0, 120.0,
)  # fmt: skip
"""Seconds that models think: close to each other where p95s are."""

MAX_KINDS = 2_000
"""Requests of different kinds that are counted apart."""

MAX_MODELS = 100
MAX_PROVIDERS = 100
MAX_CALLERS = 500

OTHER = "other"
"""What names the rest, where more would have to be counted apart than that."""


class CappedDict(dict[K, V]):
    """Values by key, made when first asked for; beyond `most` keys all others share one."""

    def __init__(self, make: Callable[[], V], limit: int, overflow_key: K) -> None:
        self._make = make
        self._limit = limit
        self._overflow_key = overflow_key

    def __missing__(self, key: K) -> V:
        if len(self) >= self._limit:
            key = self._overflow_key
            if key in self:
                return self[key]
        value = self[key] = self._make()
        return value


class Histogram:
    """How many values there were up to each of some bounds."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    @property
    def counts(self) -> Sequence[int]:
        """How many were between each bound and the one before; the last are above all."""
        return tuple(self._counts)


class RequestKind(NamedTuple):
    """What requests have in common that are counted together."""

    verdict: str
    rule: str
    signal: str
    dialect: str
    provider: str
    """Empty where the request never went to one."""
    status: int
    """The provider's; -1 where the request never went to one."""


class Used:
    """What calls used, and what that cost."""

    __slots__ = (
        "audio_tokens", "cached_tokens", "cost", "estimated", "input_tokens", "output_tokens",
        "reasoning_tokens", "unpriced",
    )  # fmt: skip

    def __init__(self) -> None:
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.reasoning_tokens = 0
        self.audio_tokens = 0
        """Heard and spoken."""
        self.cost = 0
        """In nano-dollars, of what has a price."""
        self.unpriced = 0
        """Calls that have none."""
        self.estimated = 0
        """Calls that were told by their size what they used."""


class Counters:
    """Plain counters: what was decided and what became of it."""

    __slots__ = (
        "accounts", "caller_costs", "decisions", "first_bytes", "requests", "rules",
        "shadow_rules", "used",
    )  # fmt: skip

    def __init__(self) -> None:
        # Lists of numbers: a number in a dictionary would be looked up twice to be added to.
        self.requests: CappedDict[tuple[str, str, str, str, str, int], list[int]] = CappedDict(
            lambda: [0], MAX_KINDS, RequestKind(OTHER, OTHER, OTHER, OTHER, OTHER, -1)
        )
        """How many there were of each `RequestKind`."""
        self.rules: Counter[tuple[str, str, Action]] = Counter()
        """By policy, rule and action; what was simply allowed is not here."""
        self.shadow_rules: Counter[tuple[str, str, Action]] = Counter()
        self.used: CappedDict[tuple[str, str], Used] = CappedDict(Used, MAX_MODELS, (OTHER, OTHER))
        """What calls used, by provider and model."""
        self.caller_costs: CappedDict[tuple[str, str], list[int]] = CappedDict(
            lambda: [0], MAX_CALLERS, (OTHER, OTHER)
        )
        """What calls cost, by caller and project, in nano-dollars."""
        self.accounts = RecentAccounts()
        """Of budgets, those that were charged lately."""
        self.decisions = Histogram(DECISION_BOUNDS)
        """How long it took to judge a call, in seconds."""
        self.first_bytes: CappedDict[str, Histogram] = CappedDict(
            lambda: Histogram(FIRST_BYTE_BOUNDS), MAX_PROVIDERS, OTHER
        )
        """How long providers took to begin their answers."""

    def count_verdict(self, verdict: Verdict, dialect: str, provider: str, status: int) -> None:
        """Count a request on which a rule acted."""
        signal = verdict.evidence[0].signal if verdict.evidence else ""
        kind = (verdict.action.value, verdict.rule, signal, dialect, provider, status)
        self.requests[kind][0] += 1
        self.rules[verdict.policy, verdict.rule, verdict.action] += 1

    def count_usage(self, call: Call, outcome: Outcome, provider: str) -> None:
        """Count what a call used, and what that cost."""
        totals, usage, cost = (
            self.used[provider, call.model[:LONGEST_NAME]],
            outcome.usage,
            outcome.cost,
        )
        totals.input_tokens += usage.input_tokens
        totals.output_tokens += usage.output_tokens
        if usage.cached_tokens:
            totals.cached_tokens += usage.cached_tokens
        if usage.reasoning_tokens:
            totals.reasoning_tokens += usage.reasoning_tokens
        if usage.audio_input_tokens or usage.audio_output_tokens:
            totals.audio_tokens += usage.audio_input_tokens + usage.audio_output_tokens
        if usage.is_estimated:
            totals.estimated += 1
        if cost is None:
            totals.unpriced += 1
        elif cost:
            totals.cost += cost
            request = call.request
            self.caller_costs[request.caller, request.project][0] += cost

    @property
    def verdicts(self) -> Counter[Action]:
        """Requests by what was done; those of too many kinds are left out."""
        found: Counter[Action] = Counter()
        for kind, (number,) in self.requests.items():
            if kind[0] != OTHER:
                found[Action(kind[0])] += number
        return found

    @property
    def statuses(self) -> Counter[int]:
        """Calls that went upstream, by the provider's status; 0 where it never answered."""
        found: Counter[int] = Counter()
        for kind, (number,) in self.requests.items():
            if kind[5] >= 0:
                found[kind[5]] += number
        return found

    @property
    def input_tokens(self) -> int:
        """Of all providers and models."""
        return sum(used.input_tokens for used in self.used.values())

    @property
    def output_tokens(self) -> int:
        """Of all providers and models."""
        return sum(used.output_tokens for used in self.used.values())
