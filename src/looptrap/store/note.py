"""Notes in this process: short byte strings under keys, forgotten when they are not written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from looptrap.bounded import ExpiringMap
from looptrap.store.model import RUN_MEMORY_S, Note

MAX_RUNS = 100_000

NOTES_PER_RUN = 4
"""Notes for which there is room, as a multiple of the runs."""

MAX_SEARCHED_NOTES = 64
"""Of the notes written longest ago, those among which a caller's own is searched."""


class _KeptNote(msgspec.Struct, gc=False):
    """The value of a note, and when it was last written."""

    # Bytes, not a bytearray: that takes an eighth more, and is copied when it is recalled.
    value: bytes
    written: float


class Notes(ExpiringMap[_KeptNote]):
    """Notes by key; of too many, those written longest ago are forgotten first.

    A caller has a quarter of the room, so that it cannot displace the notes of all others. Here, a
    caller is the first two bytes of a key.
    """

    __slots__ = ("_max_notes", "_max_of_place", "_of_place")

    def __init__(self, max_runs: int) -> None:
        super().__init__(RUN_MEMORY_S)
        self._max_notes = NOTES_PER_RUN * max_runs
        self._max_of_place = max_runs
        self._of_place: dict[bytes, int] = {}

    def recall(self, keys: Sequence[bytes], now: float) -> list[bytes]:
        """Return the value of each key; empty where none is known."""
        get, edge = self.entries.get, now - RUN_MEMORY_S
        values = []
        for key in keys:  # faster than a comprehension for a few
            kept = get(key)
            values.append(b"" if kept is None or kept.written <= edge else kept.value)
        return values

    def remember(self, notes: Sequence[Note], now: float) -> None:
        """Write notes, in order."""
        if now >= self._next_expiry:
            self.expire(now)
        entries, edge = self.entries, now - RUN_MEMORY_S
        for note in notes:
            key, value, limit = note.key, note.value, note.limit
            kept = entries.get(key)
            if not value:
                self.release(key)
            elif kept is None:
                self._add(key, value[-limit:], now)
            else:
                if limit:
                    if kept.written > edge:
                        value = kept.value + value
                    value = value[-limit:]
                kept.value, kept.written = value, now
                entries.move_to_end(key)

    def release(self, key: bytes) -> bool:
        """Forget a note; return whether there was one."""
        if self.entries.pop(key, None) is None:
            return False
        place = key[:2]
        left = self._of_place[place] - 1
        if left:
            self._of_place[place] = left
        else:
            del self._of_place[place]
        return True

    def expire(self, now: float) -> None:
        expired, self._next_expiry = self._find_expired(self.entries, now)
        for key in expired:
            self.release(key)

    def since(self, entry: _KeptNote) -> float:
        return entry.written

    def _add(self, key: bytes, value: bytes, now: float) -> None:
        """Add a note; a caller without room loses its own oldest, or else this one."""
        entries, place = self.entries, key[:2]
        count = self._of_place.get(place, 0)
        if count >= self._max_of_place:
            oldest = islice(entries, MAX_SEARCHED_NOTES)
            own = next((one for one in oldest if one[:2] == place), None)
            if own is None:
                return
            self.release(own)
            count -= 1
        elif len(entries) >= self._max_notes:
            self.release(next(iter(entries)))
            count = self._of_place.get(place, 0)
        entries[key] = _KeptNote(value, now)
        self._of_place[place] = count + 1
