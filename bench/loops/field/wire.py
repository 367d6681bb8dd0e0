"""The four APIs: a history as the body of a request, a round as the answer of a provider."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

CREATED = 1_800_000_000
"""When answers say that they were made."""


@dataclass(frozen=True, slots=True)
class Use:
    """A call of a tool, and its result."""

    id: str
    name: str
    args: Json | str
    """A text for a tool whose input is no JSON."""
    result: str
    failed: bool = False
    image: str = ""
    """A screenshot as base64, in place of a text."""


@dataclass(frozen=True, slots=True)
class User:
    """A message that the model did not write."""

    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What the model said, with the results of its calls."""

    id: str
    text: str
    uses: tuple[Use, ...] = ()


Item = User | Said


@dataclass(frozen=True, slots=True)
class Frame:
    """What all requests of one conversation have in common."""

    api: str
    model: str
    system: str
    stream: bool
    tools: list[Json]
    """Grows while the conversation is written; all its requests share it."""
    extra: Json
    thinks: bool = False


def path_of(frame: Frame) -> str:
    if frame.api == "gemini":
        verb = "streamGenerateContent?alt=sse" if frame.stream else "generateContent"
        return f"/v1beta/models/{frame.model}:{verb}"
    paths = {"anthropic": "messages", "chat": "chat/completions", "responses": "responses"}
    return f"/v1/{paths[frame.api]}"


def body_of(frame: Frame, items: Sequence[Item], previous: str = "") -> Json:
    """Return a request with these items; `previous` is the response that it goes on from."""
    body: Json = {**frame.extra}
    if frame.tools:
        body["tools"] = frame.tools
    match frame.api:
        case "anthropic":
            system = [{"type": "text", "text": frame.system}]
            messages = _marked(_merged(_anthropic(frame, items), "content"))
            body |= {"model": frame.model, "max_tokens": 32_000, "system": system}
            body |= {"messages": messages, "stream": frame.stream}
        case "chat":
            head = [{"role": "system", "content": frame.system}]
            body |= {"model": frame.model, "messages": head + list(_chat(items))}
            if frame.stream:
                body |= {"stream": True, "stream_options": {"include_usage": True}}
        case "responses":
            body |= {"model": frame.model, "instructions": frame.system, "stream": frame.stream}
            body["input"] = list(_responses(frame, items, bool(previous)))
            if previous:
                body["previous_response_id"] = f"resp_{previous}"
        case _:
            body["systemInstruction"] = {"role": "user", "parts": [{"text": frame.system}]}
            body["contents"] = _merged(_gemini(items), "parts")
            if frame.tools:
                body["tools"] = [{"functionDeclarations": frame.tools}]
    return body


def spec(api: str, name: str, schema: Json) -> Json:
    """Return the declaration of a tool."""
    about = f"{name.replace('_', ' ').capitalize()}."
    match api:
        case "anthropic":
            return {"name": name, "description": about, "input_schema": schema}
        case "chat":
            function = {"name": name, "description": about, "parameters": schema}
            return {"type": "function", "function": function}
        case "responses":
            head = {"type": "function", "name": name, "description": about}
            return {**head, "strict": False, "parameters": schema}
    return {"name": name, "description": about, "parametersJsonSchema": schema}


# requests


def _chat(items: Sequence[Item]) -> Iterator[Json]:
    for item in items:
        if isinstance(item, User):
            yield {
                "role": "user",
                "content": item.text,
                **({"name": item.name} if item.name else {}),
            }
            continue
        yield _chat_message(item)
        for use in item.uses:
            yield {"role": "tool", "tool_call_id": use.id, "content": use.result}


def _chat_message(said: Said) -> Json:
    message: Json = {"role": "assistant", "content": said.text or None}
    if said.uses:
        message["tool_calls"] = [
            {
                "id": use.id,
                "type": "function",
                "function": {"name": use.name, "arguments": json.dumps(use.args)},
            }
            for use in said.uses
        ]
    return message


