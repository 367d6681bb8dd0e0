"""The reader of settings: every mistake at once, each with its place and what is allowed."""

from datetime import UTC, date, datetime, time
from operator import itemgetter
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.config.setting import CONFIG
from looptrap.errors import ConfigError, Problem
from looptrap.schema import (
    Choice,
    Field,
    Flag,
    Listing,
    Mapped,
    Moment,
    Number,
    Table,
    Text,
    entries,
    from_text,
    inline,
    leaves,
    read,
    setting,
    settings,
)
from looptrap.schema.wording import inside

DOOR = Table(
    build=lambda **settings: settings,
    fields=[
        Field(name="name", kind=Text(), required=True, doc="what it is called"),
        Field(name="open", kind=Flag(), default=False, doc="whether it is open"),
    ],
)
HOUSE = Table(
    build=lambda **settings: settings,
    fields=[
        Field(
            name="floors",
            kind=Number(low=2, high=9, whole=True, why_low="one is a hut"),
            default=3,
            doc="how many floors",
        ),
        Field(name="height", kind=Number(low=0, high=99, above=True), default=9.0, doc="metres"),
        Field(name="roof", kind=Choice(["flat", "gabled"]), default="flat", doc="its shape"),
        Field(name="tax", kind=Choice([1, 2]), default=1, doc="its class"),
        Field(name="built", kind=Moment(), doc="when"),
        Field(
            name="rooms",
            kind=Mapped(Text(), Number(low=0, high=9), "names and sizes", least=1),
            doc="",
        ),
        Field(name="tags", kind=Listing(Text(), "texts"), default=(), doc="words"),
        Field(name="door", kind=DOOR, doc="the front door"),
        Field(name="doors", kind=Listing(DOOR, "tables", unique="name"), default=(), doc="all"),
    ],
)


def mistakes(value: object, table: Table = HOUSE) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(table, value)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        pytest.param({"floors": 1}, "floors: is 1, must be 2 or more (one is a hut)", id="low"),
        pytest.param({"floors": 10}, "floors: is 10, must be 9 or less", id="high"),
        pytest.param({"floors": 3.0}, "floors: is 3.0, must be a whole number", id="not whole"),
        pytest.param({"floors": True}, "floors: is true, must be a whole number", id="boolean"),
        pytest.param(
            {"floors": "six"}, 'floors: is the text "six", must be a whole number', id="text"
        ),
        pytest.param(
            {"floors": 1 << 20_000},
            "floors: is a whole number beyond all limits, must be 9 or less",
            id="larger than Python prints",
        ),
        pytest.param({"height": 0}, "height: is 0, must be more than 0", id="not above"),
        pytest.param({"height": float("nan")}, "height: is nan, must be more than 0", id="nan"),
        pytest.param({"height": float("inf")}, "height: is inf, must be 99 or less", id="inf"),
        pytest.param({"height": []}, "height: is a list, must be a number", id="a list"),
        pytest.param(
            {"roof": "gabeld"},
            'roof: is the text "gabeld", must be "flat" or "gabled", did you mean gabled?',
            id="a misspelt choice",
        ),
        pytest.param({"tax": 3}, "tax: is 3, must be 1 or 2", id="no such choice"),
        pytest.param({"tax": True}, "tax: is true, must be 1 or 2", id="true is not 1"),
        pytest.param(
            {"built": datetime(2026, 1, 1)},
            "built: is the time 2026-01-01T00:00:00, must be a date and time with its offset,"
            " such as 2026-12-01T00:00:00Z",
            id="a time without offset",
        ),
        pytest.param(
            {"rooms": {}},
            "rooms: is empty, must be a table of names and sizes",
            id="empty",
        ),
        pytest.param({"rooms": {"a b": -1}}, 'rooms."a b": is -1, must be 0 or more',
                     id="in a map"),
        pytest.param({"rooms": 4}, "rooms: is 4, must be a table of names and sizes",
                     id="no map"),
        pytest.param({"tags": ["a", ""]}, 'tags[1]: is the text "", must be text, not empty',
                     id="in a list"),
        pytest.param({"tags": "a"}, 'tags: is the text "a", must be a list of texts', id="no list"),
        pytest.param({"door": {"name": "a", "open": "no"}},
                     'door.open: is the text "no", must be true or false', id="in a table"),
        pytest.param({"door": {}}, "door: has no name, needs text, not empty", id="missing"),
        pytest.param({"doors": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
                     'doors[2].name: is the text "a", as in doors[0], must differ from all others',
                     id="twice the same name"),
        pytest.param({"doors": [3]}, "doors[0]: is 3, must be a table", id="no table"),
        pytest.param([], "is a list, must be a table", id="not a table at all"),
        pytest.param({"flors": 3}, "flors: is not a setting, did you mean floors?", id="misspelt"),
        pytest.param(
            {"door": {"name": "a", "x\x1b[31m": 3}},
            'door."x\\x1b[31m": is not a setting; the settings here are name and open',
            id="an unknown key cannot colour the terminal",
        ),
        pytest.param(
            {"floors": "a" * 99}, f'floors: is the text "{"a" * 60}…", must be a whole number',
            id="a long text is shortened",
        ),
    ],
)  # fmt: skip
def test_says_where_what_and_what_is_allowed(value, mistake):
    assert mistakes(value) == [mistake]


