"""The last text of a legacy Completions run."""

from __future__ import annotations

from typing import Any

from looptrap.answer.answer import encode, events
from looptrap.answer.stop.openai_chat import DONE, USAGE, number_of_choices
from looptrap.call.model import Call


def takes_text(_sent: dict[str, Any]) -> bool:
    """Say whether plain text answers the request: here nothing else ever does."""
    return True


def whole(call: Call, sent: dict[str, Any], text: str, request_id: str, now: float) -> bytes:
    """Return the text in one piece."""
    choices = [_choice(i, text) for i in range(_number_of_texts(sent))]
    return encode({**_head(call, request_id, now), "choices": choices, "usage": USAGE})


def stream(call: Call, sent: dict[str, Any], text: str, request_id: str, now: float) -> bytes:
    """Return the text as a stream of chunks."""
    head = _head(call, request_id, now)
    options = sent.get("stream_options")
    with_usage = isinstance(options, dict) and options.get("include_usage") is True
    if with_usage:
        head["usage"] = None
    chunks = [{**head, "choices": [_choice(i, text)]} for i in range(_number_of_texts(sent))]
    if with_usage:
        chunks.append({**head, "choices": [], "usage": USAGE})
    return events(chunks) + DONE


def _number_of_texts(sent: dict[str, Any]) -> int:
    """Return how many texts are asked for: `n` for each prompt of a list of prompts."""
    prompt = sent.get("prompt")
    prompts = 1
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        prompts = len(prompt)
    return prompts * number_of_choices(sent)


def _head(call: Call, request_id: str, now: float) -> dict[str, Any]:
    return {
        "id": f"cmpl-{request_id}",
        "object": "text_completion",
        "created": int(now),
        "model": call.model,
    }


def _choice(index: int, text: str) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": "stop"}
