"""OpenAI Responses: a string, or a flat list of items in which calls and results stand alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    THOUGHT_KINDS,
    UNREADABLE,
    arguments,
    decode,
    digest,
    encode,
    flatten,
    identity,
    malformed,
    model_in_path,
    raw_message,
    tool_names,
)
from looptrap.dialect.dialect import Dialect, FakeAnswer, FinalMessage, History, Streaming
from looptrap.dialect.fake_answer import CREATED_AT, ModelAnswer, Tokens, call_tokens, halves
from looptrap.dialect.growing_text import GrowingText
from looptrap.dialect.model import Call, Json, Message, Request, ToolCall, ToolResult, Usage
from looptrap.dialect.openai_chat import demands_tool, error_body, fake_error
from looptrap.dialect.splice import append_element, find_field, wrap_value
from looptrap.dialect.stream import StreamParser, named_events, sse_event
from looptrap.dialect.usage import (
    IN_RESPONSE,
    Count,
    CountedAnswer,
    TokenDetails,
    openai_usage,
    usage_finder,
)


class _Body(msgspec.Struct, gc=False):
    input: list[msgspec.Raw] | str | None = None
    model: str | None = None
    stream: Any = None
    user: Any = None
    instructions: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    previous_response_id: str | None = None
    conversation: Any = None
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
    conversation = sent.conversation
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    return Call(
        request,
        "openai_responses",
        model=sent.model or model_in_path(request.path),
        stream=sent.stream is True,
        user=identity(sent.user),
        chain=sent.previous_response_id or identity(conversation),
        raws=raws,
        read=read_item,
        scattered=True,
        read_tools=None if sent.tools is ABSENT else partial(tool_names, sent.tools),
    )


def read_item(raw: msgspec.Raw) -> Message:
    """Read one item: a message, a call, a result, or something else the API keeps in between."""
    try:
        item = decode(raw)
        if not isinstance(item, dict):
            return malformed(raw)
        kind = item.pop("type", None) or ("message" if "role" in item else "item_reference")
        if not isinstance(kind, str):
            return malformed(raw)
        if kind == "message":
            return _message(item, raw)
        if kind.endswith("_output"):
            return Message("tool", "", (), (_output(item),))
        if kind.endswith("_call"):
            return _call(kind, item)
        if kind in THOUGHT_KINDS:
            return Message("assistant")
        if kind != "item_reference":
            item.pop("id", None)  # new in each answer, whatever else the item says
        # An approval is a person's yes or no to a call of a remote tool.
        return Message("user" if kind == "mcp_approval_response" else "", digest(kind, item))
    except UNREADABLE:
        return malformed(raw)


def _message(item: Json, raw: msgspec.Raw) -> Message:
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or isinstance(content, int | float):
        return malformed(raw)
    return Message(ROLES.get(role, role), flatten(content))


def _call(kind: str, item: Json) -> Message:
    """Read a call; the API's own tools keep what came of it in the same item."""
    call_id = identity(item.get("call_id") or item.get("id"))
    name = identity(item.get("name")) or kind.removesuffix("_call")
    call = ToolCall(call_id, name, _arguments(item))
    error = item.get("error")
    output = error or item.get("output") or item.get("outputs") or item.get("results")
    if not output:
        return Message("assistant", "", (call,))
    result = ToolResult(call_id, flatten(output), is_error=bool(error))
    return Message("assistant", "", (call,), (result,))


def _arguments(item: Json) -> str:
    for field in ("input", "code"):
        if isinstance(item.get(field), str):
            return str(item[field])  # free text, which may look like JSON and is none
    for field in ("arguments", "action", "actions", "operation", "queries"):
        if item.get(field) is not None:
            return arguments(item[field])
    return "{}"


def _output(item: Json) -> ToolResult:
    for field in ("output", "result", "tools"):
        if item.get(field) is not None:
            content = item[field]
            break
    else:
        content = None
    return ToolResult(
        identity(item.get("call_id") or item.get("id")),
        flatten(content),
        is_error=item.get("status") == "failed",
        name=identity(item.get("name")),
    )


# Passing answers

_NOTHING = msgspec.Raw(b"null")
_EMPTY = b"{}"

MAX_KEPT_CHARS = 4 * 1024 * 1024
"""Characters and bytes of an answer that are kept to end it with; one that says more is not cut."""

_OUTPUT, _REASONING = "response.output_text", "response.reasoning_text"
_SUMMARY = "response.reasoning_summary_text"
_DELTAS = {f"{kind}.delta": kind for kind in (_OUTPUT, _REASONING, _SUMMARY)}
_ENDS = frozenset(f"response.{end}" for end in ("completed", "failed", "incomplete")) | {"error"}


class _WholePart(msgspec.Struct, gc=False):
    text: str | None = None


