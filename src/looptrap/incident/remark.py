"""Remarks: what people say about an incident, whichever instance they say it to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

RemarkKind = Literal["acknowledge", "label", "note", "release"]
Label = Literal["false_alarm", "confirmed"]

LABELS: tuple[Label, ...] = ("false_alarm", "confirmed")

LONGEST_NOTE = 2_000
MOST_NOTES = 200
"""Notes on one incident."""


class Remark(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that somebody said of an incident; that it is told twice changes nothing."""

    id: str
    incident: str
    time: float
    by: str
    kind: RemarkKind
    text: str = ""
    """Of a note, its words; of a label, which one: empty for none any more."""


class Remarks(msgspec.Struct, frozen=True, gc=False):
    """All that was said of an incident."""

    acknowledged: Remark | None = None
    """Who was the first to take care of it."""
    label: Label | None = None
    notes: tuple[Remark, ...] = ()
    releases: tuple[Remark, ...] = ()


NO_REMARKS = Remarks()


def gathered(remarks: Iterable[Remark]) -> Remarks:
    """Return what remarks come to, in whatever order they arrive: the latest label holds."""
    by_kind: dict[RemarkKind, list[Remark]] = {}
    for one in sorted(remarks, key=lambda one: (one.time, one.id)):
        by_kind.setdefault(one.kind, []).append(one)
    label = by_kind["label"][-1].text if "label" in by_kind else ""
    return Remarks(
        acknowledged=by_kind["acknowledge"][0] if "acknowledge" in by_kind else None,
        label=label if label in LABELS else None,
        notes=tuple(by_kind.get("note", ())),
        releases=tuple(by_kind.get("release", ())),
    )
