"""The sets of `field`: requests are as each API wants them, and the sets share nothing."""

from __future__ import annotations

import ast
import json
from collections import Counter
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from bench.loops import field
from bench.loops.answer import read_answer
from bench.loops.field.run import CLEARED, RECENT, WINDOW

from looptrap.dialect.body import read_body

HALVES = tuple(field.HALVES)
PAIRS = tuple(combinations(HALVES, 2))
SHARED_CHARS = 24
"""Literals of this length and more belong to one half only, but for lists of forms."""
PRINTED = {
    "### Page state\n- Page URL:",
    "%a, %d %b %Y %H:%M:%S GMT",
    "&& GIT_EDITOR=true git rebase --continue",
    "' is possibly 'undefined'.",
    ": Temporary failure in name resolution",
    "=========================== short test summary info ============================",
    "CONFLICT (content): Merge conflict in",
    "ERROR:\nNo replacement was performed, old_str `",
    "Failed to edit, 0 occurrences found for old_string in",
    "GIT_EDITOR=true git rebase --continue",
    "ModuleNotFoundError: No module named '",
    "String to replace not found in file.\nString:",
    "Successfully rebased and updated refs/heads/",
    "The tool execution failed with the following error:\n<error>\nThe SEARCH block:",
    "Total reclaimed space: 0B",
    "apply_patch verification failed: Failed to find expected lines in",
    "docker builder prune -af",
}
"""What real tools are told and print: authors who know nothing of each other write the same."""
FORMS = {" ".join(one.forms) for half in HALVES for one in field.HALVES[half].TEMPLATES}


@cache
def scenarios(half, seed=0):
    return field.scenarios(seed, half)


def without_marks(message):
    """Return a message without the mark for the cache, which moves from request to request."""
    if not isinstance(message.get("content"), list):
        return message
    blocks = [{k: v for k, v in one.items() if k != "cache_control"} for one in message["content"]]
    return {**message, "content": blocks}


def history(step):
    body = step.body
    return [
        without_marks(one)
        for one in body.get("messages") or body.get("input") or body.get("contents")
    ]


def is_under_way(step):
    """Return whether a history has something that the model said."""
    kinds = {message.get("role") or message["type"] for message in history(step)}
    return bool(kinds & {"assistant", "model", "function_call", "custom_tool_call", "reasoning"})


def is_prefix(short, long):
    """Return whether a history goes on from another, whose last message may have grown."""
    return len(short) < len(long) and short[:-1] == long[: len(short) - 1]


def calls_and_results(step):
    """Return the ids of calls and of results with their places, and the tools that are called."""
    calls, results, names = [], [], set()
    for place, message in enumerate(history(step)):
        for call in message.get("tool_calls") or ():
            calls.append((place, call["id"]))
            names.add(call["function"]["name"])
        if message.get("role") == "tool":
            results.append((place, message["tool_call_id"]))
        blocks = message.get("content")
        for block in blocks if isinstance(blocks, list) else ():
            if block["type"] == "tool_use":
                calls.append((place, block["id"]))
                names.add(block["name"])
            elif block["type"] == "tool_result":
                results.append((place, block["tool_use_id"]))
        for part in message.get("parts", ()):
            if "functionCall" in part:
                calls.append((place, part["functionCall"]["id"]))
                names.add(part["functionCall"]["name"])
            elif "functionResponse" in part:
                results.append((place, part["functionResponse"]["id"]))
        if message.get("type") in ("function_call", "custom_tool_call"):
            calls.append((place, message["call_id"]))
            names.add(message["name"])
        elif str(message.get("type")).endswith("call_output"):
            results.append((place, message["call_id"]))
    return calls, results, names


def tool_names(body):
    names = set()
    for one in body.get("tools", ()):
        for spec in one.get("functionDeclarations", [one]):
            names.add(spec.get("name") or spec["function"]["name"])
    return names


@pytest.mark.parametrize("half", HALVES)
class TestRequests:
    def test_each_result_follows_its_call(self, half):
        for one in scenarios(half):
            for step in one.steps:
                calls, results, _ = calls_and_results(step)
                if "previous_response_id" not in step.body:
                    assert [id for _, id in calls] == [id for _, id in results], one.name
                    pairs = zip(calls, results, strict=True)
                    assert all(call < result for (call, _), (result, _) in pairs), one.name

    def test_called_tools_are_declared(self, half):
        for one in scenarios(half):
            for step in one.steps:
                called = {call.name for call in read_answer(step).calls}
                assert called | calls_and_results(step)[2] <= tool_names(step.body), one.name

    def test_roles_alternate_where_the_api_wants_it(self, half):
        for one in scenarios(half):
            for step in one.steps:
                if step.path == "/v1/messages" or "contents" in step.body:
                    roles = [message["role"] for message in history(step)]
                    other = "assistant" if step.path == "/v1/messages" else "model"
                    wanted = [("user", other)[place % 2] for place in range(len(roles))]
                    assert roles == wanted, one.name
                    assert roles[-1] == "user", one.name

    def test_results_come_directly_after_the_message_with_their_calls(self, half):
        for one in scenarios(half):
            for step in one.steps:
                if step.path == "/v1/messages" or "contents" in step.body:
                    calls, results, _ = calls_and_results(step)
                    assert [(place + 1, id) for place, id in calls] == results, one.name

    def test_the_dialects_read_them(self, half):
        for one in scenarios(half):
            last = one.steps[-1]
            assert read_body(json.dumps(last.body).encode(), last.path).messages, one.name

    def test_each_answer_says_something(self, half):
        for one in scenarios(half):
            for step in one.steps:
                said = read_answer(step)
                assert said.text or said.calls, one.name

    def test_shown_calls_were_answered_before(self, half):
        for one in scenarios(half):
            answered: dict[str, float] = {}
            for step in one.steps:
                calls, results, _ = calls_and_results(step)
                for _, id in calls + results:
                    assert answered[id] <= step.at, one.name
                answered |= dict.fromkeys(ids_in(step), step.at + step.takes)


