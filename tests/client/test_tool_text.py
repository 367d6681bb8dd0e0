"""Arguments and results of tools as texts: what counts as the same, and what is kept of them."""

import enum
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import pytest
from agents import RunContextWrapper
from agents.tool_context import ToolContext
from hypothesis import given
from hypothesis import strategies as st
from langchain.tools import InjectedToolCallId, ToolRuntime
from langchain_core.runnables import RunnableConfig
from mcp.server.mcpserver import Context
from pydantic import BaseModel
from pydantic_ai import RunContext

from looptrap.client.tool_text import (
    MAX_ARGUMENT_CHARS,
    MAX_RESULT_CHARS,
    TAIL_CHARS,
    ArgumentEncoder,
    failure_text,
    result_text,
)
from looptrap.detect.round import Round
from looptrap.dialect.model import Message, ToolCall, ToolResult


def spelt(function, *args, **named):
    return ArgumentEncoder(function).encode(args, named)


def read_log(pump, lines=10, *more, unit="bar", **options):
    """Take arguments of every kind."""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(((5,), {}), ((), {"pump": 5}), id="by place or by name"),
        pytest.param(((5,), {}), ((5, 10), {"unit": "bar"}), id="defaults written out"),
        pytest.param(((5,), {"a": 1, "b": 2}), ((5,), {"b": 2, "a": 1}), id="order of options"),
        pytest.param((({"a": 1, "b": 2},), {}), (({"b": 2, "a": 1},), {}), id="order of keys"),
        pytest.param((({3, 1, 2},), {}), (({2, 3, 1},), {}), id="sets"),
        pytest.param(((5, 10, 1, 2), {}), ((5, 10, 1, 2), {}), id="further places"),
    ],
)
def test_equal_calls_are_spelt_alike(one, other):
    assert spelt(read_log, *one[0], **one[1]) == spelt(read_log, *other[0], **other[1])


class Unit(enum.Enum):
    BAR = "bar"
    PASCAL = "pascal"


@dataclass
class Span:
    first: int
    last: int


class Query(BaseModel):
    text: str


class Silent:
    """Says nothing of itself."""


LONG = "x" * 9_000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(5, 6, id="numbers"),
        pytest.param("5", 5, id="a text and a number"),
        pytest.param(True, 1, id="a truth and a number"),
        pytest.param(None, "null", id="nothing and a text"),
        pytest.param([1, [2]], [1, [3]], id="lists"),
        pytest.param(b"a", b"b", id="bytes"),
        pytest.param(2**70, 2**70 + 1, id="large numbers"),
        pytest.param(Decimal("1.1"), Decimal("1.2"), id="decimals"),
        pytest.param(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), id="days"),
        pytest.param(Path("/a"), Path("/b"), id="paths"),
        pytest.param(Unit.BAR, Unit.PASCAL, id="enums"),
        pytest.param(Span(1, 2), Span(1, 3), id="dataclasses"),
        pytest.param(Query(text="a"), Query(text="b"), id="models of pydantic"),
        pytest.param({"q": Query(text="a")}, {"q": Query(text="b")}, id="models in a dictionary"),
        pytest.param({1: "a"}, {1: "b"}, id="keys that are numbers"),
        pytest.param(OrderedDict(a=1), OrderedDict(a=2), id="mappings"),
        pytest.param("\ud800a", "\ud800b", id="halves of characters"),
        pytest.param({"a": Silent(), "b": 1}, {"a": Silent(), "b": 2}, id="beside unreadable ones"),
        pytest.param(
            "x" * 9_000 + "a" + "x" * 900, "x" * 9_000 + "b" + "x" * 900, id="deep inside"
        ),
    ],
)
def test_different_arguments_are_spelt_differently(one, other):
    assert spelt(read_log, one) != spelt(read_log, other)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(Silent, id="an object without words"),
        pytest.param(lambda: [Silent(), 5], id="one in a list"),
        pytest.param(lambda: print, id="a function"),
        pytest.param(lambda: (n for n in ()), id="a generator"),
        pytest.param(lambda: float("nan"), id="not a number"),
    ],
)
def test_what_cannot_be_written_has_a_lasting_stand_in(make):
    assert spelt(read_log, make()) == spelt(read_log, make())


def test_what_holds_itself_is_no_trouble():
    knot = []
    knot.append(knot)
    assert spelt(read_log, knot, unit="bar") == spelt(read_log, knot)


def test_what_does_not_fit_the_function_is_spelt_too():
    assert spelt(lambda pump: pump, 5, 6) != spelt(lambda pump: pump, 5, 7)
    assert spelt(lambda pump: pump, bump=5) != spelt(lambda pump: pump, bump=6)


class OfAgents(ToolContext):
    def __init__(self, step):
        self.step = step


class OfPydanticAi(RunContext):
    def __init__(self, step):
        self.step = step


