"""All benchmarks in one report: bench/RESULTS.md to read, bench/results.json for later runs.

python -m bench.report [--runs RUNS.jsonl.gz] [--soak 1000000] [--only PART ...]
python -m bench.report --check [--runs RUNS.jsonl.gz]

The second form repeats the quick measurements, compares their ratios with the committed report,
and exits with 1 if one is worse than noise explains.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench import core, figure, gateway, quality, soak, store, storm
from bench.figure import Figure, Report
from bench.rig import MissingPartError, PartFailedError
from looptrap.cli import interpreter

PAGE = Path(__file__).with_name("RESULTS.md")

TITLES = {
    "gateway": "The gateway, compared with nginx and other gateways",
    "core": "Judging a call, compared with `json.loads` of its body",
    "quality": "Detection on judged runs, compared with simple detectors",
    "storm": "The retry policy, on a simulated day with failures",
    "store": "The shared store, compared with redis-py",
    "soak": "Memory over many requests",
}
EXPLAINED = {
    "gateway": "CPU time of the proxy for a request, the least of all rounds, divided by that of"
    " nginx as a plain reverse proxy with the same load in the same run. `nginx + Lua` counts the"
    " last three messages of each caller and does nothing else. `looptrap compiled` is the same"
    " Looptrap as the optional compiled wheel. Other gateways run with their defaults.",
    "core": "The whole default policy; every body is new.",
    "quality": "Runs of real agents. Two language models judged them independently, and only runs"
    " on which both agreed are scored. The runs do not ship with Looptrap. The simple detectors"
    " look for three equal calls in a row, and for the last three messages five times.",
    "storm": "A simulated day of 180,000 turns with an outage of 40 minutes, always the same.",
    "store": "A real Valkey on a Unix socket.",
    "soak": "The gateway as users run it, except that its store holds only 20,000 fingerprints: it"
    " is full from the start, and anything that still grows is a leak.",
}
GUARDED = ["small", "agent"]
"""Bodies with which a check loads the gateway."""


def parts(options: argparse.Namespace) -> dict[str, Callable[[], Iterator[Figure]]]:
    """Return the parts to measure, in the order of the report."""
    rounds, bodies = (5, list(gateway.BODIES)) if not options.check else (5, GUARDED)
    found: dict[str, Callable[[], Iterator[Figure]]] = {
        "gateway": partial(gateway.figures, rounds, 3 if not options.check else 2, bodies),
        "core": core.figures,
        "storm": storm.figures,
        "store": store.figures,
    }
    if options.runs is not None:
        found["quality"] = partial(quality.figures, options.runs)
    if options.soak and not options.check:
        found["soak"] = partial(soak.figures, options.soak)
    chosen = options.only or [part for part in TITLES if part in found]
    return {part: found[part] for part in chosen if part in found}


def measure(chosen: dict[str, Callable[[], Iterator[Figure]]]) -> Iterator[Figure]:
    """Measure part after part; skip one that lacks a program, with a message."""
    for part, figures in chosen.items():
        print(f"{part} …", file=sys.stderr, flush=True)
        try:
            yield from figures()
        except (MissingPartError, PartFailedError) as error:
            print(f"{part}: {error}", file=sys.stderr)


def machine() -> str:
    """Describe this machine in one line."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return (
        f"{model}, {os.cpu_count()} cores, Linux {'.'.join(platform.release().split('.')[:2])},"
        f" {interpreter.describe()}"
    )


def commit() -> str:
    """Return the commit that was measured."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def render(report: Report) -> str:
    """Return the report as a page."""
    lines = [
        "# Results",
        "",
        "Written by `python -m bench.report`; [README.md](README.md) says how each part measures.",
        "`make bench-check` measures again and compares the ratios with this page.",
        "",
        "| | |",
        "|---|---|",
        f"| date | {report.date} |",
        f"| commit | {report.commit} |",
        f"| machine | {report.machine} |",
        f"| load before | {report.load:.1f} |",
        "",
        "*Spread* is how far the median round is above the best one. If it is large, the machine",
        "was busy and the figure is less reliable.",
    ]
    for part, title in TITLES.items():
        if found := [one for one in report.figures if one.part == part]:
            lines += ["", f"## {title}", "", EXPLAINED[part], ""]
            lines += ["| figure | value | spread | aim |", "|---|--:|--:|---|"]
            lines += map(_line, found)
    return "\n".join(lines) + "\n"


def _line(one: Figure) -> str:
    spread = f"{one.spread:.0%}" if one.spread is not None else ""
    aim = ""
    if one.aim is not None:
        sign, state = "≥" if one.more_is_better else "≤", "reached" if one.is_reached else "missed"
        aim = f"{sign} {one.aim:g}{_unit(one)}: {state}"
    return f"| {one.name} | {_number(one.value)}{_unit(one)} | {spread} | {aim} |"


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _unit(one: Figure) -> str:
    return f" {one.unit}" if one.unit else ""


def check(before: Report, now: Sequence[Figure]) -> int:
    """Print every figure next to the committed one; return how many are worse."""
    known = {one.key: one for one in before.figures}
    worse = {now.key for _, now in figure.regressions(before.figures, now)}
    for one in now:
        if (old := known.get(one.key)) is not None and old.is_compared:
            state = "WORSE" if one.key in worse else "as before"
            limit = f"limit {_number(old.worst())}"
            print(f"{state:<10}{one.part}: {one.name}: {_number(one.value)}", end="")
            print(f" (was {_number(old.value)}, {limit}){_unit(one)}")
    return len(worse)


def keep(before: Iterable[Figure], now: Sequence[Figure]) -> list[Figure]:
    """Return the new figures, and the old ones of parts that were not measured again."""
    measured = {one.part for one in now}
    return [*(one for one in before if one.part not in measured), *now]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="hold against the committed report")
    parser.add_argument("--runs", type=Path, help="labelled runs; without, detection is left out")
    parser.add_argument("--soak", type=int, default=1_000_000, metavar="N", help="0 leaves it out")
    parser.add_argument("--only", nargs="+", choices=TITLES, metavar="PART", help="the rest stays")
    options = parser.parse_args()
    if options.runs is not None and not options.runs.is_file():
        parser.error(f"{options.runs}: there is no such file; labelled runs do not ship here")
    load = os.getloadavg()[0]
    now = list(measure(parts(options)))
    if options.check:
        sys.exit(1 if check(figure.load(), now) else 0)
    before = figure.load() if options.only and figure.RESULTS.exists() else None
    of = commit()
    if before is not None:
        rest = before.commit.rpartition(" ")[2]
        of = f"{of} for {', '.join(sorted({one.part for one in now}))}; the rest {rest}"
    report = Report(
        date=datetime.now(UTC).date().isoformat(),
        commit=of,
        machine=machine(),
        load=load,
        figures=keep(before.figures if before is not None else (), now),
    )
    figure.save(report)
    PAGE.write_text(render(report), "utf-8")
    print(f"written: {PAGE.name}, {figure.RESULTS.name}")


if __name__ == "__main__":
    main()
