"""RunMemory: under which keys a store remembers the runs of agents. Pure.

A run is found by its latest round but one: that was the latest one of the request before, and the
store links it to the run. Tool-call ids identify a round; where a harness has none, or numbers
them from 0, its calls and results do. So two agents with the same prompts are never mixed up.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from looptrap.detect.canonical import join
from looptrap.detect.fingerprint import Fingerprint, conversation_opening, place_of
from looptrap.detect.remembered_round import LocalRoundDigester, RoundDigester
from looptrap.detect.round import Round
from looptrap.dialect.model import Call

SYSTEM_BYTES = 200
"""Bytes at the beginning of a system prompt that identify it; times and states may follow."""

MAX_HASH = 16**13 - 1
"""What is used of a hash: as many digits as there is room for in a key."""

LINK = Struct("<16sIIBBBH")
LATEST_RUN = Struct("<16s16sI4sH")

MAX_RESTARTS = 65_535

PARTIAL, UNDECIDED, COMPLETE, UNLISTED = 1, 2, 4, 8
HIDDEN = PARTIAL | UNDECIDED


class RunLink(NamedTuple):
    """What a run's latest round leads to."""

    run: bytes
    """The key of the run."""
    messages: int
    """How many messages its latest request had, and how many bytes."""
    body_bytes: int
    flags: int = 0
    """`PARTIAL`: a request did not show all of the run's latest segment. `UNDECIDED`: nothing new
    has come since the latest compaction. `COMPLETE`: the run was seen from its beginning.
    `UNLISTED`: its session does not know of it yet."""
    segment: int = 0
    stale_segments: int = 0
    total_calls: int = 0

    def pack(self) -> bytes:
        """Return the link as bytes."""
        return LINK.pack(*self)

    @classmethod
    def unpack(cls, value: bytes) -> RunLink | None:
        """Return the link in these bytes; None where there is none."""
        return cls(*LINK.unpack(value)) if len(value) == LINK.size else None


class LatestRun(NamedTuple):
    """The latest of the runs that begin with the same first messages."""

    run: bytes
    """Its key."""
    before: bytes
    """The key of the run before; zeros where there was none."""
    began: int
    """When it began, in seconds since 1970."""
    ending: bytes = bytes(4)
    """How the run before had ended by then; zeros where that is not known."""
    restarts: int = 0
    """How many runs in a row had ended so."""

    @property
    def runs(self) -> list[bytes]:
        """The keys of both runs."""
        return [self.run, self.before] if any(self.before) else [self.run]

    def count_restarts(self, ending: bytes, latest_before_s: int) -> int:
        """Return how many runs in a row ended like this one.

        `latest_before_s` is the time of the latest request of the run before. If that came after
        this one had begun, both ran side by side, and this one was no restart.
        """
        is_batch = latest_before_s > self.began
        return min(self.restarts + 1, MAX_RESTARTS) if ending == self.ending and not is_batch else 1

    def pack(self) -> bytes:
        """Return it as bytes."""
        return LATEST_RUN.pack(*self)

    @classmethod
    def unpack(cls, value: bytes) -> LatestRun | None:
        """Return what these bytes say; None where that is nothing."""
        return cls(*LATEST_RUN.unpack(value)) if len(value) == LATEST_RUN.size else None


class RunMemory:
    """Fits requests to the runs that a store remembers."""

    def __init__(self, secret: bytes) -> None:
        self._digester = RoundDigester(secret)
        self._local_digester = LocalRoundDigester(secret)
        self._link = Fingerprint(secret, ("run link",), ("caller",))
        self._run = Fingerprint(secret, ("run",), ("caller",))
        self._session = Fingerprint(secret, ("run session",), ("caller",))

    def digester(self, is_local: bool) -> RoundDigester:
        """Return what makes the records of a store in this process, or of one that is shared."""
        return self._local_digester if is_local else self._digester

    def link_key(self, call: Call, round_: Round, is_local: bool = False) -> bytes:
        """Return the key under which the store links a round to its run.

        For a store in this process, the id itself or Python's own hash is enough: a digest takes
        longer.
        """
        caller, random_id = call.request.caller, round_.random_id
        if random_id:
            if is_local:
                return place_of(call) + f"{len(caller)} {caller} {random_id}".encode()
            return self._link.key(call, random_id.encode())
        content = [text for made in round_.calls for text in (made.id, made.name, made.arguments)]
        content.append(round_.result if content else round_.text)
        if is_local:
            return place_of(call) + b"%d" % hash((caller, *content))
        return self._link.key(call, join(content))

    def chain_key(self, call: Call, chain: str) -> bytes:
        """Return the key of a history that the provider keeps."""
        return self._link.key(call, join(["chain", chain]))

    def run_key(self, call: Call, first_link: bytes, now: float, is_local: bool = False) -> bytes:
        """Return the key of a new run."""
        begun = b"%b %d" % (first_link, now)
        if is_local:
            return place_of(call) + b"%013x" % (hash(begun) & MAX_HASH) + b"r"
        return self._run.key(call, begun)[:-1] + b"r"

    @staticmethod
    def seen_key(run: bytes) -> bytes:
        """Return the key of the pairs that were seen in a run: its own, but for the last byte."""
        return run[:-1] + b"s"

    def session_key(self, call: Call, session: str) -> bytes:
        """Return the key of the runs of a session; without a name, of one system prompt."""
        if session:
            return self._session.key(call, join(["session", session]))
        return self._session.key(call, b"system\xfe%b" % system_of(call))

    def opening_key(self, call: Call) -> bytes:
        """Return the key of the runs with the same first messages."""
        return self._session.key(call, b"opening\xfe%b" % conversation_opening(call))


def system_of(call: Call) -> bytes:
    """Return what outlasts a compaction: model, tools, and how the system prompt begins."""
    parts = join([call.model, *sorted(call.tools)])
    return parts + bytes(memoryview(call.raws[0])[:SYSTEM_BYTES]) if _has_system(call) else parts


def _has_system(call: Call) -> bool:
    if not call.raws or call.read is None:
        return False
    first = call.raws[0]
    role = call.peek(first) if call.peek is not None else call.read(first).role
    return role == "system"
