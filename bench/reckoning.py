"""The check after a chaos run: was every request answered correctly, and counted?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.client import DROPPED, LATE
from bench.fault import Fault, Faults
from bench.traffic import STUCK_ROUNDS, THRESHOLD, Told, is_broken_off, is_whole

TAIL = 1.0
"""Seconds after a fault in which it may still have effects."""
CIRCUIT = 65.0
"""Seconds for which a failed provider may be skipped, where calls go to the first of two."""
AWAY = (502, 503, 504)
"""Codes that a client gets if its provider cannot be reached."""

Metrics = Mapping[tuple[str, ...], float]


@dataclass
class Reckoning:
    """The outcomes of all requests, and the violations."""

    faults: Counter[str] = field(default_factory=Counter)
    endings: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "faults": dict(self.faults),
            "requests": {kind: dict(found) for kind, found in self.endings.items()},
            "counts": self.counts,
        }


def reckon(
    told: Sequence[Told], faults: Faults, received: Sequence[str], metrics: Metrics
) -> Reckoning:
    """Compare the answers that clients got with the faults, and with the gateway's counters."""
    found = Reckoning(Counter(f"{one.what} {one.how}" for one in faults.done))
    by_agent: dict[str, list[Told]] = defaultdict(list)
    for one in told:
        by_agent[one.who].append(one)
    for calls in by_agent.values():
        for at, one in enumerate(calls):
            ending = _Judge(faults.done, calls[:at]).ending(one)
            found.endings[one.kind][ending] += 1
            if ending.startswith("NOT "):
                late = f"{one.ended - one.began:.2f} s"
                which = f", number {one.number}" if one.number else ""
                found.problems.append(f"{one.id}: {ending} ({one.status} after {late}{which})")
    _reckon_received(found, told, set(received))
    _reckon_tallies(found, told, faults, received, metrics)
    return found


class _Judge:
    """Classifies the end of a request; violations begin with NOT."""

    def __init__(self, faults: Sequence[Fault], before: Sequence[Told]) -> None:
        self._faults = faults
        self._before = before
        """What the same agent had sent until then."""

    def ending(self, one: Told) -> str:
        if one.kind == "gone early":
            return "left by its client"
        if one.status == LATE:
            return "NOT answered in time"
        if one.status == DROPPED:
            return self._dropped(one)
        if one.kind == "malformed":
            is_refused = 400 <= one.status < 600 and one.status not in (500, 502)
            return "refused as malformed" if is_refused else "NOT refused as malformed"
        if one.is_loop_refusal:
            return self._refused(one)
        if one.status == 200:
            return self._answered(one)
        if one.status in AWAY and self._is_provider_away(one):
            return "told that both are away" if one.place == "chain" else "told that it is away"
        return f"NOT told anything documented: {one.answer.code}"

    def _dropped(self, one: Told) -> str:
        if self._was("worker", one, "killed"):
            return "dropped: its worker was killed"
        if one.kind == "stream" and self._is_provider_away(one):
            return "broken off: its provider died"
        return "NOT answered: the connection was dropped"

    def _refused(self, one: Told) -> str:
        is_due = {
            "loop": one.number >= THRESHOLD,
            "stuck tool run": one.number >= STUCK_ROUNDS,
        }.get(one.kind, False)
        return "refused as a loop" if is_due else "NOT a loop, and refused as one"

    def _answered(self, one: Told) -> str:
        if one.kind == "stream" and not is_whole(one):
            is_so = is_broken_off(one) and self._is_provider_away(one)
            return "broken off: its provider died" if is_so else "NOT a whole stream"
        lost = sum(before.status == DROPPED for before in self._before)
        due = {"loop": THRESHOLD + lost, "stuck tool run": STUCK_ROUNDS + lost}.get(one.kind)
        if due is None or one.number < due:
            return "answered"
        began = self._before[0].began
        is_away = any(
            fault.what == "store" and fault.touches(began, one.ended, TAIL, TAIL)
            for fault in self._faults
        )
        return "answered: the store was away" if is_away else "NOT refused, and a loop"

    def _is_provider_away(self, one: Told) -> bool:
        if one.place == "chain":
            return self._was("upstream a", one, before=CIRCUIT) or self._was(
                "upstream b", one, before=CIRCUIT
            )
        return self._was(f"upstream {one.place}", one)

    def _was(self, what: str, one: Told, how: str = "", before: float = TAIL) -> bool:
        return any(
            fault.what == what
            and how in fault.how
            and fault.touches(one.began, one.ended, before, TAIL)
            for fault in self._faults
        )


def _reckon_received(found: Reckoning, told: Sequence[Told], received: set[str]) -> None:
    """An answered request must have reached a provider, a refused one must not."""
    answered = [one for one in told if one.status == 200]
    refused = [one for one in told if one.is_loop_refusal]
    unasked = [one.id for one in answered if one.id not in received]
    asked = [one.id for one in refused if one.id in received]
    found.counts |= {"requests": len(told), "answered": len(answered), "refused": len(refused)}
    found.counts |= {"answered, and no provider saw it": len(unasked)}
    found.counts |= {"refused, and a provider saw it": len(asked)}
    found.problems += [f"{one}: answered, and no provider saw it" for one in unasked]
    found.problems += [f"{one}: refused, and a provider saw it" for one in asked]


def _reckon_tallies(
    found: Reckoning,
    told: Sequence[Told],
    faults: Faults,
    received: Sequence[str],
    metrics: Metrics,
) -> None:
    """The gateway's count of forwarded calls must match the providers', except for lost counts.

    Counts of a killed worker since the last scrape are lost.
    """
    plain = {one.id for one in told if one.place != "chain" and one.kind != "malformed"}
    seen = len(plain & set(received))
    tallied, whole = 0, 0
    for (name, *labels), number in metrics.items():
        if name == "looptrap_upstream_answers_total" and labels[0] in ("a", "b"):
            tallied += int(number)
            whole += int(number) if labels[1] == "200" else 0
    lost = sum(
        one.began <= killed and one.ended >= asked for one in told for asked, killed in faults.kills
    )
    found.counts |= {
        "received by providers, without fallback": seen,
        "forwarded to them, as counted": tallied,
        "of these answered": whole,
        "may be lost with killed workers": lost,
    }
    if not whole - lost <= seen <= tallied + lost:
        found.problems.append(
            f"providers received {seen}, the gateway counted {whole} to {tallied} ± {lost}"
        )
