"""Pages: a list in pieces, where each piece says how to go on."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Page(NamedTuple, Generic[T]):
    """Some items, and the cursor that leads to the next ones; None where there are no more."""

    items: list[T]
    next_cursor: str | None
