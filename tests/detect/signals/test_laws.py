"""What holds for several signals, or for any run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.runs import (
    DIALECTS,
    Person,
    Use,
    anthropic,
    bash,
    count,
    evidence,
    openai,
    says,
    together,
    trajectory,
)
from tests.detect.signals.steps import CAT, GOODBYE, LS, NO_FILE, case, in_both_dialects

from looptrap.detect.round import NUDGE_MARK
from looptrap.detect.signals import ROUNDS, SIGNALS, SignalOptions
from looptrap.detect.signals.failing import MAX_TURNS_COUNT
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read


def test_results_are_matched_to_their_calls_whatever_their_order():
    body = openai([together(LS, CAT)] * 2)
    body["messages"][-1], body["messages"][-2] = body["messages"][-2], body["messages"][-1]
    call = read(Request(path="/v1/chat/completions", body=json.dumps(body).encode()))
    assert SIGNALS["repeat"](SignalOptions(12))(Trajectory(call)).count == 2


def test_two_gemini_calls_of_one_name_keep_their_own_results():
    def call(city):
        return {"functionCall": {"name": "weather", "args": {"city": city}}}

    def answer(text):
        return {"functionResponse": {"name": "weather", "response": {"output": text}}}

    contents = [{"role": "user", "parts": [{"text": "Weather?"}]}]
    for cities in (["Rome", "Oslo"], ["Oslo", "Rome"]):
        results = [answer("sun" if city == "Rome" else "snow") for city in cities]
        contents.append({"role": "model", "parts": [call(city) for city in cities]})
        contents.append({"role": "user", "parts": results})
    body = json.dumps({"contents": contents}).encode()
    path = "/v1beta/models/gemini-3:generateContent"
    found = SIGNALS["repeat"](SignalOptions(12))(Trajectory(read(Request(path=path, body=body))))
    assert found.count == 2


@in_both_dialects
@pytest.mark.parametrize(
    "step",
    [
        case(Use("fetch", {"url": "a"}, "HTTP 429 Too Many Requests"), id="told to come again"),
        case(Use("press_key", {"key": "PageDown"}, "ok"), id="one more step"),
        case(Use("write_stdin", {"chars": ""}, ""), id="nothing new to read"),
    ],
)
def test_what_is_rightly_done_again_is_for_repeat_to_say_and_weighs_less(write, step):
    assert count("repeat", write, [step] * 4) < 2
    assert count("repeat", write, [step] * 40) >= 5
    assert count("same_error", write, [step] * 12) == 0
    assert count("near_repeat", write, [step] * 12) == 0


@in_both_dialects
@pytest.mark.parametrize(
    "wait",
    [case(Use("wait", {"seconds": 5}, "ok"), id="tool"), case(bash("sleep 5", ""), id="shell")],
)
def test_asking_and_waiting_in_turn_is_polling(write, wait):
    steps = [bash("gh run view 7", "queued"), wait]
    assert count("cycle", write, steps * 3) < 2
    assert 2 <= count("cycle", write, steps * 11) < 3
    assert count("cycle", write, steps * 12) == 3
    assert count("stagnation", write, steps * 12) < 6


@in_both_dialects
def test_our_own_nudge_neither_resets_nor_makes_a_result_another(write):
    nudge = f"{NUDGE_MARK}\nYou are going in circles: ls, 3 times."
    assert count("repeat", write, [LS, LS, Person(nudge), LS]) == 3
    assert count("repeat", write, [LS, bash("ls", f"a.txt\n{nudge}")]) == 2


@pytest.mark.parametrize("signal", sorted(SIGNALS.keys() - {"compaction", "restart"}))
@in_both_dialects
def test_evidence_names_tools_and_counts_and_nothing_that_was_said(signal, write):
    marker = "xyzzy-marker"
    shown = {
        "cycle": [bash(marker, marker), bash(f"cat {marker}", marker)] * 6,
        "mutating_repeat": [
            Use(
                "insert",
                {"text": f"import {marker}"},
                f"{marker}\n" * 40 + f"import {marker}\n" * n,
            )
            for n in range(6)
        ],
        "monologue": [says(f"{marker}, goodbye")] * 6,
        "idle": [says(f"{marker}, goodbye")] * 6,
        "unknown_tool": [Use("browse", {"url": marker}, marker)] * 6,
        "stagnation": [bash(marker, marker)] * 24,
        "same_words": [
            together(Use("write", {"text": f"{marker} {n}"}, "ok"), text=f"{marker}. " * 9)
            for n in range(12)
        ],
    }
    failing = [Use("bash", {"command": marker}, f"error: {marker}")] * 6
    found = evidence(signal, write, shown.get(signal, failing), tools=["bash"])
    assert found.signal == signal
    assert found.count >= 2
    assert marker not in str(found)
    assert "error" not in found.what


@in_both_dialects
@pytest.mark.parametrize("signal", sorted(SIGNALS))
def test_no_signal_is_surer_than_sure(write, signal):
    for steps in ([LS] * 12, [LS, CAT] * 6, [bash("x", NO_FILE)] * 9, [GOODBYE] * 5):
        found = evidence(signal, write, steps)
        assert found is None or 0 < found.confidence <= 1


# What holds for any run.

RESULTS = [
    "",
    "a.txt",
    "hello",
    NO_FILE,
    "fatal: x",
    "no matches found",
    "took 3s",
    "still running",
]
uses = st.builds(
    Use,
    st.sampled_from(["bash", "edit", "job_status"]),
    st.fixed_dictionaries({"command": st.sampled_from(["ls", "cat a", "cat b"])}),
    st.sampled_from(RESULTS),
)
rounds = st.lists(
    uses, min_size=1, max_size=3, unique_by=lambda use: (use.tool, str(use.arguments))
)
runs = st.lists(rounds, min_size=1, max_size=24)
dialects = st.sampled_from(list(DIALECTS.values()))


def counts(write, steps):
    return {signal: count(signal, write, steps, tools=["bash"]) for signal in SIGNALS}


@given(write=dialects, run=runs, data=st.data())
def test_the_order_of_parallel_calls_does_not_matter(write, run, data):
    shuffled = [together(*data.draw(st.permutations(one))) for one in run]
    assert counts(write, shuffled) == counts(write, [together(*one) for one in run])


@given(run=runs)
def test_both_dialects_show_the_same(run):
    steps = [together(*one) for one in run]
    assert counts(openai, steps) == counts(anthropic, steps)


@given(write=dialects, run=runs)
def test_a_new_call_with_a_new_result_is_progress(write, run):
    steps = [*(together(*one) for one in run), Use("read", {"path": "z.py"}, "quite another text")]
    assert trajectory(write, steps).has_news
    for signal in ("repeat", "cycle", "same_error", "near_repeat", "mutating_repeat", "stagnation"):
        assert evidence(signal, write, steps) is None


@given(write=dialects, run=runs, command=st.sampled_from(["ls", "cat a", "make check"]))
def test_a_signal_that_ignores_news_finds_nothing_in_it(write, run, command):
    steps = [*(together(*one) for one in run), bash(command, "a text of some words")]
    ignoring = [name for name, signal in SIGNALS.items() if signal.ignores_news]
    assert "repeat" in ignoring
    if trajectory(write, steps, tools=["bash"]).has_news:
        found = [evidence(name, write, steps, tools=["bash"]) for name in ignoring]
        assert found == [None] * len(ignoring)


@given(write=dialects, run=runs)
def test_a_new_call_with_a_new_failure_counts_as_one(write, run):
    new = Use("read", {"path": "z.py"}, "Traceback: KeyError 'quite_another_name_of_something'")
    steps = [*(together(*one) for one in run), new]
    assert count("repeat", write, steps) == count("cycle", write, steps) == 0
    assert count("same_error", write, steps) == count("near_repeat", write, steps) == 1


@given(write=dialects, before=runs, after=runs)
def test_a_users_message_resets_all_but_the_same_failure(write, before, after):
    steps = [together(*one) for one in after]
    history = [together(*one) for one in before]
    alone = counts(write, steps)
    found = counts(write, [*history, Person("Now this."), *steps])
    # The same failure counts across turns, though never so often that it is refused.
    alone_failed, failed = alone.pop("same_error"), found.pop("same_error")
    assert found == alone
    assert alone_failed <= failed <= max(alone_failed, MAX_TURNS_COUNT)


@given(run=runs, data=st.data())
def test_the_order_of_the_results_of_one_round_does_not_matter(run, data):
    body = openai([together(*one) for one in run])
    call = Request(path="/v1/chat/completions", body=json.dumps(body).encode())
    size = len(run[-1])
    body["messages"][-size:] = data.draw(st.permutations(body["messages"][-size:]))
    swapped = Request(path="/v1/chat/completions", body=json.dumps(body).encode())
    for signal, looks_at in ROUNDS.items():
        watch = SIGNALS[signal](SignalOptions(looks_at))
        assert watch(Trajectory(read(swapped))) == watch(Trajectory(read(call)))


@given(write=dialects, run=runs)
def test_evidence_counts_no_more_than_it_looked_at_and_knows_since_when(write, run):
    steps = [together(*one) for one in run]
    for signal in ROUNDS:
        found = evidence(signal, write, steps, tools=["bash"])
        if found is not None:
            assert 1 <= found.count <= ROUNDS[signal]
            assert 0 <= found.ago < len(steps)
            assert 0 < found.confidence <= 1