def _anthropic(frame: Frame, items: Sequence[Item]) -> Iterator[Json]:
    for item in items:
        if isinstance(item, User):
            yield {"role": "user", "content": [{"type": "text", "text": item.text}]}
            continue
        yield {"role": "assistant", "content": _blocks(frame, item)}
        if item.uses:
            yield {"role": "user", "content": [_tool_result(use) for use in item.uses]}


def _blocks(frame: Frame, said: Said) -> list[Json]:
    blocks: list[Json] = []
    if frame.thinks and said.uses:
        signature = f"Eo{said.id * 3}"
        blocks.append({"type": "thinking", "thinking": "", "signature": signature})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    return blocks + [
        {"type": "tool_use", "id": use.id, "name": use.name, "input": use.args} for use in said.uses
    ]


def _tool_result(use: Use) -> Json:
    content: Any = use.result
    if use.image:
        source = {"type": "base64", "media_type": "image/png", "data": use.image}
        content = [{"type": "image", "source": source}]
    block: Json = {"type": "tool_result", "tool_use_id": use.id, "content": content}
    return {**block, "is_error": True} if use.failed else block


def _marked(messages: list[Json]) -> list[Json]:
    """Return the messages with a mark for the cache on the last block."""
    *rest, last = messages
    *blocks, block = last["content"]
    marked = {**block, "cache_control": {"type": "ephemeral"}}
    return [*rest, {**last, "content": [*blocks, marked]}]


def _merged(messages: Iterator[Json], key: str) -> list[Json]:
    """Join neighbours of one role, as the API wants roles that alternate."""
    joined: list[Json] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1] = {**joined[-1], key: joined[-1][key] + message[key]}
        else:
            joined.append(message)
    return joined


def _responses(frame: Frame, items: Sequence[Item], is_kept: bool) -> Iterator[Json]:
    """Yield input items; where the provider keeps the history, those since its last answer."""
    for item in items:
        if isinstance(item, User):
            content = [{"type": "input_text", "text": item.text}]
            yield {"type": "message", "role": "user", "content": content}
            continue
        if not is_kept:
            yield from _output(frame, item)
        for use in item.uses:
            kind = "custom_tool_call" if isinstance(use.args, str) else "function_call"
            yield {"type": f"{kind}_output", "call_id": use.id, "output": use.result}


def _output(frame: Frame, said: Said) -> Iterator[Json]:
    if frame.thinks:
        sealed = f"gAAAAAB{said.id * 4}"
        yield {
            "type": "reasoning",
            "id": f"rs_{said.id}",
            "summary": [],
            "encrypted_content": sealed,
        }
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        yield {"type": "message", "id": f"msg_{said.id}", "role": "assistant", "content": content}
    for number, use in enumerate(said.uses):
        if isinstance(use.args, str):
            head: Json = {"type": "custom_tool_call", "id": f"ctc_{said.id}{number}"}
            yield {**head, "call_id": use.id, "name": use.name, "input": use.args}
        else:
            head = {"type": "function_call", "id": f"fc_{said.id}{number}", "call_id": use.id}
            yield {**head, "name": use.name, "arguments": json.dumps(use.args)}


def _gemini(items: Sequence[Item]) -> Iterator[Json]:
    for item in items:
        if isinstance(item, User):
            yield {"role": "user", "parts": [{"text": item.text}]}
            continue
        yield {"role": "model", "parts": _parts(item)}
        if item.uses:
            yield {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": use.id,
                            "name": use.name,
                            "response": {"error" if use.failed else "output": use.result},
                        }
                    }
                    for use in item.uses
                ],
            }


def _parts(said: Said) -> list[Json]:
    parts: list[Json] = [{"text": said.text}] if said.text else []
    for number, use in enumerate(said.uses):
        part: Json = {"functionCall": {"id": use.id, "name": use.name, "args": use.args}}
        parts.append(part if number else {**part, "thoughtSignature": f"CiQB{said.id * 2}"})
    return parts


# answers


