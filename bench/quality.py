"""Which loops detection catches, and which honest runs it refuses, on judged runs.

python -m bench.quality RUNS.jsonl[.gz] [--preset default | --config FILE] [--json] [--misses]
python -m bench.quality RUNS.jsonl[.gz] --harnesses

A run is blocked if it was refused, and warned of if any action was taken, a refusal included.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing import Pool, cpu_count
from pathlib import Path
from typing import Any

import msgspec

from bench.figure import Figure
from bench.harness import HARNESSES, write_as
from looptrap.config import load
from looptrap.dialect.model import Message
from looptrap.errors import CallError, ConfigError
from looptrap.replay.judge import FirstActions, RunResult, judge_run
from looptrap.replay.recorded_run import RecordedRun, RunLabel, iter_lines, read_run
from looptrap.replay.replay import Score, ScoredRun
from looptrap.replay.ruleset import Ruleset

OURS = "looptrap"
EQUAL_CALLS = "3 equal calls in a row"
EQUAL_TAILS = "last 3 messages 5 times"
OTHERS = ("aisg", "fairvisor", "tcc")
"""Presets with rules of other systems that need no times: they count equal calls."""


class Measured(msgspec.Struct, frozen=True):
    """One run: its result, and that of each detector."""

    id: str
    judged: RunLabel | None
    result: RunResult
    cases: dict[str, ScoredRun]


def measure(rules: Ruleset, line: tuple[int, bytes]) -> Measured | str:
    """Judge one run; return the error if a line is not a run."""
    number, text = line
    try:
        run = read_run(text, f"line {number}")
    except CallError as error:
        return f"line {number}: {error}"
    result = judge_run(run, rules)
    firsts = {
        OURS: result.first,
        EQUAL_CALLS: FirstActions(block=equal_calls(run)),
        EQUAL_TAILS: FirstActions(block=equal_tails(run)),
    }
    cases = {name: ScoredRun.of(run, first) for name, first in firsts.items()}
    return Measured(run.id, run.judged, result, cases)


def equal_calls(run: RecordedRun, times: int = 3) -> int | None:
    """Return the first request after that many turns in a row with the same tool calls."""
    latest: list[frozenset[tuple[str, str]]] = []
    for index, end in enumerate(run.ends):
        if len(latest) >= times and latest[-1] and len(set(latest[-times:])) == 1:
            return index
        if end < len(run.messages):
            calls = run.messages[end].calls
            latest.append(frozenset((call.name, call.arguments) for call in calls))
    return None


def equal_tails(run: RecordedRun, tail: int = 3, times: int = 5) -> int | None:
    """Return the first request whose last messages are seen for the Nth time."""
    seen: dict[tuple[object, ...], int] = {}
    for index, end in enumerate(run.ends):
        key = tuple(map(_said, run.messages[max(0, end - tail) : end]))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] >= times:
            return index
    return None


def _said(message: Message) -> tuple[object, ...]:
    """Return a message without the ids that differ each time."""
    return (
        message.role,
        message.text,
        tuple((call.name, call.arguments) for call in message.calls),
        tuple(result.text for result in message.results),
    )


def read_lines(path: Path, harness: str) -> Iterator[tuple[int, bytes]]:
    for line in iter_lines(path):
        text = line.text or b""
        if harness != HARNESSES[0]:
            text = json.dumps(write_as(harness, json.loads(text), line.number)).encode()
        yield line.number, text


def measure_all(path: Path, rules: Ruleset, harness: str = HARNESSES[0]) -> Iterator[Measured]:
    """Yield every run measured, in the order of the file, on all cores."""
    with Pool(cpu_count()) as pool:
        lines = read_lines(path, harness)
        for found in pool.imap(partial(measure, rules), lines, chunksize=4):
            if isinstance(found, str):
                print(f"skipped: {found}", file=sys.stderr)
            else:
                yield found


HEADINGS = (
    "block recall", "warn recall", "false blocks", "false warns", "hard blocked", "hard warned",
    "unjudged blocked", "calls", "waste saved",
)  # fmt: skip


def row(score: Score) -> list[str]:
    calls, spared = score.calls_until_caught, score.saved_share
    return [
        _share(score.loops.refused, score.loops.runs),
        _share(score.loops.flagged, score.loops.runs),
        f"{score.honest.refused}/{score.honest.runs}",
        f"{score.honest.flagged}/{score.honest.runs}",
        f"{score.hard.refused}/{score.hard.runs}",
        f"{score.hard.flagged}/{score.hard.runs}",
        _share(score.unjudged.refused, score.unjudged.runs),
        "–" if calls is None else f"{calls:g}",
        "–" if spared is None else f"{spared:.0%}",
    ]


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} {part / whole:.3f}" if whole else "–"


def print_table(first: str, rows: Mapping[str, Score]) -> None:
    table = [[first, *HEADINGS], *([name, *row(score)] for name, score in rows.items())]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join([line[0].ljust(widths[0]), *cells]))


def scores_by_kind(runs: Iterable[Measured]) -> dict[str, Score]:
    kinds: dict[str, list[ScoredRun]] = {}
    for one in runs:
        if one.judged is not None and one.judged.label:
            kinds.setdefault(f"{one.judged.label} {one.judged.kind or '?'}", []).append(
                one.cases[OURS]
            )
    return {kind: Score.of(kinds[kind]) for kind in sorted(kinds)}


def print_misses(runs: Sequence[Measured]) -> None:
    """List the loops that were not blocked, and everything else that was blocked or warned of."""
    for heading, chosen in (
        ("loops not blocked", [r for r in runs if _is(r, "loop") and not r.cases[OURS].is_refused]),
        ("ok, blocked", [r for r in runs if _is(r, "ok") and r.cases[OURS].is_refused]),
        ("unjudged, blocked", [r for r in runs if _is(r, "") and r.cases[OURS].is_refused]),
        ("ok, warned", [r for r in runs if _is(r, "ok") and _is_only_flagged(r)]),
    ):
        print(f"\n{heading}: {len(chosen)}")
        for one in chosen:
            print(f"  {one.id}  {_story(one)}")


def _is(one: Measured, label: str) -> bool:
    return (one.judged.label if one.judged is not None else "") == label


def _is_only_flagged(one: Measured) -> bool:
    return one.cases[OURS].is_flagged and not one.cases[OURS].is_refused


def _story(one: Measured) -> str:
    judged, result = one.judged, one.result
    said = f"{judged.kind or '?'} from {judged.first_loop_step}" if judged is not None else "–"
    first = result.first
    at = ", ".join(f"{name} at {turn}" for name, turn in _reached(first)) or "nothing"
    why = "; ".join(evidence.what for evidence in result.evidence)
    return f"[{said}, {result.calls} calls] {at}  {result.rule or ''} {result.signal or ''}: {why}"


def _reached(first: FirstActions) -> list[tuple[str, int]]:
    return [
        (name, turn) for name, turn in msgspec.structs.asdict(first).items() if turn is not None
    ]


def as_json(rows: Mapping[str, Score]) -> dict[str, Any]:
    return {
        name: {
            "block_recall": score.recall,
            "warn_recall": score.flag_recall,
            "precision": score.precision,
            "calls_until_caught": score.calls_until_caught,
            "waste_saved": score.saved_share,
            **{
                group: msgspec.structs.asdict(getattr(score, group))
                for group in ("loops", "honest", "hard", "unjudged")
            },
        }
        for name, score in rows.items()
    }


def figures(path: Path) -> Iterator[Figure]:
    """Yield the figures of the report: the results of Looptrap and of simple detectors."""
    runs = list(measure_all(path, _rules("default")))
    for name in (OURS, EQUAL_CALLS, EQUAL_TAILS):
        yield from _figures(name, Score.of(one.cases[name] for one in runs))
    for name in OTHERS:
        others = measure_all(path, _rules(name))
        yield from _figures(f"preset {name}", Score.of(one.cases[OURS] for one in others))


def _rules(name: str) -> Ruleset:
    return Ruleset(load(None, flags={"preset": name}).policies).enforced()


def _figures(name: str, score: Score) -> Iterator[Figure]:
    for what, found, aim, is_more in (
        ("loops refused", score.loops.refused / score.loops.runs, 0.85, True),
        ("loops warned of", score.loops.flagged / score.loops.runs, 0.93, True),
        ("honest runs refused", score.honest.refused / score.honest.runs, 0.0, False),
        ("unjudged runs refused", score.unjudged.refused / score.unjudged.runs, 0.01, False),
        ("waste saved", score.saved_share or 0.0, 0.6, True),
    ):
        yield Figure(
            part="quality",
            name=f"{name}: {what}",
            value=100 * found,
            unit="%",
            aim=100 * aim if name == OURS else None,
            more_is_better=is_more,
            tolerance=0.0,
            is_compared=name == OURS,
        )


def scores_by_harness(path: Path, rules: Ruleset) -> Iterator[tuple[str, Score]]:
    """Yield the score of Looptrap on the runs as each harness would have written them."""
    for harness in HARNESSES:
        yield harness, Score.of(one.cases[OURS] for one in measure_all(path, rules, harness))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.quality",
        description="Measure detection on labelled runs, beside two simple detectors.",
    )
    parser.add_argument("runs", type=Path, help="JSONL, plain or gzip, some lines with `judged`")
    parser.add_argument("--preset", help="the policies to measure  [default]")
    parser.add_argument("--config", help="a configuration file, in place of a preset")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--misses", action="store_true", help="list wrong decisions")
    parser.add_argument(
        "--harnesses", action="store_true", help="as harnesses would write them that no rule knows"
    )
    given = parser.parse_args()
    if not given.runs.is_file():
        parser.error(
            f"{given.runs}: there is no such file; labelled runs do not ship with Looptrap"
        )
    return given


def main() -> None:
    given = options()
    try:
        config = load(given.config, flags={"preset": given.preset})
    except ConfigError as error:
        sys.exit(str(error))
    started, rules = time.perf_counter(), Ruleset(config.policies).enforced()
    if given.harnesses:
        print_table("harness", dict(scores_by_harness(given.runs, rules)))
        return
    try:
        runs = list(measure_all(given.runs, rules))
    except OSError as error:
        sys.exit(f"{given.runs}: {error}")
    detectors = {
        name: Score.of(one.cases[name] for one in runs) for name in (OURS, EQUAL_CALLS, EQUAL_TAILS)
    }
    kinds = scores_by_kind(runs)
    if given.json:
        print(json.dumps({"detectors": as_json(detectors), "kinds": as_json(kinds)}, indent=2))
        return
    print_table("detector", detectors)
    print()
    print_table("kind", kinds)
    if given.misses:
        print_misses(runs)
    print(f"\n{len(runs)} runs in {time.perf_counter() - started:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
