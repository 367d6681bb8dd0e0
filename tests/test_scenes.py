"""LoopBench's scenes: its requests are as the APIs and agents would have them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from bench.loops.answer import read_answer
from bench.loops.scenario import Scenario, Step
from bench.loops.scenes import prompts, scenarios
from bench.loops.scenes.cast import scenarios_of


@pytest.fixture(scope="module")
def made() -> list[Scenario]:
    return scenarios()


def test_loops_and_honest_runs_are_many_and_in_many_forms(made):
    loops = [one for one in made if one.is_loop]
    assert len(loops) >= 120
    assert len(made) - len(loops) >= 180
    assert len({one.harness for one in made}) >= 12
    assert {_dialect(one.steps[0]) for one in made} == {"chat", "messages", "responses", "gemini"}
    assert sum(not one.is_loop and len(one.steps) >= 60 for one in made) >= 20


def test_each_loop_has_an_honest_twin_of_its_kind_and_form(made):
    honest = {(one.kind, one.harness) for one in made if not one.is_loop}
    assert all((one.kind, one.harness) in honest for one in made if one.is_loop)


def test_names_are_unique(made):
    assert max(Counter(one.name for one in made).values()) == 1


def test_a_loop_goes_on_after_it_begins(made):
    wasted = {one.name: len(one.steps) - one.begins for one in made if one.is_loop}
    assert [name for name, calls in wasted.items() if calls < 12] == []


def test_times_increase(made):
    for one in made:
        times = [step.at for step in one.steps]
        assert times == sorted(times), one.name
        assert all(step.takes > 0 for step in one.steps)


def test_bodies_are_valid_for_their_api(made):
    for one in made:
        for step in one.steps:
            _CHECKS[_dialect(step)](step.body)


def test_every_called_tool_is_offered(made):
    for one in made:
        for step in one.steps:
            calls = {call.name for call in read_answer(step).calls}
            assert calls <= set(_offered(step.body)), one.name


def test_whole_histories_only_grow(made):
    for one in (one for one in made if one.shows == "whole"):
        before: list[object] = []
        for step in one.steps:
            key = next(key for key in ("messages", "contents", "input") if key in step.body)
            now = [one for one in step.body[key] if one.get("role") != "system"]
            assert now[: len(before)] == before, one.name
            before = now


@pytest.mark.slow
def test_another_seed_draws_other_texts_and_lengths(made):
    other = scenarios(1)
    same = [
        one.name
        for one, two in zip(made, other, strict=True)
        if one.steps[-1].body == two.steps[-1].body
    ]
    assert same == []
    assert [len(one.steps) for one in made] != [len(one.steps) for one in other]


def test_the_same_seed_draws_the_same(made):
    again = scenarios_of(prompts.PLOTS, 0)
    known = {one.name: one for one in made}
    assert all(one == known[one.name] for one in again)


def _dialect(step: Step) -> str:
    ends = {"completions": "chat", "messages": "messages", "responses": "responses"}
    return ends.get(step.path.rsplit("/", 1)[-1], "gemini")


def _offered(body) -> list[str]:
    return [
        name
        for tool in body.get("tools", ())
        for name in (
            [one["name"] for one in tool["functionDeclarations"]]
            if "functionDeclarations" in tool
            else [tool.get("name") or tool["function"]["name"]]
        )
    ]


def _check_chat(body):
    wanted: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == wanted.pop(0)
            assert isinstance(message["content"], str)
            continue
        assert not wanted
        assert message["role"] in ("system", "user", "assistant")
        assert message["content"] or message.get("tool_calls")
        for call in message.get("tool_calls", ()):
            json.loads(call["function"]["arguments"])
            wanted.append(call["id"])
    is_react = "\nObservation:" in body.get("stop", ())
    assert body["messages"][-1]["role"] in ("user", "tool", *(["assistant"] if is_react else []))
    assert not wanted


def _check_messages(body):
    wanted: list[str] = []
    for at, message in enumerate(body["messages"]):
        assert message["role"] == ("user", "assistant")[at % 2]
        assert message["content"]
        results = [one["tool_use_id"] for one in message["content"] if one["type"] == "tool_result"]
        assert results == wanted
        wanted = [one["id"] for one in message["content"] if one["type"] == "tool_use"]
        assert all(one["text"] for one in message["content"] if one["type"] == "text")
    assert body["messages"][-1]["role"] == "user"


def _check_responses(body):
    items = body["input"]
    assert items
    calls = [one["call_id"] for one in items if one["type"] == "function_call"]
    outputs = [one["call_id"] for one in items if one["type"] == "function_call_output"]
    if "previous_response_id" in body:
        assert not calls
    else:
        assert calls == outputs
    assert items[-1].get("role") == "user" or items[-1]["type"] == "function_call_output"


def _check_gemini(body):
    wanted: list[str] = []
    for at, message in enumerate(body["contents"]):
        assert message["role"] == ("user", "model")[at % 2]
        parts = message["parts"]
        results = [one["functionResponse"]["name"] for one in parts if "functionResponse" in one]
        assert results == wanted
        wanted = [one["functionCall"]["name"] for one in parts if "functionCall" in one]
    assert body["contents"][-1]["role"] == "user"


_CHECKS = {
    "chat": _check_chat,
    "messages": _check_messages,
    "responses": _check_responses,
    "gemini": _check_gemini,
}
