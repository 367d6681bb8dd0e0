"""Which server of a shared store counts, and what happens when that changes.

RedisCluster  the server of each slot
Sentinels     the primary that sentinels name
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from looptrap.store.redis.address import StoreAddress, StorePlan
from looptrap.store.redis.connection import Argument, StoreError, connect, pack_command
from looptrap.store.redis.node import CONNECT_TIMEOUT_S, MAX_HOPS, NodeOptions, RedisNode
from looptrap.store.redis.request import (
    SLOT_COUNT,
    RequestBatch,
    StoreRequest,
    key_in_slots,
    key_slot,
)

ASKING_COMMAND = pack_command((b"ASKING",))

ASK_TIMEOUT_S = 0.3
"""Seconds for one sentinel to answer, before the next is asked."""

SlotRange = tuple[int, int, str, int]
"""First and last slot of a range, and the host and port of its server."""


class RedisCluster:
    """Sends each request to the server that has its slot."""

    def __init__(self, seeds: Sequence[StoreAddress], options: NodeOptions) -> None:
        self._seeds = seeds
        self._options = options
        self._nodes: dict[tuple[str, int], RedisNode] = {}
        self._slots: list[RedisNode] = []
        self._latest: RedisNode | None = None
        """The server that a slot moved to last: its slot map is the newest."""
        self._refreshing: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._retired_batches = 0

    @property
    def is_degraded(self) -> bool:
        """Whether any of the servers is away."""
        return any(node.is_degraded for node in self._nodes.values())

    @property
    def batches(self) -> int:
        """Batches sent to servers."""
        return self._retired_batches + sum(node.batches for node in self._nodes.values())

    @property
    def address(self) -> StoreAddress:
        """The address of a reachable server, else of the first seed."""
        reachable = (node.address for node in self._nodes.values() if not node.is_degraded)
        return next(reachable, self._seeds[0])

    async def start(self) -> None:
        """Fetch the slot map, and connect to all servers."""
        try:
            self._set_slots(await self._slot_map())
        except OSError as error:
            self._options.error_log.report(self._seeds[0], str(error) or "no answer")
            # Its memory answers all requests until the map is known.
            first = self._node_at(self._seeds[0].host, self._seeds[0].port)
            self._slots = [first] * SLOT_COUNT
        await asyncio.gather(*(node.start() for node in self._nodes.values()))

    async def stop(self) -> None:
        """Close all connections; pending requests are answered from memory."""
        tasks = [*self._closing, *([self._refreshing] if self._refreshing is not None else [])]
        for task in tasks:
            task.cancel()
        nodes = [node.stop() for node in self._nodes.values()]
        await asyncio.gather(*nodes, *tasks, return_exceptions=True)

    def take(self, request: StoreRequest, now: float | None) -> None:
        """Send a request to the server of its slots; one with several servers is split."""
        nodes = {self._slots[slot] for slot in {key_slot(key) for key in request.keys} or {0}}
        if len(nodes) == 1:
            nodes.pop().take(request, now)
            return
        whole = RequestBatch(now)
        whole.add(request)
        self._send_parts(whole)

    def _send_parts(self, whole: RequestBatch) -> None:
        """Send each operation to the server of its slot, as a command of its own."""
        for part in whole.parts():
            self._slots[key_slot(part.keys[0])].submit(part)

    async def call(self, slot: int, *command: Argument) -> Any:
        """Send one command to the server of a slot, and return its reply."""
        for _ in range(MAX_HOPS):
            try:
                return await self._slots[slot].call(slot, *command)
            except StoreError as error:
                if not str(error).startswith("MOVED "):
                    raise
                self._set_slots(await self._slot_map())
        raise StoreError(f"the servers of the cluster disagree on slot {slot}")

    # Where the slots are

    def refresh(self) -> None:
        """Fetch the slot map again, unless that is in progress."""
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            self._set_slots(await self._slot_map())
        except OSError:
            pass  # a server that is away asks for a refresh again
        finally:
            self._refreshing = None

    async def _slot_map(self) -> list[SlotRange]:
        """Ask the known servers in turn, then the seeds of the URL."""
        for node in sorted(self._nodes.values(), key=lambda node: node is not self._latest):
            try:
                return _decode_slot_ranges(node.address, await node.call(0, b"CLUSTER", b"SLOTS"))
            except OSError:
                continue
        failure: OSError = StoreError("no server")
        for seed in self._seeds:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    connection = await connect(seed)
                    try:
                        reply = await connection.call(b"CLUSTER", b"SLOTS")
                        return _decode_slot_ranges(seed, reply)
                    finally:
                        connection.close()
            except OSError as error:
                failure = error
        raise failure

    def _set_slots(self, ranges: list[SlotRange]) -> None:
        if not ranges:
            raise StoreError("the cluster has no slots yet")
        slots: list[RedisNode | None] = [None] * SLOT_COUNT
        for first, last, host, port in ranges:
            node = self._node_at(host, port)
            slots[first : last + 1] = [node] * (last + 1 - first)
            node.probe = key_in_slots(first, last) or node.probe
        fallback = next(node for node in slots if node is not None)
        self._slots = [node or fallback for node in slots]
        self._retire(set(self._slots))

    def _node_at(self, host: str, port: int) -> RedisNode:
        node = self._nodes.get((host, port))
        if node is None:
            address = self._seeds[0].at(host, port)
            node = self._nodes[host, port] = RedisNode(address, self._options, self)
            node.recover()
        return node

    def _retire(self, in_use: set[RedisNode]) -> None:
        for place, node in list(self._nodes.items()):
            if node not in in_use:
                del self._nodes[place]
                self._retired_batches += node.batches
                task = asyncio.get_running_loop().create_task(self._close_later(node))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def _close_later(self, node: RedisNode) -> None:
        try:
            # Until its pending requests are answered.
            await asyncio.sleep(2 * self._options.timeout)
        finally:
            await node.stop()

    # Redirects

    def redirect(self, node: RedisNode, batch: RequestBatch, error: str) -> bool:
        """Send a batch to where its server redirects it; return whether that is possible."""
        kind, *arguments = error.split()
        if kind in ("ASK", "TRYAGAIN", "LTSPLIT") and len(batch.keys) > 1:
            # A slot is migrating, or has moved: some of the records are here, some elsewhere.
            self._send_parts(batch)
            return True
        if kind not in ("MOVED", "ASK"):
            return False
        slot, place = arguments
        host, _, port = place.rpartition(":")
        target = self._node_at(host.strip("[]") or node.address.host, int(port))
        if kind == "MOVED":
            self._slots[int(slot)] = self._latest = target
            self.refresh()
            if batch.has_several_places:
                self._send_parts(batch)
                return True
        batch.preceding = [ASKING_COMMAND] if kind == "ASK" else []
        target.submit(batch)
        return True


def _decode_slot_ranges(source: StoreAddress, reply: Any) -> list[SlotRange]:
    """Decode CLUSTER SLOTS; a server without a host in it is the source of the reply."""
    return [
        (first, last, (host or b"").decode() or source.host, port)
        for first, last, (host, port, *_), *_replicas in reply
    ]


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
