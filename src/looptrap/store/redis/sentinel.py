"""Sentinels: which server is the primary at present."""

from __future__ import annotations

import asyncio

from looptrap.store.redis.address import StoreAddress, StorePlan
from looptrap.store.redis.connection import StoreError, connect

ASK_TIMEOUT_S = 0.3
"""Seconds for one sentinel to answer, before the next is asked."""


class Sentinels:
    """Asks the sentinels of a plan in turn, the one that answered last first."""

    def __init__(self, plan: StorePlan) -> None:
        self._sentinels = list(plan.servers)
        self._name = plan.primary_name
        self._primary = plan.primary

    async def locate(self) -> StoreAddress:
        """Return the primary; raise StoreError if no sentinel knows it."""
        failures = []
        for sentinel in list(self._sentinels):
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    place = await self.ask(sentinel)
            except TimeoutError:
                failures.append(f"{sentinel}: no answer")
            except OSError as error:
                failures.append(f"{sentinel}: {error}")
            else:
                self._sentinels.remove(sentinel)
                self._sentinels.insert(0, sentinel)
                return place
        raise StoreError(f"no sentinel knows {self._name!r} ({'; '.join(failures)})")

    async def ask(self, sentinel: StoreAddress) -> StoreAddress:
        """Return the primary that one sentinel names; raise StoreError if it names none."""
        connection = await connect(sentinel)
        try:
            command = (b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self._name)
            place = await connection.call(*command)
        finally:
            connection.close()
        if place is None:
            raise StoreError("it watches no primary of that name")
        host, port = place
        return self._primary.at(host.decode(), int(port))


async def servers_of(plan: StorePlan) -> tuple[StoreAddress, ...]:
    """Return the servers that count: with sentinels, the primary that they name."""
    return (await Sentinels(plan).locate(),) if plan.kind == "sentinel" else plan.servers
