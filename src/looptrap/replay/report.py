"""The summary as tables, for a terminal or a page: the same figures in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from looptrap.policy.action import Action
from looptrap.replay.score import Group, Score
from looptrap.replay.summary import Summary

NOTHING = "–"
"""Stands for a share of nothing."""


class Table(NamedTuple):
    """Rows under a heading; the first cell of a row says what the others count."""

    heading: str
    rows: list[tuple[str, ...]]
    columns: tuple[str, ...] = ()


def tables(summary: Summary) -> Iterator[Table]:
    """Yield what there is to tell, most important first."""
    yield Table("Replayed", _totals(summary))
    if summary.actions:
        by_severity = {one.value: summary.actions[one] for one in reversed(Action)}
        yield Table("Flagged runs by action", _counts(by_severity))
        yield Table("Flagged runs by signal", _counts(dict(summary.signals.most_common())))
        yield Table("Flagged runs by rule", _counts(dict(summary.rules.most_common())))
    if summary.score.has_labels:
        yield Table("Against the labels", _labels(summary.score))
        if summary.sweep is not None:
            yield sweep_table(summary.sweep.scores)


def text(summary: Summary) -> str:
    """Return the tables for a terminal."""
    return "\n\n".join(_text(table) for table in tables(summary))


def sweep_table(scores: Mapping[float, Score]) -> Table:
    """Return what every threshold times each factor would catch, and whom it would hit."""
    return Table(
        "Threshold sweep",
        [
            (
                f"× {factor:g}",
                of(score.loops.refused, score.loops.runs),
                of(score.honest.refused, score.honest.runs),
                of(score.honest.flagged, score.honest.runs),
                _median(score),
            )
            for factor, score in scores.items()
        ],
        ("thresholds", "loops refused", "ok refused", "ok flagged", "calls until caught"),
    )


def of(part: int, whole: int) -> str:
    """Return `5 of 8 (62.5%)`."""
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else NOTHING


def _totals(summary: Summary) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("runs", f"{summary.runs:,}"),
        ("calls", f"{summary.calls:,}"),
        ("flagged runs", of(summary.flagged, summary.runs)),
        ("calls saved", of(summary.saved_calls, summary.calls)),
        ("tokens saved, about", f"{summary.saved_tokens:,}"),
    ]
    if summary.skipped:
        rows.append(("lines that are not runs", f"{summary.skipped:,}"))
    if summary.unfinished:
        rows.append(("files not read to their end", f"{summary.unfinished:,}"))
    return rows


def _labels(score: Score) -> list[tuple[str, ...]]:
    loops, honest = score.loops, score.honest
    rows: list[tuple[str, ...]] = [
        ("precision: loops among the labelled runs refused", _precision(score)),
        ("recall: loops refused", _refused(loops)),
        ("loops at least warned of", of(loops.flagged, loops.runs)),
        ("false blocks: ok, but refused", _refused(honest)),
        ("false warnings: ok, but flagged", of(honest.flagged, honest.runs)),
    ]
    if score.hard.runs:
        rows.append(("hard negatives refused", _refused(score.hard)))
    if score.unjudged.runs:
        rows.append(("runs without a label refused", _refused(score.unjudged)))
    spared = score.share_spared
    rows += [
        ("calls until caught, median", _median(score)),
        ("wasted prompt volume saved", NOTHING if spared is None else f"{spared:.1%}"),
    ]
    return rows


def _refused(group: Group) -> str:
    return of(group.refused, group.runs)


def _precision(score: Score) -> str:
    return of(score.loops.refused, score.loops.refused + score.honest.refused)


def _median(score: Score) -> str:
    calls = score.calls_until_caught
    return NOTHING if calls is None else f"{calls:g}"


def _counts(counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    return [(name, f"{count:,}") for name, count in counts.items() if count]


def _text(table: Table) -> str:
    rows = [table.columns, *table.rows] if table.columns else table.rows
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    return "\n".join([table.heading, *(f"  {line}" for line in lines)])
