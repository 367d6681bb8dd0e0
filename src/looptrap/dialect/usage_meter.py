"""UsageMeter: the usage of a passing answer, and of a call whose answer is not received.

While the answer passes, only the chunks of its beginning and its end are kept: providers put their
counts there. They are read after the client has its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import ceil, isfinite
from typing import Any

import msgspec

from looptrap.dialect.content import ABSENT, UNREADABLE, decode_mended, decode_or_none
from looptrap.dialect.model import BYTES_PER_TOKEN, MAX_TOKENS, Call, DialectName, Usage
from looptrap.dialect.registry import DIALECTS
from looptrap.dialect.usage import JsonPath, last_value

HEAD_BYTES = 4 * 1024
TAIL_BYTES = 8 * 1024
"""Bytes of an answer's two ends that are read; the bytes between them report no usage."""

STREAMED_BYTES_PER_TOKEN = 100
"""An estimate for answers in events: most events have one token in much JSON."""

MAX_GUESSED_OUTPUT = 4_096
"""Limit for the estimated tokens of a plain HTTP answer: images and audio have many bytes and few
tokens."""

ASSUMED_OUTPUT = 4_096
"""Tokens of an answer that was not awaited, where the call has no limit."""

BACKGROUND_DIALECTS = frozenset({"openai_responses", "gemini_interactions"})
"""The dialects in which a call can run in the background."""

MAX_NUMBER_CHARS = 32
"""A longer number counts as infinite, and is not converted."""


# Calls without an answer


def unanswered_usage(call: Call, window: int | None = None) -> Usage:
    """Return the estimated usage of a call that was sent and whose answer was not received.

    The provider has read the call. Its output is unknown: as much as the call allows.
    """
    output = max_output(call, ASSUMED_OUTPUT, window) if runs_on(call) else 0
    return Usage(call.estimated_input, output, is_estimated=True)


class _Limits(msgspec.Struct, gc=False):
    max_tokens: msgspec.Raw = ABSENT
    max_completion_tokens: msgspec.Raw = ABSENT
    max_output_tokens: msgspec.Raw = ABSENT
    maxOutputTokens: msgspec.Raw = ABSENT  # noqa: N815
    n: msgspec.Raw = ABSENT
    best_of: msgspec.Raw = ABSENT
    candidateCount: msgspec.Raw = ABSENT  # noqa: N815
    candidate_count: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    generationConfig: msgspec.Raw = ABSENT  # noqa: N815
    generation_config: msgspec.Raw = ABSENT


class _Background(msgspec.Struct, gc=False):
    background: Any = None


_decode_limits = msgspec.json.Decoder(_Limits).decode
_decode_background = msgspec.json.Decoder(_Background).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def max_output(call: Call, assumed: int, window: int | None = None) -> int:
    """Return the largest number of tokens in the answer, all choices together.

    `assumed` is for a call without a limit, `window` the most that fits into one choice. The
    largest of several limits counts: which of them the provider applies is unknown here.
    """
    if not call.generates:
        return 0
    limit = choices = 0
    prompts = 1
    for sent in _read_limits(call.request.body):
        for raw in (
            sent.max_tokens,
            sent.max_completion_tokens,
            sent.max_output_tokens,
            sent.maxOutputTokens,
        ):
            if raw is not ABSENT and (number := _read_number(raw)) is not None:
                limit = max(limit, _effective_limit(number, assumed, window))
        for raw in (sent.n, sent.best_of, sent.candidateCount, sent.candidate_count):
            if raw is not ABSENT:
                choices = max(choices, _read_number(raw) or 1)
        if sent.prompt is not ABSENT:
            prompts = _count_prompts(sent.prompt)
    limit = limit or assumed
    if window is not None and window < limit:
        limit = window
    return min(limit * (choices or 1) * prompts, MAX_TOKENS)


