"""The forms of four APIs: a history as the body of a request."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
COMPUTER = "computer_use_preview"
"""The tool of the Responses API whose calls and results are items of their own."""
GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent"


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a tool, with its result."""

    id: str
    name: str
    args: Mapping[str, Any]
    result: str
    free_text: str = ""
    """The input of a custom tool, which takes text and no arguments."""
    arguments: str = "{}"
    """The arguments as the model wrote them."""
    image: str = ""
    """A screenshot that comes with the result, in base64."""


@dataclass(frozen=True, slots=True)
class Done:
    """A round in the form of a harness: what the model said and used."""

    text: str
    uses: Sequence[Use]
    id: str
    """What the ids of the answer, and of its items, are made of."""


@dataclass(frozen=True, slots=True)
class Say:
    """A message of text only."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item that the Responses API gave, and gets back as it is."""

    fields: Mapping[str, Any]


Entry = Say | Done | Item


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may use; a custom one takes text."""

    name: str
    about: str
    parameters: Sequence[str] = ()
    is_custom: bool = False

    def schema(self) -> Json:
        fields = {name: {"type": "string"} for name in self.parameters}
        return {"type": "object", "properties": fields, "required": list(self.parameters)}


@dataclass(frozen=True, slots=True)
class Frame:
    """What stays the same in all requests of a run."""

    model: str
    system: str
    tools: Sequence[Tool]
    extra: Mapping[str, Any]
    """Further fields of each body."""
    stream: bool = False
    thinks: bool = False
    has_item_ids: bool = False


# requests


def chat_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    messages: list[Json] = [{"role": "system", "content": frame.system}] if frame.system else []
    for entry in entries:
        match entry:
            case Say(role, text):
                messages.append({"role": role, "content": text})
            case Done(text, uses):
                messages.append(chat_message(text, uses))
                messages += [
                    {"role": "tool", "tool_call_id": use.id, "content": _chat_content(use)}
                    for use in uses
                ]
    tools = [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.about, "parameters": t.schema()},
        }
        for t in frame.tools
    ]
    body: Json = {"model": frame.model, "messages": messages, **frame.extra}
    if tools:
        body["tools"] = tools
    if frame.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def image_url(image: str) -> str:
    return f"data:image/png;base64,{image}"


def _chat_content(use: Use) -> str | list[Json]:
    if not use.image:
        return use.result
    shown = {"type": "image_url", "image_url": {"url": image_url(use.image)}}
    return [{"type": "text", "text": use.result}, shown]


def chat_message(text: str, uses: Iterable[Use]) -> Json:
    message: Json = {"role": "assistant", "content": text or None}
    calls = [
        {
            "id": use.id,
            "type": "function",
            "function": {"name": use.name, "arguments": use.arguments},
        }
        for use in uses
    ]
    if calls:
        message["tool_calls"] = calls
    return message


def text_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    """Return a body in which commands and what they print are plain text."""
    flat: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Done):
            flat.append(Say("assistant", text_of(entry)))
            flat += [Say("user", use.result) for use in entry.uses]
        else:
            flat.append(entry)
    return chat_body(frame, flat)


def text_of(done: Done) -> str:
    blocks = [f"```bash\n{use.args['command']}\n```" for use in done.uses]
    return "\n\n".join([f"THOUGHT: {done.text}", *blocks])


def anthropic_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    messages: list[Json] = []
    for entry in entries:
        match entry:
            case Say(role, text):
                _append_blocks(messages, role, [{"type": "text", "text": text}])
            case Done(text, uses):
                _append_blocks(messages, "assistant", anthropic_blocks(frame, entry))
                results = [
                    {"type": "tool_result", "tool_use_id": use.id, "content": _blocks_of(use)}
                    for use in uses
                ]
                if results:
                    _append_blocks(messages, "user", results)
    tools = [
        {"name": t.name, "description": t.about, "input_schema": t.schema()} for t in frame.tools
    ]
    cached = {"type": "text", "text": frame.system, "cache_control": {"type": "ephemeral"}}
    body: Json = {
        "model": frame.model,
        "max_tokens": 32_000,
        "system": [cached] if frame.system else [],
        "messages": messages,
        **frame.extra,
    }
    if tools:
        body["tools"] = tools
    if frame.stream:
        body["stream"] = True
    return body


def _blocks_of(use: Use) -> str | list[Json]:
    if not use.image:
        return use.result
    source = {"type": "base64", "media_type": "image/png", "data": use.image}
    said = [{"type": "text", "text": use.result}] if use.result else []
    return [*said, {"type": "image", "source": source}]


def _append_blocks(messages: list[Json], role: str, blocks: list[Json]) -> None:
    """Add blocks to the last message if it has the same role: roles take turns."""
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": role, "content": blocks})


def anthropic_blocks(frame: Frame, done: Done) -> list[Json]:
    blocks: list[Json] = []
    if frame.thinks and done.uses:
        blocks.append({"type": "thinking", "thinking": "", "signature": _seal(done)})
    if done.text:
        blocks.append({"type": "text", "text": done.text})
    return blocks + [
        {"type": "tool_use", "id": use.id, "name": use.name, "input": dict(use.args)}
        for use in done.uses
    ]


def _seal(done: Done) -> str:
    """Return a thought as providers seal it: never twice the same."""
    return b64encode(f"{done.id}{done.id}".encode()).decode()


def responses_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    items: list[Json] = []
    for entry in entries:
        match entry:
            case Say(role, text):
                part = "output_text" if role == "assistant" else "input_text"
                content = [{"type": part, "text": text}]
                items.append({"type": "message", "role": role, "content": content})
            case Done():
                items += _sent_back(frame, entry)
                items += [output_item(use) for use in entry.uses]
            case Item(fields):
                items.append(dict(fields))
    body: Json = {
        "model": frame.model,
        "instructions": frame.system,
        "input": items,
        "tools": [_responses_tool(tool) for tool in frame.tools],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        **frame.extra,
    }
    if frame.stream:
        body["stream"] = True
    return body


def answer_items(frame: Frame, done: Done) -> list[Json]:
    """Return the items of an answer, with their ids."""
    items: list[Json] = []
    if frame.thinks and done.uses:
        items.append({"type": "reasoning", "summary": [], "encrypted_content": _seal(done)})
    if done.text:
        items.append(_spoken(done.text))
    items += [_call_item(use) for use in done.uses]
    return [
        {"id": f"{_ITEM_IDS[item['type']]}_{index}{done.id[1:]}", **item}
        for index, item in enumerate(items)
    ]


_ITEM_IDS = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "computer_call": "cu",
}


def _sent_back(frame: Frame, done: Done) -> list[Json]:
    items = answer_items(frame, done)
    if not frame.has_item_ids:
        for item in items:
            del item["id"]
    return items


def _responses_tool(tool: Tool) -> Json:
    about = {"name": tool.name, "description": tool.about}
    if tool.name == COMPUTER:
        size = {"display_width": 1280, "display_height": 800, "environment": "browser"}
        return {"type": "computer_use_preview", **size}
    if tool.is_custom:
        return {"type": "custom", **about}
    return {"type": "function", **about, "strict": False, "parameters": tool.schema()}


def _spoken(text: str) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def _call_item(use: Use) -> Json:
    if use.name == COMPUTER:
        about = {"type": "computer_call", "status": "completed", "action": dict(use.args)}
        return {**about, "call_id": use.id, "pending_safety_checks": []}
    if use.free_text:
        about = {"type": "custom_tool_call", "status": "completed", "input": use.free_text}
    else:
        about = {"type": "function_call", "arguments": use.arguments}
    return {**about, "call_id": use.id, "name": use.name}


def output_item(use: Use) -> Json:
    if use.name == COMPUTER:
        shown = {"type": "computer_screenshot", "image_url": image_url(use.image)}
        return {"type": "computer_call_output", "call_id": use.id, "output": shown}
    kind = "custom_tool_call_output" if use.free_text else "function_call_output"
    output: str | list[Json] = use.result
    if use.image:
        shown = {"type": "input_image", "image_url": image_url(use.image)}
        output = [{"type": "input_text", "text": use.result}, shown]
    return {"type": kind, "call_id": use.id, "output": output}


def gemini_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    contents: list[Json] = []
    for entry in entries:
        match entry:
            case Say(role, text):
                speaker = "model" if role == "assistant" else "user"
                contents.append({"role": speaker, "parts": [{"text": text}]})
            case Done(text, uses):
                contents.append({"role": "model", "parts": gemini_parts(frame, entry)})
                results: list[Json] = [
                    {"functionResponse": {"name": use.name, "response": {"output": use.result}}}
                    for use in uses
                ]
                images = [
                    {"inlineData": {"mimeType": "image/png", "data": use.image}}
                    for use in uses
                    if use.image
                ]
                if results:
                    contents.append({"role": "user", "parts": results + images})
    declared = [
        {"name": t.name, "description": t.about, "parametersJsonSchema": t.schema()}
        for t in frame.tools
    ]
    body: Json = {
        "contents": contents,
        "systemInstruction": {"role": "user", "parts": [{"text": frame.system}]},
        "generationConfig": {"temperature": 0, "topP": 1},
        **frame.extra,
    }
    if declared:
        body["tools"] = [{"functionDeclarations": declared}]
    return body


def gemini_parts(frame: Frame, done: Done) -> list[Json]:
    parts: list[Json] = [{"text": done.text}] if done.text else []
    for number, use in enumerate(done.uses):
        part: Json = {"functionCall": {"name": use.name, "args": dict(use.args)}}
        if frame.thinks and number == 0:
            part["thoughtSignature"] = _seal(done)
        parts.append(part)
    return parts


def share_messages(body: Json, before: Mapping[str, Any]) -> None:
    """Put the messages of the request before in the place of equal ones, to save memory."""
    for key in ("messages", "input", "contents", "tools"):
        if isinstance(now := body.get(key), list):
            for index, (one, old) in enumerate(zip(now, before.get(key, ()), strict=False)):
                if one == old:
                    now[index] = old


BODIES = {
    "chat": chat_body,
    "text": text_body,
    "anthropic": anthropic_body,
    "responses": responses_body,
    "gemini": gemini_body,
}
PATHS = {
    "chat": CHAT,
    "text": CHAT,
    "anthropic": MESSAGES,
    "responses": RESPONSES,
    "gemini": GEMINI,
}
