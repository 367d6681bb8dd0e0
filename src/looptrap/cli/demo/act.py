"""One run of the agent in front of a fake provider, with the gateway between or without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import ClientSession, ClientTimeout

from looptrap.cli.demo.agent import Step, StuckAgent, answer
from looptrap.cli.demo.price import PRICE
from looptrap.config import load
from looptrap.gateway.app import App
from looptrap.testing import FakeProvider

PATIENCE = ClientTimeout(total=10)


@dataclass(slots=True)
class Act:
    """What happened so far in one run of the agent."""

    is_guarded: bool
    most: int
    """Calls after which the demo ends the run, if nothing else does."""
    steps: list[Step] = field(default_factory=list)
    answered: int = 0
    """Calls that the provider has seen."""
    cost: float = 0.0
    """Dollars, for the tokens that the provider reported."""

    @property
    def refusal(self) -> Step | None:
        """The call at which the agent was stopped, if it was."""
        return self.steps[-1] if self.steps and self.steps[-1].is_refused else None


async def perform(act: Act) -> AsyncIterator[Step]:
    """Run the agent until it is stopped, or the demo has seen enough; yield every call."""
    async with (
        FakeProvider(answer) as provider,
        _reachable(provider, act.is_guarded) as url,
        ClientSession(timeout=PATIENCE) as http,
    ):
        agent = StuckAgent(http, url)
        while len(act.steps) < act.most and act.refusal is None:
            step = await agent.step()
            act.steps.append(step)
            act.answered = provider.calls
            act.cost += PRICE.of(step.input_tokens, step.output_tokens)
            yield step


@asynccontextmanager
async def _reachable(provider: FakeProvider, is_guarded: bool) -> AsyncIterator[str]:
    """Give the URL by which the agent reaches the provider: straight, or through a gateway."""
    if not is_guarded:
        yield provider.url
        return
    with TemporaryDirectory(prefix="looptrap-demo-") as folder:
        # Nothing of the machine's own set-up takes part: no file, variable, key or proxy.
        flags = {
            "listen": "127.0.0.1:0",
            "upstream": provider.url,
            "state": str(Path(folder, "state")),
            "history": str(Path(folder, "history")),
            "decision_log": "off",
        }
        app = App(load(env={}, flags=flags), {})
        [(host, port)] = await app.start()
        try:
            yield f"http://{host}:{port}"
        finally:
            await app.stop()
