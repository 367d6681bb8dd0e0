"""A user message that comes back word for word is the harness's, and begins no turn."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.runs import Person, anthropic, bash, count, openai, says, trajectory
from tests.detect.signals.steps import LS, WORDS, case, in_both_dialects

from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read

NAG = "The night build waits for all of the tests. Look after every one of them."
OTHER_NAG = "Whatever the docs still need, add it to the list of open points."


def nagged(nag=NAG, turns=3):
    """Return turns of talk, each followed by the nag, or by what it returns for a number."""
    texts = [nag(number) if callable(nag) else nag for number in range(turns)]
    return [
        step
        for word, text in zip(WORDS, texts, strict=False)
        for step in (says(word), Person(text))
    ]


def with_state(number):
    return f"{NAG}\n\n# State\n1/15/2027, 8:{number:02}:07 AM\n{18_240 + 311 * number:,} tokens"


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case(nagged(), 3, id="three times"),
        case([*nagged(), LS], 4, id="three times, then a call"),
        case([LS, Person(NAG)] * 4, 4, id="after each call"),
        case(nagged(turns=2), 0, id="twice may be a person's"),
        case(nagged("Try that again."), 0, id="short ones are persons'"),
        case(nagged(lambda n: f"Now tell me all about the {WORDS[n]}."), 0, id="other words"),
        case(nagged(with_state, 4), 4, id="with a state of times and numbers below"),
        case(nagged(lambda n: f"Attempt {n}: {NAG}"), 3, id="with a counter"),
        case(nagged(lambda n: f"How many feet are {n} miles, roughly?"), 0, id="about a number"),
        case([says("Hm."), *[Person(NAG)] * 3], 0, id="never answered"),
        case(nagged()[:5] + nagged(OTHER_NAG)[1:2], 0, id="another one at last"),
        case(
            [step for n in range(3) for step in (*nagged(turns=1), *nagged(OTHER_NAG, 1))],
            6,
            id="two in turn",
        ),
        case([LS, Person("Now for the other files."), *nagged()], 3, id="back to a person"),
        case([*nagged(), Person("Let us do the docs."), LS], 1, id="a person spoke since"),
        case(nagged(NAG * 400), 3, id="a long one"),
    ],
)
def test_what_comes_before_a_harness_belongs_to_the_run(write, steps, expected):
    assert len(trajectory(write, steps).latest(99)) == expected


def steps_left(number):
    return f"Step {number} of 60, {61 - 3 * number % 7} minutes left."


def spent(number):
    return f"[{number} calls, ${0.013 * number:.3f}, {18_240 + 311 * number:,} tokens]"


def of_a_person(number):
    return f"Now the {WORDS[number]}, please."


@in_both_dialects
@pytest.mark.parametrize(
    ("message", "repeats", "rounds"),
    [
        case(steps_left, 5, 5, id="how many steps are left"),
        case(spent, 5, 5, id="what the run has used"),
        case(lambda _: "Next?", 5, 5, id="a short one"),
        case(of_a_person, 0, 0, id="other words each time"),
    ],
)
def test_what_stands_between_results_and_calls_in_the_same_words_is_a_harness_s(
    write, message, repeats, rounds
):
    steps = [step for number in range(5) for step in (LS, Person(message(number)))]
    assert len(trajectory(write, steps).latest(99)) == rounds
    assert count("repeat", write, steps) == repeats


@in_both_dialects
def test_after_an_answer_figures_are_what_a_person_asks_about(write):
    steps = [
        step
        for number in range(5)
        for step in (LS, says("Done."), Person(f"Now do the same in folder {number}, please."))
    ]
    assert len(trajectory(write, steps).latest(99)) == 0


@in_both_dialects
def test_calls_before_and_after_it_are_counted_together(write):
    assert count("repeat", write, [LS, Person(OTHER_NAG)] * 5) == 5
    assert count("cycle", write, [LS, bash("pwd", "/src"), Person(OTHER_NAG)] * 3) == 3
    assert count("monologue", write, [says("I am on it."), Person(OTHER_NAG)] * 5) == 5


def test_a_marker_for_a_cache_does_not_make_it_another():
    body = anthropic(nagged())
    marked = {"type": "text", "text": NAG, "cache_control": {"type": "ephemeral"}}
    body["messages"][-1]["content"] = [marked]
    sent = json.dumps(body).encode()
    assert len(Trajectory(read(Request(path="/v1/messages", body=sent))).latest(9)) == 3


ROLES = st.lists(st.sampled_from(["user", "assistant", "call", "result"]), max_size=12)


def item(role, number):
    if role == "call":
        return {"type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}"}
    if role == "result":
        return {"type": "function_call_output", "call_id": "1", "output": f"{number}"}
    return {"type": "message", "role": role, "content": f"{role} {number}"}


@given(roles=ROLES)
def test_each_message_is_found_at_its_place_though_turns_are_split(roles):
    items = [item(role, number) for number, role in enumerate(roles)]
    body = json.dumps({"model": "m", "input": items}).encode()
    call = read(Request(path="/v1/responses", body=body))
    placed = list(call.placed_backwards())
    assert [message for _, message in placed] == list(call.backwards())
    for place, message in placed:
        first = call.read(call.raws[place])
        assert message.role == first.role
        assert message.text.startswith(first.text)


def test_the_nags_of_a_split_history_are_found_too():
    items = [{"role": "user", "content": "Make the tests pass."}]
    for number in range(3):
        items += [item("call", number), item("result", number), item("assistant", number)]
        items.append({"role": "user", "content": NAG})
    sent = json.dumps({"model": "m", "input": items}).encode()
    call = read(Request(path="/v1/responses", body=sent))
    assert len(Trajectory(call).latest(99)) == 6


def test_a_message_after_a_pause_begins_a_turn_each_time():
    body = json.dumps(openai([*nagged(), LS])).encode()
    call = read(Request(path="/v1/chat/completions", body=body))
    asked = []

    def comes_after_pause(is_last):
        asked.append(is_last)
        return True

    assert len(Trajectory(call, comes_after_pause=comes_after_pause).latest(9)) == 1
    assert asked == [False]
