"""People hear of a budget's stages: each once, whoever finds it so."""

import pytest
from tests.incident.test_budget_event import standing
from tests.incident.test_sighting import call

from looptrap.config import load
from looptrap.dialect.model import Outcome
from looptrap.engine import Ticket
from looptrap.incident import event as event_module
from looptrap.incident import sharing
from looptrap.incident.event import budget_event, store_degraded_event
from looptrap.incident.recorder import IncidentRecorder
from looptrap.policy.action import Action


@pytest.fixture
def recorder():
    return IncidentRecorder(load(env={}), {}, secret=b"k" * 32)


def settled(recorder, *standings, outcome=None):
    ticket = Ticket(call(project="research"), standings=standings)
    given = (ticket, outcome or Outcome(200), b"lt-1", "openai", None)
    recorder.record_call(*given, now=1_800_000_000.0, status=200, began=1_800_000_000.0, agent="")


def told(recorder):
    return [(event.name, event.stage) for event in recorder._events]


def test_a_stage_is_told_once_however_many_calls_find_it_so(recorder):
    for _ in range(1_000):
        settled(recorder, standing())
    assert told(recorder) == [("budget.threshold", "80%")]
    (event,) = recorder._events
    assert (event.project, event.request_id) == ("research", "lt-1")


def test_every_stage_account_and_period_is_told(recorder):
    settled(recorder, standing(), standing(fingerprint="1-cd"))
    settled(recorder, standing(stage=95, action=Action.THROTTLE))
    settled(recorder, standing(stage=100, action=Action.BLOCK), outcome=None)
    settled(recorder, standing(ends=standing().ends + 86_400))
    assert told(recorder) == [
        ("budget.threshold", "80%"),
        ("budget.threshold", "80%"),
        ("budget.threshold", "95%"),
        ("budget.exceeded", "100%"),
        ("budget.threshold", "80%"),
    ]


def test_a_budget_makes_no_incident(recorder):
    settled(recorder, standing(stage=100, action=Action.BLOCK))
    assert not recorder._sightings


def test_calls_without_a_standing_tell_nothing(recorder):
    settled(recorder)
    assert told(recorder) == []


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(event_module, "MAX_REMEMBERED_STAGES", 3)
    recorder = IncidentRecorder(load(env={}), {}, secret=b"k" * 32)
    for n in range(10):
        settled(recorder, standing(fingerprint=f"1-{n}"))
    assert len(recorder._events) == 10
    assert len(recorder._budget_alerter._alerted) == 3
    settled(recorder, standing(fingerprint="1-9"))
    assert len(recorder._events) == 10


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [
        pytest.param(9_600, 9_600, id="until its period ends"),
        pytest.param(10, sharing.CLAIM_S, id="a moment before that"),
        pytest.param(0, sharing.STREAM_KEEP_S, id="without an end"),
    ],
)
def test_no_other_instance_tells_it_meanwhile(ends, seconds):
    event = budget_event(standing(ends=ends), time=0.0, project="", request_id="")
    assert sharing._claim_seconds(event) == seconds


def test_what_is_no_budget_is_claimed_for_a_moment():
    assert sharing._claim_seconds(store_degraded_event(5.0)) == sharing.CLAIM_S
