"""StreamGuard: judges an answer while it passes, and ends it where a rule says so."""

from __future__ import annotations

from collections.abc import Callable

from looptrap.dialect.agent import BlockStatus
from looptrap.dialect.answer import close_stream
from looptrap.dialect.model import Call
from looptrap.dialect.stream import AnswerReader
from looptrap.policy.action import Action
from looptrap.policy.refusal import refusal
from looptrap.policy.verdict import Verdict

JudgeText = Callable[[str], Verdict | None]
"""Judges the text so far; returns a verdict that is severer than all before it."""


class StreamGuard:
    """Passes an answer on, and checks from time to time whether to end it."""

    def __init__(
        self,
        call: Call,
        reader: AnswerReader,
        judge: JudgeText,
        *,
        can_cut: bool,
        request_id: str,
        block_status: BlockStatus,
    ) -> None:
        self._call = call
        self._reader: AnswerReader | None = reader
        self._judge = judge
        self._can_cut = can_cut  # not where its length was announced
        self._request_id = request_id
        self._block_status = block_status
        self._cutting: Verdict | None = None  # until the event that has begun is over
        self.is_over = False
        """Whether it was cut: nothing of the provider's is to follow."""

    @property
    def tokens(self) -> int:
        """How many tokens were read, about."""
        return self._reader.parser.tokens if self._reader is not None else 0

    def take(self, chunk: bytes) -> bytes:
        """Take the next chunk; return what is to pass of it, with the end where it is cut."""
        reader, passing = self._reader, b""
        if reader is None:
            return chunk
        if self._cutting is not None:
            end = reader.take_event(chunk)
            passing = chunk[:end]
            if end is None:
                return passing
            if (last := self._cut(reader)) is not None:
                return passing + last
            chunk = chunk[end:]
        passing += chunk
        if not reader.feed(chunk):
            return passing
        for text in reader.read():
            verdict = self._judge(text)
            if verdict is not None and verdict.action.refuses:
                self._cutting = verdict
        if reader.is_lost:
            self._reader = None
        elif self._cutting is not None and reader.is_between_events:
            passing += self._cut(reader) or b""
        return passing

    def finish(self) -> None:
        """Judge the rest of an answer that has ended by itself."""
        if self._reader is not None:
            for text in self._reader.finish():
                self._judge(text)

    def _cut(self, reader: AnswerReader) -> bytes | None:
        """Return what ends the answer between two events; None where that cannot be done."""
        verdict, self._cutting = self._cutting, None
        if verdict is None or not self._can_cut:
            return None
        last = end_stream(
            self._call,
            reader,
            verdict,
            request_id=self._request_id,
            block_status=self._block_status,
        )
        self.is_over = last is not None
        return last


def end_stream(
    call: Call,
    reader: AnswerReader,
    verdict: Verdict,
    *,
    request_id: str,
    block_status: BlockStatus,
) -> bytes | None:
    """Return what ends a stream: for `stop` as if the model had finished, else with an error.

    The text stays the model's own. None where that cannot be done well.
    """
    error = None
    if verdict.action is not Action.STOP:
        error = refusal(
            call, verdict, shadow=None, request_id=request_id, block_status=block_status
        ).body
    signals = " ".join(evidence.signal for evidence in verdict.evidence)
    comment = f"looptrap {verdict.action.value} {signals}"
    return close_stream(reader, error, comment)