def test_reports_every_mistake_at_once():
    value = {"floors": 1, "rof": "flat", "tags": [1, ""], "doors": [{"open": 1}, 2]}
    assert [line.partition(":")[0] for line in mistakes(value)] == [
        "rof", "floors", "tags[0]", "tags[1]", "doors[0]", "doors[0].open", "doors[1]",
    ]  # fmt: skip


def test_fills_in_defaults_and_keeps_what_is_given():
    built = datetime(2026, 1, 1, tzinfo=UTC)
    assert read(HOUSE, {"height": 7, "built": built, "doors": [{"name": "a"}]}) == {
        "floors": 3, "height": 7.0, "roof": "flat", "tax": 1, "built": built, "rooms": None,
        "tags": (), "door": None, "doors": ({"name": "a", "open": False},),
    }  # fmt: skip


def _never(**_settings):
    raise ConfigError([Problem("", "is not wanted"), Problem("name", "is ugly")])


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param(
            Table(fields=DOOR.fields, build=_never),
            ["inner: is not wanted", "inner.name: is ugly"],
            id="from the constructor",
        ),
        pytest.param(
            Table(
                fields=DOOR.fields,
                build=dict,
                check=lambda given: [Problem("name", f"{sorted(given)}")],
            ),
            ["inner.name: ['name']"],
            id="from the check between settings",
        ),
    ],
)
def test_adds_the_place_to_mistakes_of_the_domain(table, expected):
    outer = Table(fields=[Field(name="inner", kind=table, doc="")], build=dict)
    assert mistakes({"inner": {"name": "a"}}, outer) == expected


def test_checks_between_settings_even_when_one_is_wrong_in_itself():
    seen = []
    table = Table(
        fields=DOOR.fields, build=dict, check=lambda given: seen.append(dict(given)) or ()
    )
    assert mistakes({"name": 3, "open": True}, table) == ["name: is 3, must be text, not empty"]
    assert seen == [{"name": None, "open": True}]


def test_lists_every_setting_with_its_place():
    assert [entry.place for entry in entries(HOUSE)][-6:] == [
        "door", "door.name", "door.open", "doors", "doors[].name", "doors[].open",
    ]  # fmt: skip


def test_lists_the_values_a_table_gives():
    value = {"doors": [{"open": True}], "rooms": {"a": 1}, "door": {"name": "b"}}
    assert list(leaves(HOUSE, value)) == [
        ("rooms", {"a": 1}),
        ("door.name", "b"),
        ("doors[0].open", True),
    ]


@pytest.mark.parametrize(
    ("kind", "text", "plain"),
    [
        (Number(low=0, high=9), "2", 2),
        (Number(low=0, high=9), "2.5", 2.5),
        (Number(low=0, high=9), "two", "two"),
        (Choice([400, 429]), "429", 429),
        (Choice(["1", "2"]), "1", "1"),
        (Text(), "7", "7"),
    ],
)
def test_takes_a_text_for_what_the_kind_wants(kind, text, plain):
    assert from_text(kind, text) == plain


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-3, 70),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["caller", "block", "conversation", "repeat", "exact", "aisg", "/v1/", "x"]),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.just(date(2026, 1, 1)),
    st.just(time(12)),
)
NAMES = sorted({entry.field.name for entry in entries(CONFIG)})
KEYS = st.one_of(st.sampled_from(NAMES), st.text(max_size=5))
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def _strategy(table: Table) -> st.SearchStrategy:
    """Tables in which any setting may have any value, and most have a plausible shape."""
    return st.fixed_dictionaries(
        {}, optional={each.name: _field_strategy(each.kind) for each in table.fields}
    ) | st.dictionaries(KEYS, ANYTHING, max_size=4)


