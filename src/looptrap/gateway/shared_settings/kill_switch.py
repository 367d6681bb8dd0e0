"""Kill switches set at run time: as those of the file, with an id."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from looptrap.errors import ConfigError, Problem
from looptrap.gateway.shared_settings.shared_entries import (
    ENTRY_ERRORS,
    SharedEntries,
    merge_by_rank,
)
from looptrap.gateway.state_file import Time
from looptrap.policy.policy import KILL_SWITCH, KillSwitch
from looptrap.schema import read

KILL_SWITCH_KIND = "kill"

ENDED_SWITCH_TTL = timedelta(days=1)
"""How long an ended kill switch is remembered, so that no instance restores it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKillSwitch:
    """A kill switch that was set while the gateway ran."""

    id: str
    created: datetime
    switch: KillSwitch


class RuntimeKillSwitches:
    """The kill switches that were set at run time, on all instances."""

    def __init__(self, entries: SharedEntries, clock: Callable[[], float]) -> None:
        self._entries = entries
        self._clock = clock
        entries.merge_by(KILL_SWITCH_KIND, _merge_ended_wins)

    def in_force(self) -> list[RuntimeKillSwitch]:
        """Return those that have not expired, the oldest first."""
        now = self._now()
        found = [
            RuntimeKillSwitch(id=switch_id, created=created, switch=switch)
            for switch_id, _, created, switch in self._all()
            if switch is not None and not is_expired(switch, now)
        ]
        return sorted(found, key=lambda one: (one.created, one.id))

    async def add(self, body: object) -> tuple[RuntimeKillSwitch, bool]:
        """Set one as the file would; return it, and whether the shared store has it.

        A ConfigError lists every mistake.
        """
        switch = read_kill_switch(body)
        now = self._now()
        if switch.expires is not None and is_expired(switch, now):
            message = f"is the time {switch.expires.isoformat()}, must be in the future"
            raise ConfigError([Problem("expires", message)])
        await self._sweep(now)
        one = RuntimeKillSwitch(id=secrets.token_hex(4), created=now, switch=switch)
        stored = _StoredSwitch(created=now, switch=KILL_SWITCH.plain(switch))
        return one, await self._entries.set(_entry(one.id), msgspec.json.encode(stored))

    async def drop(self, switch_id: str) -> bool | None:
        """End one; return whether the shared store has that, None where there is none."""
        with suppress(OSError):
            await self._entries.refresh()
        if all(one.id != switch_id for one in self.in_force()):
            return None
        ended = msgspec.json.encode(_StoredSwitch(created=self._now()))
        return await self._entries.set(_entry(switch_id), ended)

    async def _sweep(self, now: datetime) -> None:
        """Drop those that expired or were ended long ago, unless the store is down."""
        with suppress(OSError):
            for switch_id, value, created, switch in list(self._all()):
                is_old = created + ENDED_SWITCH_TTL <= now
                if is_old if switch is None else is_expired(switch, now):
                    await self._entries.swap(_entry(switch_id), value, None)

    def _all(self) -> Iterator[tuple[str, bytes, datetime, KillSwitch | None]]:
        """Yield the id, entry, creation and switch of each; None for one that was ended."""
        for switch_id, value in self._entries.of(KILL_SWITCH_KIND).items():
            try:
                stored = msgspec.json.decode(value, type=_StoredSwitch)
                switch = None if stored.switch is None else read_kill_switch(stored.switch)
            except (*ENTRY_ERRORS, ConfigError):
                self._entries.ignore(_entry(switch_id), value)
            else:
                yield switch_id, value, stored.created.astimezone(UTC), switch

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def read_kill_switch(body: object) -> KillSwitch:
    """Read a kill switch from JSON, in which times are texts; a ConfigError lists mistakes."""
    if isinstance(body, dict) and isinstance(body.get("expires"), str):
        with suppress(ValueError):  # the schema refuses what is no time
            body = {**body, "expires": datetime.fromisoformat(body["expires"])}
    switch: KillSwitch = read(KILL_SWITCH, body)
    return switch


def is_expired(switch: KillSwitch, now: datetime) -> bool:
    """Return whether a kill switch has expired."""
    return switch.expires is not None and switch.expires <= now


class _StoredSwitch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A kill switch in the shared store; without `switch`, one that was ended."""

    created: Time
    switch: dict[str, Any] | None = None


_merge_ended_wins = merge_by_rank(
    lambda entry: 2 if msgspec.json.decode(entry, type=_StoredSwitch).switch is None else 1
)
"""A kill switch that was ended anywhere is ended."""


def _entry(switch_id: str) -> str:
    return f"{KILL_SWITCH_KIND}:{switch_id}"
