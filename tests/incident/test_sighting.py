"""What of a judged call incidents and indicators are made of."""

import msgspec
import pytest
from tests.detect.forgetful import ForgetfulAgent
from tests.detect.runs import bash

from looptrap.config import load
from looptrap.dialect.model import Outcome, Request, Usage
from looptrap.dialect.registry import read
from looptrap.engine import Guard, Ticket
from looptrap.incident.recorder import MAX_OBSERVATIONS_PER_TICK, IncidentRecorder
from looptrap.incident.sighting import SightingFactory
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict

WITNESS = SightingFactory(b"k" * 32, 15)
SECRET_TEXT = "the invoice of Miss Marple"


def call(messages=None, **request):
    given = messages or [{"role": "user", "content": SECRET_TEXT}]
    body = msgspec.json.encode({"model": "gpt-5.3", "messages": given})
    return read(Request(path="/v1/chat/completions", body=body, caller="key:ci", **request))


def rounds(number, failed=()):
    """Return a history of so many rounds with one tool call each."""
    messages = [{"role": "user", "content": "Go."}]
    for n in range(number):
        one = {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "run", "arguments": f"[{n}]"},
        }
        result = "error: no such file" if n in failed else f"line {n} of the log"
        messages += [
            {"role": "assistant", "tool_calls": [one]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": result},
        ]
    return messages


def seen(ticket, outcome=None):
    return WITNESS.sightings(ticket, outcome, 7.0, "lt-1", "openai")


def observed(ticket):
    session = WITNESS.running_session(ticket)
    return WITNESS.observation(ticket, Outcome(200, Usage(10, 5)), 7.0, "openai", 0.25, session)


BLOCK = Verdict(action=Action.BLOCK, reason="loop_detected", rule="same", count=6, threshold=6)
WARN = Verdict(action=Action.WARN, reason="loop_detected", rule="stuck", is_early=True)


def test_what_is_simply_allowed_makes_none():
    assert seen(Ticket(call()), Outcome(200)) == []


def test_a_refusal_says_what_who_and_how_often_and_no_prompt_text():
    [one] = seen(Ticket(call(session="run-42"), BLOCK))
    assert (one.action, one.rule, one.count, one.is_refused) == ("block", "same", 6, True)
    assert (one.caller, one.session, one.model) == ("key:ci", "run-42", "gpt-5.3")
    assert (one.time, one.request_id, one.is_alarming) == (7.0, "lt-1", True)
    assert "Marple" not in repr(one)


def test_a_warning_before_more_is_not_alarming():
    [one] = seen(Ticket(call(), WARN), Outcome(200, Usage(10, 5)))
    assert (one.is_alarming, one.is_refused) == (False, False)
    assert (one.input_tokens, one.output_tokens) == (10, 5)


def test_what_one_call_used_is_counted_once_in_each_incident():
    ticket = Ticket(call(), WARN, shadow=BLOCK, heard=WARN)
    found = seen(ticket, Outcome(200, Usage(10, 5)))
    assert [one.mode for one in found] == ["enforce", "enforce", "shadow"]
    assert [one.input_tokens for one in found] == [10, 0, 10]
    assert [one.is_counted for one in found] == [True, False, False], "totals count it once"
    assert [one.is_refused for one in found] == [False, False, False]


class TestMoney:
    PRICED = SightingFactory(b"k" * 32, 15, lambda call: len(call.request.body))

    def seen(self, ticket, outcome=None):
        return self.PRICED.sightings(ticket, outcome, 7.0, "lt-1", "openai")

    def test_what_passed_has_its_cost_in_shadow_too(self):
        found = self.seen(Ticket(call(), WARN, shadow=BLOCK), Outcome(200, Usage(10, 5), cost=70))
        assert [one.cost for one in found] == [70, 70]
        assert [one.is_counted for one in found] == [True, False]
        assert [one.estimate for one in found] == [None, None]

    def test_what_was_refused_has_an_estimate_of_its_input_once(self):
        found = self.seen(Ticket(call(), BLOCK, shadow=BLOCK))
        assert [one.estimate for one in found] == [len(call().request.body), None]
        assert [one.cost for one in found] == [None, None]
        assert [one.is_refused for one in found] == [True, False]

    def test_without_prices_nothing_is_made_up(self):
        assert [one.estimate for one in seen(Ticket(call(), BLOCK))] == [None]


class TestSession:
    def test_the_one_the_client_names_is_taken(self):
        assert WITNESS.session(call(session="run-42")) == "run-42"

    def test_without_one_it_is_told_by_how_the_conversation_begins(self):
        first = WITNESS.session(call(rounds(1)))
        assert first.startswith("~")
        assert WITNESS.session(call(rounds(9))) == first
        assert WITNESS.session(call()) != first

    def test_another_secret_makes_other_names(self):
        assert SightingFactory(b"x" * 32, 15).session(call()) != WITNESS.session(call())

    def test_a_call_without_messages_has_none(self):
        assert WITNESS.session(read(Request(method="GET", path="/v1/models"))) == ""


class TestObservation:
    def judged(self, messages):
        return Guard.from_preset().admit(call(messages), 0.0)

    def test_the_latest_round_says_how_many_tools_ran_and_failed(self):
        one = observed(self.judged(rounds(2, failed=[1])))
        assert (one.tools, one.failed) == (1, 1)
        one = observed(self.judged(rounds(2, failed=[0])))
        assert (one.tools, one.failed) == (1, 0)

    def test_a_person_who_has_just_spoken_ends_the_turn(self):
        one = observed(self.judged([*rounds(5), {"role": "user", "content": "Thanks. And now?"}]))
        assert (one.tools, one.failed, one.turn_calls) == (0, 0, 0)

    def test_a_question_alone_is_no_session_unless_the_client_says_so(self):
        ticket = self.judged(None)
        assert observed(ticket).session == ""
        assert observed(Ticket(call(session="run-42"))).session == "run-42"
        assert observed(self.judged(rounds(1))).session.startswith("~")

    @pytest.mark.parametrize("number", range(8, 40, 8))
    def test_once_in_a_while_the_whole_turn_is_counted(self, number):
        assert observed(self.judged(rounds(number))).turn_calls == min(number, 16)

    def test_mostly_it_is_not(self):
        assert observed(self.judged(rounds(5))).turn_calls == -1

    def test_every_turn_that_goes_on_is_counted_now_and_then(self):
        counted = [observed(self.judged(rounds(n))).turn_calls for n in range(1, 33)]
        assert sum(one >= 0 for one in counted) == 4
        assert max(counted) == 16

    def test_a_trimmed_history_counts_with_what_was_left_out(self):
        agent = ForgetfulAgent(keeps=2)
        fine = [bash(f"cat {n}", f"text {n}") for n in range(47)]
        one = observed(agent.does(*fine, bash("make", "error: no rule to make target")))
        assert (one.tools, one.failed, one.turn_calls) == (1, 1, 48)


def test_of_very_many_calls_indicators_see_a_sample():
    recorder = IncidentRecorder(load(env={}), {}, secret=b"k" * 32)
    for _ in range(3 * MAX_OBSERVATIONS_PER_TICK):
        given = (Ticket(call()), Outcome(200, Usage(10, 5)), b"lt-1", "openai", 0.25)
        recorder.record_call(*given, now=100.0, status=200, began=99.0, agent="")
    assert (len(recorder._observations), recorder.dropped) == (MAX_OBSERVATIONS_PER_TICK, 0)
