"""Laws of the scenarios `held_out` of LoopBench."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from bench.loops.held_out import scenarios
from bench.loops.scenario import Scenario, Step

from looptrap.dialect.body import read_body

pytestmark = pytest.mark.slow

SHOWS = {"whole", "trimmed", "elided", "compacted", "kept", "prompt"}
AGENTS = {
    "Claude Code",
    "Codex",
    "Gemini CLI",
    "opencode",
    "Cline",
    "Roo Code",
    "OpenHands",
    "SWE-agent",
    "mini-swe-agent",
    "LangGraph",
    "CrewAI",
    "OpenAI Agents SDK",
    "browser-use",
    "MCP host",
}
VARYING = re.compile(r"0x[0-9a-f]+|\b(?=[0-9a-f]*\d)[0-9a-f]{4,}\b|\d+")
SUMMARIES = ("Write a summary of this conversation", "The conversation so far was summarised")
CLEARED = "[Old tool result content cleared]"
OBSERVED = "\nObservation: "


@pytest.fixture(scope="module")
def split() -> list[Scenario]:
    return scenarios()


@pytest.fixture(scope="module")
def loops(split: list[Scenario]) -> list[Scenario]:
    return [one for one in split if one.is_loop]


@pytest.fixture(scope="module")
def honest(split: list[Scenario]) -> list[Scenario]:
    return [one for one in split if not one.is_loop]


# what a request shows

IDS = {"type", "role", "id", "call_id", "tool_use_id", "tool_call_id", "name"}
SEALS = {"signature", "thoughtSignature", "encrypted_content"}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inside in value.items():
            if key not in IDS | SEALS:
                yield from _strings(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _strings(inside)


def _heard(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield all that a request tells the model: results, and what users said."""
    for message in (body.get("messages") or body.get("input") or body.get("contents")) or ():
        kind, role = message.get("type", "message"), message.get("role")
        if kind.endswith("_output") or role in ("user", "tool"):
            yield from _strings({key: message[key] for key in _INSIDE if key in message})
        elif role == "assistant":
            said = message.get("content")
            if isinstance(said, str) and OBSERVED in said:
                yield said.split(OBSERVED, 1)[1]


_INSIDE = ("content", "output", "parts")


@cache
def _masked_lines(text: str) -> frozenset[str]:
    if text.startswith(SUMMARIES) or text == CLEARED:
        return frozenset()
    return frozenset(VARYING.sub("#", line) for line in text.split("\n"))


def _new_lines(scenario: Scenario) -> Iterator[tuple[int, set[str]]]:
    """Yield for each step the masked lines that no step before it showed."""
    seen: set[str] = set()
    for index, step in enumerate(scenario.steps):
        shown: set[str] = set()
        for text in _heard(step.body):
            shown |= _masked_lines(text)
        yield index, shown - seen
        seen |= shown


# laws


def test_there_are_enough_loops_and_honest_runs(loops, honest):
    assert len(loops) >= 90
    assert len(honest) >= 120


def test_names_are_unique(split):
    assert max(Counter(one.name for one in split).values()) == 1


def test_the_same_seed_gives_the_same_scenarios(split):
    assert scenarios(0) == split


def test_another_seed_gives_other_runs_of_the_same_names(split):
    others = scenarios(1)
    assert [one.name for one in others] == [one.name for one in split]
    assert others != split


def test_each_kind_of_loop_has_at_least_as_many_twins(loops, honest):
    twins = Counter(one.kind for one in honest)
    for kind, count in Counter(one.kind for one in loops).items():
        assert twins[kind] >= count, kind


def test_each_loop_has_a_twin_in_its_harness(loops, honest):
    pairs = {(one.kind, one.harness) for one in honest}
    assert {(one.kind, one.harness) for one in loops} <= pairs


def test_labels_are_known(split):
    assert {one.shows for one in split} == SHOWS
    assert {one.difficulty for one in split} == {"easy", "medium", "hard"}
    assert all(one.harness and one.kind for one in split)


def test_many_harnesses_send_them(split):
    assert {one.harness for one in split} >= AGENTS


def test_all_four_dialects_are_spoken(loops, honest):
    for some in (loops, honest):
        paths = {step.path for one in some for step in one.steps}
        assert len(paths) == 4


@pytest.mark.parametrize("seed", [0, 7])
def test_lengths_are_those_of_real_runs(seed):
    for one in scenarios(seed):
        count = len(one.steps)
        if one.is_loop:
            assert 25 <= count <= 60, one.name
            assert 2 <= one.begins <= count - 20, one.name
        else:
            assert 15 <= count <= 45, one.name


def test_times_go_on(split):
    for one in split:
        times = [step.at for step in one.steps]
        assert times == sorted(times), one.name
        assert all(1 < step.takes < 30 for step in one.steps), one.name


def test_bodies_are_read_in_their_dialect(split):
    for one in split:
        for step in one.steps:
            call = read_body(json.dumps(step.body).encode(), step.path)
            assert not call.is_opaque, one.name
            assert call.messages, one.name


def test_answers_are_those_of_the_provider(split):
    for one in split:
        for step in one.steps:
            if step.body.get("stream"):
                assert b"data: " in step.answer, one.name
            else:
                assert isinstance(json.loads(step.answer), dict), one.name


def _calls_and_results(step: Step) -> Iterator[tuple[str, str]]:
    """Yield the ids of calls and results in their order."""
    for message in step.body.get("messages") or step.body.get("input") or ():
        for call in message.get("tool_calls") or ():
            yield "call", call["id"]
        if message.get("role") == "tool":
            yield "result", message["tool_call_id"]
        if "call_id" in message:
            kind = "result" if message["type"].endswith("_output") else "call"
            yield kind, message["call_id"]
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block["type"] == "tool_use":
                yield "call", block["id"]
            elif block["type"] == "tool_result":
                yield "result", block["tool_use_id"]


def test_calls_precede_results(split):
    for one in split:
        for step in (one.steps[len(one.steps) // 2], one.steps[-1]):
            called: set[str] = set()
            answered: set[str] = set()
            for kind, name in _calls_and_results(step):
                if kind == "call":
                    called.add(name)
                else:
                    assert name in called or one.shows == "kept", one.name
                    answered.add(name)
            assert called <= answered or one.shows == "kept", one.name


@pytest.mark.parametrize("seed", [0, 3])
def test_loops_bring_nothing_new_once_they_begin(seed):
    for one in scenarios(seed):
        if one.is_loop:
            for index, lines in _new_lines(one):
                assert index < one.begins or not lines, (one.name, index, lines)


def _texts(step: Step) -> set[str]:
    """Return all masked texts of a request: results, arguments of calls, and what was said."""
    messages = step.body.get("messages") or step.body.get("input") or step.body.get("contents")
    return {_masked(text) for text in _strings(messages)}


@cache
def _masked(text: str) -> str:
    return VARYING.sub("#", text)


def test_honest_runs_bring_something_new_all_the_time(honest):
    for one in honest:
        last, seen = 0, set[str]()
        for index, step in enumerate(one.steps):
            shown = _texts(step)
            if shown - seen:
                last = index
            seen |= shown
            assert index - last <= 8, (one.name, index)


def test_loops_bring_something_new_just_before_they_begin(loops):
    for one in loops:
        seen: set[str] = set()
        for step in one.steps[: max(one.begins - 3, 1)]:
            seen |= _texts(step)
        late = {text for step in one.steps[: one.begins] for text in _texts(step)}
        assert late - seen, one.name