def ids_in(step):
    """Return the ids of the calls in an answer."""
    if "enerateContent" in step.path:
        event = json.loads(step.answer.removeprefix(b"data: ").split(b"\n\n")[0])
        parts = event["candidates"][0]["content"]["parts"]
        return [part["functionCall"]["id"] for part in parts if "functionCall" in part]
    return [call.id for call in read_answer(step).calls]


@pytest.mark.parametrize("half", HALVES)
class TestHistories:
    def test_a_whole_one_goes_on_from_an_earlier_request(self, half):
        for one in scenarios(half):
            if one.shows != "whole":
                continue
            for number, step in enumerate(one.steps):
                if is_under_way(step):
                    assert any(
                        is_prefix(history(earlier), history(step))
                        and earlier.at + earlier.takes <= step.at
                        for earlier in one.steps[:number]
                    ), (one.name, number)

    def test_a_kept_one_names_the_response_before(self, half):
        for one in scenarios(half):
            if one.shows != "kept":
                continue
            known: set[str] = set()
            for number, step in enumerate(one.steps):
                if number:
                    assert step.body["previous_response_id"] in known, one.name
                    assert not calls_and_results(step)[0], one.name
                known.add(read_answer(step).id)

    def test_a_trimmed_one_has_few_rounds(self, half):
        for one in scenarios(half):
            if one.shows == "trimmed":
                first = history(one.steps[0])[:1]
                for step in one.steps:
                    assert len(history(step)) <= 2 + 3 * WINDOW
                    assert str(first[0])[:-2] in str(history(step)), one.name

    def test_an_elided_one_has_the_latest_results_only(self, half):
        for one in scenarios(half):
            if one.shows == "elided" and calls_and_results(one.steps[-1])[1]:
                shown = len(calls_and_results(one.steps[-1])[1])
                assert json.dumps(one.steps[-1].body).count(CLEARED) >= shown - RECENT

    def test_a_compacted_one_gets_shorter_on_the_way(self, half):
        found = [one for one in scenarios(half) if one.shows == "compacted"]
        assert found
        for one in found:
            lengths = [len(history(step)) for step in one.steps]
            assert any(after < before for before, after in pairwise(lengths))

    def test_a_prompt_has_no_history(self, half):
        for one in scenarios(half):
            if one.shows == "prompt":
                roles = [message["role"] for step in one.steps for message in history(step)]
                assert "assistant" not in roles, one.name
                assert "model" not in roles, one.name


@pytest.mark.parametrize("half", HALVES)
class TestLabels:
    def test_there_are_enough_of_both(self, half):
        found = scenarios(half)
        assert len(field.HALVES[half].TEMPLATES) >= 25
        assert len({one.harness for one in found}) >= 12
        assert sum(one.is_loop for one in found) >= 100
        assert sum(not one.is_loop for one in found) >= 160

    def test_each_loop_has_a_twin_of_its_kind_and_form(self, half):
        honest = {(one.kind, one.harness) for one in scenarios(half) if not one.is_loop}
        loops = {(one.kind, one.harness) for one in scenarios(half) if one.is_loop}
        assert loops <= honest

    def test_loops_waste_many_steps_after_they_begin(self, half):
        for one in scenarios(half):
            if one.is_loop:
                assert 0 < one.begins <= len(one.steps) - 12, one.name

    def test_honest_runs_are_of_some_length(self, half):
        for one in scenarios(half):
            if not one.is_loop:
                assert len(one.steps) >= 9, one.name

    def test_names_are_unique_and_times_ascend(self, half):
        names = Counter(one.name for one in scenarios(half))
        assert max(names.values()) == 1
        for one in scenarios(half):
            times = [step.at for step in one.steps]
            assert times == sorted(times), one.name

    def test_a_seed_draws_the_same_and_another_draws_other_texts(self, half):
        again, others = field.scenarios(0, half), scenarios(half, 1)
        for one, same, other in zip(scenarios(half), again, others, strict=True):
            assert one == same
            assert one.name == other.name
            assert one.steps[-1].body != other.steps[-1].body, one.name


def literals(half):
    """Return the longer texts of the modules of a half."""
    folder = Path(field.__file__).parent / half
    found = set()
    for path in folder.glob("[!_]*.py"):
        tree = ast.parse(path.read_text())
        found |= {
            node.value.strip()
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    return {text for text in found if len(text) >= SHARED_CHARS and " " in text} - FORMS - PRINTED


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_share_no_template(one, other):
    ours, theirs = (
        {template.name for template in field.HALVES[half].TEMPLATES} for half in (one, other)
    )
    assert ours
    assert not ours & theirs


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_share_no_text(one, other):
    assert literals(one)
    assert not literals(one) & literals(other)


def test_the_halves_of_one_author_share_their_kinds():
    first, second = ({one.kind for one in scenarios(half)} for half in ("first", "second"))
    assert first <= second
