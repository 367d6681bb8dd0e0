"""What loop detectors do on loops across requests, and on honest runs like them.

python -m bench.loops [--seed N] [--split SPLIT] [--kind KIND] [--list] [--detector DETECTOR]
python -m bench.loops --compare [--detector DETECTOR] [--packages PATH] [--processes N]

Without --detector it is Looptrap's default preset. A detector is `module:attribute` or a URL.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from bench.loops import across, held_out, prompts, scenes, tales, visible
from bench.loops.compare import Entrants, judge_all
from bench.loops.detector import DetectorError, load_detector
from bench.loops.field import fifth, first, fourth, second, seventh, sixth, third
from bench.loops.packages import ENVIRONMENT, usable
from bench.loops.report import table, write
from bench.loops.rules import presets
from bench.loops.scenario import Played, Scenario, ask
from bench.loops.score import scores_of

MODULES = {
    "dev": (
        *(across, prompts, visible, tales, scenes, held_out),
        *(first, second, third, fourth, fifth, sixth),
    ),
    "test": (seventh,),
}
"""Where the scenarios of each split come from: each has `scenarios(seed)`. Those of `test` were
written by an author who had not seen the detector or any other scenario."""

Judged = tuple[Scenario, Played]


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the scenarios, and print what became of them."""
    chosen = _options(arguments)
    splits = _splits(chosen.seed, chosen.split, chosen.kind)
    try:
        if chosen.list:
            _list(splits)
        elif chosen.compare:
            _compare(chosen, splits)
        else:
            detector = load_detector(chosen.detector[0]) if chosen.detector else presets()[0]
            found = [one for scenarios in splits.values() for one in scenarios]
            judged = [(one, ask(one, detector.new_run())) for one in found]
            print_kinds(judged)
            _print_misses(judged)
    except DetectorError as error:
        sys.exit(str(error))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = argparse.ArgumentParser(
        prog="python -m bench.loops", description=(__doc__ or "").split("\n")[0]
    )
    options.add_argument("--seed", type=int, default=0, help="other seeds draw other scenarios")
    options.add_argument("--split", choices=("dev", "test"), help="[dev; both with --compare]")
    options.add_argument("--kind", help="only scenarios of this kind")
    options.add_argument("--list", action="store_true", help="list the scenarios; play none")
    options.add_argument(
        "--detector",
        action="append",
        default=[],
        metavar="DETECTOR",
        help="module:attribute or a URL; several with --compare",
    )
    options.add_argument(
        "--compare",
        action="store_true",
        help="ask all detectors; write the table, results.json and the chart",
    )
    options.add_argument(
        "--packages", type=Path, default=ENVIRONMENT, help="an environment with packages of PyPI"
    )
    options.add_argument("--processes", type=int, help="[one for each core]")
    chosen = options.parse_args(arguments)
    if not chosen.compare:
        chosen.split = chosen.split or "dev"
    return chosen


def _splits(seed: int, only: str | None, kind: str | None) -> dict[str, list[Scenario]]:
    """Return the scenarios of each split."""
    return {
        split: [
            one for module in found for one in module.scenarios(seed) if kind in (None, one.kind)
        ]
        for split, found in MODULES.items()
        if only in (None, split)
    }


def _list(splits: dict[str, list[Scenario]]) -> None:
    for one in (one for found in splits.values() for one in found):
        print(f"{one.name:48} {'loop' if one.is_loop else 'honest':6} {len(one.steps):4} steps")


def _compare(chosen: argparse.Namespace, splits: dict[str, list[Scenario]]) -> None:
    """Ask all detectors; write the report only of all scenarios of the seed that it is about."""
    begun = time.perf_counter()
    known, notes = usable(chosen.packages)
    entrants = Entrants(tuple(known), tuple(chosen.detector), environment=chosen.packages)
    cases = list(judge_all(entrants, splits, chosen.processes))
    print(table(scores_of(cases), notes))
    if chosen.kind is None and chosen.split is None and chosen.seed == 0 and not chosen.detector:
        write(cases, notes, chosen.seed)
    print(f"{len(cases)} runs in {time.perf_counter() - begun:.0f} s", file=sys.stderr)


def print_kinds(judged: Iterable[Judged]) -> None:
    by_kind: dict[str, list[Judged]] = {}
    for one in judged:
        by_kind.setdefault(one[0].kind, []).append(one)
    print("kind         loops  refused  warned  calls after | honest  refused  warned")
    for kind, rows in by_kind.items():
        loops = [row for row in rows if row[0].is_loop]
        honest = [row for row in rows if not row[0].is_loop]
        after = [played.refused - one.begins for one, played in loops if played.refused is not None]
        middle = f"{median(after):.0f}" if after else "-"
        print(
            f"{kind:12} {len(loops):5}  {_refused(loops):7}  {_warned(loops):6}  {middle:>11} |"
            f" {len(honest):6}  {_refused(honest):7}  {_warned(honest):6}"
        )


def _refused(rows: Iterable[Judged]) -> int:
    return sum(played.refused is not None for _, played in rows)


def _warned(rows: Iterable[Judged]) -> int:
    """Count those that were warned of, or refused."""
    return sum(played.refused is not None or played.warned is not None for _, played in rows)


def _print_misses(judged: Iterable[Judged]) -> None:
    for one, played in judged:
        if one.is_loop and played.refused is None:
            seen = "missed" if played.warned is None else f"only warned at {played.warned}"
            print(f"loop {seen}: {one.name} ({len(one.steps)} steps, begins {one.begins})")
        elif not one.is_loop and played.refused is not None:
            print(f"honest refused: {one.name} at {played.refused}: {played.why}")


if __name__ == "__main__":
    main()
