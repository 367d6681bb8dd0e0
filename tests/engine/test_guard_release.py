"""Releases: what several rules refuse passes when all of them let go."""

from looptrap import Guard
from looptrap.dialect.body import read_body
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule

SAME = {"model": "m", "messages": [{"role": "user", "content": "Is the build green?"}]}


def guarding():
    rules = [
        Rule(name=name, watch="conversation", ladder=Ladder({Action.BLOCK: 2}), cooldown=30.0)
        for name in ("first", "second")
    ]
    return Guard([Policy(name="p", rules=tuple(rules))], secret=b"s")


def refused(guard):
    """Ask the same twice; return the ticket of the refusal."""
    return [guard.admit(read_body(SAME, None), float(now)) for now in range(2)][-1]


def test_a_refusal_has_the_fingerprints_of_all_rules_that_refuse():
    ticket = refused(guarding())
    assert ticket.verdict.rule == "first"
    assert len(set(ticket.refusing)) == 2
    assert ticket.verdict.fingerprint in ticket.refusing


def test_one_of_them_is_not_enough():
    guard = guarding()
    ticket = refused(guard)
    assert guard.release(ticket.verdict.fingerprint, now=2.0)
    assert guard.admit(read_body(SAME, None), 3.0).verdict.rule == "second"


def test_when_all_let_go_the_next_call_passes():
    guard = guarding()
    for fingerprint in refused(guard).refusing:
        assert guard.release(fingerprint, now=2.0)
    assert not guard.admit(read_body(SAME, None), 3.0).verdict.action.refuses