class _WholeItem(msgspec.Struct, gc=False):
    """An item of a whole response."""

    content: list[_WholePart] | None = None
    summary: list[_WholePart] | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    sequence_number: int = 0
    output_index: int = 0
    content_index: int | None = None
    summary_index: int | None = None
    delta: str | None = None
    item: msgspec.Raw = _NOTHING
    part: msgspec.Raw = _NOTHING
    response: msgspec.Raw = _NOTHING
    output: list[_WholeItem] = []


class _Position(NamedTuple):
    """Where in an item a part stands."""

    field: str
    """`content` or `summary`."""
    number: int


class _OpenPart:
    """A text that has begun and not ended: what it was announced as, and all it has said."""

    __slots__ = ("kind", "shape", "text")

    def __init__(self, text: GrowingText) -> None:
        self.kind = ""
        """What its deltas are of: `response.output_text`."""
        self.shape = _EMPTY
        self.text = text

    @property
    def is_text(self) -> bool:
        """Whether it is nothing but text: no refusal, no sound."""
        return "text" in _type_of(self.shape, "text")


class _OpenItem:
    """An item that has begun and not ended."""

    __slots__ = ("done", "parts", "shape")

    def __init__(self, shape: bytes) -> None:
        self.shape = shape
        self.parts: dict[_Position, _OpenPart] = {}
        self.done: dict[_Position, bytes] = {}
        """Parts that have ended, as they were when they did."""

    @property
    def is_text(self) -> bool:
        """Whether it is nothing but text: a tool call must not be cut in half."""
        return _type_of(self.shape, "") in ("message", "reasoning") and all(
            part.is_text for part in self.parts.values()
        )


class ResponsesStreamParser(StreamParser):
    """Parses the items of a response; the end of a stream repeats all that was said in it."""

    __slots__ = ("_kept", "done", "is_ending", "number", "open", "response")

    event = _Event

    def __init__(self) -> None:
        super().__init__()
        self.is_ending = False
        self.number = 0
        """The sequence number of the latest event."""
        self.response = _EMPTY
        """The response as it was announced."""
        self.open: dict[int, _OpenItem] = {}
        self.done: dict[int, bytes] = {}
        """Items that have ended, as they were when they did."""
        self._kept = 0

    @property
    def is_full(self) -> bool:
        return super().is_full or self._kept > MAX_KEPT_CHARS

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
                    self._kept += len(event.delta)
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
                self.done[event.output_index] = bytes(event.item)
                self._kept += len(event.item)
            case "response.content_part.added":
                self._part(event, _OUTPUT).shape = _object(event.part)
            case "response.reasoning_summary_part.added":
                self._part(event, _SUMMARY).shape = _object(event.part)
            case "response.content_part.done" | "response.reasoning_summary_part.done":
                self._close(event)
            case "":
                for key, said in _texts_of(event.output):
                    self.text(key).pieces.append(said)
            case kind if kind in _ENDS:
                self.is_ending = True

    def _part(self, event: _Event, kind: str) -> _OpenPart:
        item = self.open.get(event.output_index)
        if item is None:
            item = self.open[event.output_index] = _OpenItem(_EMPTY)
        place = _position(event)
        part = item.parts.get(place)
        if part is None:
            text = self.texts[event.output_index, place] = GrowingText(keep=True)
            part = item.parts[place] = _OpenPart(text)
        part.kind = kind
        return part

    def _close(self, event: _Event) -> None:
        item = self.open.get(event.output_index)
        if item is not None:
            item.parts.pop(_position(event), None)
            item.done[_position(event)] = bytes(event.part)
            self._kept += len(event.part)


def _type_of(shape: bytes, other: str) -> str:
    return str(msgspec.json.decode(shape).get("type", other))


def _object(raw: msgspec.Raw) -> bytes:
    shape = bytes(raw)
    return shape if shape.startswith(b"{") else _EMPTY


def _position(event: _Event) -> _Position:
    if event.summary_index is not None:
        return _Position("summary", event.summary_index)
    return _Position("content", event.content_index or 0)


def _texts_of(items: list[_WholeItem]) -> Iterator[tuple[tuple[int, _Position], str]]:
    for index, item in enumerate(items):
        for field, parts in (("content", item.content), ("summary", item.summary)):
            for place, part in enumerate(parts or ()):
                yield (index, _Position(field, place)), part.text or ""


_PART_TYPES = {_OUTPUT: "output_text", _REASONING: "reasoning_text", _SUMMARY: "summary_text"}


def _finish_stream(parser: ResponsesStreamParser) -> bytes:
    """Return the end of every part and item that is open, and of the response."""
    output = dict(parser.done)
    steps: list[Json] = []
    for index, item in parser.open.items():
        ended, closing = _closed_item(index, item)
        output[index] = msgspec.json.encode(ended)
        steps += closing
    response = {
        **decode(parser.response),
        "status": "completed",
        "output": [msgspec.Raw(output[index]) for index in sorted(output)],
    }
    return _numbered(parser, [*steps, {"type": "response.completed", "response": response}])


