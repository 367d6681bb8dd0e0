"""RunRecorder: the records of a request's rounds, as a store is to remember them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from looptrap.detect.call_kind import is_note
from looptrap.detect.remembered_round import (
    MAX_REMEMBERED_ROUNDS,
    ROUND_BYTES,
    RoundDigester,
    RoundRecord,
    Trait,
    records_of,
)
from looptrap.detect.round import Round
from looptrap.detect.signals.unknown_tool import calls_unknown_tool
from looptrap.dialect.model import Call, Message, ToolCall
from looptrap.engine.run_memory import RunLink, RunMemory
from looptrap.store.model import Note

MAX_RUN_BYTES = MAX_REMEMBERED_ROUNDS * ROUND_BYTES

PAIR_BYTES = 5
MAX_PAIRS = 200
"""Calls, and pairs of call and result, of the compacted part of a run that are remembered to tell
what is new."""

MAX_SHORT = 65_535
"""The largest number of messages, or of calls, in a record."""

NEWS = int(Trait.NEWS)
"""A plain number: Python code combines flags, and that is slow."""


class _Pair(NamedTuple):
    """Digests of a call, and of it with the gist of its result."""

    call: bytes
    gist: bytes


class RunRecorder:
    """Makes the records of one request's rounds, and the notes that store them."""

    __slots__ = ("_call", "_is_local", "_memory", "_now", "digester")

    def __init__(self, memory: RunMemory, call: Call, now: float, is_local: bool) -> None:
        self.digester: RoundDigester = memory.digester(is_local)
        self._memory = memory
        self._call = call
        self._now = now
        self._is_local = is_local

    def record(self, round_: Round, before: Round | None) -> RoundRecord:
        """Return the record of a round, without its place in the run."""
        return self.digester.record(
            round_,
            self._memory.link_key(self._call, round_, self._is_local)[-4:],
            before,
            is_unknown_tool=calls_unknown_tool(round_, self._call.tools),
        )

    def signatures(self, rounds: Sequence[Round]) -> list[bytes]:
        """Return the signatures of rounds as they stand in records."""
        signature = self.digester.signature
        return [signature(round_) if round_.calls else bytes(6) for round_ in rounds]

    def place(
        self, record: RoundRecord, traits: int, segment: int, stale_segments: int, total_calls: int
    ) -> RoundRecord:
        """Return a record with its traits and its place in the run."""
        # By position: `_replace` takes longer.
        return RoundRecord(
            *record[:8],
            traits,
            record.call_count,
            segment,
            stale_segments,
            min(len(self._call.raws), MAX_SHORT),
            total_calls,
            int(self._now) & 0xFFFFFFFF,
        )

    def place_in_segment(
        self,
        record: RoundRecord,
        link: RunLink,
        records: Sequence[RoundRecord],
        traits_before: int,
        seen: bytes,
        round_: Round | None = None,
    ) -> tuple[RoundRecord, bytes]:
        """Return a new record placed in its segment, and its pairs that had not been seen."""
        new = [pair for pair in self._pairs(record, round_) if not _contains(seen, pair.gist)]
        if new and any(map(record.repeats, records)):
            new = []
        traits = record.traits | (Trait.NEW if new else 0)
        if new or traits_before & Trait.NEWS:
            traits |= Trait.NEWS
        total = min(link.total_calls + record.call_count, MAX_SHORT)
        placed = self.place(record, traits, link.segment, link.stale_segments, total)
        return placed, b"".join([pair.call + pair.gist for pair in new])

    def pack_next(
        self, round_: Round, key: bytes, signature: bytes, link: RunLink, total_calls: int
    ) -> bytes:
        """Return the packed record of a round with calls that are new in its run."""
        return self.digester.pack_brief(
            round_,
            key[-4:],
            signature,
            link.segment,
            link.stale_segments,
            min(len(self._call.raws), MAX_SHORT),
            total_calls,
            int(self._now),
        )

    def pack_first(self, rounds: Sequence[Round], keys: Sequence[bytes]) -> tuple[bytes, int]:
        """Return the packed records of a run's first rounds, and how many calls they have."""
        packed, total, messages = b"", 0, min(len(self._call.raws), MAX_SHORT)
        for round_, key in zip(rounds, keys, strict=True):
            total = min(total + len(round_.calls), MAX_SHORT)
            if round_.calls:
                packed += self.digester.pack_brief(
                    round_,
                    key[-4:],
                    self.digester.signature(round_),
                    0,
                    0,
                    messages,
                    total,
                    int(self._now),
                    with_failure=round_ is rounds[-1],  # for the others that takes too long
                )
            else:
                record = self.record(round_, None)
                packed += self.place(record, record.traits | NEWS, 0, 0, total).pack()
        return packed, total

    def notes(self, run: bytes, records: bytes, pairs: bytes) -> list[Note]:
        """Return the notes of packed records, and of pairs that are new."""
        notes = [Note(run, records, MAX_RUN_BYTES)]
        if pairs:
            notes.append(Note(self._memory.seen_key(run), pairs, MAX_PAIRS * PAIR_BYTES))
        return notes

    def pending_notes(
        self,
        run: bytes,
        calls: tuple[ToolCall, ...],
        records: Sequence[RoundRecord],
        seen: bytes,
    ) -> Sequence[Note]:
        """Return the notes of an answer's calls without results, if one of them is new."""
        digester, latest = self.digester, records[-1]
        known = {record.signature for record in records}
        signatures = [digester.call_signature(call) for call in calls if not is_note(call.name)]
        marks = [self._mark(one) for one in signatures if one not in known]
        new = [mark for mark in marks if not _contains(seen, mark)]
        if not new:
            return ()
        record = digester.calls_record(Message("assistant", "", calls), bytes(4))
        traits = int(Trait.NEW | Trait.NEWS | Trait.PENDING)
        pending = self.place(
            record, traits, latest.segment, latest.stale_segments, latest.total_calls
        )
        return self.notes(run, pending.pack(), b"".join(new))

    def tool_names(self, rounds: Sequence[Round]) -> dict[bytes, frozenset[str]]:
        """Return the tools that the request offers or calls, by the digests in records."""
        sets = [frozenset((name,)) for name in self._call.tools]
        sets += [round_.names for round_ in rounds]
        return {self.digester.names(names): names for names in sets}

    def _pairs(self, record: RoundRecord, round_: Round | None) -> list[_Pair]:
        """Return the calls of a round with their results; none of notes that an agent makes."""
        if record.call_count == 0 or record.traits & Trait.NOTE:
            return []
        if round_ is None or record.call_count == 1:
            return [self._pair(record.signature, record.gist)]
        digester = self.digester
        return [
            self._pair(
                digester.call_signature(call),
                digester.gist(
                    result.text if result is not None else "", is_failure=round_.failure is not None
                ),
            )
            for call, result in zip(round_.calls, round_.results, strict=True)
            if not is_note(call.name)
        ]

    def _pair(self, signature: bytes, gist: bytes) -> _Pair:
        return _Pair(self._mark(signature), self.digester.digest(signature + gist)[:PAIR_BYTES])

    def _mark(self, signature: bytes) -> bytes:
        """Return what is remembered of a call alone."""
        return self.digester.digest(b"call" + signature)[:PAIR_BYTES]


def records_in(remembered: bytes) -> list[RoundRecord]:
    """Return the records of a run; those of pending calls only last, or before a compaction."""
    records = records_of(remembered)
    return [
        record
        for record, after in zip_longest(records, records[1:])
        if not record.traits & Trait.PENDING or after is None or after.segment != record.segment
    ]


def _contains(pairs: bytes, pair: bytes) -> bool:
    """Return whether a pair is among pairs, each of `PAIR_BYTES` bytes."""
    at = pairs.find(pair)
    while at >= 0 and at % PAIR_BYTES:
        at = pairs.find(pair, at + 1)
    return at >= 0
