"""Strips as they are kept: what each round was, once, and the order in which they came. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from looptrap.detect.strip import Cell

MOST_TOOLS = 8
"""Tools that are named of one round."""

LONGEST_NAME = 128

MOST_BYTES = 4_096
"""About so much of a strip is kept: the latest rounds of it."""

ROUND = 16
"""Bytes of a round that calls no tool, about."""


class Kind(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What some rounds have in common."""

    id: str
    tools: tuple[str, ...] = ()
    is_error: bool = False


class Strip(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rounds, the oldest first: each is the number of its kind."""

    kinds: tuple[Kind, ...] = ()
    order: tuple[int, ...] = ()


NO_STRIP = Strip()


def kept(cells: Sequence[Cell]) -> Strip:
    """Return a strip that takes little room, however long the names of tools are."""
    known: dict[Kind, int] = {}
    order: list[int] = []
    size = 0
    for cell in reversed(cells):
        tools = tuple(name[:LONGEST_NAME] for name in cell.tools[:MOST_TOOLS])
        kind = Kind(cell.id, tools, cell.is_error)
        if kind not in known:
            size += ROUND + sum(map(len, tools))
            if size > MOST_BYTES:
                break
        order.append(known.setdefault(kind, len(known)))
    return Strip(tuple(known), tuple(reversed(order)))


def cells_of(strip: Strip) -> list[Cell]:
    """Return the cells of a strip; of one that is not whole, those that are there."""
    shown = [strip.kinds[one] for one in strip.order if 0 <= one < len(strip.kinds)]
    times = Counter(kind.id for kind in shown)
    return [Cell(kind.id, kind.tools, kind.is_error, times[kind.id] > 1) for kind in shown]