@pytest.mark.parametrize("kind", [OfAgents, OfPydanticAi], ids=["openai-agents", "pydantic-ai"])
def test_what_frameworks_hand_over_makes_no_difference(kind):
    def read(context, pump):
        pass

    assert spelt(read, kind(1), 5) == spelt(read, kind(2), 5)
    assert spelt(read, kind(1), 5) != spelt(read, kind(1), 6)


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param(RunContext, id="pydantic-ai"),
        pytest.param(RunContext[int], id="pydantic-ai, with its dependencies"),
        pytest.param(RunContextWrapper[int] | None, id="openai-agents"),
        pytest.param(Context, id="mcp"),
        pytest.param(ToolRuntime, id="langgraph"),
        pytest.param(RunnableConfig, id="langchain"),
        pytest.param(Annotated[str, InjectedToolCallId], id="langchain, the id of a call"),
    ],
)
def test_what_frameworks_hand_over_is_told_by_its_annotation(annotation):
    def read(given: annotation, pump: int):
        pass

    assert spelt(read, "call_1", 5) == spelt(read, "call_2", 5)
    assert spelt(read, "call_1", 5) != spelt(read, "call_1", 6)


def test_other_annotations_hand_nothing_over():
    def read(given: Annotated[str, "the pump"], spans: list[Span] | None = None):
        pass

    assert spelt(read, "a") != spelt(read, "b")
    assert spelt(read, "a", [Span(1, 2)]) != spelt(read, "a", [Span(1, 3)])


class TestObjects:
    def test_the_same_object_is_the_same_whatever_it_holds(self):
        class Pump:
            def read(self):
                pass

        pump = Pump()
        before = spelt(Pump.read, pump)
        pump.reads = 1
        assert spelt(Pump.read, pump) == before

    def test_another_object_is_another_also_where_the_first_lay(self):
        class Pump:
            def read(self):
                pass

        assert len({spelt(Pump.read, Pump()) for _ in range(50)}) == 50

    def test_one_that_cannot_be_followed_is_told_by_what_it_holds(self):
        @dataclass(slots=True)
        class Pump:
            number: int

            def read(self):
                pass

        assert spelt(Pump.read, Pump(1)) == spelt(Pump.read, Pump(1)) != spelt(Pump.read, Pump(2))


class TestResults:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            pytest.param("12 kg", "12 kg", id="a text as it is"),
            pytest.param(None, "null", id="nothing"),
            pytest.param({"b": 1, "a": [2]}, '{"a":[2],"b":1}', id="JSON, in one order"),
            pytest.param(Span(1, 2), '{"first":1,"last":2}', id="a dataclass"),
            pytest.param(Query(text="a"), '{"text":"a"}', id="a model of pydantic"),
            pytest.param(1j, '"1j"', id="by its own words"),
        ],
    )
    def test_are_written_as_histories_have_them(self, value, text):
        assert result_text(value) == text

    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(Silent, id="an object without words"),
            pytest.param(lambda: {"image": Silent()}, id="one among others"),
            pytest.param(lambda: (n for n in ()), id="a generator"),
            pytest.param(lambda: {(1, 2): Silent()}, id="what JSON cannot hold"),
        ],
    )
    def test_that_cannot_be_read_are_never_the_same(self, make):
        one, two = (answered(result_text(make())) for _ in range(2))
        assert not one.has_same_result(two)

    def test_an_exception_is_told_by_its_kind_and_words(self):
        assert failure_text(KeyError("pump")) == "KeyError: 'pump'"

    def test_one_that_cannot_say_anything_is_told_by_its_kind(self):
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError

        assert failure_text(Mute()) == "Mute: "


def answered(text):
    """Return a round with that result."""
    called = Message("assistant", "", (ToolCall("1", "read", "{}"),))
    return Round(called, [Message("tool", "", (), (ToolResult("1", text),))])


LOG = [f"2026-11-16 07:{n % 60:02}:00 pump {n % 9} took {n}ms" for n in range(1_000, 2_200)]


class TestLongResults:
    def test_are_not_kept(self):
        assert len(result_text("x" * 10_000_000)) < MAX_RESULT_CHARS + TAIL_CHARS + 40
        assert len(spelt(read_log, "x" * 10_000_000)) < MAX_ARGUMENT_CHARS + TAIL_CHARS + 40

    def test_keep_how_they_begin_and_end(self):
        text = result_text("Error: no such pump\n" + "x" * 9_000 + "\nexit code 1")
        assert text.startswith("Error: no such pump")
        assert text.endswith("exit code 1")

    @pytest.mark.parametrize(
        ("change", "is_same"),
        [
            pytest.param(lambda line: line, True, id="the same"),
            pytest.param(lambda line: line.replace(" 07:", " 08:"), True, id="other times"),
            pytest.param(lambda line: line.replace("ms", "0ms"), True, id="other durations"),
            pytest.param(lambda line: line.replace("pump 7", "pump 77"), False, id="other pumps"),
        ],
    )
    def test_are_compared_like_others(self, change, is_same):
        one, two = (answered(result_text("\n".join(lines))) for lines in (LOG, map(change, LOG)))
        assert one.has_same_result(two) is is_same

    def test_one_that_grows_is_another(self):
        one, two = (answered(result_text("\n".join(LOG[:end]))) for end in (1_000, 1_004))
        assert not one.has_same_result(two)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), plain, max_size=5))
def test_the_order_of_keys_never_counts(given):
    backwards = dict(reversed(given.items()))
    assert spelt(read_log, given) == spelt(read_log, backwards)
    assert result_text(given) == result_text(backwards)
