"""A simulated day: the turns that agents have to do, and a provider that fails some of them.

Pure, and the same for all clients: randomness comes from a seed, time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, cos, inf, log, pi
from random import Random
from typing import NamedTuple

DAY, TURNS, OUTAGE = 86_400.0, 180_000, 2_400.0
SWING = 0.6
"""How far the rate of turns is above its mean at noon, and below it at midnight."""
STEPS = (3, 7)
PERMANENT_SHARE = 0.06
"""Turns with a step that the provider will never answer."""
PASSING_SHARE = 0.005
"""The share of attempts that fail temporarily."""
TENANTS = 8
HEADROOM = 1.9
"""The limit of a tenant, in multiples of what it needs at noon."""
BURSTS, BURST_SECONDS, BURST_LIMIT = 24, (30.0, 180.0), 0.4
"""A day's times of scarcity: how many, how long, and what is left of the limits meanwhile.
Mild enough that waiting as told, until a turn's deadline, loses hardly one."""
MINUTE, BUCKET_SECONDS = 60.0, 10.0
TIMEOUT = 30.0
"""Seconds after which a client hangs up."""


class Answered(Exception):  # noqa: N818 - what SDKs raise, with what classifiers read
    """A failed answer."""

    def __init__(self, status: int, code: str, retry_after: int | None = None) -> None:
        super().__init__(code)
        self.status_code = status
        self.headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        self.body = {"error": {"message": code, "type": code, "code": code}}


PERMANENT: tuple[Exception, ...] = (
    Answered(400, "context_length_exceeded"),
    Answered(400, "content_policy_violation"),
    Answered(400, "invalid_request_error"),
    Answered(401, "invalid_api_key"),
    Answered(404, "model_not_found"),
    Answered(429, "insufficient_quota"),
)
PASSING: tuple[Exception, ...] = (
    Answered(500, "server_error"),
    Answered(502, "bad_gateway"),
    Answered(529, "overloaded_error"),
    ConnectionResetError("reset"),
    TimeoutError("no answer"),
)
DOWN: tuple[Exception, ...] = (
    Answered(503, "service_unavailable"),
    Answered(503, "service_unavailable"),
    ConnectionRefusedError("refused"),
    TimeoutError("no answer"),
)
"""How an attempt fails in an outage: half of them with a 503."""


@dataclass(slots=True)
class Call:
    """One step's request; every attempt sends all of its tokens."""

    tokens: int
    seconds: float
    tool_seconds: float
    fault: Exception | None = None
    """Its permanent error."""
    is_told: bool = False
    """Whether the sender knows of it."""


@dataclass(slots=True)
class Job:
    """A turn that an agent has to do."""

    began: float
    tenant: int
    calls: list[Call]
    chance: Random
    is_troubled: bool = False

    @property
    def seconds(self) -> float:
        """How long it takes when nothing fails."""
        return sum(call.seconds + call.tool_seconds for call in self.calls)


class Span(NamedTuple):
    """A period of time."""

    start: float = inf
    end: float = inf

    def has(self, now: float) -> bool:
        return self.start <= now < self.end


@dataclass(frozen=True, slots=True)
class Day:
    """The events of a day, the same for all clients."""

    seed: int
    seconds: float
    outage: Span
    bursts: tuple[Span, ...]
    permanent: float = PERMANENT_SHARE
    passing: float = PASSING_SHARE
    limiter: str = "minute"
    """How the provider counts: one of `LIMITERS`."""

    @classmethod
    def of(cls, turns: int, seed: int, outage: float = OUTAGE) -> Day:
        """Return a day of about so many turns; trouble begins in its early afternoon."""
        seconds, chance = DAY * turns / TURNS, Random(seed)
        start = 0.58 * (seconds - outage)
        begins = [chance.uniform(0, seconds) for _ in range(max(1, round(BURSTS * turns / TURNS)))]
        bursts = tuple(Span(at, at + chance.uniform(*BURST_SECONDS)) for at in sorted(begins))
        return cls(seed, seconds, Span(start, start + outage), bursts)

    def calm(self) -> Day:
        """Return the same day without failures."""
        return Day(self.seed, self.seconds, Span(), (), 0.0, 0.0)

    def jobs(self) -> Iterator[Job]:
        """Yield the turns in the order in which they begin."""
        chance, now, mean = Random(self.seed + 1), 0.0, TURNS / DAY
        while True:
            now += chance.expovariate(mean * (1 - SWING * cos(2 * pi * now / self.seconds)))
            if now >= self.seconds:
                return
            own = Random(chance.getrandbits(48))
            calls = [
                Call(
                    3_000 + step * own.randrange(500, 2_500),
                    min(own.lognormvariate(log(2.5), 0.5), 20.0),
                    min(own.expovariate(1.25), 5.0),
                )
                for step in range(own.randint(*STEPS))
            ]
            if own.random() < self.permanent:
                own.choice(calls).fault = own.choice(PERMANENT)
            yield Job(now, own.randrange(TENANTS), calls, own)


