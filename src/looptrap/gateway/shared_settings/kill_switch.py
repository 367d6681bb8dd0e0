"""Kill switches set at run time: as those of the file, with an id to end them by."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from looptrap.errors import ConfigError, Problem
from looptrap.gateway.shared_settings.shared_entries import ENTRY_ERRORS, SharedEntries
from looptrap.gateway.state_file import Time
from looptrap.policy.policy import KILL_SWITCH, KillSwitch
from looptrap.schema import read

KILL_SWITCH_KIND = "kill"

ENDED_SWITCH_TTL = timedelta(days=1)
"""How long it is remembered that a kill switch was ended, so that nobody puts it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKillSwitch:
    """A kill switch that somebody set while the gateway ran."""

    id: str
    created: datetime
    switch: KillSwitch


class RuntimeKillSwitches:
    """The kill switches that all instances were given at run time."""

    def __init__(self, agreement: SharedEntries, clock: Callable[[], float]) -> None:
        self._agreement = agreement
        self._clock = clock
        agreement.merge_by(KILL_SWITCH_KIND, _merge_ended_wins)

    def in_force(self) -> list[RuntimeKillSwitch]:
        """Return those that have not expired, the oldest first."""
        now = self._now()
        every = [_runtime_kill_switch(switch_id, entry) for switch_id, _, entry in self._all()]
        found = [one for one in every if one is not None and not is_expired(one.switch, now)]
        return sorted(found, key=lambda one: (one.created, one.id))

    async def add(self, given: object) -> tuple[RuntimeKillSwitch, bool]:
        """Set one as the file would; return it, and whether all instances can know of it.

        A ConfigError lists every mistake.
        """
        switch = read_kill_switch(given)
        now = self._now()
        if switch.expires is not None and is_expired(switch, now):
            message = f"is the time {switch.expires.isoformat()}, must be in the future"
            raise ConfigError([Problem("expires", message)])
        await self._sweep(now)
        one = RuntimeKillSwitch(id=secrets.token_hex(4), created=now, switch=switch)
        entry = _Entry(created=now, switch=KILL_SWITCH.plain(switch))
        return one, await self._agreement.tell(_name(one.id), msgspec.json.encode(entry))

    async def drop(self, switch_id: str) -> bool | None:
        """End one; return whether all instances can know of it, None where there is none."""
        with suppress(OSError):
            await self._agreement.refresh()
        if all(one.id != switch_id for one in self.in_force()):
            return None
        ended = msgspec.json.encode(_Entry(created=self._now()))
        return await self._agreement.tell(_name(switch_id), ended)

    async def _sweep(self, now: datetime) -> None:
        """Drop those that expired or were ended long ago; while the store is away, they wait."""
        with suppress(OSError):
            for switch_id, value, entry in list(self._all()):
                one = _runtime_kill_switch(switch_id, entry)
                is_old = entry.created + ENDED_SWITCH_TTL <= now
                if is_old if one is None else is_expired(one.switch, now):
                    await self._agreement.swap(_name(switch_id), value, None)

    def _all(self) -> Iterator[tuple[str, bytes, _Entry]]:
        for switch_id, value in self._agreement.of(KILL_SWITCH_KIND).items():
            try:
                entry = msgspec.json.decode(value, type=_Entry)
                _runtime_kill_switch(switch_id, entry)
            except (*ENTRY_ERRORS, ConfigError):
                self._agreement.ignore(_name(switch_id), value)
            else:
                yield switch_id, value, entry

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def read_kill_switch(given: object) -> KillSwitch:
    """Read a kill switch from JSON, in which moments are texts; a ConfigError lists mistakes."""
    if isinstance(given, dict) and isinstance(given.get("expires"), str):
        with suppress(ValueError):  # what is no moment is the schema's to refuse
            given = {**given, "expires": datetime.fromisoformat(given["expires"])}
    switch: KillSwitch = read(KILL_SWITCH, given)
    return switch


def is_expired(switch: KillSwitch, now: datetime) -> bool:
    """Say whether a kill switch has expired."""
    return switch.expires is not None and switch.expires <= now


class _Entry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A kill switch as instances tell each other; without one, that it has been ended."""

    created: Time
    switch: dict[str, Any] | None = None


def _runtime_kill_switch(switch_id: str, entry: _Entry) -> RuntimeKillSwitch | None:
    if entry.switch is None:
        return None
    created = entry.created.astimezone(UTC)
    return RuntimeKillSwitch(id=switch_id, created=created, switch=read_kill_switch(entry.switch))


def _merge_ended_wins(there: bytes | None, ours: bytes) -> bytes:
    """Return which of two entries holds: a switch that was ended anywhere is ended."""
    return ours if there is None or _weight(ours) > _weight(there) else there


def _weight(value: bytes) -> int:
    try:
        return 2 if msgspec.json.decode(value, type=_Entry).switch is None else 1
    except ENTRY_ERRORS:
        return 0


def _name(switch_id: str) -> str:
    return f"{KILL_SWITCH_KIND}:{switch_id}"
