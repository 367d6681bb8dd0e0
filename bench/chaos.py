"""Mixed traffic while the store, the providers and the workers are killed and stopped at random.

python -m bench.chaos [--minutes 10] [--seed 1] [--rate 60] [--workers 2] [--json FILE]

Exits with a status above 0 if a request was not answered as documented, a loop was not refused, a
refused call reached a provider, or a process kept resources.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from bench.fault import Faults
from bench.reckoning import Reckoning, reckon
from bench.remains import Remains, leaks
from bench.stage import Stage, comes_true
from bench.traffic import Traffic

CODA = 5.0
"""Seconds of traffic at the end without any fault."""
SETTLE = 30.0
"""Seconds for the remains of requests to be freed."""


async def run(
    stage: Stage, seconds: float, seed: int, rate: float, coda: float = CODA
) -> tuple[Reckoning, Remains]:
    """Run agents and faults for that long; return the results."""
    remains = Remains(stage)
    remains.begin()
    traffic = Traffic(stage.port, Random(seed), rate)
    faults = Faults(stage, Random(seed + 1))
    watching = asyncio.get_running_loop().create_task(remains.watch())
    await asyncio.gather(traffic.run(seconds + coda), faults.run(seconds))
    watching.cancel()
    metrics = await asyncio.to_thread(stage.metrics)
    reckoning = reckon(traffic.told, faults, stage.received(), metrics)
    # Connections to providers are kept for others to use; with their end they have to go.
    for upstream in stage.upstreams:
        upstream.kill()
    await asyncio.to_thread(comes_true, remains.is_settled, SETTLE)
    remains.end()
    return reckoning, remains


def main() -> int:
    """Run, print the report, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=60.0, help="requests a second, at most")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        began = time.monotonic()
        with Stage(Path(folder), given.workers) as stage:
            reckoning, remains = asyncio.run(run(stage, given.minutes * 60, given.seed, given.rate))
            said = stage.said()
    problems = [*reckoning.problems, *leaks(remains), *_tracebacks(said)]
    found = {
        "seed": given.seed,
        "seconds": round(time.monotonic() - began),
        **reckoning.as_json(),
        **remains.as_json(),
        "problems": problems,
    }
    print(render(found))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return int(bool(problems))


def render(found: dict[str, Any]) -> str:
    """Return a report as text."""
    lines = [f"{found['seconds']} s of chaos with seed {found['seed']}", ""]
    lines += [f"{'fault':<24}{'times':>8}"]
    lines += [f"{name:<24}{number:>8}" for name, number in found["faults"].items()]
    lines += ["", f"{'request':<18}{'ended':<34}{'times':>8}"]
    for kind, endings in found["requests"].items():
        for ending, number in sorted(endings.items()):
            lines.append(f"{kind:<18}{ending:<34}{number:>8,}")
    lines += ["", f"{'count':<52}{'':>8}"]
    lines += [f"{name:<44}{number!s:>16}" for name, number in found["counts"].items()]
    lines += ["", f"{'of each worker':<24}{'at rest':>12}{'afterwards':>12}"]
    lines += [f"{name:<24}{one[0]!s:>12}{one[1]!s:>12}" for name, one in found["remains"].items()]
    lines += ["", *(f"VIOLATION {one}" for one in found["problems"][:40])]
    lines.append(f"{len(found['problems'])} violations" if found["problems"] else "all was well")
    return "\n".join(lines)


def _tracebacks(said: str) -> list[str]:
    """Return the tracebacks in the log."""
    times = said.count("Traceback (most recent call last)")
    return [f"{times} tracebacks in the log"] if times else []


if __name__ == "__main__":
    sys.exit(main())
