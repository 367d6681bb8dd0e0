"""The tables of a Fairvisor bundle: read leniently, with every mistake and warning recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from looptrap.errors import Problem
from looptrap.policy.kind import PLAIN
from looptrap.schema import INVALID, Kind
from looptrap.schema.wording import found, inside

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(slots=True)
class Findings:
    """Mistakes and warnings in a bundle."""

    now: datetime
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Part:
    """One table of a bundle: reads its values, and records what is wrong with them."""

    table: dict[str, Any]
    place: str
    findings: Findings

    def get(self, key: str, default: Any = None) -> Any:
        """Return the plain value of that key."""
        return self.table.get(key, default)

    def at(self, key: str) -> str:
        """Return the place of that key."""
        return inside(self.place, key)

    def wrong(self, message: str, place: str | None = None) -> None:
        """Record a mistake, here or at another place."""
        self.findings.problems.append(Problem(self.place if place is None else place, message))

    def warn(self, message: str, place: str | None = None) -> None:
        """Record a warning, here or at another place."""
        self.findings.warnings.append(f"{self.place if place is None else place}: {message}")

    def warn_of_unknown(self, known: str) -> None:
        """Warn of every key that is none of the known ones."""
        for key in self.table:
            if key not in known.split():
                self.warn("is not supported, has no effect", self.at(key))

    def part(self, key: str, *, required: bool = False) -> Part | None:
        """Return the table of that key, if there is one."""
        item = self.get(key)
        if isinstance(item, dict):
            return Part(item, self.at(key), self.findings)
        if item is not None or required:
            self.wrong(f"{key} is {found(item)}, must be a table")
        return None

    def parts(self, key: str, *, required: bool = False) -> Iterator[Part]:
        """Yield each table in a list of tables."""
        items = self.get(key)
        if not isinstance(items, list):
            if items is not None or required:
                self.wrong(f"{key} is {found(items)}, must be a list")
            return
        for i, item in enumerate(items):
            place = f"{self.at(key)}[{i}]"
            if isinstance(item, dict):
                yield Part(item, place, self.findings)
            else:
                self.wrong(f"is {found(item)}, must be a table", place)

    def typed(self, kind: Kind, key: str, *, required: bool = False) -> Any:
        """Return the value of that key; None where there is none, or one of another kind."""
        value = self.get(key)
        if value is None:
            if required:
                self.wrong(f"{key} is required, {kind.words()}")
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has no whole numbers of their own
        read = kind.read(value, self.at(key), self.findings.problems)
        return None if read is INVALID else read

    def name(self, key: str) -> str:
        """Return the name of that key."""
        name = self.get(key)
        if not isinstance(name, str) or not name or not re.fullmatch(PLAIN.pattern, name):
            self.wrong(f"{key} is {found(name)}, must be {PLAIN.words()}, not empty")
        return str(name)

    def time(self, key: str) -> datetime | None:
        """Return the time of that key, if there is one."""
        text = self.get(key)
        if text is None:
            return None
        try:
            if not _TIME.fullmatch(text):
                raise ValueError
            return datetime.fromisoformat(text).astimezone(UTC)
        except (TypeError, ValueError):
            self.wrong(f"is {found(text)}, must be YYYY-MM-DDTHH:MM:SSZ (UTC)", self.at(key))
            return None

    def end(self, noun: str) -> datetime | None:
        """Return the time of `expires_at`, if there is one; it must not have passed."""
        expires = self.time("expires_at")
        if expires is not None and expires <= self.findings.now:
            self.wrong(f"is {self.get('expires_at')}: {noun} has expired", self.at("expires_at"))
        return expires
