"""Tables: settings by name, and what is built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar, dataclass_transform, get_args, get_type_hints, overload

from looptrap.errors import ConfigError, Problem
from looptrap.schema.kind import INVALID, Choice, Flag, Kind, Listing, Mapped, apply, refuse, within
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
    restart: bool = False
    """Whether a change takes effect only at the next start, not at a reload."""
    only: Sequence[str] = ()
    """The values of the table's `tag` with which the setting means something; empty for all."""
    default_doc: str = ""
    """What the reference says in place of the default."""


_SETTING, _INLINE = "looptrap setting", "looptrap settings inline"


@overload
def setting(doc: str, kind: Kind | None = ..., *, default: T, **declared: Any) -> T: ...


@overload
def setting(doc: str, kind: Kind | None = ..., **declared: Any) -> Any: ...


def setting(doc: str, kind: Kind | None = None, *, default: Any = MISSING, **declared: Any) -> Any:
    """Declare an attribute of a `settings` class as a setting; without a default, it is required.

    Without a kind, the annotation says it: bool or a Literal. `name` is what the setting is called
    where the attribute is called otherwise; the rest is as in `Field`.
    """
    metadata = {_SETTING: {"doc": doc, "kind": kind, **declared}}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@overload
def inline(table: Table[Any], *, default: T, restart: bool = ...) -> T: ...


@overload
def inline(table: Table[Any], *, restart: bool = ...) -> Any: ...


