"""The most that a call lets its model write."""

from __future__ import annotations

from typing import Any

import msgspec

from looptrap.call.content import UNREADABLE
from looptrap.call.model import Call


class _Limits(msgspec.Struct, gc=False):
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    best_of: Any = None
    generationConfig: Any = None  # noqa: N815
    generation_config: Any = None


_decode = msgspec.json.Decoder(_Limits).decode


def most_output(call: Call) -> int | None:
    """Return how many tokens the answer may have at most, all choices together; None: no word."""
    if b'"max' not in call.request.body:
        return None
    try:
        sent = _decode(call.request.body)
    except UNREADABLE:
        return None
    choices = max(_number(sent.n) or 1, _number(sent.best_of) or 1)
    most = (
        _number(sent.max_completion_tokens)
        or _number(sent.max_output_tokens)
        or _number(sent.max_tokens)
    )
    config = sent.generationConfig or sent.generation_config
    if isinstance(config, dict):
        most = _number(config.get("maxOutputTokens")) or _number(config.get("max_output_tokens"))
        choices = _number(config.get("candidateCount")) or 1
    return most * choices if most is not None else None


def _number(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_number else None  # type: ignore[return-value]
