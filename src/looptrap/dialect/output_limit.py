"""How much output a call allows, and what it uses if its answer is not received."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from typing import Any

import msgspec

from looptrap.dialect.content import ABSENT, UNREADABLE, decode_mended, decode_or_none
from looptrap.dialect.model import MAX_TOKENS, Call, Usage

ASSUMED_OUTPUT = 4_096
"""Tokens of an answer that was not awaited, where the call has no limit."""

BACKGROUND_DIALECTS = frozenset({"openai_responses", "gemini_interactions"})
"""The dialects in which a call can run in the background."""

MAX_NUMBER_CHARS = 32
"""A longer number counts as infinite, and is not converted."""


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