@dataclass(slots=True)
class Figures:
    """The cost of a day, and the outcomes of its turns."""

    turns: int = 0
    done: int = 0
    lost_permanent: int = 0
    lost_in_outage: int = 0
    lost_outside: int = 0
    attempts: int = 0
    permanent_retried: int = 0
    limited: int = 0
    tokens: int = 0
    outage_attempts: int = 0
    outage_tokens: int = 0
    seconds: float = 0.0
    """Of the turns that were done; `ideal` is what they would have taken had nothing failed."""
    ideal: float = 0.0
    untroubled_seconds: float = 0.0
    untroubled_ideal: float = 0.0

    def end(self, job: Job, now: float, *, is_done: bool, in_outage: bool) -> None:
        """Record the end of a turn: a lost one counts by the time and the reason of the loss."""
        if is_done:
            self.done += 1
            self.seconds += now - job.began
            self.ideal += job.seconds
            if not job.is_troubled:
                self.untroubled_seconds += now - job.began
                self.untroubled_ideal += job.seconds
        elif any(call.is_told for call in job.calls):
            self.lost_permanent += 1
        elif in_outage:
            self.lost_in_outage += 1
        else:
            self.lost_outside += 1


class Minutes:
    """Counts attempts in each minute of the clock, refused ones too."""

    def __init__(self) -> None:
        self._sent = [(-1.0, 0)] * TENANTS

    def refuse(self, tenant: int, limit: float, now: float) -> int | None:
        """Take an attempt; return the Retry-After of one too many."""
        minute, sent = self._sent[tenant]
        if now // MINUTE != minute:
            minute, sent = now // MINUTE, 0
        self._sent[tenant] = minute, sent + 1
        return ceil((minute + 1) * MINUTE - now) if sent >= limit else None


class Buckets:
    """Counts by tokens that refill steadily, up to those of `BUCKET_SECONDS`."""

    def __init__(self) -> None:
        self._left = [(0.0, inf)] * TENANTS

    def refuse(self, tenant: int, limit: float, now: float) -> int | None:
        """Take an attempt; return the Retry-After of one too many."""
        at, left = self._left[tenant]
        rate = limit / MINUTE
        left = min(rate * BUCKET_SECONDS, left + (now - at) * rate)
        is_refused = left < 1
        self._left[tenant] = now, left if is_refused else left - 1
        return ceil((1 - left) / rate) if is_refused else None


LIMITERS: dict[str, Callable[[], Minutes | Buckets]] = {"minute": Minutes, "bucket": Buckets}


class Provider:
    """Answers attempts, up to a limit a minute for each tenant, and counts the tokens sent."""

    def __init__(self, day: Day, figures: Figures) -> None:
        self._day = day
        self._figures = figures
        need = TURNS / DAY * (1 + SWING) * sum(STEPS) / 2 * MINUTE / TENANTS
        self._limit = HEADROOM * need
        self._limiter = LIMITERS[day.limiter]()
        self._bursts = deque(day.bursts)

    def take(self, job: Job, call: Call, now: float) -> tuple[float, Exception | None]:
        """Take an attempt; return its duration in seconds, and its failure."""
        figures, outage = self._figures, self._day.outage
        figures.attempts += 1
        figures.permanent_retried += call.is_told
        seconds, error = self._answer(job, call, now)
        is_down = outage.has(now)
        figures.outage_attempts += is_down
        if not isinstance(error, ConnectionRefusedError):  # then nothing was sent
            figures.tokens += call.tokens
            figures.outage_tokens += call.tokens * is_down
        if now < outage.start < now + seconds:
            seconds, error = outage.start - now, PASSING[3]
        call.is_told |= error is not None and error is call.fault
        job.is_troubled |= error is not None
        return seconds, error

    def _answer(self, job: Job, call: Call, now: float) -> tuple[float, Exception | None]:
        if self._day.outage.has(now):
            return _failing(job.chance.choice(DOWN))
        limit = self._limit * (BURST_LIMIT if self._is_scarce(now) else 1.0)
        asked = self._limiter.refuse(job.tenant, limit, now)
        if asked is not None:
            self._figures.limited += 1
            return 0.1, Answered(429, "rate_limit_exceeded", asked)
        if call.fault is not None:
            return 0.3, call.fault
        if job.chance.random() < self._day.passing:
            return _failing(job.chance.choice(PASSING))
        return call.seconds, None

    def _is_scarce(self, now: float) -> bool:
        while self._bursts and self._bursts[0].end <= now:
            self._bursts.popleft()
        return bool(self._bursts) and self._bursts[0].has(now)


def _failing(error: Exception) -> tuple[float, Exception]:
    return TIMEOUT if isinstance(error, TimeoutError) else 0.2, error