def _fail_stream(parser: ResponsesStreamParser, body: bytes) -> bytes:
    """Return the error, for clients that read either shape of it, and the failed response."""
    refusal = decode(body)
    error = refusal["error"]
    steps = [{**error, "type": "error", **refusal}]
    if parser.response != _EMPTY:
        # A code of our own would not be among those that the SDKs accept here.
        why = {"code": "server_error", "message": error["message"]}
        response = {**decode(parser.response), "status": "failed", "error": why}
        steps.append({"type": "response.failed", "response": response})
    return _numbered(parser, steps)


def _numbered(parser: ResponsesStreamParser, steps: Iterable[Json]) -> bytes:
    return named_events(
        {**step, "sequence_number": number} for number, step in enumerate(steps, parser.number + 1)
    )


def _closed_item(index: int, item: _OpenItem) -> tuple[Json, list[Json]]:
    """Return an item as it is at its end, and the events that end it."""
    shape = decode(item.shape)
    parts: dict[_Position, Any] = {place: msgspec.Raw(part) for place, part in item.done.items()}
    steps: list[Json] = []
    within = {"item_id": shape.get("id", ""), "output_index": index}
    for place, part in item.parts.items():
        parts[place] = _closed_part(part)
        steps += _part_events(part, parts[place], place, within)
    shape["status"] = "completed"
    for field in {place.field for place in parts}:
        shape[field] = [parts[place] for place in sorted(parts) if place.field == field]
    steps.append({"type": "response.output_item.done", "output_index": index, "item": shape})
    return shape, steps


def _closed_part(part: _OpenPart) -> Json:
    """Return a part as it is at its end."""
    shape: Json = {
        "type": _PART_TYPES[part.kind],
        **decode(part.shape),
        "text": part.text.whole(),
    }
    if part.kind == _OUTPUT:
        shape.setdefault("annotations", [])
    return shape


def _part_events(part: _OpenPart, ended: Json, place: _Position, within: Json) -> Iterator[Json]:
    inside = {**within, f"{place.field}_index": place.number}
    text = {"type": f"{part.kind}.done", **inside, "text": ended["text"]}
    if part.kind == _OUTPUT:
        text["logprobs"] = []
    yield text
    if part.shape != _EMPTY:  # announced by an event of its own, so it ends with one
        name = "content_part" if place.field == "content" else "reasoning_summary_part"
        yield {"type": f"response.{name}.done", **inside, "part": ended}


# Final messages

_NO_TOKENS = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def _takes_text(sent: Json) -> bool:
    text = sent.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    if isinstance(wanted, dict) and wanted.get("type", "text") != "text":
        return False
    return not demands_tool(sent.get("tool_choice"))


def _final_body(call: Call, sent: Json, text: str, request_id: str, now: float) -> bytes:
    return encode(_final_completed(call, sent, text, request_id, now))


def _final_stream(call: Call, sent: Json, text: str, request_id: str, now: float) -> bytes:
    begun = _final_response(call, sent, request_id, now)
    empty, full = _text_part(""), _text_part(text)
    item = {"item_id": _item_id(request_id), "output_index": 0, "content_index": 0}
    steps: list[tuple[str, Json]] = [
        ("created", {"response": begun}),
        ("in_progress", {"response": begun}),
        (
            "output_item.added",
            {"output_index": 0, "item": _final_item(request_id, "in_progress", [])},
        ),
        ("content_part.added", {**item, "part": empty}),
        ("output_text.delta", {**item, "delta": text, "logprobs": []}),
        ("output_text.done", {**item, "text": text, "logprobs": []}),
        ("content_part.done", {**item, "part": full}),
        (
            "output_item.done",
            {"output_index": 0, "item": _final_item(request_id, "completed", [full])},
        ),
        ("completed", {"response": _final_completed(call, sent, text, request_id, now)}),
    ]
    return named_events(
        {"type": f"response.{name}", "sequence_number": number, **data}
        for number, (name, data) in enumerate(steps)
    )


def _final_completed(call: Call, sent: Json, text: str, request_id: str, now: float) -> Json:
    return {
        **_final_response(call, sent, request_id, now),
        "status": "completed",
        "completed_at": int(now),
        "output": [_final_item(request_id, "completed", [_text_part(text)])],
        "usage": _NO_TOKENS,
    }


