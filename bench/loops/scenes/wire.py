"""Requests and answers in four dialects: chat, messages, responses and Gemini."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A call with its id."""

    id: str
    name: str
    args: Json


@dataclass(frozen=True, slots=True)
class Note:
    """A message: of the `user`, of the `agent`, or a result of a `tool`."""

    who: str
    text: str
    calls: tuple[Asked, ...] = ()
    id: str = ""
    """Of a result: the call that it answers."""
    name: str = ""
    """Of a result: the tool. In a group chat: the speaker."""
    image: str = ""
    failed: bool = False

    def with_text(self, text: str) -> Note:
        """Return it with another text, and without its picture."""
        return replace(self, text=text, image="")


@dataclass(frozen=True, slots=True)
class Setting:
    """What all requests of a run have in common."""

    dialect: str
    model: str
    system: str
    tools: Sequence[tuple[str, tuple[str, ...]]]
    stream: bool
    extra: Json
    made: dict[int, tuple[Note, Any]] = field(default_factory=dict)
    """Messages that were made before: a history has most of them again."""

    def once(self, make: Callable[[Note], Any], note: Note) -> Any:
        """Make a message of a note, the first time that it is asked for."""
        found = self.made.get(id(note))
        if found is None:
            found = self.made[id(note)] = (note, make(note))
        return found[1]


def body(setting: Setting, notes: Sequence[Note], previous: str = "") -> Json:
    """Return the body of a request with these messages."""
    made = _BODIES[setting.dialect](setting, notes)
    if previous:
        made["previous_response_id"] = previous
    return {**made, **setting.extra}


def path(setting: Setting) -> str:
    """Return where such a request is sent."""
    if setting.dialect == "gemini":
        verb = "streamGenerateContent" if setting.stream else "generateContent"
        return f"/v1beta/models/{setting.model}:{verb}"
    return {
        "chat": "/v1/chat/completions",
        "messages": "/v1/messages",
        "responses": "/v1/responses",
    }[setting.dialect]


def picture(shown: str) -> str:
    """Return a picture in base64, a PNG of 8 × 8 points: equal for equal texts."""
    points = hashlib.sha512(shown.encode()).digest()
    rows = b"".join(b"\0" + points[at : at + 8] for at in range(0, 64, 8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    made = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return base64.b64encode(made).decode()


@cache
def _schema(fields: tuple[str, ...]) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in fields},
        "required": list(fields),
    }


def _chat(setting: Setting, notes: Sequence[Note]) -> Json:
    messages: list[Json] = []
    if setting.system:
        messages.append({"role": "system", "content": setting.system})
    for note in notes:
        if note.who == "user":
            content: Any = note.text
            if note.image:
                url = f"data:image/png;base64,{picture(note.image)}"
                content = [
                    {"type": "text", "text": note.text},
                    {"type": "image_url", "image_url": {"url": url}},
                ]
            name = {"name": note.name} if note.name else {}
            messages.append({"role": "user", "content": content, **name})
        elif note.who == "agent":
            messages.append(setting.once(_chat_agent, note))
        else:
            messages.append({"role": "tool", "tool_call_id": note.id, "content": note.text})
    made: Json = {"model": setting.model, "messages": messages}
    if setting.tools:
        made["tools"] = [
            {"type": "function", "function": {"name": name, "parameters": _schema(fields)}}
            for name, fields in setting.tools
        ]
    return made | ({"stream": True} if setting.stream else {})


def _chat_agent(note: Note) -> Json:
    message: Json = {"role": "assistant", "content": note.text or None}
    if note.name:
        message["name"] = note.name
    if note.calls:
        message["tool_calls"] = [_chat_call(call) for call in note.calls]
    elif not note.text:
        message["content"] = ""
    return message


def _chat_call(call: Asked) -> Json:
    arguments = json.dumps(call.args)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _messages(setting: Setting, notes: Sequence[Note]) -> Json:
    messages: list[Json] = []
    for note in notes:
        role = "assistant" if note.who == "agent" else "user"
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": []})
        messages[-1]["content"] += setting.once(_blocks, note)
    made: Json = {"model": setting.model, "max_tokens": 8192, "messages": messages}
    if setting.system:
        made["system"] = [{"type": "text", "text": setting.system}]
    if setting.tools:
        made["tools"] = [
            {"name": name, "input_schema": _schema(fields)} for name, fields in setting.tools
        ]
    return made | ({"stream": True} if setting.stream else {})


def _blocks(note: Note) -> list[Json]:
    text = [{"type": "text", "text": note.text}] if note.text else []
    if note.who == "user":
        return text + _image(note)
    if note.who == "agent":
        calls = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}
            for call in note.calls
        ]
        return (text + calls) or [{"type": "text", "text": "(no content)"}]
    result: Json = {"type": "tool_result", "tool_use_id": note.id, "content": text + _image(note)}
    return [result | ({"is_error": True} if note.failed else {})]


def _image(note: Note) -> list[Json]:
    if not note.image:
        return []
    source = {"type": "base64", "media_type": "image/png", "data": picture(note.image)}
    return [{"type": "image", "source": source}]