def answer_of(frame: Frame, said: Said) -> bytes:
    """Return the provider's answer, as a stream where the frame asks for one."""
    whole, events = {
        "chat": _chat_answer,
        "anthropic": _anthropic_answer,
        "responses": _responses_answer,
        "gemini": _gemini_answer,
    }[frame.api](frame, said)
    if not frame.stream:
        return json.dumps(whole, ensure_ascii=False).encode()
    lines = []
    for event in events:
        head = f"event: {event['type']}\n" if "type" in event else ""
        lines.append(f"{head}data: {json.dumps(event, ensure_ascii=False)}\n\n")
    return "".join(lines).encode() + (b"data: [DONE]\n\n" if frame.api == "chat" else b"")


def _chat_answer(frame: Frame, said: Said) -> tuple[Json, list[Json]]:
    head = {"id": f"chatcmpl-{said.id}", "created": CREATED, "model": frame.model}
    reason = "tool_calls" if said.uses else "stop"
    message = _chat_message(said)
    choice = {"index": 0, "message": message, "finish_reason": reason}
    spent = 20 + len(said.text) // 4
    usage = {"prompt_tokens": 2400, "completion_tokens": spent, "total_tokens": 2400 + spent}
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    deltas: list[Json] = [{"role": "assistant", "content": said.text}]
    for index, call in enumerate(message.get("tool_calls", ())):
        deltas.append({"tool_calls": [{"index": index, **call}]})
    events = [
        {"index": 0, "delta": delta, "finish_reason": end}
        for delta, end in [*((delta, None) for delta in deltas), ({}, reason)]
    ]
    head |= {"object": "chat.completion.chunk"}
    last = {**head, "choices": [], "usage": usage}
    return whole, [*({**head, "choices": [event]} for event in events), last]


def _anthropic_answer(frame: Frame, said: Said) -> tuple[Json, list[Json]]:
    whole: Json = {
        "id": f"msg_01{said.id}",
        "type": "message",
        "role": "assistant",
        "model": frame.model,
        "content": _blocks(frame, said),
        "stop_reason": "tool_use" if said.uses else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 20 + len(said.text) // 4},
    }
    opened = {**whole, "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": opened}]
    for index, block in enumerate(whole["content"]):
        match block["type"]:
            case "thinking":
                start, delta = {**block, "signature": ""}, {"signature": block["signature"]}
            case "text":
                start, delta = {**block, "text": ""}, {"text": block["text"]}
            case _:
                start, delta = {**block, "input": {}}, {"partial_json": json.dumps(block["input"])}
        kind = {"thinking": "signature", "text": "text"}.get(block["type"], "input_json")
        at: Json = {"index": index}
        events += [
            {"type": "content_block_start", **at, "content_block": start},
            {"type": "content_block_delta", **at, "delta": {"type": f"{kind}_delta", **delta}},
            {"type": "content_block_stop", **at},
        ]
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 64}})
    return whole, [*events, {"type": "message_stop"}]


def _responses_answer(frame: Frame, said: Said) -> tuple[Json, list[Json]]:
    output = [{**item, "status": "completed"} for item in _output(frame, said)]
    head: Json = {"id": f"resp_{said.id}", "object": "response", "created_at": CREATED}
    usage = {"input_tokens": 2400, "output_tokens": 64, "total_tokens": 2464}
    whole = {**head, "status": "completed", "model": frame.model, "output": output, "usage": usage}
    events: list[Json] = [{"type": "response.created", "response": {**head, "output": []}}]
    for index, item in enumerate(output):
        begun = {**item, "status": "in_progress"}
        events += [
            {"type": "response.output_item.added", "output_index": index, "item": begun},
            {"type": "response.output_item.done", "output_index": index, "item": item},
        ]
    return whole, [*events, {"type": "response.completed", "response": whole}]


def _gemini_answer(frame: Frame, said: Said) -> tuple[Json, list[Json]]:
    content = {"role": "model", "parts": _parts(said)}
    whole: Json = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 2400, "candidatesTokenCount": 64},
        "modelVersion": frame.model,
        "responseId": said.id,
    }
    return whole, [whole]
