"""What the history inside one request shows."""

import json

import pytest

from looptrap.call.model import Request
from looptrap.call.read import read
from looptrap.detect.signals import SIGNALS
from looptrap.detect.trajectory import Trajectory


def run(*rounds, first="Fix it"):
    """A chat in which each round is one or more (tool, arguments, result)."""
    messages = [{"role": "user", "content": first}]
    for number, calls in enumerate(rounds):
        made = [
            {"id": f"c{number}.{i}", "type": "function", "function": {"name": n, "arguments": a}}
            for i, (n, a, _) in enumerate(calls)
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": made})
        messages += [
            {"role": "tool", "tool_call_id": f"c{number}.{i}", "content": r}
            for i, (_, _, r) in enumerate(calls)
        ]
    return messages


def trajectory(messages):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return Trajectory(read(Request(path="/v1/chat/completions", body=body)))


def count(signal, messages, rounds=12, with_results=True):
    evidence = SIGNALS[signal](rounds, with_results)(trajectory(messages))
    return evidence.count if evidence else 0


LS = [("bash", '{"cmd":"ls"}', "a.txt")]
CAT = [("bash", '{"cmd":"cat"}', "text")]


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        pytest.param([LS], 0, id="once"),
        pytest.param([LS, LS, LS], 3, id="three times"),
        pytest.param([LS, CAT, LS, CAT, LS], 3, id="not only consecutive"),
        pytest.param([LS, LS, CAT], 0, id="the latest is new"),
        pytest.param(
            [[("bash", "{}", f"{n} done")] for n in range(4)], 0, id="a changed result is progress"
        ),
        pytest.param(
            [[("bash", "{}", f"ended at 10:0{n}")] for n in range(4)], 4, id="times do not count"
        ),
        pytest.param([LS + LS, LS + LS], 2, id="parallel twins count once"),
        pytest.param([LS + CAT, CAT + LS], 2, id="the order of parallel calls does not count"),
    ],
)
def test_repeat(rounds, expected):
    assert count("repeat", run(*rounds)) == expected


def test_repeat_looks_only_at_the_latest_rounds():
    assert count("repeat", run(*[LS] * 9), rounds=4) == 4
    assert count("repeat", run(LS, CAT, CAT, CAT, LS), rounds=4) == 0


def test_repeat_may_pass_over_results():
    rounds = [[("bash", "{}", str(n))] for n in range(3)]
    assert count("repeat", run(*rounds), with_results=False) == 3


def test_results_are_matched_to_their_calls_whatever_their_order():
    one = run([("a", "{}", "1"), ("b", "{}", "2")], [("a", "{}", "1"), ("b", "{}", "2")])
    one[-1], one[-2] = one[-2], one[-1]
    assert count("repeat", one) == 2


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
    evidence = SIGNALS["repeat"](12, True)(Trajectory(read(Request(path=path, body=body))))
    assert evidence.count == 2


def test_turn_budget_counts_calls_since_the_last_user_message():
    messages = run(LS, LS + CAT)
    assert count("turn_budget", messages) == 3
    messages += run(CAT, first="And now?")
    assert count("turn_budget", messages) == 1


def test_evidence_names_tools_and_counts_and_nothing_that_was_said():
    messages = run(*[[("bash", '{"cmd":"secret-argument"}', "secret-result")]] * 3)
    evidence = SIGNALS["repeat"](12, True)(trajectory(messages))
    assert "bash" in evidence.what
    assert "secret" not in evidence.what
