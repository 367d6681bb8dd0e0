"""The rounds of a run as the messages of four APIs, each written once and shared by all bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.loops.form import (
    CHAT,
    GEMINI,
    MESSAGES,
    RESPONSES,
    Done,
    Frame,
    Json,
    Use,
    answer_items,
    anthropic_blocks,
    anthropic_body,
    chat_body,
    chat_message,
    gemini_body,
    gemini_parts,
    output_item,
    responses_body,
)

PATHS = {"chat": CHAT, "anthropic": MESSAGES, "responses": RESPONSES, "gemini": GEMINI}


@dataclass(frozen=True, slots=True)
class Got:
    """What comes back for one use of a tool."""

    text: str
    failed: bool = False
    image: str = ""


def told(dialect: str, text: str, role: str = "user", name: str = "") -> list[Json]:
    """Return a message of text only."""
    if dialect == "anthropic":
        return [{"role": role, "content": [{"type": "text", "text": text}]}]
    if dialect == "gemini":
        return [{"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}]
    if dialect == "responses":
        part = "output_text" if role == "assistant" else "input_text"
        return [{"type": "message", "role": role, "content": [{"type": part, "text": text}]}]
    message: Json = {"role": role, "content": text}
    return [{**message, "name": name}] if name else [message]


def answered(dialect: str, frame: Frame, done: Done) -> list[Json]:
    """Return what the history has of an answer."""
    if dialect == "anthropic":
        blocks = anthropic_blocks(frame, done)
        return [{"role": "assistant", "content": blocks or [{"type": "text", "text": "(none)"}]}]
    if dialect == "gemini":
        return [{"role": "model", "parts": gemini_parts(frame, done)}]
    if dialect == "chat":
        return [chat_message(done.text, done.uses)]
    items = answer_items(frame, done)
    if not frame.has_item_ids:
        items = [{key: value for key, value in item.items() if key != "id"} for item in items]
    return items


def returned(dialect: str, uses: Sequence[Use], got: Sequence[Got], heard: str) -> list[Json]:
    """Return the results of an answer's uses, and what is said with them."""
    pairs = list(zip(uses, got, strict=True))
    if dialect == "anthropic":
        blocks = [_anthropic_result(use, one) for use, one in pairs]
        if heard:
            blocks.append({"type": "text", "text": heard})
        return [{"role": "user", "content": blocks}] if blocks else []
    said = told(dialect, heard) if heard else []
    if dialect == "chat":
        return [*(message for use, one in pairs for message in _chat_result(use, one)), *said]
    if dialect == "responses":
        return [*(_responses_result(use, one) for use, one in pairs), *said]
    parts = [_gemini_result(use, one) for use, one in pairs]
    if heard:
        parts.append({"text": heard})
    return [{"role": "user", "parts": parts}] if parts else []


def _anthropic_result(use: Use, got: Got) -> Json:
    content: Any = got.text
    if got.image:
        source = {"type": "base64", "media_type": "image/png", "data": got.image}
        content = [{"type": "image", "source": source}]
        if got.text:
            content.insert(0, {"type": "text", "text": got.text})
    result = {"type": "tool_result", "tool_use_id": use.id, "content": content}
    return {**result, "is_error": True} if got.failed else result


def _chat_result(use: Use, got: Got) -> list[Json]:
    result: list[Json] = [{"role": "tool", "tool_call_id": use.id, "content": got.text}]
    if got.image:
        shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{got.image}"}}
        result.append({"role": "user", "content": [shown]})
    return result


def _responses_result(use: Use, got: Got) -> Json:
    item = {**output_item(use), "output": got.text}
    if got.image:
        url = f"data:image/png;base64,{got.image}"
        shown = {"type": "input_image", "image_url": url}
        item["output"] = [{"type": "input_text", "text": got.text}, shown]
    return item


def _gemini_result(use: Use, got: Got) -> Json:
    response = {"error" if got.failed else "output": got.text}
    result: Json = {"name": use.name, "response": response}
    if use.id:
        result["id"] = use.id
    if got.image:
        data = {"mimeType": "image/png", "data": got.image}
        result["parts"] = [{"inlineData": data}]
    return {"functionResponse": result}


def request(dialect: str, frame: Frame, messages: list[Json]) -> Json:
    """Return the body of a request with these messages."""
    if dialect == "anthropic":
        return {**anthropic_body(frame, ()), "messages": messages}
    if dialect == "gemini":
        return {**gemini_body(frame, ()), "contents": messages}
    if dialect == "responses":
        return {**responses_body(frame, ()), "input": messages}
    body = chat_body(frame, ())
    return {**body, "messages": body["messages"] + messages}
