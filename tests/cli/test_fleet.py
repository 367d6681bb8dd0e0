"""Two gateways with one PostgreSQL: whatever is killed under traffic, the sums are right."""

import asyncio
import json
import re
import signal
from collections import Counter
from contextlib import AsyncExitStack

import aiohttp
import pytest
from tests.cli.serving import run
from tests.database.postgres_server import postgres_server
from tests.gateway.serving import chat, until

from looptrap.database.spool import Segment
from looptrap.incident.history.batch import _decode
from looptrap.testing import FakeProvider

pytestmark = pytest.mark.slow


class Gateway:
    """A gateway in a folder of its own, and what was answered through it."""

    def __init__(self, folder, database, provider):
        self.folder, self.database, self.provider = folder, database, provider
        folder.mkdir()
        self.calls, self.tokens = 0, 0
        self.statuses = Counter()
        self.latencies = []
        self._stack = AsyncExitStack()

    async def start(self):
        flags = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--mode", "shadow")
        command = (*flags, "--upstream", self.provider.url, "--history", self.database.url("fleet"))
        env = {"LOOPTRAP_HISTORY_TIMEOUT": "2"}
        self.process = await self._stack.enter_async_context(run(self.folder, *command, env=env))
        self.process.url = (await self.process.hears(r"guards (https?://\S+)"))[1]
        self.admin = (await self.process.hears(r"Dashboard +(http://[^/\s]+)/"))[1]
        await self.process.hears("Policies")
        return self

    async def kill(self):
        self.process.send(signal.SIGKILL)
        await self.process.ended()
        self.statuses["kills"] += 1

    async def close(self):
        await self._stack.aclose()

    async def send(self, number):
        """Send calls, one after the other; each is another prompt."""
        loop = asyncio.get_running_loop()
        for n in range(number):
            text = f"call {self.folder.name} {self.statuses['kills']} {self.calls} {n}"
            began = loop.time()
            answer = await self.process.ask(chat(text))
            self.latencies.append(loop.time() - began)
            self.statuses[answer.status] += 1
            self.calls += 1
            usage = json.loads(answer.body)["usage"]
            self.tokens += usage["prompt_tokens"] + usage["completion_tokens"]

    def waiting(self):
        """Return how many calls wait on disk."""
        batches = [
            _decode(record)
            for path in (self.folder / "looptrap-spool").glob("*.spool")
            for _, record, _ in Segment(path).records(0)
        ]
        return sum(row[6] for batch in batches for row in batch.spending)

    async def get(self, path, status=200):
        found, text = await self.ask(path)
        assert found == status, text
        return json.loads(text) if text.startswith("{") else text

    async def ask(self, path):
        async with aiohttp.ClientSession() as client, client.get(self.admin + path) as answer:
            return answer.status, await answer.text()

    async def is_degraded(self):
        return (await self.get("/readyz"))["status"] == "degraded"

    async def totals(self):
        status, text = await self.ask("/api/v1/stats?step=3600")
        if status == 503:  # it tries again a second later
            return None
        found = json.loads(text)["totals"]
        return found["calls"], found["input_tokens"] + found["output_tokens"]


@pytest.fixture
async def fleet(tmp_path, find_part):
    find_part(["initdb", "/usr/lib/postgresql/*/bin/initdb"], "postgresql")
    with postgres_server() as database:
        database.execute("CREATE SCHEMA fleet")
        async with FakeProvider() as provider:
            gateways = [Gateway(tmp_path / name, database, provider) for name in ("one", "two")]
            try:
                yield database, [await one.start() for one in gateways]
            finally:
                for one in gateways:
                    await one.close()


async def test_nothing_is_lost_or_counted_twice_when_database_and_gateways_are_killed(fleet):
    database, gateways = fleet
    one, two = gateways

    def sent():
        return sum(each.calls for each in gateways), sum(each.tokens for each in gateways)

    async def agree():
        return [await each.totals() for each in gateways] == [sent(), sent()]

    async def send_all(number):
        await asyncio.gather(*(each.send(number) for each in gateways))

    await send_all(30)
    await until(agree)

    # The database is killed under traffic.
    traffic = asyncio.gather(*(each.send(60) for each in gateways))
    await until(lambda: sum(each.calls for each in gateways) > 80)
    database.kill()
    await traffic
    for each in gateways:
        await until(each.is_degraded)
        error = (await each.get("/api/v1/incidents", 503))["error"]
        assert error["code"] == "history_unavailable"
        status = await each.get("/api/v1/status")
        assert not status["history"]["is_writing"]
        assert "history_stuck" in [notice["code"] for notice in status["notices"]]
    database.start()
    await until(agree)
    assert not await one.is_degraded()

    # A gateway is killed while the database is away, and goes on without it.
    database.stop()
    written = one.calls
    await one.send(20)
    await until(lambda: one.waiting() == one.calls - written)
    await one.kill()
    await one.start()
    await send_all(20)
    database.start()
    await until(agree)

    # A gateway is killed while the database is there, and its calls are written.
    await two.kill()
    await two.start()
    await send_all(10)
    await until(agree)
    assert {*one.statuses, *two.statuses} == {200, "kills"}
    metrics = await two.get("/metrics")
    assert re.search(r"^looptrap_history_spool_batches 0", metrics, re.MULTILINE)
