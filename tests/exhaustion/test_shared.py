"""A shared store is not filled for ever: what clients make be kept there ends by itself."""

from contextlib import asynccontextmanager

import pytest
from bench.attempts import named, stuck
from tests.gateway.serving import JSON, chat, serving, until
from tests.store.serving import server

LIMITED = """
[[budgets]]
by = ["session"]
limit_usd = 5
period = "1d"

[[budgets]]
by = ["caller"]
limit_usd = 50

[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  similarity = "near"
  threshold = 3
  cooldown = 30
  [[policies.rules]]
  name = "often"
  watch = "session"
  threshold = 3
  window = 60
  [[policies.rules]]
  name = "stuck"
  watch = "repeat"
  threshold = 5
  cooldown = 30
"""

AGREED = (b"lt:secret", b"lt:cfg", b"lt:inc:log")
"""What all instances agree on, and a stream whose length is bounded."""


@pytest.fixture
def valkey():
    with server() as one:
        yield one


@asynccontextmanager
async def filled(tmp_path, valkey):
    """Serve calls of every kind that leaves something in the store."""
    async with serving(tmp_path, LIMITED, store=valkey.url) as here:
        for number in range(30):
            client = await here.connect()
            await client.send(named(number))
            await client.answer(b"POST")
        for number in range(5):
            headers = {**JSON, "X-Session-Id": f"run-{number}", "X-Stainless-Retry-Count": "1"}
            for _ in range(4):
                await here.ask(headers=headers, body=chat("Again?"))
            await here.ask(headers=JSON, body=stuck(number))
        await until(lambda: here.app.recorder.writer.written > 0)
        yield here


async def test_whatever_clients_leave_in_the_store_ends(tmp_path, valkey):
    async with filled(tmp_path, valkey):
        with valkey.client() as client:
            ends = {key: client.ttl(key) for key in client.scan_iter(count=1_000)}
    assert len(ends) > 60
    endless = [key for key, seconds in ends.items() if seconds < 0]
    assert [key for key in endless if not key.startswith(AGREED)] == []
    assert max(ends.values()) <= 31 * 86_400


async def test_nothing_of_a_name_that_clients_send_is_a_key(tmp_path, valkey):
    async with filled(tmp_path, valkey):
        with valkey.client() as client:
            keys = b" ".join(client.scan_iter(count=1_000))
    assert [name for name in (b"run-", b"model-", b"user-", b"sk-") if name in keys] == []
