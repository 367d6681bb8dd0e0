"""The laws of the tales: what each of these scenarios must be."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest
from bench.loops.scenario import Scenario, Step
from bench.loops.tales import scenarios
from bench.loops.tales.frameworks import HARNESSES

from looptrap.dialect.body import read_body
from looptrap.dialect.model import Call, Message

pytestmark = pytest.mark.slow


@cache
def split() -> list[Scenario]:
    """Return all scenarios: made when a test needs them, not when tests are collected."""
    return scenarios()


def loops() -> list[Scenario]:
    return [scenario for scenario in split() if scenario.is_loop]


def honest() -> list[Scenario]:
    return [scenario for scenario in split() if not scenario.is_loop]


RESULTS_AS_TEXT = {"cline", "mini-swe-agent", "swe-agent-text", "smolagents"}
"""Harnesses whose results are messages of the user."""

MASKED = re.compile(r"0x[0-9a-f]+|[0-9a-f]*\d[0-9a-f]*", re.IGNORECASE)
ECHOED_HEAD = re.compile(r"^\[\w+ for '.*?'\] Result:", re.DOTALL)
REMINDER = re.compile(r"\s*<system-reminder>.*?</system-reminder>", re.DOTALL)
PAGE = re.compile(r"<browser_state>(.*?)</browser_state>", re.DOTALL)
OBSERVATION = re.compile(
    r"(?:\nObservation: |\[\[ ## observation_\d+ ## \]\]\n)(.*?)"
    r"(?=\n\n\[\[ ## thought_|\n\nRespond with|$)",
    re.DOTALL,
)


def read_step(step: Step) -> Call:
    return read_body(json.dumps(step.body).encode(), step.path, caller=step.caller)


def without_echo(text: str, arguments: str) -> str:
    """Return a result without what it only repeats of its call."""
    try:
        sent = json.loads(arguments)
    except ValueError:
        sent = arguments
    values = [str(value) for value in sent.values()] if isinstance(sent, dict) else [str(sent)]
    lines = {line.lstrip("+-").strip() for value in values for line in value.split("\n")}
    for line in sorted((line for line in lines if len(line) > 2), key=len, reverse=True):
        text = text.replace(line, "@")
    return text


def masked(text: str) -> str:
    text = MASKED.sub("#", REMINDER.sub("", text))
    return re.sub(r"[\s@]+", "", ECHOED_HEAD.sub("", text))


@cache
def _masked_result(text: str, arguments: str) -> str:
    return masked(without_echo(text, arguments))


def observations(messages: list[Message], harness: str) -> set[str]:
    """Return what an agent sees of the world in these messages, without its noise."""
    cleared = HARNESSES[harness].cleared if harness in HARNESSES else ""
    calls = {call.id: call.arguments for message in messages for call in message.calls}
    seen = {
        _masked_result(result.text, calls.get(result.call_id, ""))
        for message in messages
        for result in message.results
        if result.text != cleared
    }
    for message in messages:
        if harness in RESULTS_AS_TEXT and message.role == "user":
            seen.add(_masked_result(message.text, ""))
        if harness == "browser-use":
            seen |= {_masked_result(found, "") for found in PAGE.findall(message.text)}
        if harness in ("crewai", "dspy"):
            seen |= {_masked_result(found, "") for found in OBSERVATION.findall(message.text)}
    return seen - {_masked_result(cleared, "")}


def test_that_a_seed_makes_the_same_split_again() -> None:
    again = scenarios(0)
    assert [s.name for s in again] == [s.name for s in split()]
    assert all(
        json.dumps([step.body for step in one.steps]) == json.dumps([s.body for s in two.steps])
        and [step.answer for step in one.steps] == [step.answer for step in two.steps]
        and [step.at for step in one.steps] == [step.at for step in two.steps]
        for one, two in zip(again[::7], split()[::7], strict=True)
    )


def test_that_another_seed_makes_another_split() -> None:
    other = scenarios(1)
    assert [s.name for s in other] == [s.name for s in split()]
    assert all(
        [step.at for step in one.steps] != [step.at for step in two.steps]
        for one, two in zip(other, split(), strict=True)
    )


def test_that_names_are_unique() -> None:
    assert max(Counter(s.name for s in split()).values()) == 1


def test_that_the_split_is_large_enough() -> None:
    assert len(loops()) >= 100
    assert len(honest()) >= 120
    assert len(split()) >= 230
    assert len({s.harness for s in split()}) >= 12


def test_that_every_kind_has_loops_and_honest_runs() -> None:
    assert {s.kind for s in loops()} == {s.kind for s in honest()}


def test_that_every_way_to_show_a_run_has_loops_and_honest_runs() -> None:
    ways = {"whole", "trimmed", "elided", "compacted", "kept", "prompt"}
    assert {s.shows for s in loops()} == {s.shows for s in honest()} == ways
    assert {s.difficulty for s in loops()} == {s.difficulty for s in honest()}
    assert {s.difficulty for s in split()} == {"easy", "medium", "hard"}


def test_that_all_dialects_occur_and_chat_and_anthropic_most() -> None:
    counts = Counter(read_step(s.steps[0]).dialect for s in split())
    assert set(counts) == {"openai_chat", "anthropic", "openai_responses", "gemini"}
    assert {name for name, _ in counts.most_common(2)} == {"openai_chat", "anthropic"}


def test_that_a_scenario_is_well_formed() -> None:
    for scenario in split():
        check_a_scenario_is_well_formed(scenario)


def check_a_scenario_is_well_formed(scenario: Scenario) -> None:
    low, high = (25, 70) if scenario.is_loop else (15, 60)
    assert low <= len(scenario.steps) <= high
    times = [step.at for step in scenario.steps]
    assert times == sorted(times)
    assert all(1 <= step.takes <= 40 for step in scenario.steps)
    assert all(step.answer for step in scenario.steps)
    for step in scenario.steps:
        call = read_step(step)
        assert not call.is_opaque
        assert call.messages
        assert call.generates
        _check_order(call)


def _check_order(call: Call) -> None:
    """Calls precede their results, and have one each, unless the provider keeps the history."""
    made: list[str] = []
    got: list[str] = []
    if call.dialect == "gemini":  # only results have ids, or nothing has
        _check_names(call)
        return
    for message in call.messages:
        made += [one.id for one in message.calls]
        for result in message.results:
            assert call.chain or result.call_id in made
            got.append(result.call_id)
    assert len(set(made)) == len(made)
    assert len(set(got)) == len(got)
    assert call.chain or set(made) == set(got)


def _check_names(call: Call) -> None:
    """Each message with calls is followed by one with the results of the same tools."""
    for message, after in pairwise(call.messages):
        made = [one.name for one in message.calls]
        assert made == [result.name for result in after.results] or not made


def test_that_a_loop_brings_nothing_new_from_where_it_begins() -> None:
    for scenario in loops():
        check_a_loop_brings_nothing_new_from_where_it_begins(scenario)


def check_a_loop_brings_nothing_new_from_where_it_begins(scenario: Scenario) -> None:
    assert 2 <= scenario.begins <= len(scenario.steps) - 10
    seen: set[str] = set()
    for number, step in enumerate(scenario.steps):
        shown = observations(read_step(step).messages, scenario.harness)
        if number >= scenario.begins:
            assert shown <= seen, f"step {number} shows {next(iter(shown - seen))!r}"
        seen |= shown


def test_that_an_honest_run_goes_on() -> None:
    for scenario in honest():
        check_an_honest_run_goes_on(scenario)


def check_an_honest_run_goes_on(scenario: Scenario) -> None:
    """Never do two dozen requests in a row say nothing new, unless users or hours lie between."""
    seen: set[str] = set()
    since = 0
    for before, step in pairwise(scenario.steps):
        texts = {text for message in read_step(step).messages for text in _texts(message)}
        is_apart = step.at - before.at > 240 or step.headers != before.headers
        since = 0 if texts - seen or is_apart else since + 1
        seen |= texts
        assert since < 24


def _texts(message: Message) -> list[str]:
    calls = [f"{call.name} {call.arguments}" for call in message.calls]
    return [message.text, *calls, *(result.text for result in message.results)]
