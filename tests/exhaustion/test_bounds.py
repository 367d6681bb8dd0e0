"""What grows with what clients send, or with what happens elsewhere, has a bound."""

import tracemalloc

import msgspec
import pytest
from bench.structure import STRUCTURES, drive
from prometheus_client.parser import text_string_to_metric_families
from tests.dialect.streams import hear
from tests.incident.test_tracker import seen, tracker

from looptrap.admin import metrics
from looptrap.dialect import stream
from looptrap.dialect.model import Outcome, Usage
from looptrap.gateway.upstream.upstream_state import MAX_TRACKED_CIRCUITS, UpstreamState
from looptrap.incident import sharing as sharing_module
from looptrap.incident.model import AlertEvent
from looptrap.incident.sharing import IncidentSharing
from looptrap.retry.breaker import CircuitChange, CircuitKey
from looptrap.usage import model
from looptrap.usage.recorder import UsageAccumulator
from looptrap.wire.request import SizedBody

# The store, accounts, tallies, ledgers


@pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param("callers, models, providers in the tally", 0.02, id="tally"),
        pytest.param("sessions and spenders in the ledger", 0.02, id="ledger"),
        pytest.param("models in the price list", 0.02, id="prices"),
        pytest.param("credentials with a circuit", 0.02, id="circuits"),
    ],
)
def test_many_times_what_has_room_takes_no_more_room(name, share):
    held = drive(name, share)
    assert held.number == STRUCTURES[name][1] * share
    assert held.is_bounded, held


def test_spending_that_nobody_takes_is_no_longer_told_apart_but_counted(monkeypatch):
    monkeypatch.setattr(model, "MAX_PENDING_ROWS", 100)
    spending, minutes = UsageAccumulator(), 50
    for minute in range(minutes):
        for caller in range(20):
            spending.add(minute * 60.0, f"c{caller}", "", "p", "m", Outcome(200, Usage(1, 1)))
    batch = spending.take()
    assert len(batch.spending) <= 100 + minutes
    assert sum(one.calls for one in batch.spending.values()) == minutes * 20


# Circuits


def test_circuits_that_have_closed_are_forgotten_though_nobody_asks():
    dispatch = UpstreamState(alert=lambda _event: None, clock=lambda: 0.0)
    for number in range(3 * MAX_TRACKED_CIRCUITS):
        dispatch.note([CircuitChange(CircuitKey("p", f"sk-{number}"), "closed", 0.0)])
    assert len(dispatch._unclosed) <= MAX_TRACKED_CIRCUITS


# Incidents of other instances


class Away:
    """A store that never answers."""

    configuration = None


@pytest.fixture
def sharing(monkeypatch):
    monkeypatch.setattr(sharing_module, "MAX_QUEUED", 10)
    monkeypatch.setattr(sharing_module, "SharedStream", lambda *_args, **_more: None)
    return IncidentSharing(Away(), "h", quiet=1.0)


def test_what_finds_no_room_to_be_asked_about_is_asked_about_later(sharing):
    opened = [(f"k{number}", "id") for number in range(25)]
    assert sharing.ask(iter(opened)) == {f"k{number}" for number in range(10)}
    assert sharing.ask(iter(opened)) == set()


def test_an_event_that_finds_no_room_to_be_claimed_is_told_all_the_same(sharing):
    events = [AlertEvent(id=f"e{number}", name="loop.detected", time=0.0) for number in range(25)]
    assert sharing.claim(events) == events[10:]
    assert sharing.claim(events) == events


def test_incidents_of_others_are_followed_up_to_the_same_bound():
    here, there = tracker(max_open=5), tracker("there")
    for number in range(20):
        there.add(seen(caller=f"c{number}"))
    for part in there.take_changed():
        here.merge_remote(part)
    assert here.open == 5
    here.add(seen(caller="own"))
    assert here.open == 5


# Answers that do not end


def endless(number, size):
    delta = {
        "type": "response.output_text.delta",
        "sequence_number": number,
        "output_index": 0,
        "content_index": 0,
        "delta": f"{number} ".ljust(size, "x"),
    }
    return b"data: %b\n\n" % msgspec.json.encode(delta)


def test_an_answer_without_end_is_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(stream, "MAX_KEPT_CHARS", 100_000)
    hearing, _ = hear("responses", [endless(number, 1_000) for number in range(50)])
    assert not hearing.is_lost
    hearing, _ = hear("responses", [endless(number, 1_000) for number in range(200)])
    assert hearing.is_lost


def test_an_answer_of_ever_new_texts_is_not_heard_for_ever(monkeypatch):
    monkeypatch.setattr(stream, "MAX_TEXTS", 50)

    def block(number):
        delta = {"type": "text_delta", "text": "word " * 100}
        event = {"type": "content_block_delta", "index": number, "delta": delta}
        return b"data: %b\n\n" % msgspec.json.encode(event)

    assert not hear("anthropic", [block(number) for number in range(40)])[0].is_lost
    assert hear("anthropic", [block(number) for number in range(80)])[0].is_lost


# Bodies


@pytest.mark.parametrize("size", [1, 2, 100, 5_000])
def test_a_body_in_small_pieces_takes_about_what_was_sent(size):
    length = 60_000
    data = bytes(range(256)) * (length // 256 + 1)
    tracemalloc.start()
    try:
        body = SizedBody(length)
        for at in range(0, length, size):
            left = body.feed(data[at : at + size], 0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left == size - (length % size or size)
    assert body.content() == data[:length]
    assert held < 2 * length


# Workers that end


def test_what_ended_workers_counted_is_added_up_in_the_end(monkeypatch):
    monkeypatch.setattr(metrics, "MAX_ENDED_SAMPLES", 10)
    totals = metrics.MetricTotals()
    head = "# TYPE looptrap_caller_cost_usd_total counter\n"
    for pid in range(30):
        line = f'looptrap_caller_cost_usd_total{{caller="c{pid}",project=""}} 2\n'
        totals.add(pid, head + line)
    totals.retire_all_but([])
    text = totals.exposition(workers=0, restarts=30).decode()
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "looptrap_caller_cost_usd_total"
    ]
    assert len(samples) == 11
    assert sum(sample.value for sample in samples) == 60
