"""Three gateways behind HAProxy, on one Valkey and one PostgreSQL: what is lost, refused or twice.

python -m bench.fleet [--rate 60] [--times 6] [--json FILE]

Each process has a network namespace of its own: it needs root on Linux, iproute2, haproxy
and postgresql.
Exits with a status above 0 if a call failed while gateways were restarted one by one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench.fleet.agents import Load
from bench.fleet.network import check_permission
from bench.fleet.phase import PHASES, Result, measure
from bench.fleet.stage import GATEWAYS, PORT, Fleet
from bench.rig import MissingPartError


async def run(fleet: Fleet, rate: float, times: int) -> list[Result]:
    """Go through all phases under load; return what came of each."""
    load = Load(fleet.front, PORT, rate)
    loading = asyncio.ensure_future(load.run())
    try:
        return [await measure(fleet, load, name, fault, times) for name, fault in PHASES.items()]
    finally:
        load.stop()
        await loading


def render(results: Sequence[Result]) -> str:
    """Return the results as a table."""
    head = (
        f"{'phase':<30}{'calls':>7}{'failed':>8}{'slowest':>10}{'loop refused':>14}"
        f"{'budget used %':>15}{'counted':>9}{'alone':>7}{'twice':>7}{'lost':>6}"
    )
    lines = [head]
    for one in results:
        lines.append(
            f"{one.phase:<30}{one.calls:>7}{one.failed:>8}{one.slowest_ms:>7.0f} ms"
            f"{span(one.loops):>14}{span(percent(one.budgets_used)):>15}{one.counted_calls:>9}"
            f"{one.counted_alone:>7}{one.counted_twice:>7}{one.lost:>6}"
        )
        lines += [f"{'':<30}{number:>7} × {ending}" for ending, number in one.endings.items()]
    return "\n".join(lines)


def percent(shares: Sequence[float]) -> list[int]:
    """Return shares in percent."""
    return [round(100 * share) for share in shares]


def span(numbers: Sequence[int]) -> str:
    """Return the least and the most of some numbers."""
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"


def main() -> int:
    """Run, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=float, default=60.0, help="honest calls a second")
    parser.add_argument("--times", type=int, default=6, help="loops and budgets in each phase")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    try:
        check_permission()
        with tempfile.TemporaryDirectory(prefix="fleet-") as folder, Fleet(Path(folder)) as fleet:
            results = uvloop.run(run(fleet, given.rate, given.times))
            recorded, received = fleet.recorded(), len(fleet.received())
            twice = received - len(set(fleet.received()))
    except MissingPartError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(GATEWAYS)} gateways, {given.rate:g} honest calls a second\n")
    print(render(results))
    print(f"\ncalls that reached the provider twice: {twice}")
    print(f"calls that reached the provider: {received}, in the history: {recorded}")
    if given.json:
        given.json.write_text(json.dumps([one.as_json() for one in results], indent=1))
    restarted = next(one for one in results if one.phase == "restarted one by one")
    return int(bool(restarted.failed))


if __name__ == "__main__":
    sys.exit(main())