def inline(table: Table[Any], *, default: Any = MISSING, restart: bool = False) -> Any:
    """Declare an attribute that is built from settings which stand among those of its class."""
    return field(default=default, metadata={_INLINE: (table, restart)})


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(setting, inline, field)
)
def settings(cls: type[T]) -> type[T]:
    """Make a frozen dataclass with slots of a class whose attributes declare settings."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


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
    tag: str = ""
    """The setting that says which others mean something."""
    prepare: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """Changes what was given before it is read; may raise ConfigError."""

    @classmethod
    def of(
        cls,
        built: type[T],
        *,
        check: Callable[[Mapping[str, Any]], Iterable[Problem]] = _no_check,
        tag: str = "",
        prepare: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> Table[T]:
        """Return the table of the settings that a `settings` class declares."""
        found: list[Field] = []
        inlined: dict[str, Table[Any]] = {}
        attributes: dict[str, str] = {}
        hints = get_type_hints(built)
        for each in fields(built):  # type: ignore[arg-type]
            if _INLINE in each.metadata:
                table, restart = each.metadata[_INLINE]
                inlined[each.name] = table
                found += _inlined_fields(each.name, table, restart)
            elif _SETTING in each.metadata:
                declared: dict[str, Any] = {"name": each.name, "get": attrgetter(each.name)}
                declared |= each.metadata[_SETTING]
                declared["kind"] = declared["kind"] or _kind_of(hints[each.name])
                if each.default_factory is not MISSING:
                    declared["default"] = each.default_factory()
                elif each.default is not MISSING:
                    declared["default"] = each.default
                found.append(Field(required="default" not in declared, **declared))
                attributes[found[-1].name] = each.name

        def build(**given: Any) -> T:
            parts = {
                name: table.build(**{one.name: given.pop(one.name) for one in table.fields})
                for name, table in inlined.items()
            }
            return built(**parts, **{attributes[name]: value for name, value in given.items()})

        return cls(fields=found, build=build, check=check, tag=tag, prepare=prepare)

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if not isinstance(value, dict):
            return refuse(self, value, place, problems)
        before = len(problems)
        plain = apply(partial(self.prepare, value), place, problems)
        if plain is INVALID:
            return INVALID
        names = [field.name for field in self.fields]
        for key in plain:
            if key not in names:
                hint = suggestion(key, names) or f"; the settings here are {listed(names, 'and')}"
                problems.append(Problem(inside(place, key), f"is not a setting{hint}"))
        given: dict[str, Any] = {}
        for each in self.fields:
            if each.name in plain:
                read = each.kind.read(plain[each.name], inside(place, each.name), problems)
                given[each.name] = None if read is INVALID else read
            elif each.required:
                problems.append(Problem(place, f"has no {each.name}, needs {each.kind.words()}"))
        mistakes = [*self._find_misplaced(given), *self.check(given)]
        problems.extend(within(place, ConfigError(mistakes)))
        if len(problems) > before:
            return INVALID
        defaults = {each.name: each.default for each in self.fields}
        return apply(partial(self.build, **defaults | given), place, problems)

    def _find_misplaced(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """Find settings that mean nothing with the value that the tag has."""
        tags = [given.get(self.tag, one.default) for one in self.fields if one.name == self.tag]
        for each in self.fields:
            for tag in tags:
                if tag is not None and each.name in given and each.only and tag not in each.only:
                    message = f'means nothing to {self.tag} = "{tag}", only to'
                    yield Problem(each.name, f"{message} {listed(each.only, 'and')}")

    def values(self, built: T) -> dict[str, Any]:
        """Return the typed value of every setting, as `build` takes them."""
        return {
            each.name: each.get(built) if each.get else getattr(built, each.name)
            for each in self.fields
        }

    def restart_values(self, built: T) -> dict[str, Any]:
        """Return the typed values of the settings that only a start takes up."""
        values = self.values(built)
        return {each.name: values[each.name] for each in self.fields if each.restart}

    def override(self, built: T, values: Mapping[str, Any]) -> T:
        """Return what is built with these typed values in place of its own."""
        return self.build(**self.values(built) | dict(values))

    def plain(self, value: T) -> dict[str, Any]:
        """Return what was built as the table it could be read from.

        What is None, or means nothing with the tag's value, is left out.
        """
        values = self.values(value)
        return {
            each.name: each.kind.plain(values[each.name])
            for each in self.fields
            if values[each.name] is not None and (not each.only or values[self.tag] in each.only)
        }

    def words(self) -> str:
        return "a table"


def _inlined_fields(attribute: str, table: Table[Any], restart: bool) -> Iterator[Field]:
    """Yield the fields of a table whose settings stand among those of another."""

    def reached(each: Field) -> Callable[[Any], Any]:
        get = each.get or attrgetter(each.name)
        return lambda built: get(getattr(built, attribute))

    for each in table.fields:
        yield replace(each, get=reached(each), restart=restart or each.restart)


def _kind_of(annotation: Any) -> Kind:
    return Flag() if annotation is bool else Choice(get_args(annotation))


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


def _inner(kind: Kind) -> tuple[Table[Any] | None, str]:
    """Return the table inside a kind, and what stands for one of several in a place."""
    if isinstance(kind, Listing):
        kind, mark = kind.of, "[]"
    elif isinstance(kind, Mapped):
        kind, mark = kind.values, ".*"
    else:
        mark = ""
    return (kind if isinstance(kind, Table) else None), mark


def entries(table: Table[Any], place: str = "") -> Iterator[Entry]:
    """Yield every setting of the table and of the tables inside it."""
    for each in table.fields:
        here = inside(place, each.name)
        yield Entry(here, each)
        table_inside, mark = _inner(each.kind)
        if table_inside is not None:
            yield from entries(table_inside, f"{here}{mark}")


def leaves(
    table: Table[Any], value: Mapping[str, Any], place: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield place and value of every setting that a plain table gives, tables inside included."""
    for each in table.fields:
        if each.name not in value:
            continue
        here, item = inside(place, each.name), value[each.name]
        table_inside, mark = _inner(each.kind)
        if table_inside is None:
            yield here, item
        elif mark == "[]":
            for i, one in enumerate(item):
                yield from leaves(table_inside, one, f"{here}[{i}]")
        elif mark:
            for key, one in item.items():
                yield from leaves(table_inside, one, inside(here, key))
        else:
            yield from leaves(table_inside, item, here)
