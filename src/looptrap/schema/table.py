"""Tables: settings by name, and what is built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from looptrap.errors import ConfigError, Problem
from looptrap.schema.kind import INVALID, Kind, Listing, Mapped, refuse, within
from looptrap.schema.wording import inside, listed, suggestion

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One setting of a table."""

    name: str
    kind: Kind
    doc: str
    default: Any = None
    required: bool = False
    get: Callable[[Any], Any] | None = None
    """Finds the value in what the table builds; the attribute of its name where not given."""


def _no_check(_given: Mapping[str, Any]) -> Iterable[Problem]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[T]):
    """A table of settings, and what is built from them."""

    fields: Sequence[Field]
    build: Callable[..., T]
    """Takes every setting by name; may raise ConfigError."""
    check: Callable[[Mapping[str, Any]], Iterable[Problem]] = _no_check
    """Finds mistakes between settings that were given; one that is wrong in itself is None."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if not isinstance(value, dict):
            return refuse(self, value, place, problems)
        before = len(problems)
        names = [field.name for field in self.fields]
        for key in value:
            if key not in names:
                hint = suggestion(key, names) or f"; the settings here are {listed(names, 'and')}"
                problems.append(Problem(inside(place, key), f"is not a setting{hint}"))
        given: dict[str, Any] = {}
        for each in self.fields:
            if each.name in value:
                read = each.kind.read(value[each.name], inside(place, each.name), problems)
                given[each.name] = None if read is INVALID else read
            elif each.required:
                problems.append(Problem(place, f"has no {each.name}, needs {each.kind.words()}"))
        problems.extend(within(place, ConfigError(list(self.check(given)))))
        if len(problems) > before:
            return INVALID
        try:
            return self.build(**{each.name: each.default for each in self.fields} | given)
        except ConfigError as error:
            problems.extend(within(place, error))
            return INVALID

    def plain(self, value: T) -> dict[str, Any]:
        """Return what was built as the table it could be read from; what is None is left out."""
        written: dict[str, Any] = {}
        for each in self.fields:
            item = each.get(value) if each.get else getattr(value, each.name)
            if item is not None:
                written[each.name] = each.kind.plain(item)
        return written

    def words(self) -> str:
        return "a table"


def read(table: Table[T], value: object) -> T:
    """Return what the table builds from the value; raise ConfigError with every mistake."""
    problems: list[Problem] = []
    built: T = table.read(value, "", problems)
    if problems:
        raise ConfigError(problems)
    return built


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting as a reference page lists it."""

    place: str
    """Where it stands; `[]` after the name of a list of tables, `*` for a name of the user's."""
    field: Field


def entries(table: Table[Any], place: str = "") -> Iterator[Entry]:
    """Yield every setting of the table and of the tables inside it."""
    for each in table.fields:
        here = inside(place, each.name)
        yield Entry(here, each)
        if isinstance(each.kind, Table):
            yield from entries(each.kind, here)
        elif isinstance(each.kind, Listing) and isinstance(each.kind.of, Table):
            yield from entries(each.kind.of, f"{here}[]")
        elif isinstance(each.kind, Mapped) and isinstance(each.kind.values, Table):
            yield from entries(each.kind.values, f"{here}.*")


def leaves(
    table: Table[Any], value: Mapping[str, Any], place: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield place and value of every setting that a plain table gives, tables inside included."""
    for each in table.fields:
        if each.name not in value:
            continue
        here, item = inside(place, each.name), value[each.name]
        if isinstance(each.kind, Table):
            yield from leaves(each.kind, item, here)
        elif isinstance(each.kind, Listing) and isinstance(each.kind.of, Table):
            for i, one in enumerate(item):
                yield from leaves(each.kind.of, one, f"{here}[{i}]")
        elif isinstance(each.kind, Mapped) and isinstance(each.kind.values, Table):
            for key, one in item.items():
                yield from leaves(each.kind.values, one, inside(here, key))
        else:
            yield here, item
