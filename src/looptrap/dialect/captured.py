"""Captured calls: lines of JSON, one a call, with the messages that its run's last line had not.

Writer and reader forget runs by the same rule, so that no line depends on one that a reader has
forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from looptrap.dialect.dialect import History
from looptrap.dialect.model import Call, DialectName, Request
from looptrap.dialect.registry import DIALECTS

VERSION: Literal[1] = 1

IDLE_RUN_S = 3_600.0
"""A run that is silent for longer is over; what comes then is another one."""

MAX_RUNS = 10_000
MAX_MESSAGE_BYTES = 128 << 20
"""Bytes of messages, as they are written, that are remembered of all runs together."""

Form = Literal["content", "digests"]
T = TypeVar("T")


class CapturedVerdict(msgspec.Struct, frozen=True, gc=False):
    """What was decided about a call when it was captured."""

    action: str
    rule: str
    signal: str


class Line(msgspec.Struct, kw_only=True, gc=False, omit_defaults=True):
    """One captured call."""

    looptrap: Literal[1]
    """The version of the form; comes first, and distinguishes such lines from others."""
    t: float
    """When it was judged, in seconds since 1970."""
    run: str
    kept: int = 0
    """How many messages of the run's last line come before these."""
    form: Form
    dialect: DialectName
    path: str
    model: str = ""
    stream: bool = False
    caller: str = ""
    project: str = ""
    session: str = ""
    user: str = ""
    chain: str = ""
    progress: str = ""
    retry: bool = False
    tools: tuple[str, ...] | None = None
    """The names of the tools offered; None: those of the run's last line."""
    verdict: CapturedVerdict | None = None
    messages: list[msgspec.Raw] = []


HISTORIES: dict[DialectName, History] = {
    dialect.name: dialect.history for dialect in DIALECTS.values() if dialect.history is not None
}
"""The dialects in which a model is asked for an answer: those that are captured."""


def call_of(
    line: Line, raws: Sequence[msgspec.Raw], tools: tuple[str, ...], history: History
) -> Call:
    """Return the call that was captured, with all its messages; its body and headers are gone."""
    return Call(
        Request(
            path=line.path,
            caller=line.caller,
            project=line.project,
            session=line.session,
            is_retry=line.retry,
            progress=line.progress,
            lacks_body=True,
        ),
        line.dialect,
        model=line.model,
        stream=line.stream,
        user=line.user,
        chain=line.chain,
        generates=True,
        raws=raws,
        read=history.read,
        peek=history.peek,
        scattered=history.scattered,
        _tools=tools,
    )


class RecentRuns(Generic[T]):
    """What is known of the latest runs, the longest silent first; bounded in number and bytes."""

    def __init__(self, forgotten: Callable[[T], None] | None = None) -> None:
        self._forgotten = forgotten
        self._runs: OrderedDict[str, tuple[float, int, T]] = OrderedDict()
        self._bytes = 0

    def find(self, run: str, now: float) -> T | None:
        """Return what is known of a run; those that were silent for too long go first."""
        while self._runs and now - next(iter(self._runs.values()))[0] > IDLE_RUN_S:
            self._forget_first()
        found = self._runs.get(run)
        return found[2] if found is not None else None

    def keep(self, run: str, now: float, size: int, known: T) -> None:
        """Remember a run whose messages take `size` bytes; the longest silent make room."""
        if (before := self._runs.pop(run, None)) is not None:
            self._bytes -= before[1]
        self._runs[run] = (now, size, known)
        self._bytes += size
        while len(self._runs) > MAX_RUNS or self._bytes > MAX_MESSAGE_BYTES:
            self._forget_first()

    def clear(self) -> None:
        """Forget all."""
        while self._runs:
            self._forget_first()

    def _forget_first(self) -> None:
        _, (_, size, known) = self._runs.popitem(last=False)
        self._bytes -= size
        if self._forgotten is not None:
            self._forgotten(known)
