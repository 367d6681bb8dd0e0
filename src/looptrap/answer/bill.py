"""Bills: what an answer used, by the provider's word, else told from sizes."""

from __future__ import annotations

from math import ceil

from looptrap.answer.tokens import usage_of
from looptrap.answer.usage import UsageReader
from looptrap.call.model import Call
from looptrap.call.most_output import is_in_background, most_output, runs_on
from looptrap.call.usage import Usage

BYTES_A_TOKEN = 4
"""About, of requests and of answers that come in one piece."""

STREAMED_BYTES_A_TOKEN = 100
"""About, of answers in events: most events carry one token and a good deal of JSON."""


MOST_GUESSED = 4_096
"""Tokens that an answer of no dialect is taken to have at most: pictures and sounds have many bytes
and few tokens."""

ASSUMED_OUTPUT = 4_096
"""Tokens of an answer that nobody waited for, where the call sets no limit."""


def unanswered(call: Call, window: int | None = None) -> Usage:
    """Return what a call is taken to have used that was sent, and of which no answer was seen.

    The provider has read it. What it goes on to write is not known: as much as the call allows.
    """
    written = most_output(call, ASSUMED_OUTPUT, window) if runs_on(call) else 0
    return Usage(ceil(len(call.request.body) / BYTES_A_TOKEN), written, is_estimated=True)


class Bill:
    """Takes note of an answer while it passes; what it used is read when it is over."""

    __slots__ = ("_call", "_length", "_reader", "_size", "_whole")

    def __init__(self, call: Call, length: int | None) -> None:
        self._call = call
        self._length = length
        self._whole = b""
        self._reader: UsageReader | None = None
        self._size = 0

    def take(self, chunk: bytes) -> None:
        """Take note of the next chunk; most answers are one small object."""
        self._size += len(chunk)
        if self._reader is not None:
            self._reader.feed(chunk)
        elif self._length == len(chunk):
            self._whole = chunk
        else:
            self._reader = UsageReader(self._call.dialect, self._call.stream)
            self._reader.feed(chunk)

    def usage(self, heard: int, *, is_cut: bool = False) -> Usage:
        """Return what the answer used; `heard` are the tokens that were counted as they passed."""
        found = self._reported()
        if found is None:
            return self._estimated(heard, is_cut)
        if heard > found.output_tokens:  # an answer that was cut says less than it used
            return Usage(found.input_tokens, heard, found.cached_tokens, is_estimated=True)
        return found

    def _reported(self) -> Usage | None:
        if self._whole:
            usage = usage_of(self._call.dialect, self._whole)
            if usage is not None:
                return usage
            self._reader = UsageReader(self._call.dialect, self._call.stream)
            self._reader.feed(self._whole)
        return self._reader.finish() if self._reader is not None else None

    def _estimated(self, heard: int, is_cut: bool) -> Usage:
        call = self._call
        if (is_cut and runs_on(call)) or is_in_background(call):
            return unanswered(call)
        a_token = STREAMED_BYTES_A_TOKEN if call.stream else BYTES_A_TOKEN
        written = heard or ceil(self._size / a_token) if call.generates else 0
        if call.dialect == "http":
            written = min(written, MOST_GUESSED)
        asked = ceil(len(call.request.body) / BYTES_A_TOKEN)
        return Usage(asked, written, is_estimated=True)
