"""The most that a call lets its model write."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from typing import Any

import msgspec

from looptrap.dialect.content import ABSENT, UNREADABLE, mend
from looptrap.dialect.model import MAX_TOKENS, Call

MAX_NUMBER_CHARS = 32
"""Characters beyond which a number is taken to be endless, and not converted."""


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


_decode = msgspec.json.Decoder(_Limits).decode
_decode_background = msgspec.json.Decoder(_Background).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def max_output(call: Call, assumed: int, window: int | None = None) -> int:
    """Return how many tokens the answer may have at most, all choices together.

    `assumed` is for a call that sends no limit, `window` the most that fits into one choice. Of
    several limits the largest counts: which of them a provider honours is not known here.
    """
    if not call.generates:
        return 0
    most = choices = 0
    prompts = 1
    for sent in _limit_tables(call.request.body):
        for raw in (
            sent.max_tokens,
            sent.max_completion_tokens,
            sent.max_output_tokens,
            sent.maxOutputTokens,
        ):
            if raw is not ABSENT and (limit := _number(raw)) is not None:
                most = max(most, _effective_limit(limit, assumed, window))
        for raw in (sent.n, sent.best_of, sent.candidateCount, sent.candidate_count):
            if raw is not ABSENT:
                choices = max(choices, _number(raw) or 1)
        if sent.prompt is not ABSENT:
            prompts = _prompt_count(sent.prompt)
    most = most or assumed
    if window is not None and window < most:
        most = window
    return min(most * (choices or 1) * prompts, MAX_TOKENS)


def runs_on(call: Call) -> bool:
    """Say whether a provider goes on writing when its client has left.

    A stream ends with its connection, unless it was asked to work in the background.
    """
    return call.generates and (not call.stream or is_in_background(call))


def is_in_background(call: Call) -> bool:
    """Say whether the Responses API was asked to answer at once, and to work on."""
    if call.dialect != "openai_responses" or b'"background"' not in call.request.body:
        return False
    try:
        return _decode_background(call.request.body).background is True
    except UNREADABLE:
        return False


def _limit_tables(body: bytes) -> Sequence[_Limits]:
    """Return what a body says, at its top and in Google's configuration."""
    try:
        top = _decode(body)
    except UNREADABLE:
        try:
            top = _decode(mend(body))
        except UNREADABLE:
            return ()
    if top.generationConfig is ABSENT and top.generation_config is ABSENT:
        return (top,)
    found = [top]
    for inner in (top.generationConfig, top.generation_config):
        try:
            found.append(_decode(inner))
        except UNREADABLE:
            continue
    return found


def _effective_limit(limit: int, assumed: int, window: int | None) -> int:
    """Return a limit; one that is none is the model's own where that is known, else `assumed`."""
    if limit >= MAX_TOKENS:
        return assumed if window is None else window
    return limit or assumed


def _number(sent: msgspec.Raw) -> int | None:
    """Return a number, also one that is written as text or with a point, as some providers take it.

    What is no number is 0, what is endless `MAX_TOKENS`; None where nothing was sent.
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


def _prompt_count(sent: msgspec.Raw) -> int:
    """Return how many prompts are answered: a list of texts, or of lists of tokens, is several."""
    try:
        prompts = _decode_list(sent)
    except UNREADABLE:
        return 1
    is_several = bool(prompts) and bytes(memoryview(prompts[0])[:1]) in (b'"', b"[")
    return len(prompts) if is_several else 1
