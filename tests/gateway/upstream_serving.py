"""A gateway in front of several providers, and what tests of attempts ask of it."""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from tests.gateway.serving import CHAT, JSON, Serving, chat, serving
from tests.wire.fake_client import Clock

from looptrap.retry.breaker import Breakers
from looptrap.testing import FakeProvider, Reply

CHAIN = """
[[routes]]
select = { path_prefix = "/v1/" }
chain = ["one", "two/model-two"]
"""
RETRIED = """
[[routes]]
select = { path_prefix = "/v1/" }
provider = "one"
attempts = 3
"""
KEYS = {"KEY_ONE": "sk-operator-one", "KEY_TWO": "sk-operator-two", "KEY_THREE": "sk-operator-3"}
STREAM = chat(stream=True)
TICKS = [b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % i for i in range(3)]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@dataclass
class Attempting:
    """A gateway whose waits are as short as they can be, and its providers by name."""

    gateway: Serving
    providers: dict[str, FakeProvider]
    clock: Clock | None = None
    told: list = field(default_factory=list)

    @property
    def dispatch(self):
        return self.gateway.app.attempts

    def asked(self, name="one"):
        """Return how many calls a provider received."""
        return len(self.providers[name].requests)

    async def ask(self, body=None, target=CHAT, headers=None, **more):
        body = chat(**more) if body is None else body
        return await self.gateway.ask(target=target, headers=JSON | (headers or {}), body=body)


@asynccontextmanager
async def attempting(folder, routes, *, scripts, providers="", clock=None, **options):
    """Serve routes over providers `one`, `two`, … that answer by these scripts."""
    async with AsyncExitStack() as stack:
        running, tables = {}, []
        for name, script in scripts.items():
            running[name] = await stack.enter_async_context(FakeProvider(script))
            if f'name = "{name}"' not in providers:
                tables.append(
                    f'[[providers]]\nname = "{name}"\nbase_url = "{running[name].url}"\n'
                    f'api_key_env = "KEY_{name.upper()}"\n'
                )
        toml = "".join(tables) + providers + routes
        for name, provider in running.items():
            toml = toml.replace("{" + name + "}", provider.url)
        options = {"env": KEYS, "upstream": None, **options}
        gateway = await stack.enter_async_context(serving(folder, toml, **options))
        dispatch = gateway.app.attempts
        dispatch.chance = lambda: 0.0
        here = Attempting(gateway, running, clock)
        if clock is not None:
            dispatch.clock = clock
        alert = dispatch._alert
        dispatch._alert = lambda event: (here.told.append(event), alert(event))
        yield here


def few(threshold=2, open_for=60.0):
    """Return breakers that open sooner than usual."""
    return Breakers(threshold, open_for)


def failing(*codes, then=None, headers=None):
    """Return a script that fails with these statuses, then answers."""
    return [*(Reply.status(code, headers=headers) for code in codes), then or Reply.text("ok")]
