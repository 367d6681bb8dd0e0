"""A provider's answer in neutral form, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.loops.scenario import Step
from looptrap.dialect.body import read_body
from looptrap.dialect.model import ToolCall, join_turns

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """What a model answered."""

    id: str = ""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()


NOTHING = Said()


def read_answer(step: Step) -> Said:
    """Read the answer to a request; an empty one says nothing."""
    if not step.answer:
        return NOTHING
    form = _FORMS[_api(step.path)]
    events = list(_events(step.answer))
    id, sent_back = form(events)
    messages = join_turns(read_body(json.dumps(sent_back).encode(), step.path).messages)
    said = [message for message in messages if message.role == "assistant"]
    text = "\n".join(message.text for message in said if message.text)
    return Said(id, text, tuple(call for message in said for call in message.calls))


def _api(path: str) -> str:
    for name in ("messages", "responses"):
        if path.endswith(name):
            return name
    return "gemini" if "enerateContent" in path else "chat"


def _events(answer: bytes) -> Iterator[Json]:
    """Yield the events of a stream, the parts of a list, or the answer in one piece."""
    if answer.lstrip()[:1] in (b"{", b"["):
        found = json.loads(answer)
        yield from found if isinstance(found, list) else [found]
        return
    for line in answer.splitlines():
        if line.startswith(b"data:") and line[5:].strip() not in (b"", b"[DONE]"):
            yield json.loads(line[5:])


def _chat(events: Sequence[Json]) -> tuple[str, Json]:
    message: Json = {"role": "assistant", "content": ""}
    calls: dict[int, Json] = {}
    for event in events:
        for choice in event.get("choices", ())[:1]:
            part = choice.get("message") or choice.get("delta") or {}
            message["content"] += part.get("content") or ""
            for place, call in enumerate(part.get("tool_calls") or ()):
                _merge(calls.setdefault(call.get("index", place), {}), call)
    if calls:
        message["tool_calls"] = list(calls.values())
    return events[0].get("id", ""), {"messages": [message]}


def _merge(call: Json, part: Json) -> None:
    """Add a part of a call to it: ids and names come once, arguments in pieces."""
    function = part.get("function", {})
    known = call.setdefault("function", {"name": "", "arguments": ""})
    call |= {"id": part.get("id") or call.get("id", ""), "type": "function"}
    known["name"] = function.get("name") or known["name"]
    known["arguments"] += function.get("arguments") or ""


def _anthropic(events: Sequence[Json]) -> tuple[str, Json]:
    if "content" in events[0]:
        return events[0].get("id", ""), _assistant(events[0]["content"])
    id, blocks, pieces = "", {}, {}
    for event in events:
        match event.get("type"):
            case "message_start":
                id = event["message"].get("id", "")
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _add_delta(blocks[event["index"]], event["delta"], pieces, event["index"])
    for index, text in pieces.items():
        blocks[index]["input"] = json.loads(text or "{}")
    return id, _assistant(list(blocks.values()))


def _add_delta(block: Json, delta: Json, pieces: dict[int, str], index: int) -> None:
    if delta["type"] == "text_delta":
        block["text"] = block.get("text", "") + delta["text"]
    elif delta["type"] == "input_json_delta":
        pieces[index] = pieces.get(index, "") + delta["partial_json"]


def _assistant(blocks: Iterable[Json]) -> Json:
    return {"messages": [{"role": "assistant", "content": list(blocks)}]}


def _responses(events: Sequence[Json]) -> tuple[str, Json]:
    whole = events[0]
    if "output" not in whole:
        ends = [event["response"] for event in events if event.get("type") == "response.completed"]
        whole = ends[-1] if ends else {}
    return whole.get("id", ""), {"input": whole.get("output", [])}


def _gemini(events: Sequence[Json]) -> tuple[str, Json]:
    parts: list[Json] = []
    for event in events:
        for candidate in event.get("candidates", ())[:1]:
            for part in candidate.get("content", {}).get("parts", ()):
                if "text" in part and parts and "text" in parts[-1]:
                    parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
                else:
                    parts.append(part)
    return "", {"contents": [{"role": "model", "parts": parts}]}


_FORMS: dict[str, Callable[[Sequence[Json]], tuple[str, Json]]] = {
    "chat": _chat,
    "messages": _anthropic,
    "responses": _responses,
    "gemini": _gemini,
}