def _final_response(call: Call, sent: Json, request_id: str, now: float) -> Json:
    return {
        "id": f"resp_{request_id}",
        "object": "response",
        "created_at": int(now),
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": call.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": sent.get("previous_response_id"),
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


def _final_item(request_id: str, status: str, content: list[Json]) -> Json:
    return {
        "id": _item_id(request_id),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _item_id(request_id: str) -> str:
    return f"msg_{request_id}"


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


# Nudges and usage


def _splice_nudge(body: bytes, text: str) -> bytes | None:
    items = find_field(body, "input")
    if items is None:
        return None
    nudge = encode({"role": "user", "content": text})
    if body[items].startswith(b'"'):
        # A string is short for one user message; written out, another can follow it.
        return wrap_value(body, items, b'[{"role":"user","content":', b"}," + nudge + b"]")
    return append_element(body, items, nudge)


class ResponsesCounts(msgspec.Struct, gc=False):
    """Counts in the newer of OpenAI's two shapes."""

    input_tokens: Count
    output_tokens: Count
    input_tokens_details: TokenDetails | None = None
    output_tokens_details: TokenDetails | None = None

    def usage(self) -> Usage:
        """Return the counts in neutral form."""
        return openai_usage(
            self.input_tokens,
            self.output_tokens,
            self.input_tokens_details,
            self.output_tokens_details,
        )


# Fake answers


def _fake_body(answer: ModelAnswer, call: Call) -> Json:
    usage = _fake_usage(answer.tokens)
    return _fake_response(answer, call, "completed", _fake_items(answer), usage)


def _fake_stream(answer: ModelAnswer, call: Call) -> Iterator[bytes]:
    """Return the answer event by event, numbered as OpenAI numbers them."""
    started = _fake_response(answer, call, "in_progress", [], None)
    steps = [
        ("response.created", {"response": started}),
        ("response.in_progress", {"response": started}),
        *_fake_item_events(answer),
        ("response.completed", {"response": _fake_body(answer, call)}),
    ]
    for number, (name, fields) in enumerate(steps):
        yield sse_event({"type": name, **fields, "sequence_number": number}, name)


def _fake_token_count(call: Call) -> Json:
    return {"object": "response.input_tokens", "input_tokens": call_tokens(call).input}


def _fake_response(
    answer: ModelAnswer, call: Call, status: str, output: list[Json], usage: Json | None
) -> Json:
    body = decode(call.request.body)
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


def _fake_usage(tokens: Tokens) -> Json:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


def _fake_items(answer: ModelAnswer) -> list[Json]:
    message = {
        "id": f"msg_{answer.number}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_text_part(answer.text)],
    }
    calls = [
        {
            "id": f"fc_{answer.number}_{index}",
            "type": "function_call",
            "status": "completed",
            "arguments": encode(call.arguments).decode(),
            "call_id": f"call_{answer.number}_{index}",
            "name": call.name,
        }
        for index, call in enumerate(answer.calls)
    ]
    return ([message] if answer.text or not calls else []) + calls


def _fake_item_events(answer: ModelAnswer) -> Iterator[tuple[str, Json]]:
    for index, item in enumerate(_fake_items(answer)):
        place = {"output_index": index}
        field, empty = ("content", []) if item["type"] == "message" else ("arguments", "")
        opened = {**item, "status": "in_progress", field: empty}
        yield "response.output_item.added", {**place, "item": opened}
        inside = {**place, "item_id": item["id"]}
        if item["type"] == "message":
            yield from _fake_text_events(answer, {**inside, "content_index": 0})
        else:
            yield from _fake_argument_events(item, inside)
        yield "response.output_item.done", {**place, "item": item}


def _fake_text_events(answer: ModelAnswer, place: Json) -> Iterator[tuple[str, Json]]:
    yield "response.content_part.added", {**place, "part": _text_part("")}
    for word in answer.words():
        yield "response.output_text.delta", {**place, "delta": word, "logprobs": []}
    yield "response.output_text.done", {**place, "text": answer.text, "logprobs": []}
    yield "response.content_part.done", {**place, "part": _text_part(answer.text)}


def _fake_argument_events(item: Json, place: Json) -> Iterator[tuple[str, Json]]:
    arguments = item["arguments"]
    for part in halves(arguments):
        yield "response.function_call_arguments.delta", {**place, "delta": part}
    done = {**place, "name": item["name"], "arguments": arguments}
    yield "response.function_call_arguments.done", done


DIALECT = Dialect(
    name="openai_responses",
    read=read,
    error_body=error_body,
    history=History(read_item, scattered=True),
    final_message=FinalMessage(_takes_text, _final_body, _final_stream),
    streaming=Streaming(ResponsesStreamParser, _finish_stream, _fail_stream),
    splice_nudge=_splice_nudge,
    counted_answer=CountedAnswer[ResponsesCounts],
    find_usage=usage_finder(ResponsesCounts),
    answer_in_event=IN_RESPONSE,
    fake=FakeAnswer(_fake_body, _fake_stream),
    fake_fixed=_fake_token_count,
    fake_error=fake_error,
)
