"""OpenAI Responses: a string, or a flat list of items with calls and results of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    THOUGHT_KINDS,
    UNREADABLE,
    canonical_arguments,
    decode,
    decode_or_none,
    digest,
    encode,
    flatten,
    id_text,
    malformed_message,
    raw_message,
    tool_names,
)
from looptrap.dialect.dialect import (
    AnswerWriter,
    Dialect,
    History,
    ModelAnswer,
    UsageFormat,
    halves,
)
from looptrap.dialect.model import (
    AnsweredTurn,
    Call,
    Json,
    Message,
    Request,
    ToolCall,
    ToolResult,
    Usage,
    join_turns,
)
from looptrap.dialect.openai_chat import ResponsesCounts, error_body, requires_tool
from looptrap.dialect.path import model_in_path
from looptrap.dialect.splice import append_element, find_field, wrap_value
from looptrap.dialect.stream import GrowingText, StreamParser, named_events


class _Body(msgspec.Struct, gc=False):
    input: list[msgspec.Raw] | str | None = None
    model: str | None = None
    stream: Any = None
    user: Any = None
    instructions: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    previous_response_id: str | None = None
    conversation: Any = None
    store: Any = None
    tools: msgspec.Raw = ABSENT


_decode_body = msgspec.json.Decoder(_Body).decode


def read(request: Request, body: bytes) -> Call:
    """Read a Responses body; raises what decoding raises."""
    sent = _decode_body(body)
    raws = sent.input
    if isinstance(raws, str):
        raws = [raw_message(b"user", msgspec.json.encode(raws))]
    elif raws is None:
        if sent.prompt == ABSENT:
            raise msgspec.ValidationError("neither `input` nor `prompt`")
        raws = []
    # A stored prompt is a system message too: its id and variables are part of the prompt.
    for leading in (sent.prompt, sent.instructions):
        if leading != ABSENT:
            raws.insert(0, raw_message(b"system", leading))
    conversation = _conversation_id(sent.conversation)
    return Call(
        request,
        "openai_responses",
        model=sent.model or model_in_path(request.path),
        stream=sent.stream is True,
        user=id_text(sent.user),
        chain=sent.previous_response_id or conversation,
        keeps_history=sent.store is not False or conversation != "",
        raws=raws,
        read=read_item,
        has_split_turns=True,
        read_tools=None if sent.tools is ABSENT else partial(tool_names, sent.tools),
    )


def _conversation_id(conversation: Any) -> str:
    """Return the id of a conversation, which is sent as an id or as an object."""
    return id_text(conversation.get("id") if isinstance(conversation, dict) else conversation)


def read_item(raw: msgspec.Raw) -> Message:
    """Read one item: a message, a call, a result, or another item between them."""
    try:
        item = decode(raw)
        if not isinstance(item, dict):
            return malformed_message(raw)
        kind = item.pop("type", None) or ("message" if "role" in item else "item_reference")
        if not isinstance(kind, str):
            return malformed_message(raw)
        if kind == "message":
            return _message(item, raw)
        if kind.endswith("_output"):
            return Message("tool", "", (), (_output(item),))
        if kind.endswith("_call"):
            return _call(kind, item)
        if kind in THOUGHT_KINDS:
            return Message("assistant")
        if kind != "item_reference":
            item.pop("id", None)  # different in each answer, even if the rest is equal
        # An approval is a person's yes or no to a call of a remote tool.
        return Message("user" if kind == "mcp_approval_response" else "", digest(kind, item))
    except UNREADABLE:
        return malformed_message(raw)


def _message(item: Json, raw: msgspec.Raw) -> Message:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or isinstance(content, int | float):
        return malformed_message(raw)
    return Message(ROLES.get(role, role), flatten(content))


def _call(kind: str, item: Json) -> Message:
    """Read a call; the item of a built-in tool also has the result."""
    call_id = id_text(item.get("call_id") or item.get("id"))
    name = id_text(item.get("name")) or kind.removesuffix("_call")
    call = ToolCall(call_id, name, _arguments(item))
    error = item.get("error")
    output = error or item.get("output") or item.get("outputs") or item.get("results")
    if not output:
        return Message("assistant", "", (call,))
    result = ToolResult(call_id, flatten(output), is_error=bool(error))
    return Message("assistant", "", (call,), (result,))


def _arguments(item: Json) -> str:
    for name in ("input", "code"):
        if isinstance(item.get(name), str):
            return str(item[name])  # free text, even where it looks like JSON
    for name in ("arguments", "action", "actions", "operation", "queries"):
        if item.get(name) is not None:
            return canonical_arguments(item[name])
    return "{}"


def _output(item: Json) -> ToolResult:
    fields = (item.get(name) for name in ("output", "result", "tools"))
    return ToolResult(
        id_text(item.get("call_id") or item.get("id")),
        flatten(next((value for value in fields if value is not None), None)),
        is_error=item.get("status") == "failed",
        name=id_text(item.get("name")),
    )


# Passing answers

_EMPTY = b"{}"

_OUTPUT, _REASONING = "response.output_text", "response.reasoning_text"
_SUMMARY = "response.reasoning_summary_text"
_DELTAS = {f"{kind}.delta": kind for kind in (_OUTPUT, _REASONING, _SUMMARY)}
_PART_TYPES = {_OUTPUT: "output_text", _REASONING: "reasoning_text", _SUMMARY: "summary_text"}
_LAST_EVENTS = frozenset({"response.completed", "response.failed", "response.incomplete", "error"})


class _WholePart(msgspec.Struct, gc=False):
    text: str | None = None


class _WholeItem(msgspec.Struct, gc=False):
    """An item of a whole response."""

    content: list[_WholePart] | None = None
    summary: list[_WholePart] | None = None


class _Response(msgspec.Struct, gc=False):
    """A response: an answer in one piece, or what the events of a stream show of it."""

    id: Any = None
    conversation: Any = None
    output: list[msgspec.Raw] | None = None


class _Event(_Response, gc=False):
    """An event of a stream; an answer in one piece has no type."""

    type: str = ""
    sequence_number: int = 0
    output_index: int = 0
    content_index: int | None = None
    summary_index: int | None = None
    delta: str | None = None
    item: msgspec.Raw = ABSENT
    part: msgspec.Raw = ABSENT
    response: msgspec.Raw = ABSENT


_decode_whole_item = msgspec.json.Decoder(_WholeItem).decode
_decode_response = msgspec.json.Decoder(_Response).decode


_Position = tuple[str, int]
"""The position of a part in its item: `content` or `summary`, and an index."""


def _position(event: _Event) -> _Position:
    if event.summary_index is not None:
        return "summary", event.summary_index
    return "content", event.content_index or 0


@dataclass(slots=True)
class _OpenPart:
    """A text that has begun and not ended."""

    text: GrowingText
    kind: str
    """The name of its events without `.delta`: `response.output_text`."""
    shape: bytes = _EMPTY
    """The part as the event before its first delta showed it."""

    @property
    def is_text(self) -> bool:
        """Whether it is only text: no refusal, no audio."""
        return "text" in _type_of(self.shape, "text")

    def close(self) -> Json:
        """Return the part with all of its text."""
        default: Json = {"type": _PART_TYPES[self.kind]}
        if self.kind == _OUTPUT:
            default["annotations"] = []
        return {**default, **decode(self.shape), "text": self.text.whole()}

    def closing_events(self, part: Json, place: Json, field_name: str) -> Iterator[Json]:
        """Yield the events that end the text, and the part in that field."""
        text = {"type": f"{self.kind}.done", **place, "text": part["text"]}
        yield {**text, "logprobs": []} if self.kind == _OUTPUT else text
        if self.shape != _EMPTY:  # it began with an event, so it ends with one
            name = "content_part" if field_name == "content" else "reasoning_summary_part"
            yield {"type": f"response.{name}.done", **place, "part": part}


@dataclass(slots=True)
class _OpenItem:
    """An item that has begun and not ended."""

    shape: bytes = _EMPTY
    parts: dict[_Position, _OpenPart] = field(default_factory=dict)
    closed: dict[_Position, msgspec.Raw] = field(default_factory=dict)
    """The final form of the parts that have ended."""

    @property
    def is_text(self) -> bool:
        """Whether it is only text: a tool call must not be cut in half."""
        is_text = _type_of(self.shape, "") in ("message", "reasoning")
        return is_text and all(part.is_text for part in self.parts.values())

    def close(self, index: int) -> tuple[Json, list[Json]]:
        """Return the item with all of its parts, and the events that end it."""
        item = decode(self.shape)
        parts: dict[_Position, Any] = dict(self.closed)
        events: list[Json] = []
        for (name, number), part in self.parts.items():
            parts[name, number] = closed = part.close()
            place = {"item_id": item.get("id", ""), "output_index": index, f"{name}_index": number}
            events += part.closing_events(closed, place, name)
        item["status"] = "completed"
        for name in {name for name, _ in parts}:
            item[name] = [parts[at] for at in sorted(parts) if at[0] == name]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        return item, events


class ResponsesStreamParser(StreamParser):
    """Parses the items of a response; the end of a stream repeats all of its text."""

    __slots__ = ("_whole", "closed", "number", "response")

    event = _Event

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        """The sequence number of the latest event."""
        self.response = _EMPTY
        """The response as the first events showed it, and at the end the last one."""
        self.closed: dict[int, msgspec.Raw] = {}
        """The final form of the items that have ended."""
        self._whole: _Response | None = None  # where it comes in one piece

    @property
    def can_end(self) -> bool:
        return (
            not self.is_ending
            and self.response != _EMPTY
            and all(item.is_text for item in self.open.values())
        )

    def parse(self, events: list[_Event]) -> None:
        for event in events:
            kind = event.type
            if kind in _DELTAS:
                if event.delta:
                    self.kept_chars += len(event.delta)
                    self._part(event, _DELTAS[kind]).text.pieces.append(event.delta)
            else:
                self._parse_other(event)
        if events:
            self.number = events[-1].sequence_number

    def _parse_other(self, event: _Event) -> None:
        match event.type:
            case "response.created" | "response.in_progress":
                self.response = _object(event.response)
            case "response.output_item.added":
                self.open[event.output_index] = _OpenItem(_object(event.item))
            case "response.output_item.done":
                self.open.pop(event.output_index, None)
                self.closed[event.output_index] = msgspec.Raw(bytes(event.item))
                self.kept_chars += len(event.item)
            case "response.content_part.added":
                self._part(event, _OUTPUT).shape = _object(event.part)
            case "response.reasoning_summary_part.added":
                self._part(event, _SUMMARY).shape = _object(event.part)
            case "response.content_part.done" | "response.reasoning_summary_part.done":
                if (item := self.open.get(event.output_index)) is not None:
                    item.parts.pop(_position(event), None)
                    item.closed[_position(event)] = msgspec.Raw(bytes(event.part))
                    self.kept_chars += len(event.part)
            case "" if event.output is not None:
                self._whole = event
                for key, text in _texts_of(event.output):
                    self.texts[key].pieces.append(text)
            case kind if kind in _LAST_EVENTS:
                self.is_ending = True
                if (response := _object(event.response)) != _EMPTY:
                    self.response = response

    def _part(self, event: _Event, kind: str) -> _OpenPart:
        item: _OpenItem | None = self.open.get(event.output_index)
        if item is None:
            item = self.open[event.output_index] = _OpenItem()
        position = _position(event)
        part = item.parts.get(position)
        if part is None:
            text = self.texts[event.output_index, position] = GrowingText(keep_all=True)
            part = item.parts[position] = _OpenPart(text, kind)
        part.kind = kind
        return part

    def answered_turn(self) -> AnsweredTurn | None:
        response = self._whole or decode_or_none(self.response, _decode_response)
        if response is None or not (response_id := id_text(response.id)):
            return None
        # Some servers leave the items out of the last event.
        items = response.output or [self.closed[index] for index in sorted(self.closed)]
        conversation = _conversation_id(response.conversation)
        return AnsweredTurn(response_id, conversation, join_turns(map(read_item, items)))

    def finish(self) -> bytes:
        """Return the end of every open part and item, and of the response."""
        output: dict[int, Any] = dict(self.closed)
        events: list[Json] = []
        for index, item in self.open.items():
            output[index], closing = item.close(index)
            events += closing
        items = [output[index] for index in sorted(output)]
        response = {**decode(self.response), "status": "completed", "output": items}
        return self._number_events([*events, {"type": "response.completed", "response": response}])

    def fail(self, error: bytes) -> bytes:
        """Return the error, for clients that read either shape of it, and the failed response."""
        body = decode(error)
        events = [{**body["error"], "type": "error", **body}]
        if self.response != _EMPTY:
            # The SDKs accept only OpenAI's own codes here.
            reason = {"code": "server_error", "message": body["error"]["message"]}
            response = {**decode(self.response), "status": "failed", "error": reason}
            events.append({"type": "response.failed", "response": response})
        return self._number_events(events)

    def _number_events(self, events: Iterable[Json]) -> bytes:
        numbered = (
            {**event, "sequence_number": number}
            for number, event in enumerate(events, self.number + 1)
        )
        return b"".join(named_events(numbered))


def _type_of(shape: bytes, default: str) -> str:
    return str(decode(shape).get("type", default))


def _object(raw: msgspec.Raw) -> bytes:
    shape = bytes(raw)
    return shape if shape.startswith(b"{") else _EMPTY


def _texts_of(items: list[msgspec.Raw]) -> Iterator[tuple[tuple[int, _Position], str]]:
    for index, raw in enumerate(items):
        if (item := decode_or_none(raw, _decode_whole_item)) is None:
            continue
        for name, parts in (("content", item.content), ("summary", item.summary)):
            for number, part in enumerate(parts or ()):
                yield (index, (name, number)), part.text or ""


# Answers


def _takes_text(sent: Json) -> bool:
    text = sent.get("text")
    output_format = text.get("format") if isinstance(text, dict) else None
    if isinstance(output_format, dict) and output_format.get("type", "text") != "text":
        return False
    return not requires_tool(sent.get("tool_choice"))


def _write_body(answer: ModelAnswer) -> Json:
    return {
        **_new_response(answer),
        "status": "completed",
        "completed_at": answer.created_at,
        "output": _items(answer),
        "usage": _usage_counts(answer.usage),
    }


def _write_stream(answer: ModelAnswer) -> Iterator[bytes]:
    return named_events(
        {"type": f"response.{name}", "sequence_number": number, **fields}
        for number, (name, fields) in enumerate(_events(answer))
    )


def _new_response(answer: ModelAnswer) -> Json:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": answer.created_at,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": answer.call.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": answer.sent.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        "user": None,
    }


def _items(answer: ModelAnswer) -> list[Json]:
    calls: list[Json] = [
        {
            "id": f"fc_{answer.id}_{index}",
            "type": "function_call",
            "status": "completed",
            "arguments": call.arguments,
            "call_id": f"call_{answer.id}_{index}",
            "name": call.name,
        }
        for index, call in enumerate(answer.calls)
    ]
    if calls and not answer.text:
        return calls
    message = {
        "id": f"msg_{answer.id}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_text_part(answer.text)],
    }
    return [message, *calls]


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


Event = tuple[str, Json]
"""The name of an event without `response.`, and its fields."""


def _events(answer: ModelAnswer) -> Iterator[Event]:
    response = _new_response(answer)
    yield "created", {"response": response}
    yield "in_progress", {"response": response}
    for index, item in enumerate(_items(answer)):
        yield from _item_events(answer, index, item)
    yield "completed", {"response": _write_body(answer)}


def _item_events(answer: ModelAnswer, index: int, item: Json) -> Iterator[Event]:
    is_text = item["type"] == "message"
    empty: Json = {"content": []} if is_text else {"arguments": ""}
    opening = {**item, "status": "in_progress", **empty}
    yield "output_item.added", {"output_index": index, "item": opening}
    place = {"item_id": item["id"], "output_index": index}
    yield from _text_events(answer, place) if is_text else _argument_events(item, place)
    yield "output_item.done", {"output_index": index, "item": item}


def _text_events(answer: ModelAnswer, item_place: Json) -> Iterator[Event]:
    place = {**item_place, "content_index": 0}
    yield "content_part.added", {**place, "part": _text_part("")}
    for piece in answer.pieces:
        yield "output_text.delta", {**place, "delta": piece, "logprobs": []}
    yield "output_text.done", {**place, "text": answer.text, "logprobs": []}
    yield "content_part.done", {**place, "part": _text_part(answer.text)}


def _argument_events(item: Json, place: Json) -> Iterator[Event]:
    for part in halves(item["arguments"]):
        yield "function_call_arguments.delta", {**place, "delta": part}
    call = {"name": item["name"], "arguments": item["arguments"]}
    yield "function_call_arguments.done", {**place, **call}


def _usage_counts(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.tokens,
    }


# Nudges


def _splice_nudge(body: bytes, text: str) -> bytes | None:
    items = find_field(body, "input")
    if items is None:
        return None
    nudge = encode({"role": "user", "content": text})
    if body[items].startswith(b'"'):
        # A string is short for one user message; in its long form another can follow it.
        return wrap_value(body, items, b'[{"role":"user","content":', b"}," + nudge + b"]")
    return append_element(body, items, nudge)


DIALECT: Dialect = Dialect(
    name="openai_responses",
    read=read,
    error_body=error_body,
    history=History(read_item, has_split_turns=True),
    writer=AnswerWriter(_takes_text, _write_body, _write_stream),
    stream_parser=ResponsesStreamParser,
    splice_nudge=_splice_nudge,
    usage=UsageFormat((ResponsesCounts,), path_in_event=("response",)),
    fake_without_model=lambda call: {
        "object": "response.input_tokens",
        "input_tokens": call.estimated_input,
    },
)
