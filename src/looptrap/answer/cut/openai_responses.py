"""The end of a stream of Responses, which repeats all that was said in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from looptrap.answer.answer import named_events
from looptrap.answer.hearing.openai_responses import (
    EMPTY,
    OUTPUT,
    REASONING,
    SUMMARY,
    Item,
    Part,
    Place,
    ResponseEar,
)

Json = dict[str, Any]

_TYPES = {OUTPUT: "output_text", REASONING: "reasoning_text", SUMMARY: "summary_text"}

_decode = msgspec.json.decode


def finished(ear: ResponseEar) -> bytes:
    """Return the end of every part and item that is open, and of the response."""
    output = dict(ear.done)
    steps: list[Json] = []
    for index, item in ear.open.items():
        ended, closing = _closed(index, item)
        output[index] = msgspec.json.encode(ended)
        steps += closing
    response = {
        **_decode(ear.response),
        "status": "completed",
        "output": [msgspec.Raw(output[index]) for index in sorted(output)],
    }
    return _numbered(ear, [*steps, {"type": "response.completed", "response": response}])


def failed(ear: ResponseEar, body: bytes) -> bytes:
    """Return the error, for clients that read either shape of it, and the failed response."""
    told = _decode(body)
    error = told["error"]
    steps = [{**error, "type": "error", **told}]
    if ear.response != EMPTY:
        # A code of our own would not be among those that the SDKs accept here.
        why = {"code": "server_error", "message": error["message"]}
        response = {**_decode(ear.response), "status": "failed", "error": why}
        steps.append({"type": "response.failed", "response": response})
    return _numbered(ear, steps)


def _numbered(ear: ResponseEar, steps: Iterable[Json]) -> bytes:
    return named_events(
        {**step, "sequence_number": number} for number, step in enumerate(steps, ear.number + 1)
    )


def _closed(index: int, item: Item) -> tuple[Json, list[Json]]:
    """Return an item as it is at its end, and the events that end it."""
    shape = _decode(item.shape)
    parts: dict[Place, Any] = {place: msgspec.Raw(part) for place, part in item.done.items()}
    steps: list[Json] = []
    within = {"item_id": shape.get("id", ""), "output_index": index}
    for place, part in item.parts.items():
        parts[place] = _part(part)
        steps += _part_events(part, parts[place], place, within)
    shape["status"] = "completed"
    for field in {place.field for place in parts}:
        shape[field] = [parts[place] for place in sorted(parts) if place.field == field]
    steps.append({"type": "response.output_item.done", "output_index": index, "item": shape})
    return shape, steps


def _part(part: Part) -> Json:
    """Return a part as it is at its end."""
    shape: Json = {"type": _TYPES[part.kind], **_decode(part.shape), "text": part.text.whole()}
    if part.kind == OUTPUT:
        shape.setdefault("annotations", [])
    return shape


def _part_events(part: Part, ended: Json, place: Place, within: Json) -> Iterator[Json]:
    inside = {**within, f"{place.field}_index": place.number}
    text = {"type": f"{part.kind}.done", **inside, "text": ended["text"]}
    if part.kind == OUTPUT:
        text["logprobs"] = []
    yield text
    if part.shape != EMPTY:  # announced by an event of its own, so it ends with one
        name = "content_part" if place.field == "content" else "reasoning_summary_part"
        yield {"type": f"response.{name}.done", **inside, "part": ended}
