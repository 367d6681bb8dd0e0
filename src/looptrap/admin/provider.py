"""Providers for operators: failures, latency and circuit breakers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypedDict

from looptrap.admin.api import ApiRequest, IsoTime, iso_time
from looptrap.admin.operation import Api, get
from looptrap.engine.counters import FIRST_BYTE_BOUNDS, RequestKind
from looptrap.gateway.app import App
from looptrap.gateway.provider import Provider
from looptrap.retry.breaker import BreakerState, CircuitKey

PROVIDERS_PATH = "/api/v1/providers"


class BreakerView(TypedDict):
    """One circuit: all calls to a base URL, or those with one credential."""

    circuit: str
    credential: str | None
    state: Literal["closed", "open", "half_open"]
    until: IsoTime | None
    reason: str | None


class ProviderView(TypedDict):
    """Counts of one provider since the gateway started."""

    name: str
    base_url: str
    calls: int
    failures: int
    p95_first_byte_seconds: float | None
    first_bytes: list[int]
    breakers: list[BreakerView]


class ProviderList(TypedDict):
    """All providers, and the bounds of the latency histograms."""

    providers: list[ProviderView]
    first_byte_bounds: list[float]


class ProviderApi(Api):
    """Answers at `/api/v1/providers`."""

    @get(PROVIDERS_PATH, "whether providers answer")
    async def _list(self, _request: ApiRequest) -> ProviderList:
        return provider_list(self._app)


def provider_list(app: App) -> ProviderList:
    """Return the counts and circuits of every provider."""
    by_name: dict[str, list[Provider]] = {}
    for one in app.gateway.runtime.routes.providers:
        by_name.setdefault(one.name, []).append(one)
    return {
        "providers": [_provider(app, name, places) for name, places in by_name.items()],
        "first_byte_bounds": list(FIRST_BYTE_BOUNDS),
    }


def first_byte_p95(counts: Sequence[int]) -> float | None:
    """Return the approximate 95th percentile of the latency of first bytes; None of none."""
    rank, so_far, low = 0.95 * sum(counts), 0, 0.0
    for bound, number in zip(FIRST_BYTE_BOUNDS, counts, strict=False):
        if number and so_far + number >= rank:
            return round(low + (bound - low) * (rank - so_far) / number, 3)
        so_far, low = so_far + number, bound
    return low if rank else None


def _provider(app: App, name: str, places: Sequence[Provider]) -> ProviderView:
    kinds = [(RequestKind(*key), number) for key, (number,) in list(app.tally.requests.items())]
    answers = [(one.status, number) for one, number in kinds if one.provider == name]
    statuses = [(status, number) for status, number in answers if status >= 0]
    histogram = app.tally.first_bytes.get(name)
    counts = list(histogram.counts) if histogram is not None else []
    return {
        "name": name,
        "base_url": places[0].base_url,
        "calls": sum(number for _, number in statuses),
        "failures": sum(number for status, number in statuses if is_failure(status)),
        "p95_first_byte_seconds": first_byte_p95(counts),
        "first_bytes": counts,
        "breakers": _breakers(app, {one.circuit for one in places}),
    }


def is_failure(status: int) -> bool:
    """Say whether a status is a failure: no answer, a rate limit, a server error."""
    return status in (0, 429) or status >= 500


def _breakers(app: App, circuits: Collection[str]) -> list[BreakerView]:
    """Return the circuits; those of credentials only where they are not closed."""
    states: dict[CircuitKey, BreakerState] = {CircuitKey(one): "closed" for one in sorted(circuits)}
    states |= {key: state for key, state in app.attempts.states() if key.provider in circuits}
    return [_breaker(app, key, state) for key, state in states.items()]


def _breaker(app: App, key: CircuitKey, state: BreakerState) -> BreakerView:
    is_open = state == "open"
    reason = "limited, or its key refused"
    if key.credential is None:
        latest = app.attempts.health.reason(key.provider)
        reason = f"failures in a row, the latest: {latest}" if latest else "failures in a row"
    return {
        "circuit": key.provider,
        "credential": key.credential,
        "state": state,
        "until": iso_time(app.gateway.clock() + app.attempts.left(key)) if is_open else None,
        "reason": None if state == "closed" else reason,
    }
