"""Kinds: what values a setting takes. Each reads a plain value, and writes it back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Protocol

from looptrap.errors import ConfigError, Problem
from looptrap.schema.wording import found, inside, listed, shown, suggestion

INVALID: Any = object()
"""Stands for a value that could not be read; why has been reported."""


_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SIZE = re.compile(r"(\d{1,12})\s*(B|KB|MB|GB)?", re.IGNORECASE)


class Kind(Protocol):
    """What values a setting takes."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        """Return the typed value, or INVALID after reporting what is wrong with it."""

    def plain(self, value: Any) -> Any:
        """Return the value as it would be written in a file."""
        return value

    def words(self) -> str:
        """Say in a few words what is allowed."""


def refuse(kind: Kind, value: object, place: str, problems: list[Problem], hint: str = "") -> Any:
    """Report that the value is not of the kind; return INVALID."""
    problems.append(Problem(place, f"is {found(value)}, must be {kind.words()}{hint}"))
    return INVALID


def apply(make: Callable[[], Any], place: str, problems: list[Problem]) -> Any:
    """Call a function; report a ConfigError that it raises, and return INVALID."""
    try:
        return make()
    except ConfigError as error:
        problems.extend(within(place, error))
        return INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Kind):
    """A text; `pattern` it must match whole, in the words of `form`."""

    form: str = "text, not empty"
    pattern: str = r"(?s).+"
    into: Callable[[str], str] = str
    """Normalises the text, or raises ConfigError with what is wrong with it."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            return refuse(self, value, place, problems)
        return apply(partial(self.into, value), place, problems)

    def words(self) -> str:
        return self.form


ANY_NAME = Text(form="a name, not empty")
VARIABLE = Text(form="the name of an environment variable", pattern=r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few values."""

    values: Sequence[str | int]
    into: Callable[[Any], Any] = field(default=lambda value: value, kw_only=True)

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        for choice in self.values:
            # The types are compared too: True equals 1.
            if type(value) is type(choice) and value == choice:
                return self.into(value)
        texts = [choice for choice in self.values if isinstance(choice, str)]
        hint = suggestion(value, texts) if isinstance(value, str) else ""
        return refuse(self, value, place, problems, hint)

    def plain(self, value: Any) -> Any:
        return value.value if isinstance(value, Enum) else value

    def words(self) -> str:
        return listed([shown(value) for value in self.values], "or")


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Kind):
    """A number from `low` to `high`, with the reasons for its limits where they need one."""

    low: float
    high: float
    whole: bool = False
    above: bool = False
    """Whether `low` itself is too low."""
    unit: str = ""
    why_low: str = ""
    why_high: str = ""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            noun = "a whole number" if self.whole else "a number"
            problems.append(Problem(place, f"is {found(value)}, must be {noun}"))
            return INVALID
        if value > self.high:
            limit, why = f"{shown(self.high)} or less", self.why_high
        elif self.above and not value > self.low:
            limit, why = f"more than {shown(self.low)}", self.why_low
        elif not value >= self.low:
            limit, why = f"{shown(self.low)} or more", self.why_low
        else:
            return value if self.whole else float(value)
        reason = f" ({why})" if why else ""
        problems.append(Problem(place, f"is {found(value)}, must be {limit}{reason}"))
        return INVALID

    def words(self) -> str:
        noun = self.unit or ("whole number" if self.whole else "number")
        low = f"more than {shown(self.low)}, at most" if self.above else f"{shown(self.low)} to"
        return f"{noun}, {low} {shown(self.high)}"


def seconds(high: float = 86_400) -> Number:
    """Return a duration above 0 as a kind."""
    return Number(low=0, above=True, high=high, unit="seconds")


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes, plain or with a unit."""

    low: int
    high: int

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        number = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
            number = int(match[1]) * _UNITS[(match[2] or "").upper()]
        if number is None or not self.low <= number <= self.high:
            return refuse(self, value, place, problems)
        return number

    def plain(self, value: Any) -> Any:
        for unit in ("GB", "MB", "KB"):
            if value and value % _UNITS[unit] == 0:
                return f"{value // _UNITS[unit]}{unit}"
        return value

    def words(self) -> str:
        return f'a size such as "32MB", {self.plain(self.low)} to {self.plain(self.high)}'


def from_text(kind: Kind, text: str) -> object:
    """Return what a text, such as an environment variable's, is as a plain value of the kind."""
    if isinstance(kind, Flag) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    wants_number = isinstance(kind, Number) or (
        isinstance(kind, Choice) and any(isinstance(value, int) for value in kind.values)
    )
    for number in (int, float) if wants_number else ():
        with suppress(ValueError):
            return number(text)
    return text


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    """True or false."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        return value if isinstance(value, bool) else refuse(self, value, place, problems)

    def words(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class Moment(Kind):
    """A date and time that is the same everywhere: it names its offset."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value
        return refuse(self, value, place, problems)

    def words(self) -> str:
        return "a date and time with its offset, such as 2026-12-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of values of one kind."""

    of: Kind
    noun: str
    """What its values are called together."""
    unique: str = field(default="", kw_only=True)
    """The setting by which two tables of the list must differ."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if not isinstance(value, list):
            return refuse(self, value, place, problems)
        before = len(problems)
        items = tuple(self.of.read(item, f"{place}[{i}]", problems) for i, item in enumerate(value))
        if self.unique:
            problems.extend(self._doubles(value, place))
        return items if len(problems) == before else INVALID

    def _doubles(self, items: list[object], place: str) -> Iterator[Problem]:
        first: dict[str, int] = {}
        for i, item in enumerate(items):
            name = item.get(self.unique) if isinstance(item, dict) else None
            if isinstance(name, str) and first.setdefault(name, i) != i:
                twin = f"{place}[{first[name]}]"
                message = f"is {found(name)}, as in {twin}, must differ from all others"
                yield Problem(f"{place}[{i}].{self.unique}", message)

    def plain(self, value: Any) -> Any:
        return [self.of.plain(item) for item in value]

    def words(self) -> str:
        return f"a list of {self.noun}"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A table whose keys are the user's own."""

    keys: Kind
    values: Kind
    noun: str
    """What its keys and values are called together."""
    least: int = field(default=0, kw_only=True)
    into: Callable[[dict[Any, Any]], Any] = field(default=dict, kw_only=True)
    """Makes another value of what was read, or raises ConfigError with what is wrong with it."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if not isinstance(value, dict):
            return refuse(self, value, place, problems)
        before = len(problems)
        if len(value) < self.least:
            problems.append(Problem(place, f"is empty, must be {self.words()}"))
        pairs = {}
        for key, item in value.items():
            here = inside(place, key)
            pairs[self.keys.read(key, here, problems)] = self.values.read(item, here, problems)
        if len(problems) > before:
            return INVALID
        return apply(partial(self.into, pairs), place, problems)

    def plain(self, value: Any) -> Any:
        return {self.keys.plain(key): self.values.plain(item) for key, item in dict(value).items()}

    def words(self) -> str:
        return f"a table of {self.noun}"


def within(place: str, error: ConfigError) -> Iterator[Problem]:
    """Yield the problems of a part with the place of the whole before theirs."""
    for problem in error.problems:
        yield Problem(inside(place, problem.place, raw=True), problem.message)
