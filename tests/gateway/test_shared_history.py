"""Gateways that share a PostgreSQL and no store: one view, one alert, one operator."""

import asyncio
import json
import time

import pytest
from tests.database.postgres_server import postgres_server
from tests.gateway.serving import serving, until
from tests.gateway.test_incidents import ENV, heard, incidents, kept, loop, telling
from tests.incident.alert.receiving import Receiver

from looptrap.errors import DatabaseError
from looptrap.incident import recorder
from looptrap.incident.model import Annotation

pytestmark = pytest.mark.slow


@pytest.fixture
async def receiver():
    async with Receiver.running() as receiver:
        yield receiver


@pytest.fixture
def start(tmp_path):
    """Serve with a history, each gateway in a folder of its own."""

    def serve(name, url, toml=""):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return serving(folder, toml, env=ENV, history=url, history_spool=str(folder / "spool"))

    return serve


@pytest.fixture
def url(postgres, monkeypatch):
    monkeypatch.setattr(recorder, "LOOK_INTERVAL_S", 0.1)
    return postgres.new_schema()


async def test_each_shows_the_incidents_of_all_and_people_hear_of_each_once(start, url, receiver):
    toml = telling(receiver)
    async with start("one", url, toml) as one, start("two", url, toml) as two:
        await loop(one, 9)
        found = await kept(two, refused=4)
        assert incidents(one) == [found]
        await until(lambda: receiver.got)
        await until(lambda: one.app.recorder.history.outbox.counts()["delivered"] == 1)
        assert heard(receiver) == [("loop.detected", "detected")]
        assert len(receiver.got) == 1


async def test_what_an_operator_closes_at_one_is_closed_at_the_other(start, url):
    async with start("one", url) as one, start("two", url) as two:
        await loop(one, 9)
        found = await kept(two, refused=4)
        close = Annotation(id="c", incident=found.id, time=found.last, by="ann", kind="close")
        await two.app.recorder.annotate([close])
        await until(lambda: one.app.recorder.tracker.open == 0)
        assert [each.closed is not None for each in incidents(one)] == [True]
        await loop(one, 9)
        await until(lambda: len(incidents(two)) == 2)


async def test_an_incident_of_a_gateway_that_has_ended_is_closed_by_another(start, url, receiver):
    async with start("two", url, telling(receiver, quiet=1)) as two:
        async with start("one", url, telling(receiver, quiet=3000)) as one:
            await loop(one, 9)
            await kept(two, refused=4)
        here = two.app.recorder
        here._clock = here.writer._clock = lambda: time.time() + 1000
        await until(lambda: incidents(two)[0].closed is not None)
        await until(lambda: ("loop.resolved", "resolved") in heard(receiver))


async def test_what_operators_change_while_the_database_is_away_is_in_the_audit(start, find_part):
    find_part(["initdb", "/usr/lib/postgresql/*/bin/initdb"], "postgresql")
    with postgres_server() as server:
        async with start("one", server.url()) as one:
            history = one.app.recorder.history
            server.stop()
            change = {"by": "ann", "source": "here"}
            await asyncio.to_thread(lambda: history.audit.add("release", "x", **change))
            server.start()

            def entries():
                try:
                    return [entry.what for entry in history.audit.entries().items]
                except DatabaseError:  # it is not back yet
                    return []

            await until(lambda: asyncio.to_thread(lambda: entries() == ["release"]))


async def test_it_starts_and_guards_without_the_database(start):
    away = "postgresql://looptrap@127.0.0.1:1/looptrap"
    async with start("one", away) as one:
        answer = await loop(one, 9)
        assert answer.status == 429
        assert json.loads(answer.body)["detail"]["hit_count"] == 9
        await until(lambda: one.app.recorder.writer.is_failing)
        await until(lambda: one.app.recorder.history.spool.waiting > 0)
