"""Hooks hear of attempts, waits, circuits and calls given up, in order."""

import logging

import pytest
from tests.retry.failing import Answer, Fake, down

from looptrap.retry import Breakers, Chain, RetryPolicy, Turn, retrying, testing


def heard(events):
    return [
        (event.kind, event.attempt, event.seconds, event.failure and event.failure.reason)
        for event in events
    ]


def test_what_happens_to_a_call_is_told_in_order():
    events = []
    with testing():
        retrying(RetryPolicy(), hooks=[events.append]).call(Fake(down()))
    assert heard(events) == [
        ("attempt", 1, 0.0, None),
        ("wait", 1, 0.4, "http_503"),
        ("attempt", 2, 0.0, None),
    ]
    assert {event.name for event in events} == {"Fake"}


def test_a_call_given_up_is_told_with_the_reason():
    events = []
    with testing(), pytest.raises(Answer):
        retrying(RetryPolicy(attempts=1), hooks=[events.append]).call(Fake(down()))
    assert heard(events)[-1] == ("give_up", 1, 0.0, "http_503")


def test_circuits_are_told_by_name_and_state():
    events = []
    chain = Chain.of("anthropic", "openai")
    again = retrying(
        RetryPolicy(attempts=1), chain=chain, breakers=Breakers(1, 60.0), hooks=[events.append]
    )
    with testing() as rehearsal:
        again.call(Fake(down()))
        rehearsal.advance(60)
        again.call(Fake())
    told = [(event.circuit, event.state) for event in events if event.kind == "breaker"]
    assert told == [("anthropic", "open"), ("anthropic", "half_open"), ("anthropic", "closed")]
    links = [event.link.name for event in events if event.kind == "attempt"]
    assert links == ["anthropic", "openai", "anthropic"]


def test_a_turn_names_itself():
    events = []
    with testing(), Turn(id="t1", hooks=[events.append]) as turn:
        turn.call(Fake())
    assert [(event.kind, event.turn) for event in events] == [("attempt", "t1")]


def test_a_hook_that_fails_fails_no_call(caplog):
    def broken(_event):
        raise KeyError("broken")

    with caplog.at_level(logging.ERROR):
        assert retrying(RetryPolicy(), hooks=[broken]).call(Fake()) == "answer"
    assert "a hook on attempt failed" in caplog.text
