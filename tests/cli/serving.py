"""`looptrap serve` as a process of its own."""

import asyncio
import os
import re
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from tests.gateway.serving import JSON, request
from tests.patience import PATIENCE
from tests.wire.fake_client import Client

LOOPTRAP = Path(sys.executable).with_name("looptrap")

BARE = {"PATH": "/usr/bin:/bin"} | {
    # Where the sources are, if the tests were told so.
    name: os.environ[name]
    for name in ("PYTHONPATH",)
    if name in os.environ
}
"""An environment without settings of whoever runs the tests."""


def interruptible():
    """Let Ctrl-C through in a child, also where the tests run in the background without it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Process:
    """A gateway of its own; everything it said on standard error so far is in `said`."""

    def __init__(self, process):
        self._process = process
        self.said = ""
        self.url = ""

    async def hears(self, pattern):
        """Wait until it has said something like that; return the match."""
        async with asyncio.timeout(PATIENCE):
            while (match := re.search(pattern, self.said)) is None:
                line = await self._process.stderr.readline()
                assert line, f"it ended, saying:\n{self.said}"
                self.said += line.decode()
        return match

    async def ask(self, body, **options):
        host, port = self.url.rpartition("//")[2].rsplit(":")
        reader, writer = await asyncio.open_connection(host, int(port), **options)
        writer.write(request(headers=JSON, body=body))
        try:
            return await Client(reader, writer).answer()
        finally:
            writer.close()

    @property
    def pid(self):
        return self._process.pid

    def send(self, number):
        self._process.send_signal(number)

    async def ended(self):
        """Wait for its end; return the exit status and what it wrote on standard output."""
        out, rest = await asyncio.wait_for(self._process.communicate(), PATIENCE)
        self.said += rest.decode()
        return self._process.returncode, out.decode()


@asynccontextmanager
async def run(folder, *arguments, env=None):
    """Run the command in an empty folder; it is ended with the block."""
    process = await asyncio.create_subprocess_exec(
        LOOPTRAP,
        "serve",
        *map(str, arguments),
        cwd=folder,
        env={**BARE, **(env or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
        # Bounded: one that it left behind would hold the pipes open.
        await asyncio.wait_for(process.communicate(), PATIENCE)
