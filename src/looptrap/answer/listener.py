"""Listeners: what a passing answer is heard saying, and its end where a rule wants that."""

from __future__ import annotations

from collections.abc import Callable

from looptrap.answer.cut import ending
from looptrap.answer.hearing import Hearing
from looptrap.call.model import Call
from looptrap.policy.verdict import Verdict

Hear = Callable[[str], Verdict | None]
"""Judges what was said so far; returns what is severer than all that was heard before."""


class Listener:
    """Lets an answer pass, whatever it says; looks, now and then, whether to cut here."""

    __slots__ = (
        "_block_status",
        "_call",
        "_can_cut",
        "_cutting",
        "_hear",
        "_hearing",
        "_request_id",
        "is_over",
    )

    def __init__(
        self,
        call: Call,
        hearing: Hearing,
        hear: Hear,
        *,
        can_cut: bool,
        request_id: Callable[[], str],
        block_status: int,
    ) -> None:
        self._call = call
        self._hearing: Hearing | None = hearing
        self._hear = hear
        self._can_cut = can_cut  # not where it was said how long it will be
        self._request_id = request_id
        self._block_status = block_status
        self._cutting: Verdict | None = None  # until the event that has begun is over
        self.is_over = False
        """Whether it was cut: nothing of the provider's is to follow."""

    @property
    def tokens(self) -> int:
        """How many tokens were heard, about."""
        return self._hearing.ear.tokens if self._hearing is not None else 0

    def take(self, chunk: bytes) -> bytes:
        """Take the next chunk; return what is to pass of it, with the end where it is cut."""
        hearing, passing = self._hearing, b""
        if hearing is None:
            return chunk
        if self._cutting is not None:
            end = hearing.take_event(chunk)
            passing = chunk[:end]
            if end is None:
                return passing
            if (last := self._cut(hearing)) is not None:
                return passing + last
            chunk = chunk[end:]
        passing += chunk
        if not hearing.feed(chunk):
            return passing
        for text in hearing.read():
            verdict = self._hear(text)
            if verdict is not None and verdict.action.refuses:
                self._cutting = verdict
        if hearing.is_lost:
            self._hearing = None
        elif self._cutting is not None and hearing.is_between_events:
            passing += self._cut(hearing) or b""
        return passing

    def finish(self) -> None:
        """Hear the rest of an answer that has ended by itself."""
        if self._hearing is not None:
            for text in self._hearing.finish():
                self._hear(text)

    def _cut(self, hearing: Hearing) -> bytes | None:
        """Return what ends the answer between two events; None where that cannot be done."""
        verdict, self._cutting = self._cutting, None
        if verdict is None or not self._can_cut:
            return None
        last = ending(
            self._call,
            hearing,
            verdict,
            request_id=self._request_id(),
            block_status=self._block_status,
        )
        self.is_over = last is not None
        return last
