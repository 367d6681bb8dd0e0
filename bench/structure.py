"""Data structures that clients can fill, driven directly with far more than their bounds.

python -m bench.structure NAME SHARE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import count
from math import inf
from typing import NamedTuple

from bench.rig import HERE
from bench.watch import MB, holding
from looptrap.detect.window import Window
from looptrap.dialect.model import Call, Outcome, Request, Usage
from looptrap.engine import Ticket
from looptrap.engine.counters import Counters
from looptrap.incident.indicator.alarm import IndicatorAlarm
from looptrap.incident.indicator.session import SessionIndicators
from looptrap.incident.model import Sighting
from looptrap.incident.tracker import Tracker
from looptrap.money.price import Prices
from looptrap.retry import Breakers
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Charge, Hit
from looptrap.usage.recorder import UsageRecorder

Drive = Callable[[int], object]
"""Adds one more entry."""

FIRST = 0.3
"""The share of all entries that must fill a structure; further ones must not make it larger."""
FLAT = 1.1
SPARE = 12 * MB


class Held(NamedTuple):
    """The size of a structure."""

    number: int
    filled: int
    """Bytes, after the first of them …"""
    last: int
    """… and after all."""
    seconds: float

    @property
    def is_bounded(self) -> bool:
        """Whether the rest did not make it larger."""
        return self.last <= self.filled * FLAT + SPARE


def _fingerprints() -> Drive:
    store, window = MemoryStore(), Window(3_600.0)
    return lambda n: store.hit([Hit(n.to_bytes(16, "little"), window)], n / 5_000)


def _accounts() -> Drive:
    store = MemoryStore()
    return lambda n: store.charge([Charge(n.to_bytes(16, "little"), 5, 10, 86_400.0)], n / 5_000)


def _call(number: int) -> Call:
    request = Request(caller=f"cred:{number:x}", session=f"run-{number}")
    return Call(request=request, dialect="openai_chat", model=f"model-{number}")


_USED = Outcome(200, Usage(10, 5), cost=1_000)


def _tally() -> Drive:
    tally = Counters()
    return lambda n: tally.count_usage(_call(n), _USED, f"provider-{n}")


def _ledger() -> Drive:
    ledger = UsageRecorder()

    def drive(number: int) -> None:
        ticket = Ticket(_call(number))
        ledger.record(ticket, _USED, number / 5_000, f"p{number}", f"run-{number}")

    return drive


def _sessions() -> Drive:
    sessions = SessionIndicators(*[IndicatorAlarm("tokens", inf, 300.0)] * 3)
    return lambda n: sessions.observe(f"caller-{n}", "", f"run-{n}", 100, 1)


def _incidents() -> Drive:
    ids = count()
    tracker = Tracker("here", quiet=300.0, new_id=lambda: f"inc_{next(ids)}", has_channels=False)

    def drive(number: int) -> None:
        tracker.add(_sighting(number))
        if number % 1_000 == 0:
            tracker.take_changed()

    return drive


def _sighting(number: int) -> Sighting:
    return Sighting(
        time=number / 5_000,
        request_id=f"r-{number}",
        caller=f"caller-{number}",
        session=f"run-{number}",
        model=f"model-{number}",
        mode="enforce",
        reason="loop_detected",
        policy="default",
        rule="no-progress",
        signal="repeat",
        action="block",
        is_refused=True,
        is_alarming=True,
        count=5,
        threshold=5,
        fingerprint=f"1h-{number:032x}",
    )


def _prices() -> Drive:
    prices = Prices()
    return lambda n: prices.of(f"model-{n}", "", 0.0)


def _circuits() -> Drive:
    breakers = Breakers()

    def drive(number: int) -> None:
        permit = breakers.allow("provider", f"sk-{number}", number / 5_000)
        if permit is not None:
            permit.abandon(number / 5_000)

    return drive


STRUCTURES: Mapping[str, tuple[Callable[[], Drive], int]] = {
    "fingerprints in the memory store": (_fingerprints, 10_000_000),
    "accounts of budgets": (_accounts, 4_000_000),
    "callers, models, providers in the tally": (_tally, 1_000_000),
    "sessions and spenders in the ledger": (_ledger, 1_000_000),
    "sessions in the indicators": (_sessions, 1_000_000),
    "open incidents": (_incidents, 1_000_000),
    "models in the price list": (_prices, 1_000_000),
    "credentials with a circuit": (_circuits, 1_000_000),
}


def drive(name: str, share: float = 1.0) -> Held:
    """Fill one structure in its own process, so that only that is measured."""
    words = [sys.executable, "-m", "bench.structure", name, str(share)]
    done = subprocess.run(words, cwd=HERE.parent, capture_output=True, text=True, check=True)
    return Held(*json.loads(done.stdout))


def _fill(step: Drive, number: int) -> Held:
    began, pid, first = time.perf_counter(), os.getpid(), int(number * FIRST)
    before = holding(pid).rss
    for one in range(first):
        step(one)
    filled = holding(pid).rss - before
    for one in range(first, number):
        step(one)
    return Held(number, filled, holding(pid).rss - before, time.perf_counter() - began)


def main(name: str, share: float) -> None:
    """Fill one structure, and print its size."""
    make, most = STRUCTURES[name]
    print(json.dumps(_fill(make(), max(int(most * share), 10))))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
