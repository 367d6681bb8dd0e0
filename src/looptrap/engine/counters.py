"""Counters of verdicts, outcomes, usage and latencies, for /metrics and the dashboard."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from looptrap.dialect.agent import agent_of
from looptrap.dialect.model import MAX_NAME_CHARS, Call, Outcome
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
"""Seconds until the first byte of an answer: close to each other where p95s are."""

MAX_KINDS = 2_000
"""Kinds of requests that are counted separately."""

MAX_MODELS = 100
MAX_PROVIDERS = 100
MAX_CALLERS = 500

OTHER = "other"
"""The key of everything beyond these limits."""


class CappedDict(dict[K, V]):
    """Values by key, made on first use; beyond `limit` keys all others share one value."""

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
    """Counts of values between bounds."""

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
        """The count between each bound and the one before; the last one is above all bounds."""
        return tuple(self._counts)


class RequestKind(NamedTuple):
    """The properties by which requests are counted."""

    verdict: str
    rule: str
    signal: str
    dialect: str
    provider: str
    """Empty where the request was not forwarded."""
    status: int
    """The provider's; -1 where the request was not forwarded."""


class Used:
    """Token usage of calls, and its cost."""

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
        """Input and output."""
        self.cost = 0
        """In nano-dollars, of calls with a price."""
        self.unpriced = 0
        """Calls without a price."""
        self.estimated = 0
        """Calls whose usage was estimated from their size."""


class Counters:
    """Counters of verdicts, outcomes, usage and latencies."""

    __slots__ = (
        "accounts", "agent_requests", "agents", "caller_costs", "decisions", "first_bytes",
        "requests", "rules", "shadow_rules", "used",
    )  # fmt: skip

    def __init__(self) -> None:
        # Lists of numbers: adding to a number in a dictionary takes two lookups.
        self.requests: CappedDict[tuple[str, str, str, str, str, int], list[int]] = CappedDict(
            lambda: [0], MAX_KINDS, RequestKind(OTHER, OTHER, OTHER, OTHER, OTHER, -1)
        )
        """Requests by `RequestKind`."""
        self.rules: Counter[tuple[str, str, Action]] = Counter()
        """Verdicts by policy, rule and action, without those of allowed calls."""
        self.agents: Counter[tuple[str, Action]] = Counter()
        """The same verdicts by the agent, empty where it is not recognised, and action."""
        self.agent_requests: Counter[str] = Counter()
        """Requests to a gateway by the agent, empty where it is not recognised."""
        self.shadow_rules: Counter[tuple[str, str, Action]] = Counter()
        self.used: CappedDict[tuple[str, str], Used] = CappedDict(Used, MAX_MODELS, (OTHER, OTHER))
        """Usage by provider and model."""
        self.caller_costs: CappedDict[tuple[str, str], list[int]] = CappedDict(
            lambda: [0], MAX_CALLERS, (OTHER, OTHER)
        )
        """Cost by caller and project, in nano-dollars."""
        self.accounts = RecentAccounts()
        """Budget accounts that were charged recently."""
        self.decisions = Histogram(DECISION_BOUNDS)
        """Seconds that judging a call took."""
        self.first_bytes: CappedDict[str, Histogram] = CappedDict(
            lambda: Histogram(FIRST_BYTE_BOUNDS), MAX_PROVIDERS, OTHER
        )
        """Seconds until a provider's answer began."""

    def count_verdict(self, verdict: Verdict, call: Call, provider: str, status: int) -> None:
        """Count a request on which a rule acted."""
        signal = verdict.evidence[0].signal if verdict.evidence else ""
        kind = (verdict.action.value, verdict.rule, signal, call.dialect, provider, status)
        self.requests[kind][0] += 1
        self.rules[verdict.policy, verdict.rule, verdict.action] += 1
        self.agents[agent_of(call).name, verdict.action] += 1

    def count_usage(self, call: Call, outcome: Outcome, provider: str) -> None:
        """Count the usage of a call, and its cost."""
        totals = self.used[provider, call.model[:MAX_NAME_CHARS]]
        usage, cost = outcome.usage, outcome.cost
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
        """Requests by action, without those beyond MAX_KINDS."""
        found: Counter[Action] = Counter()
        for kind, (number,) in self.requests.items():
            if kind[0] != OTHER:
                found[Action(kind[0])] += number
        return found

    @property
    def statuses(self) -> Counter[int]:
        """Forwarded calls by the provider's status; 0 where it never answered."""
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
