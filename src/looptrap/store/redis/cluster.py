"""A cluster: which of its servers has which slot, and what to do when that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from looptrap.store.redis.address import StoreAddress
from looptrap.store.redis.connection import Argument, StoreError, connect, pack_command
from looptrap.store.redis.node import CONNECT_TIMEOUT_S, MAX_HOPS, NodeOptions, RedisNode
from looptrap.store.redis.request import KeyedRequest, RequestBatch
from looptrap.store.redis.script import SLOT_COUNT, key_in_slots, key_slot

ASKING_COMMAND = pack_command((b"ASKING",))

SlotRange = tuple[int, int, str, int]
"""The first and the last of some slots, and the host and port of the server that has them."""


class RedisCluster:
    """Sends each ask to the server that has its slot."""

    def __init__(self, seeds: Sequence[StoreAddress], terms: NodeOptions) -> None:
        self._seeds = seeds
        self._terms = terms
        self._nodes: dict[tuple[str, int], RedisNode] = {}
        self._slots: list[RedisNode] = []
        self._latest: RedisNode | None = None  # to which a slot has moved: it is the first to know
        self._refreshing: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._retired_batches = 0

    @property
    def is_degraded(self) -> bool:
        """Whether any of the servers is away."""
        return any(node.is_degraded for node in self._nodes.values())

    @property
    def batches(self) -> int:
        """Commands sent to servers."""
        return self._retired_batches + sum(node.batches for node in self._nodes.values())

    @property
    def address(self) -> StoreAddress:
        """Of a server that is there; of the first, if none is."""
        there = (node.address for node in self._nodes.values() if not node.is_degraded)
        return next(there, self._seeds[0])

    async def start(self) -> None:
        """Learn who has which slot, and connect to all of them."""
        try:
            self._learn(await self._slot_map())
        except OSError as error:
            self._terms.trouble.report(self._seeds[0], str(error) or "no answer")
            # Whatever it is asked is answered from its memory, until the map is known.
            first = self._node_at(self._seeds[0].host, self._seeds[0].port)
            self._slots = [first] * SLOT_COUNT
        await asyncio.gather(*(node.start() for node in self._nodes.values()))

    async def stop(self) -> None:
        """Close all connections; whoever still waits is answered from memory."""
        tasks = [*self._leaving, *([self._refreshing] if self._refreshing is not None else [])]
        for task in tasks:
            task.cancel()
        nodes = [node.stop() for node in self._nodes.values()]
        await asyncio.gather(*nodes, *tasks, return_exceptions=True)

    def take(self, ask: KeyedRequest, now: float | None) -> None:
        """Carry out an ask where its slot is; one of several slots in as many parts."""
        slots = {key_slot(key) for key in ask.keys}
        if len(slots) <= 1:
            slot = slots.pop() if slots else 0
            self._slots[slot].take(ask, now, slot)
            return
        whole = RequestBatch(now)
        whole.add(ask)
        for part, key in zip(whole.parts(), ask.keys, strict=True):
            self._slots[key_slot(key)].submit(part)

    async def call(self, slot: int, *command: Argument) -> Any:
        """Send one command to the server that has a slot, and return its reply."""
        for _ in range(MAX_HOPS):
            try:
                return await self._slots[slot].call(slot, *command)
            except StoreError as error:
                if not str(error).startswith("MOVED "):
                    raise
                self._learn(await self._slot_map())
        raise StoreError(f"the cluster does not agree on who has slot {slot}")

    # Where the slots are

    def refresh(self) -> None:
        """Learn the slots anew, unless that is being done."""
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            self._learn(await self._slot_map())
        except OSError:
            pass  # every server that is away is looked after, and asks for this again
        finally:
            self._refreshing = None

    async def _slot_map(self) -> list[SlotRange]:
        """Ask the servers in turn, those that are there before the seeds of the URL."""
        for node in sorted(self._nodes.values(), key=lambda node: node is not self._latest):
            try:
                return _decode_slot_ranges(node.address, await node.call(0, b"CLUSTER", b"SLOTS"))
            except OSError:
                continue
        failure: OSError = StoreError("no server")
        for seed in self._seeds:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    connection = await connect(seed, _ignore_lost)
                    try:
                        return _decode_slot_ranges(
                            seed, await connection.call(b"CLUSTER", b"SLOTS")
                        )
                    finally:
                        connection.close()
            except OSError as error:
                failure = error
        raise failure

    def _learn(self, ranges: list[SlotRange]) -> None:
        if not ranges:
            raise StoreError("the cluster has no slots yet")
        slots: list[RedisNode | None] = [None] * SLOT_COUNT
        for first, last, host, port in ranges:
            node = self._node_at(host, port)
            slots[first : last + 1] = [node] * (last + 1 - first)
            node.probe = key_in_slots(first, last) or node.probe
        some = next(node for node in slots if node is not None)
        self._slots = [node or some for node in slots]
        self._retire(set(self._slots))

    def _node_at(self, host: str, port: int) -> RedisNode:
        node = self._nodes.get((host, port))
        if node is None:
            address = self._seeds[0].at(host, port)
            node = self._nodes[host, port] = RedisNode(address, self._terms, self)
            node.recover()
        return node

    def _retire(self, staying: set[RedisNode]) -> None:
        for place, node in list(self._nodes.items()):
            if node not in staying:
                del self._nodes[place]
                self._retired_batches += node.batches
                task = asyncio.get_running_loop().create_task(self._let_go(node))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    async def _let_go(self, node: RedisNode) -> None:
        try:
            await asyncio.sleep(2 * self._terms.timeout)  # until what it was asked is answered
        finally:
            await node.stop()

    # What servers say

    def redirect(self, node: RedisNode, batch: RequestBatch, error: str) -> bool:
        """Send a batch where its server says; say whether that can be done."""
        kind, *said = error.split()
        if kind in ("ASK", "TRYAGAIN") and len(batch.records) > 1:
            # A slot on its way: some of its records are here, some there already.
            for part in batch.parts():
                node.submit(part)
            return True
        if kind not in ("MOVED", "ASK"):
            return False
        slot, place = said
        host, _, port = place.rpartition(":")
        target = self._node_at(host.strip("[]") or node.address.host, int(port))
        if kind == "MOVED":
            self._slots[int(slot)] = self._latest = target
            self.refresh()
        batch.prefaces = [ASKING_COMMAND] if kind == "ASK" else []
        target.submit(batch)
        return True


def _decode_slot_ranges(asked: StoreAddress, reply: Any) -> list[SlotRange]:
    """Read the reply to CLUSTER SLOTS; a server that does not say its host is the one asked."""
    return [
        (first, last, (host or b"").decode() or asked.host, port)
        for first, last, (host, port, *_), *_replicas in reply
    ]


def _ignore_lost(_reason: str) -> None:
    """Take the end of a connection whose failure shows in what it was asked."""