def _responses(setting: Setting, notes: Sequence[Note]) -> Json:
    items: list[Json] = []
    for note in notes:
        if note.who == "user":
            content = [{"type": "input_text", "text": note.text}]
            items.append({"type": "message", "role": "user", "content": content})
        elif note.who == "agent":
            items += setting.once(_output, note)
        else:
            items.append({"type": "function_call_output", "call_id": note.id, "output": note.text})
    made: Json = {"model": setting.model, "input": items}
    if setting.system:
        made["instructions"] = setting.system
    if setting.tools:
        made["tools"] = [
            {"type": "function", "name": name, "parameters": _schema(fields)}
            for name, fields in setting.tools
        ]
    return made | ({"stream": True} if setting.stream else {})


def _output(note: Note) -> list[Json]:
    items: list[Json] = []
    if note.text:
        content = [{"type": "output_text", "text": note.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    for call in note.calls:
        arguments = json.dumps(call.args)
        items.append(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": arguments,
            }
        )
    return items


def _gemini(setting: Setting, notes: Sequence[Note]) -> Json:
    contents: list[Json] = []
    for note in notes:
        role = "model" if note.who == "agent" else "user"
        if not contents or contents[-1]["role"] != role:
            contents.append({"role": role, "parts": []})
        contents[-1]["parts"] += setting.once(_parts, note)
    made: Json = {"contents": contents}
    if setting.system:
        made["systemInstruction"] = {"role": "user", "parts": [{"text": setting.system}]}
    if setting.tools:
        declared = [{"name": name, "parameters": _schema(fields)} for name, fields in setting.tools]
        made["tools"] = [{"functionDeclarations": declared}]
    return made


def _parts(note: Note) -> list[Json]:
    if note.who == "tool":
        key = "error" if note.failed else "output"
        return [{"functionResponse": {"name": note.name, "response": {key: note.text}}}]
    parts: list[Json] = [{"text": note.text}] if note.text else []
    parts += [{"functionCall": {"name": call.name, "args": call.args}} for call in note.calls]
    return parts or [{"text": ""}]


_BODIES = {"chat": _chat, "messages": _messages, "responses": _responses, "gemini": _gemini}


def answer(setting: Setting, note: Note, id: str) -> bytes:
    """Return what the provider answers: in one piece, or as a stream."""
    return _ANSWERS[setting.dialect](setting, note, id)


def _events(events: Iterable[Json], named: bool = False) -> bytes:
    lines = []
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        lines.append(f"{head}data: {json.dumps(event)}\n\n")
    return "".join(lines).encode()


def _chat_answer(setting: Setting, note: Note, id: str) -> bytes:
    message = {key: value for key, value in _chat_agent(note).items() if key != "name"}
    ends = "tool_calls" if note.calls else "stop"
    whole = {"id": id, "object": "chat.completion", "model": setting.model}
    if not setting.stream:
        choice = {"index": 0, "message": message, "finish_reason": ends}
        return json.dumps({**whole, "choices": [choice]}).encode()
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(note.text)]
    for index, call in enumerate(note.calls):
        function = {"name": call.name, "arguments": ""}
        start = {"index": index, "id": call.id, "type": "function", "function": function}
        deltas.append({"tool_calls": [start]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in _pieces(json.dumps(call.args))
        ]
    whole["object"] = "chat.completion.chunk"
    chunks = [
        {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append({**whole, "choices": [{"index": 0, "delta": {}, "finish_reason": ends}]})
    return _events(chunks) + b"data: [DONE]\n\n"


def _pieces(text: str) -> list[str]:
    return [text[at : at + 40] for at in range(0, len(text), 40)]


def _messages_answer(setting: Setting, note: Note, id: str) -> bytes:
    blocks = _blocks(note)
    message: Json = {"id": id, "type": "message", "role": "assistant", "model": setting.model}
    ends = "tool_use" if note.calls else "end_turn"
    if not setting.stream:
        usage = {"input_tokens": 900, "output_tokens": 90}
        whole = {**message, "content": blocks, "stop_reason": ends, "usage": usage}
        return json.dumps(whole).encode()
    events: list[Json] = [{"type": "message_start", "message": {**message, "content": []}}]
    for index, block in enumerate(blocks):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        else:
            pieces = _pieces(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": ends}})
    return _events([*events, {"type": "message_stop"}], named=True)


def _responses_answer(setting: Setting, note: Note, id: str) -> bytes:
    output = _output(note)
    whole = {"id": id, "object": "response", "status": "completed", "output": output}
    if not setting.stream:
        return json.dumps(whole).encode()
    events: list[Json] = [{"type": "response.created", "response": {**whole, "output": []}}]
    for index, item in enumerate(output):
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return _events(events, named=True)


def _gemini_answer(setting: Setting, note: Note, _id: str) -> bytes:
    content = {"role": "model", "parts": _parts(note)}
    whole = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}
    if not setting.stream:
        return json.dumps(whole).encode()
    return _events([whole])


_ANSWERS = {
    "chat": _chat_answer,
    "messages": _messages_answer,
    "responses": _responses_answer,
    "gemini": _gemini_answer,
}
