"""Responses, as OpenAI writes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from looptrap.testing.model_answer import CREATED_AT, ModelAnswer, Tokens, encode_json, event


def full_body(answer: ModelAnswer, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in one piece."""
    return _response(answer, body, "completed", _items(answer), _usage(answer.tokens))


def stream(answer: ModelAnswer, body: dict[str, Any]) -> Iterator[bytes]:
    """Return the answer event by event, numbered as OpenAI numbers them."""
    numbers = count()
    started = _response(answer, body, "in_progress", [], None)
    for name, fields in (
        ("response.created", {"response": started}),
        ("response.in_progress", {"response": started}),
        *_item_events(answer),
        ("response.completed", {"response": full_body(answer, body)}),
    ):
        yield event({"type": name, **fields, "sequence_number": next(numbers)}, name)


def token_count_body(tokens: Tokens) -> dict[str, Any]:
    """Return the answer to input_tokens."""
    return {"object": "response.input_tokens", "input_tokens": tokens.input}


def _response(
    answer: ModelAnswer,
    body: dict[str, Any],
    status: str,
    output: list[dict[str, Any]],
    usage: dict[str, Any] | None,
) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": CREATED_AT,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": None,
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": True,
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


def _items(answer: ModelAnswer) -> list[dict[str, Any]]:
    message = {
        "id": f"msg_{answer.number}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_part(answer.text)],
    }
    calls = [
        {
            "id": f"fc_{answer.number}_{index}",
            "type": "function_call",
            "status": "completed",
            "arguments": encode_json(call.arguments).decode(),
            "call_id": f"call_{answer.number}_{index}",
            "name": call.name,
        }
        for index, call in enumerate(answer.calls)
    ]
    return ([message] if answer.text or not calls else []) + calls


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item_events(answer: ModelAnswer) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, item in enumerate(_items(answer)):
        place = {"output_index": index}
        field, empty = ("content", []) if item["type"] == "message" else ("arguments", "")
        opened = {**item, "status": "in_progress", field: empty}
        yield "response.output_item.added", {**place, "item": opened}
        inside = {**place, "item_id": item["id"]}
        if item["type"] == "message":
            yield from _text_events(answer, {**inside, "content_index": 0})
        else:
            yield from _argument_events(item, inside)
        yield "response.output_item.done", {**place, "item": item}


def _text_events(
    answer: ModelAnswer, place: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", {**place, "part": _part("")}
    for word in answer.words():
        yield "response.output_text.delta", {**place, "delta": word, "logprobs": []}
    yield "response.output_text.done", {**place, "text": answer.text, "logprobs": []}
    yield "response.content_part.done", {**place, "part": _part(answer.text)}


def _argument_events(
    item: dict[str, Any], place: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    arguments = item["arguments"]
    half = len(arguments) // 2
    for part in (arguments[:half], arguments[half:]):
        yield "response.function_call_arguments.delta", {**place, "delta": part}
    done = {**place, "name": item["name"], "arguments": arguments}
    yield "response.function_call_arguments.done", done
