"""Captured calls: one line of JSON for each call, with the messages that its run's last line lacks.
Another line tells when it was answered.

Writer and reader forget runs by the same rule, so no line depends on a line that a reader has
forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from looptrap.dialect.agent import AGENT_SESSION
from looptrap.dialect.dialect import History
from looptrap.dialect.model import AnsweredTurn, Call, DialectName, Message, Request, ToolCall
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
    call: str = ""
    """The id by which `AnswerLine` refers to it; empty: it counts as answered at once."""
    keeps_history: bool = False
    agent_session: str = ""
    """The session that the agent names by itself, where the client names none."""
    rest: int | None = None
    """The bytes of the body beside its messages; None where they are not known."""


class AnswerLine(msgspec.Struct, kw_only=True, gc=False, omit_defaults=True):
    """When a captured call was answered, or failed."""

    looptrap: Literal[1]
    answers: str
    """The `call` of its line."""
    t: float
    response: str = ""
    """The id by which a later call continues the answer, where the provider keeps the history …"""
    conversation: str = ""
    """… or the conversation …"""
    calls: list[ToolCall] = []
    """… and the tool calls of that answer."""

    def turn(self) -> AnsweredTurn | None:
        """Return what a later call can continue; None where that is nothing."""
        if not self.calls:
            return None
        message = Message("assistant", "", tuple(self.calls))
        return AnsweredTurn(self.response, self.conversation, (message,))


HISTORIES: dict[DialectName, History] = {
    dialect.name: dialect.history for dialect in DIALECTS.values() if dialect.history is not None
}
"""The dialects that are captured: those in which a model generates an answer."""


def call_of(
    line: Line,
    raws: Sequence[msgspec.Raw],
    sizes: Sequence[int],
    tools: tuple[str, ...],
    history: History,
) -> Call:
    """Return the captured call with all its messages, but without its body and headers.

    In place of the body are so many zeros, and in place of headers the session they named.
    """
    session = line.agent_session.encode("latin-1", "replace")
    return Call(
        Request(
            path=line.path,
            headers=[(AGENT_SESSION, session)] if session else (),
            body=b"" if line.rest is None else bytes(max(sum(sizes) + line.rest, 0)),
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
        keeps_history=line.keeps_history,
        generates=True,
        raws=raws,
        read=history.read,
        peek=history.peek,
        has_split_turns=history.has_split_turns,
        sizes=sizes,
        _tools=tools,
    )


class RecentRuns(Generic[T]):
    """The state of recent runs, or calls, the least recent first; limited in number and bytes."""

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
        self.take(run)
        self._runs[run] = (now, size, state)
        self._bytes += size
        while len(self._runs) > MAX_RUNS or self._bytes > MAX_MESSAGE_BYTES:
            self._forget_first()

    def take(self, run: str) -> T | None:
        """Return the state of a run, and forget it."""
        found = self._runs.pop(run, None)
        if found is None:
            return None
        self._bytes -= found[1]
        return found[2]

    def clear(self) -> None:
        """Forget all."""
        while self._runs:
            self._forget_first()

    def _forget_first(self) -> None:
        _, (_, size, state) = self._runs.popitem(last=False)
        self._bytes -= size
        if self._on_forget is not None:
            self._on_forget(state)
