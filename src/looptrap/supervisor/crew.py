"""All workers of a gateway, from the first start to the last answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from looptrap.admin.front import Member
from looptrap.config import Config
from looptrap.errors import ConfigError
from looptrap.gateway.app import KEPT, RELOADED
from looptrap.supervisor.child import MOST_TRIES
from looptrap.supervisor.post import Post

OVERTIME = 15.0
"""Seconds beyond the grace in which a worker may write down its last captures."""


class Crew:
    """Starts the workers, has each replaced when it ends, and stops them together."""

    def __init__(self, config: Config, leftover: Path | None = None) -> None:
        """`leftover` is a folder for workers to remove should their supervisor be killed."""
        self._config = config
        self._posts = [
            Post(config, str(leftover or ""), self._take_stock)
            for _ in range(config.gateway.workers)
        ]
        self.is_complete = False
        self.is_stopping = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """A ConfigError when no worker is left and none can be started."""

    @property
    def size(self) -> int:
        """How many workers there should be."""
        return len(self._posts)

    @property
    def restarts(self) -> int:
        """How many workers ended and were replaced."""
        return sum(post.restarts for post in self._posts)

    @property
    def asks_for_keys(self) -> bool:
        """Whether callers need a gateway key."""
        return any(post.asks_for_keys for post in self._posts)

    def members(self) -> Sequence[Member]:
        """Return the workers that serve."""
        return [
            Member(post.pid, post.admin, post.token)
            for post in self._posts
            if post.up.is_set() and post.pid is not None
        ]

    async def start(self) -> None:
        """Start all workers; raise ConfigError where that cannot be done."""
        for post in self._posts:
            post.start()
        await asyncio.gather(*(post.first_up for post in self._posts))
        self.is_complete = True

    async def stop(self) -> None:
        """Let every worker finish what is in flight within the grace, and end."""
        self.is_stopping = True
        patience = self._config.gateway.grace + OVERTIME
        await asyncio.gather(*(post.stop(patience) for post in self._posts))

    def kill(self) -> None:
        """End every worker at once."""
        self.is_stopping = True
        for post in self._posts:
            post.kill()

    async def reload(self, config: Config) -> None:
        """Go on under another configuration, in all workers; what a reload cannot change stays."""
        self._config = _reloaded(self._config, config)
        await asyncio.gather(*(post.reload(self._config) for post in self._posts))

    def _take_stock(self) -> None:
        """Give up when there is nobody left, and starting others has come to nothing."""
        if all(post.futile >= MOST_TRIES for post in self._posts) and not self.lost.done():
            self.lost.set_exception(ConfigError([self._posts[0].ending()]))


def _reloaded(running: Config, wanted: Config) -> Config:
    """Return what is wanted, but for what has to be the same for workers old and new."""
    changed = {name: getattr(wanted.gateway, name) for name in RELOADED}
    kept = {name: getattr(running, name) for name in KEPT}
    return replace(wanted, gateway=replace(running.gateway, **changed), **kept)
