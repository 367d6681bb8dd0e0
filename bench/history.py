"""What storing incidents costs: new ones at a steady rate, compared with `json.dumps` of the same.

python -m bench.history [--rate 2000] [--seconds 5] [--letters 0] [--ids ordered|random] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import tempfile
import time
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import msgspec

from looptrap.detect.signals.signal import Evidence
from looptrap.incident.history import HistoryWriter, IncidentHistory, OutgoingEvent, WriteBatch
from looptrap.incident.model import AlertEvent, Incident, IncidentStep
from looptrap.incident.setting import IncidentSettings

TICK = 0.005
"""Seconds between two batches of incidents."""

BODY = json.dumps({"messages": [{"role": "user", "content": "x" * 40}] * 40}).encode()
"""Work of the calling thread meanwhile: it reads one for each incident."""


def incident(number: int, ids: str) -> Incident:
    """Return a new incident, like that of a first refusal."""
    digest = blake2b(b"%d" % number, digest_size=16).hexdigest()
    now = 1_800_000_000.0 + number / 1000
    return Incident(
        id=digest if ids == "random" else f"{int(now * 1000):011x}{digest[:13]}",
        instance="0123456789abcdef-1", key=digest[:24], opened=now, last=now, alarmed=now,
        caller=f"key-{number % 500}", project="research", session=f"~{digest[:16]}",
        model="gpt-5.3", dialect="openai_chat", provider="openai", policy="agents",
        rule="identical-conversation", signal="conversation", action="block", count=6, threshold=6,
        fingerprint=digest, cooldown=30.0, request_id=digest, calls=1, refused=1, before=5,
        message="Blocked (recursive_loop_detected): identical request sent 6 times in 60 seconds.",
        evidence=(Evidence("conversation", "the same conversation, 6 times", 6),),
        steps=[IncidentStep(now, "block", "identical-conversation", 6, digest)],
        fingerprints=[digest],
    )  # fmt: skip


def letter(one: Incident, channels: tuple[str, ...]) -> OutgoingEvent:
    data = {"fingerprint": one.fingerprint, "hit_count": 6, "model": one.model}
    return OutgoingEvent(
        AlertEvent(id=one.id, name="loop.detected", time=one.opened, data=data), channels
    )


def drive(
    incidents: list[Incident], rate: int, take: Callable[[Incident], None]
) -> tuple[float, float]:
    """Submit incidents at that rate; return CPU seconds of this thread and of all."""
    at_once = max(1, round(rate * TICK))
    began_thread, began_all = time.thread_time(), time.process_time()
    due = time.monotonic()
    for start in range(0, len(incidents), at_once):
        for one in incidents[start : start + at_once]:
            json.loads(BODY)
            take(one)
        due += TICK
        time.sleep(max(0.0, due - time.monotonic()))
    return time.thread_time() - began_thread, time.process_time() - began_all


def keep(incidents: list[Incident], rate: int, letters: int, folder: str) -> tuple[float, float]:
    """Return the time of `drive` with a history, including its last writes."""
    history = IncidentHistory(str(Path(folder) / "history.db"), IncidentSettings())
    history.open()
    waiting: deque[Incident] = deque()
    channels = tuple(f"channel-{number}" for number in range(letters))

    def work(_now: float) -> WriteBatch:
        some = [waiting.popleft() for _ in range(len(waiting))]
        return WriteBatch(some, [letter(one, channels) for one in some] if letters else [])

    writer = HistoryWriter(history, work)
    writer.start()
    began = time.process_time()
    caller, _ = drive(incidents, rate, waiting.append)
    writer.stop()
    total = time.process_time() - began
    assert (writer.written, writer.failed, writer.waiting) == (len(incidents), 0, 0)
    history.close()
    return caller, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=2_000, help="incidents a second")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the least counts")
    parser.add_argument("--letters", type=int, default=0, help="channels that each is sent to")
    parser.add_argument("--ids", choices=["ordered", "random"], default="ordered")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()

    number = int(options.rate * options.seconds)
    incidents = [incident(n, options.ids) for n in range(number)]
    plain = [msgspec.to_builtins(one) for one in incidents]
    alone, kept, dumped = [], [], []
    for _ in range(options.rounds):
        began = time.process_time()
        for one in plain:
            json.dumps(one)
        dumped.append(time.process_time() - began)
        alone.append(drive(incidents, options.rate, lambda _one: None))
        with tempfile.TemporaryDirectory() as folder:
            kept.append(keep(incidents, options.rate, options.letters, folder))
    scale = 1e6 / number
    baseline = min(dumped) * scale
    caller, total = (
        (min(one[which] for one in kept) - min(one[which] for one in alone)) * scale
        for which in (0, 1)
    )
    print(f"{options.rate} new incidents a second, ids {options.ids}, letters {options.letters}")
    print(f"CPU µs an incident, the least of {options.rounds} rounds of {options.seconds:.0f} s")
    print(f"{'json.dumps of it':<32}{baseline:>8.1f}")
    print(f"{'the calling thread, more':<32}{caller:>8.1f}{caller / baseline:>8.2f} ×")
    print(f"{'all threads, more':<32}{total:>8.1f}{total / baseline:>8.2f} ×")
    if options.profile:
        with tempfile.TemporaryDirectory() as folder:
            history = IncidentHistory(str(Path(folder) / "history.db"), IncidentSettings())
            history.open()
            profile = cProfile.Profile()
            with profile:
                for start in range(0, number, 200):
                    history.put(incidents[start : start + 200])
            pstats.Stats(profile).sort_stats("tottime").print_stats(14)


if __name__ == "__main__":
    main()