def runs_on(call: Call) -> bool:
    """Return whether a provider continues an answer after its client has left.

    A stream ends with its connection, unless it runs in the background.
    """
    return call.generates and (not call.stream or is_in_background(call))


def is_in_background(call: Call) -> bool:
    """Return whether the provider answers at once, and runs the call in the background."""
    if call.dialect not in BACKGROUND_DIALECTS or b'"background"' not in call.request.body:
        return False
    sent = decode_or_none(call.request.body, _decode_background)
    return sent is not None and sent.background is True


def _read_limits(body: bytes) -> Sequence[_Limits]:
    """Return the limits at the top of a body, and in Google's configuration."""
    try:
        top = decode_mended(body, _decode_limits)
    except UNREADABLE:
        return ()
    if top.generationConfig is ABSENT and top.generation_config is ABSENT:
        return (top,)
    inner = (
        decode_or_none(raw, _decode_limits) for raw in (top.generationConfig, top.generation_config)
    )
    return [top, *(limits for limits in inner if limits is not None)]


def _effective_limit(limit: int, assumed: int, window: int | None) -> int:
    """Return a limit; instead of an infinite one the model's own, or `assumed` if unknown."""
    if limit >= MAX_TOKENS:
        return assumed if window is None else window
    return limit or assumed


def _read_number(sent: msgspec.Raw) -> int | None:
    """Return a number, also one sent as text or with a point, as some providers accept it.

    Anything else is 0, an infinite number `MAX_TOKENS`; None for null.
    """
    text = bytes(sent).strip(b'" \t\r\n')
    if text.isdigit() and len(text) <= 12:
        return int(text)
    if text == b"null":
        return None
    if len(text) > MAX_NUMBER_CHARS:
        return MAX_TOKENS if text[:1].isdigit() else 0
    try:
        number = float(text)
    except ValueError:
        return 0
    if not isfinite(number):
        return MAX_TOKENS if number > 0 else 0
    return max(0, min(ceil(number), MAX_TOKENS))


def _count_prompts(sent: msgspec.Raw) -> int:
    """Return the number of prompts: more than one in a list of texts, or of lists of tokens."""
    prompts = decode_or_none(sent, _decode_list)
    if prompts and bytes(memoryview(prompts[0])[:1]) in (b'"', b"["):
        return len(prompts)
    return 1


# Passing answers


class UsageReader:
    """Keeps both ends of one answer; `finish` reads them at its end."""

    __slots__ = ("_dialect", "_head", "_newest", "_older", "_room", "_stream", "error")

    def __init__(self, dialect: DialectName, stream: bool) -> None:
        self._dialect = dialect
        self._stream = stream
        self._head: list[bytes] = []
        self._older: list[bytes] = []
        self._newest: list[bytes] = []
        self._room = HEAD_BYTES
        self.error = ""
        """The type of an error inside the answer, such as `overloaded_error`; set by `finish`."""

    def feed(self, chunk: bytes) -> None:
        """Keep the next chunk, without copying or reading it."""
        self._newest.append(chunk)
        self._room -= len(chunk)
        if self._room < 0:
            self._start_list()

    def finish(self) -> Usage | None:
        """Return the last usage that the provider reported; None where it is missing or lost."""
        head, tail = self._ends()
        beginning = head or tail
        first = beginning[:16].lstrip()[:1]
        is_events = self._stream and first not in (b"{", b"[")
        top: JsonPath = (0,) if first == b"[" else ()
        usage = DIALECTS[self._dialect].usage
        path = usage.path_in_event if usage is not None and is_events else top
        self.error = _find_error(tail, is_events, (top, path)) if b"error" in tail else ""
        return usage and usage.find(beginning, tail, is_events, path)

    def _start_list(self) -> None:
        """Start a new list of chunks; of the full lists, keep the first and the last."""
        if self._head:
            self._older = self._newest
        else:
            self._head = self._newest
        self._newest = []
        self._room = TAIL_BYTES

    def _ends(self) -> tuple[bytes, bytes]:
        """Return the beginning and the end; an answer that fits into both is all end.

        The result depends on the bytes alone, not on their chunks.
        """
        newest = self._newest
        if not self._head:
            return b"", newest[0] if len(newest) == 1 else b"".join(newest)
        head = b"".join(self._head)
        rest = b"".join(self._older + newest)
        if len(head) + len(rest) <= HEAD_BYTES + TAIL_BYTES:
            return b"", head + rest
        tail = rest if len(rest) >= TAIL_BYTES else head + rest
        return head[:HEAD_BYTES], tail[-TAIL_BYTES:]