def _field_strategy(kind) -> st.SearchStrategy:
    if isinstance(kind, Table):
        return _strategy(kind) | ANYTHING
    if isinstance(kind, Listing):
        return st.lists(_field_strategy(kind.of), max_size=2) | ANYTHING
    return SCALARS | ANYTHING


def _places(value: object, place: str = "") -> set[str]:
    inner: list[tuple[str, object]] = []
    if isinstance(value, dict):
        inner = [(inside(place, key), item) for key, item in value.items()]
    elif isinstance(value, list):
        inner = [(f"{place}[{i}]", item) for i, item in enumerate(value)]
    return {place}.union(*(_places(item, where) for where, item in inner))


def _problems(value: object) -> list[Problem]:
    try:
        read(CONFIG, value)
    except ConfigError as error:
        return error.problems or pytest.fail("refused without saying why")
    return []


@given(value=_strategy(CONFIG) | ANYTHING)
def test_any_value_is_read_or_refused_with_places_that_exist(value):
    problems = _problems(value)
    assert {problem.place for problem in problems} <= _places(value)
    assert all(str(problem).isprintable() for problem in problems)


ROOF = Table(
    build=lambda height, tiles: (height, tiles),
    fields=[
        Field(name="height", kind=Number(low=1, high=9), default=2.0, get=itemgetter(0), doc=""),
        Field(name="tiles", kind=Text(), default="clay", get=itemgetter(1), doc=""),
    ],
)


@settings
class Home:
    """A class that declares its settings."""

    name: str = setting("what it is called", Text())
    kind: Literal["hut", "tower"] = setting("its shape", default="hut")
    is_open: bool = setting("whether it is open", default=False, name="open", restart=True)
    roof: tuple[float, str] = inline(ROOF, default=(2.0, "clay"), restart=True)
    rooms: dict[str, float] = setting(
        "names and sizes", Mapped(Text(), Number(low=0, high=9), "names and sizes"), default={}
    )
    floors: int = setting(
        "how many", Number(low=1, high=99, whole=True), default=1, only=("tower",)
    )
    visits: int = 0


HOME = Table.of(Home, tag="kind")


def test_a_class_declares_its_settings():
    home = read(HOME, {"name": "a", "open": True, "tiles": "slate"})
    assert home == Home(name="a", is_open=True, roof=(2.0, "slate"))
    assert HOME.plain(home) == {
        "name": "a", "kind": "hut", "open": True, "height": 2.0, "tiles": "slate", "rooms": {},
    }  # fmt: skip
    assert read(HOME, HOME.plain(home)) == home


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        pytest.param({}, "has no name, needs text, not empty", id="without a default: required"),
        pytest.param({"name": "a", "is_open": True}, "is_open: is not a setting", id="its name"),
        pytest.param({"name": "a", "visits": 1}, "visits: is not a setting", id="not declared"),
        pytest.param({"name": "a", "kind": "den"}, 'must be "hut" or "tower"', id="a Literal"),
        pytest.param({"name": "a", "open": 1}, "open: is 1, must be true or false", id="a bool"),
        pytest.param({"name": "a", "height": 0}, "height: is 0, must be 1 or more", id="inline"),
        pytest.param(
            {"name": "a", "floors": 2},
            'floors: means nothing to kind = "hut", only to tower',
            id="only for another kind, by default",
        ),
    ],
)
def test_mistakes_in_declared_settings_are_found(value, mistake):
    (found,) = mistakes(value, HOME)
    assert mistake in found


def test_defaults_that_can_change_are_not_shared():
    assert Home(name="a").rooms is not Home(name="b").rooms


def test_a_table_names_what_only_a_start_takes_up_and_overrides_the_rest():
    home = Home(name="a", roof=(3.0, "clay"))
    assert HOME.restart_values(home) == {"open": False, "height": 3.0, "tiles": "clay"}
    assert HOME.override(home, {"tiles": "tin"}) == Home(name="a", roof=(3.0, "tin"))


def test_what_a_table_is_read_into_says_what_is_wrong_with_it():
    def refuse(_pairs):
        raise ConfigError("has too many doors")

    doors = Mapped(Text(), Flag(), "doors", into=refuse)
    table = Table(fields=[Field(name="doors", kind=doors, doc="")], build=lambda doors: doors)
    assert mistakes({"doors": {}}, table) == ["doors: has too many doors"]
