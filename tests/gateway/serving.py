"""A gateway and the provider behind it, on the test's own loop; clients that send plain bytes."""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
from tests.store.serving import PATIENCE
from tests.wire.fake_client import Client

from looptrap.config import load
from looptrap.gateway import keys
from looptrap.gateway.app import App
from looptrap.gateway.state_file import StateFile
from looptrap.testing import FakeProvider

CHAT = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}


def chat(text="Again?", **more):
    """Return the body of a chat request."""
    messages = [{"role": "user", "content": text}]
    return msgspec.json.encode({"model": "gpt-5.3", "messages": messages, **more})


def request(method="POST", target=CHAT, headers=None, body=b""):
    """Return the bytes of a request."""
    given = headers.items() if isinstance(headers, dict) else headers or ()
    lines = [("Host", "gateway"), ("Content-Length", str(len(body))), *given]
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


@dataclass
class Serving:
    """What a test can reach: the gateway, the provider, and where the gateway listens."""

    app: App
    provider: FakeProvider
    host: str
    port: int
    state: StateFile
    clients: list[Client] = field(default_factory=list)

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    async def connect(self, **options):
        client = Client(*await asyncio.open_connection(self.host, self.port, **options))
        self.clients.append(client)
        return client

    async def ask(self, method="POST", target=CHAT, headers=None, body=b""):
        """Send one request on a connection of its own; return the answer."""
        client = await self.connect()
        await client.send(request(method, target, headers, body))
        return await client.answer(method.encode())

    def add_key(self, name="ci", **more):
        """Make a gateway key that is in force at once; return its text."""
        _, text = keys.add(self.state, name, now=datetime.now(UTC), **more)
        self.app.ring.refresh()
        return text


@asynccontextmanager
async def serving(folder, toml="", *, script=(), env=None, clock=time.time, **flags):
    """Serve a configuration; `{url}` is the provider's, to which everything goes by default."""
    async with FakeProvider(script) as provider:
        file, state = folder / "looptrap.toml", folder / "state"
        file.write_text(toml.replace("{url}", provider.url))
        flags = {
            "listen": "127.0.0.1:0",
            "upstream": "{url}",
            "state": str(state),
            "history": str(folder / "history.db"),
            **flags,
        }
        if flags["upstream"] is not None:
            flags["upstream"] = flags["upstream"].replace("{url}", provider.url)
        app = App(load(file, env={}, flags=flags), env or {}, clock=clock)
        [(host, port)] = await app.start()
        here = Serving(app, provider, host, port, StateFile(state))
        try:
            yield here
        finally:
            for client in here.clients:
                client.close()
            await app.stop()


async def until(is_so):
    """Look again and again until something is so, while everything else goes on."""
    async with asyncio.timeout(PATIENCE):
        while not (await value if asyncio.iscoroutine(value := is_so()) else value):
            await asyncio.sleep(0.005)


def is_degraded(here):
    """Say whether a gateway counts alone because its store is away."""
    return here.app.gateway.judge.is_degraded
