"""Somebody who listens to what happens at the admin address."""

import asyncio
import json
from contextlib import asynccontextmanager

from tests.store.serving import PATIENCE

PATH = "/api/v1/events"


class Ear:
    """Hears the events of one connection."""

    def __init__(self, answer):
        self._answer = answer
        self.last_id = ""

    async def next(self):
        """Return the next event: its name and data; a comment has no name."""
        fields = {}
        async with asyncio.timeout(PATIENCE):
            while (line := await self._answer.content.readline()) != b"\n":
                if not line:
                    raise EOFError
                name, _, value = line.decode().rstrip("\n").partition(":")
                fields[name] = value.removeprefix(" ")
        self.last_id = fields.get("id", self.last_id)
        if "event" not in fields:
            return "", fields.get("", "")
        return fields["event"], json.loads(fields["data"])

    async def hear(self, wanted, is_so=lambda _data: True):
        """Return the data of the next event of that name that is so."""
        async with asyncio.timeout(PATIENCE):
            while True:
                name, data = await self.next()
                if name == wanted and is_so(data):
                    return data


@asynccontextmanager
async def listening(operator, last_id=""):
    """Listen; what has happened before is over."""
    headers = {"Last-Event-ID": last_id} if last_id else {}
    async with operator.get(PATH, headers=headers, timeout=None) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        ear = Ear(answer)
        assert (await ear.next())[0] == "hello"
        yield ear
