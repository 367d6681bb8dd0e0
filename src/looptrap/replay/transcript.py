"""Transcripts: a pasted conversation or run in any common form, read as consecutive requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from looptrap.dialect.body import read_body
from looptrap.dialect.captured import Line
from looptrap.dialect.content import UNREADABLE, decode, mend
from looptrap.dialect.model import Call
from looptrap.errors import CallError
from looptrap.replay.capture import CapturedRun, read_captured_line
from looptrap.replay.recorded_run import (
    UNKNOWN_MODEL,
    RecordedRequest,
    first_messages,
    read_run,
    with_message_cache,
)
from looptrap.schema.wording import found

CALLER_NAME = "pasted"
"""The caller and the session where the text has none."""

REQUEST_INTERVAL_S = 0.001
"""Seconds between requests without a time: all are within any window."""

REQUEST_FIELDS = ("messages", "contents", "input", "prompt", "jsonrpc")
"""Fields of a request, or a run."""

RESPONSES_ITEM_TYPES = ("reasoning", "item_reference", "message")
"""Kinds of items that only a list of the Responses API has, beside calls and their outputs."""

ACCEPTED_FORMS = (
    "a request, a list of messages, or a run, as JSON, or as JSON lines;"
    " calls as Looptrap captures them are read as well"
)


class Transcript(NamedTuple):
    """A pasted text as requests in order."""

    requests: list[RecordedRequest]
    limits: list[str]
    """What is not judged, a sentence each."""


def read_transcript(text: str) -> Transcript:
    """Read text in any of these forms; raises CallError for anything else."""
    try:
        documents = _documents(text)
        if any("looptrap" in document for document in documents):
            return _requests_of_capture(documents)
        if not _is_request(documents[0]):
            documents = [_wrapped(documents)]
        if len(documents) == 1 or any(map(_is_run, documents)):
            return Transcript(_requests_of_run(documents[0]), _limits(len(documents)))
        return Transcript([_request(one, place) for place, one in enumerate(documents)], [])
    except RecursionError:
        raise CallError("it is nested too deeply") from None


def _limits(runs: int) -> list[str]:
    return [f"There are {runs:,} runs; the first was judged."] if runs > 1 else []


def _documents(text: str) -> list[dict[str, Any]]:
    """Return the objects of a text: one, those of a list, or one a line."""
    content = text.strip().encode("utf-8", "replace")
    if not content:
        raise CallError("there is nothing to read")
    try:
        value = _decoded(content)
        values = value if isinstance(value, list) else [value]
    except UNREADABLE as error:
        values = list(_lines(content, error))
    if not values:
        raise CallError("the list is empty")
    for place, document in enumerate(values, 1):
        if not isinstance(document, dict):
            raise CallError(f"number {place} is {found(document)}, must be {ACCEPTED_FORMS}")
    return values


def _lines(content: bytes, why: Exception) -> Iterator[Any]:
    lines = [document for document in content.splitlines() if document.strip()]
    for number, line in enumerate(lines, 1):
        try:
            yield _decoded(line)
        except UNREADABLE as error:
            if number == 1:  # one document, not lines
                raise CallError(f"the text is not JSON: {_words(why)}") from None
            raise CallError(f"line {number} is not JSON: {_words(error)}") from None


def _decoded(content: bytes) -> Any:
    try:
        return decode(content)
    except UNREADABLE as error:
        try:
            return decode(mend(content))
        except UNREADABLE:
            raise error from None


def _words(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _is_request(document: Mapping[str, Any]) -> bool:
    return "role" not in document and any(name in document for name in REQUEST_FIELDS)


def _is_run(document: Mapping[str, Any]) -> bool:
    """Return whether a document includes its answers, as no sent request does."""
    if "messages" not in document:
        return False
    messages = document["messages"]
    last = messages[-1] if isinstance(messages, list) and messages else None
    is_answered = isinstance(last, dict) and last.get("role") == "assistant"
    return is_answered or "id" in document or "judged" in document


def _wrapped(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return bare messages as a request of the dialect that has such messages."""
    kinds = [kind for document in messages if isinstance(kind := document.get("type"), str)]
    if any("parts" in document for document in messages):
        return {"contents": messages}
    if any(kind in RESPONSES_ITEM_TYPES or kind.endswith(("_call", "_output")) for kind in kinds):
        return {"input": messages}
    if any("role" in document for document in messages):
        return {"messages": messages}
    raise CallError(f"has neither messages nor any field of a request, must be {ACCEPTED_FORMS}")


def _requests_of_run(document: dict[str, Any]) -> list[RecordedRequest]:
    """Return the requests that make up a conversation, each longer than the one before."""
    if "messages" not in document:
        return _requests_of_call(_request(document, 0).call, 0.0)
    run = read_run(msgspec.json.encode(document), CALLER_NAME)
    return list(run.requests(None if run.is_timed else _times(0.0, len(run.ends))))


def _times(start: float, number: int) -> list[float]:
    return [start + REQUEST_INTERVAL_S * place for place in range(number)]


def _requests_of_call(whole: Call, now: float) -> list[RecordedRequest]:
    """Return the same for a call."""
    if whole.read is None or not whole.raws:
        return [RecordedRequest(whole, now)]
    whole = with_message_cache(whole)
    ends = list(_ends(whole))
    return [
        RecordedRequest(first_messages(whole, end), time)
        for end, time in zip(ends, _times(now, len(ends)), strict=True)
    ]


def _ends(whole: Call) -> Iterator[int]:
    """Yield the number of messages of each request: those before an assistant's turn."""
    assert whole.read is not None  # checked before
    before = None
    for place, message in enumerate(map(whole.read, whole.raws)):
        is_apart = before is None or before.role != "assistant" or bool(before.results)
        if message.role == "assistant" and (is_apart or not whole.has_split_turns):
            yield place
        before = message
    if before is not None and (before.role != "assistant" or before.results):
        yield len(whole.raws)


def _request(document: dict[str, Any], place: int) -> RecordedRequest:
    call = read_body(msgspec.json.encode(document), caller=CALLER_NAME, session=CALLER_NAME)
    if call.dialect == "http" or call.is_opaque:
        raise CallError(f"number {place + 1} is a request in no known dialect")
    call.model = call.model or UNKNOWN_MODEL
    return RecordedRequest(call, REQUEST_INTERVAL_S * place)


def _requests_of_capture(documents: Sequence[dict[str, Any]]) -> Transcript:
    lines = [_line(place, document) for place, document in enumerate(documents, 1)]
    run = CapturedRun(lines[0].run)
    requests = []
    for place, line in enumerate(lines, 1):
        if line.run == run.id:
            try:
                run.add_line(line)
            except CallError as error:
                raise CallError(f"number {place} {error}") from None
            call = run.call(line)
            call.raws = list(call.raws)
            requests.append(RecordedRequest(call, line.t))
    if len(requests) == 1:
        requests = _requests_of_call(requests[0].call, requests[0].now)
    return Transcript(requests, _limits(len({line.run for line in lines})))


def _line(place: int, document: dict[str, Any]) -> Line:
    try:
        return read_captured_line(msgspec.json.encode(document))
    except CallError as error:
        raise CallError(f"number {place} is not a captured call: {error}") from None