_ERROR_EVENT = re.compile(rb"event: ?error\r?\ndata:(.*)")


def _find_error(text: bytes, is_events: bool, paths: Iterable[JsonPath]) -> str:
    """Return the type of the last reported error; "" without one."""
    for path in paths:
        error = last_value("error", text, is_events, path)
        if isinstance(error, dict):
            return str(error.get("type") or error.get("status") or error.get("code") or "error")
        if error:
            return "error"
    # Responses has an event that is the error itself.
    start = text.rfind(b"event: error") if is_events else -1
    if start >= 0 and (event := _ERROR_EVENT.match(text, start)):
        found = decode_or_none(event[1])
        return str((isinstance(found, dict) and found.get("code")) or "error")
    return ""


_DECODERS = {
    dialect.name: msgspec.json.Decoder(dialect.usage.whole_answer).decode
    for dialect in DIALECTS.values()
    if dialect.usage is not None and dialect.usage.whole_answer is not None
}


def usage_of(dialect: DialectName, answer: bytes) -> Usage | None:
    """Return the usage in a whole answer; None where it is not a JSON object of the right shape."""
    decode = _DECODERS.get(dialect)
    found = None if decode is None else decode_or_none(answer, decode)
    return None if found is None else found.usage.usage()


class UsageMeter:
    """Keeps what is needed of a passing answer, and returns its usage at the end."""

    __slots__ = ("_call", "_length", "_reader", "_size", "_whole")

    def __init__(self, call: Call, length: int | None) -> None:
        self._call = call
        self._length = length
        self._whole = b""
        self._reader: UsageReader | None = None
        self._size = 0

    def take(self, chunk: bytes) -> None:
        """Keep the next chunk; most answers are one small object."""
        self._size += len(chunk)
        if self._reader is not None:
            self._reader.feed(chunk)
        elif self._length == len(chunk):
            self._whole = chunk
        else:
            self._start_reader(chunk)

    def usage(self, seen: int, *, is_cut: bool = False) -> Usage:
        """Return the usage; `seen` is the number of tokens that were counted while they passed."""
        found = self._reported()
        if found is None:
            return self._estimate(seen, is_cut)
        if seen > found.output_tokens:  # a cut answer reports less than it used
            return Usage(found.input_tokens, seen, found.cached_tokens, is_estimated=True)
        return found

    def _start_reader(self, chunk: bytes) -> None:
        self._reader = UsageReader(self._call.dialect, self._call.stream)
        self._reader.feed(chunk)

    def _reported(self) -> Usage | None:
        if self._whole:
            usage = usage_of(self._call.dialect, self._whole)
            if usage is not None:
                return usage
            self._start_reader(self._whole)
        return self._reader.finish() if self._reader is not None else None

    def _estimate(self, seen: int, is_cut: bool) -> Usage:
        call = self._call
        if (is_cut and runs_on(call)) or is_in_background(call):
            return unanswered_usage(call)
        token_bytes = STREAMED_BYTES_PER_TOKEN if call.stream else BYTES_PER_TOKEN
        output = seen or ceil(self._size / token_bytes) if call.generates else 0
        if call.dialect == "http":
            output = min(output, MAX_GUESSED_OUTPUT)
        return Usage(call.estimated_input, output, is_estimated=True)
