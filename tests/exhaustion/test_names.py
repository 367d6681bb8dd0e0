"""Names that clients make up: however long they are, and however many, little of them is kept."""

import tracemalloc

import pytest
from bench.attempts import stuck
from tests.gateway.serving import JSON, chat, until
from tests.incident.test_sighting import BLOCK, WITNESS

from looptrap.detect.call_kind import changes_something, words_of
from looptrap.detect.signals import signal
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import MAX_NAME_CHARS, Outcome, Request
from looptrap.dialect.registry import read
from looptrap.engine import Ticket
from looptrap.money.meter import AccountKey

LONG = 100_000


def call(**more):
    body = stuck(1, "t" * LONG, model="m" * LONG, user="u" * LONG)
    return read(Request(path="/v1/chat/completions", body=body, caller="key:ci", **more))


def test_a_sighting_keeps_the_beginning_of_each_name():
    ticket = Ticket(call(session="s" * LONG), BLOCK)
    (seen,) = WITNESS.sightings(ticket, None, 7.0, "r" * LONG, "openai")
    assert {seen.model, seen.session, seen.request_id} == {c * MAX_NAME_CHARS for c in "msr"}


def test_an_observation_keeps_the_beginning_of_each_name():
    ticket = Ticket(call(session="s" * LONG))
    session = WITNESS.running_session(ticket)
    seen = WITNESS.observation(ticket, Outcome(200), 7.0, "openai", None, session)
    assert {seen.model, seen.session} == {"m" * MAX_NAME_CHARS, "s" * MAX_NAME_CHARS}


def test_evidence_names_the_beginning_of_a_tool():
    (latest,) = Trajectory(call()).latest(1)
    assert signal.tool_list(latest) == "t" * signal.MAX_NAME_CHARS


def test_whose_an_account_is_is_told_by_the_beginning_of_each_name():
    whose = AccountKey(b"k" * 32, ["b"], ["caller", "user", "model"])
    told = whose.describe(whose.values(call()))
    assert max(len(value) for _, value in told) == 128


def test_accounts_of_long_names_that_begin_alike_stay_apart():
    whose = AccountKey(b"k" * 32, ["b"], ["caller", "session"])
    keys = {whose.key(whose.values(call(session="s" * 500 + end))) for end in "ab"}
    assert len(keys) == 2


@pytest.mark.parametrize("remember", [words_of, lambda name: changes_something(name, "{}")])
def test_what_a_tool_does_is_remembered_without_its_long_name(remember):
    tracemalloc.start()
    try:
        for number in range(300):
            remember(f"read_{number}_" + "x" * LONG)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 10 * LONG


async def test_incidents_of_long_names_take_little_of_memory_and_history(serve, tmp_path):
    here = await serve()
    for number in range(20):
        body = stuck(number, "t" * LONG, model="m" * LONG)
        answer = await here.ask(headers={**JSON, "X-Session-Id": f"run-{number}"}, body=body)
        assert answer.status == 429
        assert len(answer.body) < 5_000
    await until(lambda: here.app.recorder.writer.written >= 20)
    files = [file.stat().st_size for file in tmp_path.glob("history.db*")]
    assert sum(files) < 20 * LONG
    assert (await here.ask(headers=JSON, body=chat("Still there?"))).status == 200
