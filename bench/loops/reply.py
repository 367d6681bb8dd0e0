"""The forms of four APIs: a round as the answer of a provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.loops.form import (
    Done,
    Frame,
    Json,
    answer_items,
    anthropic_blocks,
    chat_message,
    gemini_parts,
)
from bench.loops.plain import MERGED, WRITTEN

CREATED = 1_800_000_000
"""When answers say that they were made."""


def answer(form: str, frame: Frame, done: Done) -> bytes:
    """Return a provider's answer that holds this round, as a stream where the frame asks for it."""
    if form in WRITTEN:
        form, write = WRITTEN[form]
        done = Done(write(done), (), done.id)
    form = MERGED.get(form, form)
    if form == "gemini":
        return _encode(_gemini_answer(frame, done))
    whole, stream = {
        "chat": (_chat_answer, _chat_events),
        "anthropic": (_anthropic_answer, _anthropic_events),
        "responses": (_responses_answer, _responses_events),
    }[form]
    return stream(frame, done) if frame.stream else _encode(whole(frame, done))


def _encode(fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()


def _event(fields: Any, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + _encode(fields) + b"\n\n"


def _tokens(done: Done) -> tuple[int, int]:
    said = len(done.text) + sum(len(use.name) + len(str(use.args)) for use in done.uses)
    return 1200 + said, 8 + said // 4


def _chat_answer(frame: Frame, done: Done) -> Json:
    asked, said = _tokens(done)
    reason = "tool_calls" if done.uses else "stop"
    choice = {"index": 0, "message": chat_message(done.text, done.uses), "finish_reason": reason}
    return {
        "id": f"chatcmpl-{done.id}",
        "object": "chat.completion",
        "created": CREATED,
        "model": frame.model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
        },
    }


def _chat_events(frame: Frame, done: Done) -> bytes:
    whole = _chat_answer(frame, done)
    head = {key: whole[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    deltas: list[Json] = [{"role": "assistant", "content": done.text}]
    for index, call in enumerate(chat_message("", done.uses).get("tool_calls", ())):
        deltas.append({"tool_calls": [{"index": index, **call}]})
    out = b"".join(
        _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        for delta in deltas
    )
    reason = whole["choices"][0]["finish_reason"]
    out += _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    return out + _event({**head, "choices": [], "usage": whole["usage"]}) + b"data: [DONE]\n\n"


def _anthropic_answer(frame: Frame, done: Done) -> Json:
    asked, said = _tokens(done)
    return {
        "id": f"msg_01{done.id[:22]}",
        "type": "message",
        "role": "assistant",
        "model": frame.model,
        "content": anthropic_blocks(frame, done),
        "stop_reason": "tool_use" if done.uses else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": asked, "output_tokens": said},
    }


def _anthropic_events(frame: Frame, done: Done) -> bytes:
    whole = _anthropic_answer(frame, done)
    opened = {**whole, "content": [], "stop_reason": None}
    out = _event({"type": "message_start", "message": opened}, "message_start")
    for index, block in enumerate(whole["content"]):
        if block["type"] == "thinking":
            start = {**block, "signature": ""}
            delta = {"type": "signature_delta", "signature": block["signature"]}
        elif block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        at: Json = {"index": index}
        for name, fields in (
            ("content_block_start", {"content_block": start}),
            ("content_block_delta", {"delta": delta}),
            ("content_block_stop", {}),
        ):
            out += _event({"type": name, **at, **fields}, name)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    out += _event({"type": "message_delta", "delta": delta, "usage": usage}, "message_delta")
    return out + _event({"type": "message_stop"}, "message_stop")


def _responses_answer(frame: Frame, done: Done) -> Json:
    asked, said = _tokens(done)
    return {
        "id": f"resp_{done.id}",
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "model": frame.model,
        "output": [{"status": "completed", **item} for item in answer_items(frame, done)],
        "parallel_tool_calls": True,
        "previous_response_id": frame.extra.get("previous_response_id"),
        "usage": {"input_tokens": asked, "output_tokens": said, "total_tokens": asked + said},
    }


def _responses_events(frame: Frame, done: Done) -> bytes:
    whole = _responses_answer(frame, done)
    opened = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": opened}]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index}
        begun = {**item, "status": "in_progress"}
        events.append({"type": "response.output_item.added", **at, "item": begun})
        events += _item_deltas(item, at)
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return b"".join(
        _event({**fields, "sequence_number": number}, fields["type"])
        for number, fields in enumerate(events)
    )


def _item_deltas(item: Json, at: Mapping[str, Any]) -> list[Json]:
    at = {**at, "item_id": item["id"]}
    if item["type"] == "message":
        text, at = item["content"][0]["text"], {**at, "content_index": 0}
        return [
            {"type": "response.output_text.delta", **at, "delta": text},
            {"type": "response.output_text.done", **at, "text": text},
        ]
    if item["type"] == "reasoning":
        return []
    if item["type"] == "custom_tool_call":
        return [{"type": "response.custom_tool_call_input.delta", **at, "delta": item["input"]}]
    arguments = item["arguments"]
    return [
        {"type": "response.function_call_arguments.delta", **at, "delta": arguments},
        {"type": "response.function_call_arguments.done", **at, "arguments": arguments},
    ]


def _gemini_answer(frame: Frame, done: Done) -> Json:
    asked, said = _tokens(done)
    content = {"role": "model", "parts": gemini_parts(frame, done)}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": asked,
            "candidatesTokenCount": said,
            "totalTokenCount": asked + said,
        },
        "modelVersion": frame.model,
        "responseId": done.id[:22],
    }
