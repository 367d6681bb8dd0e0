"""Gemini's Interactions API: a text, or a flat list of steps; Google keeps the history.

Its first version had turns with roles in place of steps, which is read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from looptrap.dialect.content import (
    ABSENT,
    ROLES,
    UNREADABLE,
    MessageParts,
    canonical_arguments,
    decode,
    decode_or_none,
    encode,
    flatten,
    id_text,
    malformed_message,
    part_text,
    raw_message,
    tool_names,
)
from looptrap.dialect.dialect import (
    AnswerWriter,
    Count,
    Dialect,
    History,
    ModelAnswer,
    UsageFormat,
    halves,
    optional_field,
)
from looptrap.dialect.gemini import CountedPart, GeminiCounts, error_body
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
from looptrap.dialect.splice import append_element, find_field, wrap_value
from looptrap.dialect.stream import GrowingText, StreamParser, sse_event

CONTENT_KINDS = frozenset({"audio", "document", "file", "image", "text", "video"})
"""Kinds of parts of one message; all others in an input are steps."""


class _Body(msgspec.Struct, gc=False):
    input: msgspec.Raw = ABSENT
    model: str | None = None
    agent: str | None = None
    stream: Any = None
    store: Any = None
    previous_interaction_id: str | None = None
    system_instruction: msgspec.Raw = ABSENT
    tools: msgspec.Raw = ABSENT


class _Kind(msgspec.Struct, gc=False):
    type: Any = None
    role: Any = None


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode


def read(request: Request, body: bytes) -> Call:
    """Read the body of a new interaction; raises what decoding raises."""
    sent = _decode_body(body)
    model = sent.model or sent.agent
    if model is None:
        raise msgspec.ValidationError("neither `model` nor `agent`")
    raws = _raw_messages(sent.input)
    if sent.system_instruction != ABSENT:
        raws.insert(0, raw_message(b"system", sent.system_instruction))
    return Call(
        request,
        "gemini_interactions",
        model=model,
        stream=sent.stream is True,
        chain=sent.previous_interaction_id or "",
        keeps_history=sent.store is not False,
        raws=raws,
        read=read_step,
        has_split_turns=True,
        read_tools=None if sent.tools is ABSENT else partial(tool_names, sent.tools),
    )


def _raw_messages(sent: msgspec.Raw) -> list[msgspec.Raw]:
    """Return the steps of an input; a text, a part or a list of parts is one message."""
    if sent == ABSENT:
        return []
    if bytes(memoryview(sent)[:1]) == b"[":
        steps = _decode_list(sent)
        if not _is_content(steps):
            return steps
    return [raw_message(b"user", sent)]


def _is_content(items: list[msgspec.Raw]) -> bool:
    """Return whether a list has the parts of one message."""
    return bool(items) and all(_kind_of(item).type in CONTENT_KINDS for item in items)


def _kind_of(item: msgspec.Raw) -> _Kind:
    kind = decode_or_none(item, _decode_kind) or _Kind()
    return kind if isinstance(kind.type, str) else _Kind(role=kind.role)


def read_step(raw: msgspec.Raw) -> Message:
    """Read one step: the user's input, the model's output, a call, a result or a thought."""
    try:
        step = decode(raw)
        message = _read_step(step) if isinstance(step, dict) else None
    except UNREADABLE:
        message = None
    return malformed_message(raw) if message is None else message


def _read_step(step: Json) -> Message | None:
    """Read a decoded step; None where it does not fit."""
    kind, role, content = step.get("type"), step.get("role"), step.get("content")
    if kind is None and isinstance(role, str) and not isinstance(content, int | float):
        return _turn(ROLES.get(role, role), content if isinstance(content, list) else [content])
    if not isinstance(kind, str):
        return None
    if kind in ("user_input", "model_output"):
        return Message("user" if kind == "user_input" else "assistant", flatten(content))
    if kind.endswith("_call"):
        return Message("assistant", calls=(_call(kind, step),))
    if kind.endswith("_result"):
        return Message("tool", results=(_result(step),))
    if kind == "thought":
        return Message("assistant")
    return Message("user" if kind in CONTENT_KINDS else "", part_text(step))


def _turn(role: str, parts: list[Any]) -> Message:
    """Read a message that may have calls and results among its parts."""
    found = MessageParts()
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            found.texts.append(flatten(part))
        elif kind.endswith("_call"):
            found.calls.append(_call(kind, part))
        elif kind.endswith("_result"):
            found.results.append(_result(part))
        elif kind != "thought" and (text := part_text(part)):
            found.texts.append(text)
    return found.message(role)


def _call(kind: str, step: Json) -> ToolCall:
    name = id_text(step.get("name")) or kind.removesuffix("_call")
    return ToolCall(id_text(step.get("id")), name, canonical_arguments(step.get("arguments")))


def _result(step: Json) -> ToolResult:
    result = step.get("result")
    if isinstance(result, dict) and list(result) == ["content"]:
        result = result["content"]  # as the results of MCP's tools are
    return ToolResult(
        id_text(step.get("call_id")),
        flatten(result),
        is_error=step.get("is_error") is True,
        name=id_text(step.get("name")),
    )


# Passing answers

_LAST_EVENTS = frozenset({"interaction.completed", "error"})
_TEXT_STEPS = frozenset({"model_output", "thought"})
_STEP_FIELDS = ("id", "call_id", "name", "arguments", "result", "is_error")

END = b"event: done\ndata: [DONE]\n\n"


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    content: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None
    arguments: Any = None
    result: Any = None
    is_error: Any = None


class _Interaction(msgspec.Struct, gc=False):
    """An interaction: an answer in one piece, or what the events of a stream show of it."""

    id: Any = None
    steps: list[msgspec.Raw] | None = None


class _Event(_Interaction, gc=False):
    """An event of a stream; an answer in one piece has no type."""

    event_type: str = ""
    index: int = 0
    step: msgspec.Raw = ABSENT
    delta: _Delta | None = None
    interaction: msgspec.Raw = ABSENT


_decode_interaction = msgspec.json.Decoder(_Interaction).decode


@dataclass(slots=True)
class _OpenStep:
    """A step that has begun and not ended."""

    shape: Json = field(default_factory=lambda: {"type": "model_output"})
    """The step as its first event showed it, with the fields of later ones."""
    text: GrowingText | None = None
    arguments: list[str] = field(default_factory=list)

    def close(self) -> Json:
        """Return the step with all of its text or arguments."""
        step = self.shape
        if self.arguments:
            step["arguments"] = "".join(self.arguments)
        if self.text is not None:
            step["content"] = [{"type": "text", "text": self.text.whole()}]
        return step


class InteractionsStreamParser(StreamParser):
    """Parses the steps of an interaction; the last event of a stream has none of them."""

    __slots__ = ("_whole", "closed", "interaction")

    event = _Event

    def __init__(self) -> None:
        super().__init__()
        self.interaction: Json = {}
        """The interaction as the latest event showed it."""
        self.closed: dict[int, Json] = {}
        """The steps that have ended."""
        self._whole: _Interaction | None = None  # where it comes in one piece

    @property
    def can_end(self) -> bool:
        return (
            not self.is_ending
            and bool(self.interaction)
            and all(step.shape.get("type") in _TEXT_STEPS for step in self.open.values())
        )

    def parse(self, events: list[_Event]) -> None:
        for event in events:
            if event.delta is not None:
                self._parse_delta(event.index, event.delta)
            else:
                self._parse_other(event)

    def _parse_delta(self, index: int, delta: _Delta) -> None:
        step: _OpenStep | None = self.open.get(index)
        if step is None:
            step = self.open[index] = _OpenStep()
        if delta.type == "text":
            if step.text is None:
                step.text = self.texts[index] = GrowingText(keep_all=True)
            step.text.pieces.append(delta.text or "")
            self.kept_chars += len(delta.text or "")
        elif delta.type == "arguments_delta":
            if isinstance(delta.arguments, str):
                step.arguments.append(delta.arguments)
                self.kept_chars += len(delta.arguments)
        elif delta.type == "thought_summary":
            if isinstance(delta.content, dict) and isinstance(delta.content.get("text"), str):
                self.texts[index, "thought"].pieces.append(delta.content["text"])
        else:  # a tool of Google's own
            sent = {name: getattr(delta, name) for name in _STEP_FIELDS}
            step.shape |= {name: value for name, value in sent.items() if value is not None}
            self.kept_chars += len(encode(sent))

    def _parse_other(self, event: _Event) -> None:
        match event.event_type:
            case "step.start":
                shape = _object(event.step)
                self.open[event.index] = _OpenStep(shape) if shape else _OpenStep()
                self.kept_chars += len(event.step)
            case "step.stop":
                step: _OpenStep | None = self.open.pop(event.index, None)
                if step is not None:
                    self.closed[event.index] = step.close()
            case "interaction.created":
                self.interaction = _object(event.interaction)
            case "" if event.steps is not None:
                self._whole = event
                for index, raw in enumerate(event.steps):
                    message = read_step(raw)
                    if message.role == "assistant" and message.text:
                        self.texts[index].pieces.append(message.text)
            case kind if kind in _LAST_EVENTS:
                self.is_ending = True
                self.interaction = _object(event.interaction) or self.interaction

    def answered_turn(self) -> AnsweredTurn | None:
        if self._whole is not None:
            shown = self._whole
        else:
            shown = decode_or_none(encode(self.interaction), _decode_interaction) or _Interaction()
        if not (interaction_id := id_text(shown.id)):
            return None
        if shown.steps:
            messages: Iterable[Message] = map(read_step, shown.steps)
        else:
            steps = (self.closed[index] for index in sorted(self.closed))
            messages = (message for step in steps if (message := _read_step(step)) is not None)
        return AnsweredTurn(interaction_id, messages=join_turns(messages))

    def finish(self) -> bytes:
        """Return the end of every open step, and of the interaction."""
        ends: list[Json] = [{"index": index, "event_type": "step.stop"} for index in self.open]
        waits = any(step.get("type") == "function_call" for step in self.closed.values())
        interaction = {**self.interaction, "status": "requires_action" if waits else "completed"}
        last = {"interaction": interaction, "event_type": "interaction.completed"}
        return b"".join(map(_event, [*ends, last])) + END

    def fail(self, error: bytes) -> bytes:
        body = decode(error)
        sent = body["error"]
        reason = {"message": sent["message"], "code": str(sent.get("status", "internal")).lower()}
        return _event({**body, "error": reason, "event_type": "error"})


def _object(raw: msgspec.Raw) -> Json:
    value = decode_or_none(raw)
    return value if isinstance(value, dict) else {}


def _event(data: Json) -> bytes:
    return sse_event(data, data["event_type"])


# Answers


def _takes_text(sent: Json) -> bool:
    if sent.get("response_format") or sent.get("response_mime_type") not in (None, "text/plain"):
        return False
    modalities = sent.get("response_modalities")
    if isinstance(modalities, list) and modalities and "text" not in flatten(modalities).lower():
        return False
    config = sent.get("generation_config")
    choice = config.get("tool_choice") if isinstance(config, dict) else None
    if isinstance(choice, dict):
        allowed = choice.get("allowed_tools")
        choice = allowed.get("mode") if isinstance(allowed, dict) else None
    return choice != "any"


def _write_body(answer: ModelAnswer) -> Json:
    return {
        **_new_interaction(answer),
        "status": "requires_action" if answer.calls else "completed",
        "steps": _steps(answer),
        "usage": _usage_counts(answer.usage),
    }


def _write_stream(answer: ModelAnswer) -> Iterator[bytes]:
    yield from map(_event, _events(answer))
    yield END


def _new_interaction(answer: ModelAnswer) -> Json:
    created = datetime.fromtimestamp(answer.created_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "id": f"v1_{answer.id}",
        "object": "interaction",
        "status": "in_progress",
        "model": answer.call.model,
        "created": created,
        "updated": created,
    }


def _steps(answer: ModelAnswer) -> list[Json]:
    calls: list[Json] = [
        {
            "type": "function_call",
            "id": f"call_{answer.id}_{index}",
            "name": call.name,
            "arguments": decode(call.arguments),
        }
        for index, call in enumerate(answer.calls)
    ]
    if calls and not answer.text:
        return calls
    text = {"type": "text", "text": answer.text}
    return [{"type": "model_output", "content": [text]}, *calls]


def _events(answer: ModelAnswer) -> Iterator[Json]:
    yield {"interaction": _new_interaction(answer), "event_type": "interaction.created"}
    for index, step in enumerate(_steps(answer)):
        is_text = step["type"] == "model_output"
        opening = {"type": "model_output"} if is_text else {**step, "arguments": {}}
        yield {"index": index, "step": opening, "event_type": "step.start"}
        for delta in _text_deltas(answer) if is_text else _argument_deltas(step):
            yield {"index": index, "delta": delta, "event_type": "step.delta"}
        yield {"index": index, "event_type": "step.stop"}
    last = {name: value for name, value in _write_body(answer).items() if name != "steps"}
    yield {"interaction": last, "event_type": "interaction.completed"}


def _text_deltas(answer: ModelAnswer) -> Iterator[Json]:
    return ({"type": "text", "text": piece} for piece in answer.pieces)


def _argument_deltas(step: Json) -> Iterator[Json]:
    arguments = encode(step["arguments"]).decode()
    return ({"type": "arguments_delta", "arguments": part} for part in halves(arguments))


def _usage_counts(usage: Usage) -> Json:
    return {
        "total_input_tokens": usage.input_tokens,
        "total_cached_tokens": usage.cached_tokens,
        "total_output_tokens": usage.output_tokens - usage.reasoning_tokens,
        "total_tool_use_tokens": 0,
        "total_thought_tokens": usage.reasoning_tokens,
        "total_tokens": usage.tokens,
    }


# Nudges and usage


def _splice_nudge(body: bytes, text: str) -> bytes | None:
    sent = find_field(body, "input")
    if sent is None:
        return None
    part = encode({"type": "text", "text": text})
    step = b'{"type":"user_input","content":[%b]}' % part
    opening = body[sent][:1]
    if opening == b'"':
        before = b'[{"type":"user_input","content":[{"type":"text","text":'
        return wrap_value(body, sent, before, b"}]}," + step + b"]")
    if opening == b"{":
        return wrap_value(body, sent, b"[", b"," + part + b"]")
    items = decode_or_none(body[sent], _decode_list)
    if not items:
        return None
    if _is_content(items):
        return append_element(body, sent, part)
    if isinstance(_kind_of(items[-1]).role, str):  # turns, not steps
        return append_element(body, sent, encode({"role": "user", "content": text}))
    return append_element(body, sent, step)


class _CountedPart(CountedPart, gc=False):
    token_count: Count = msgspec.field(default=0, name="tokens")


class InteractionCounts(GeminiCounts):
    """Google's counts by other names."""

    prompt_token_count: Count = msgspec.field(name="total_input_tokens")
    tool_use_prompt_token_count: Count | None = optional_field("total_tool_use_tokens")
    candidates_token_count: Count | None = optional_field("total_output_tokens")
    thoughts_token_count: Count | None = optional_field("total_thought_tokens")
    cached_content_token_count: Count | None = optional_field("total_cached_tokens")
    prompt_tokens_details: Sequence[_CountedPart] | None = optional_field(
        "input_tokens_by_modality"
    )
    candidates_tokens_details: Sequence[_CountedPart] | None = optional_field(
        "output_tokens_by_modality"
    )


DIALECT: Dialect = Dialect(
    name="gemini_interactions",
    read=read,
    error_body=error_body,
    history=History(read_step, has_split_turns=True),
    writer=AnswerWriter(_takes_text, _write_body, _write_stream),
    stream_parser=InteractionsStreamParser,
    splice_nudge=_splice_nudge,
    usage=UsageFormat((InteractionCounts,), path_in_event=("interaction",)),
)
