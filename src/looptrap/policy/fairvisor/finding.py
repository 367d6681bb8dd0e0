"""What reading a bundle brings to light: its mistakes, and what is not supported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from looptrap.errors import Problem
from looptrap.schema import INVALID, Kind
from looptrap.schema.wording import found, inside

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(slots=True)
class Findings:
    """Mistakes and warnings so far; its methods take parts of tables and note what is wrong."""

    now: datetime
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def tables(
        self, table: dict[str, Any], place: str, key: str, *, required: bool = False
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield place and content of each table in a list of tables."""
        items = table.get(key)
        if items is None and not required:
            return
        if not isinstance(items, list):
            self.wrong(place, f"{key} is {found(items)}, must be a list")
            return
        for i, item in enumerate(items):
            where = f"{inside(place, key)}[{i}]"
            if isinstance(item, dict):
                yield where, item
            else:
                self.wrong(where, f"is {found(item)}, must be a table")

    def table(
        self, table: dict[str, Any], place: str, key: str, *, required: bool = False
    ) -> dict[str, Any] | None:
        """Return the table of that key, if there is one."""
        item = table.get(key)
        if isinstance(item, dict):
            return item
        if item is not None or required:
            self.wrong(place, f"{key} is {found(item)}, must be a table")
        return None

    def time(self, table: dict[str, Any], place: str, key: str) -> datetime | None:
        """Return the time of that key, if there is one."""
        text = table.get(key)
        if text is None:
            return None
        try:
            if not _TIME.fullmatch(text):
                raise ValueError
            return datetime.fromisoformat(text).astimezone(UTC)
        except (TypeError, ValueError):
            self.wrong(inside(place, key), f"is {found(text)}, must be YYYY-MM-DDTHH:MM:SSZ (UTC)")
            return None

    def typed(
        self, kind: Kind, table: dict[str, Any], place: str, key: str, *, required: bool = False
    ) -> Any:
        """Return the value of that key; None where there is none, or one of another kind."""
        value = table.get(key)
        if value is None:
            if required:
                self.wrong(place, f"{key} is required, {kind.words()}")
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has no whole numbers of their own
        read = kind.read(value, inside(place, key), self.problems)
        return None if read is INVALID else read

    def name_unknown(self, place: str, table: dict[str, Any], known: str) -> None:
        """Warn of every key that is none of the known ones."""
        for key in table:
            if key not in known.split():
                self.warnings.append(f"{inside(place, key)}: is not supported, has no effect")

    def wrong(self, place: str, message: str) -> None:
        """Note a mistake."""
        self.problems.append(Problem(place, message))
