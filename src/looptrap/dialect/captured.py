"""Captured calls: one line of JSON for each call, with the messages that its run's last line lacks.

Writer and reader forget runs by the same rule, so no line depends on a line that a reader has
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
"""A run without a call for longer is over; its next call begins another run."""

MAX_RUNS = 10_000
MAX_MESSAGE_BYTES = 128 << 20
"""Bytes of written messages that are remembered of all runs together."""

Form = Literal["content", "digests"]
T = TypeVar("T")


class CapturedVerdict(msgspec.Struct, frozen=True, gc=False):
    """The decision about a call when it was captured."""

    action: str
    rule: str
    signal: str


class Line(msgspec.Struct, kw_only=True, gc=False, omit_defaults=True):
    """One captured call."""

    looptrap: Literal[1]
    """The version of the format; the first field, which distinguishes these lines from others."""
    t: float
    """The time of the decision, in seconds since 1970."""
    run: str
    kept: int = 0
    """The number of messages of the run's last line that come before these."""
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
"""The dialects that are captured: those in which a model generates an answer."""


def call_of(
    line: Line, raws: Sequence[msgspec.Raw], tools: tuple[str, ...], history: History
) -> Call:
    """Return the captured call with all its messages, but without its body and headers."""
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
        has_split_turns=history.has_split_turns,
        _tools=tools,
    )


class RecentRuns(Generic[T]):
    """The state of recent runs, the least recent first; limited in number and bytes."""

    def __init__(self, on_forget: Callable[[T], None] | None = None) -> None:
        self._on_forget = on_forget
        self._runs: OrderedDict[str, tuple[float, int, T]] = OrderedDict()
        self._bytes = 0

    def find(self, run: str, now: float) -> T | None:
        """Return the state of a run, after forgetting the runs that are over."""
        while self._runs and now - next(iter(self._runs.values()))[0] > IDLE_RUN_S:
            self._forget_first()
        found = self._runs.get(run)
        return found[2] if found is not None else None

    def keep(self, run: str, now: float, size: int, state: T) -> None:
        """Remember a run with messages of `size` bytes; forget the least recent to make room."""
        if (before := self._runs.pop(run, None)) is not None:
            self._bytes -= before[1]
        self._runs[run] = (now, size, state)
        self._bytes += size
        while len(self._runs) > MAX_RUNS or self._bytes > MAX_MESSAGE_BYTES:
            self._forget_first()

    def clear(self) -> None:
        """Forget all."""
        while self._runs:
            self._forget_first()

    def _forget_first(self) -> None:
        _, (_, size, state) = self._runs.popitem(last=False)
        self._bytes -= size
        if self._on_forget is not None:
            self._on_forget(state)
