"""Scopes: what two calls must share to count as equal.

Each scope returns a *content*: the bytes that must be equal, or None where it does not apply.
Scopes are cached: rules that share one share its cost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from typing import Literal
from urllib.parse import parse_qsl

import msgspec

from looptrap.detect.canonical import LONG_TEXT, join, mask, normalise
from looptrap.detect.edit_chat import EditChat
from looptrap.detect.near import (
    retry_number,
    without_envelope,
    without_repetition,
    without_retry_number,
    without_trailer,
)
from looptrap.detect.trajectory import FIRST_MESSAGES, is_observation
from looptrap.dialect.model import Call, Message
from looptrap.dialect.path import normal_path

Similarity = Literal["exact", "masked", "near"]
"""What two equal texts may differ in: nothing; volatile tokens; what a retry adds by itself, where
one text may also contain the other."""

Content = Callable[[Call], bytes | None]

MIN_RETRY_NUMBER = 2
"""The number of a prompt's first retry: what is sent once repeats nothing."""

RETRIES_APART_S = 600.0
"""Seconds after an answer within which the next numbered retry of its prompt is sent."""

_MARKS = {role: role for role in ("system", "user", "assistant", "tool")}
"""Known roles; others get a prefix, so that they cannot be mistaken for these."""

_sorted_json = msgspec.json.Encoder(order="sorted")


@cache
def conversation(tail: int, with_tools: bool, similarity: Similarity) -> Content:
    """A retry of the same prompt: the model and the last `tail` messages.

    Without tools only the texts count. A chain id stands for the history that the provider keeps.
    After a tool result the length of the history counts too: polling repeats the same last messages
    and is no retry. So does the id of the latest result, where another round is shown before it:
    equal runs get other ids, and a retry has the same. An agent that shows only one round has other
    ids each time, and is known by nothing else. No other ids count.
    """
    is_near = similarity == "near"

    def content(call: Call) -> bytes | None:
        if not call.generates:
            return None
        if not is_near and isinstance(call, EditChat) and call.sent is not None:
            call = call.sent
        messages = call.tail(tail)
        if not messages:
            return None
        texts = [call.model, call.chain]
        last = messages[-1]
        if with_tools and (
            last.results or (len(call.raws) > FIRST_MESSAGES and is_observation(last.text))
        ):
            # Within a run a longer history is no retry: the signals judge it.
            texts.append(f"after {len(call.raws)}")
            if last.results and len(messages) > 2 and messages[-3].results:
                texts.append(last.results[-1].call_id)
        for message in messages:
            mark = _MARKS.get(message.role) or f"?{message.role}" if with_tools else ""
            if message.calls or message.results:
                more = _tools(message) if with_tools else [one.text for one in message.results]
                # The number of texts comes first: no client text can shift them.
                texts += (f"{len(more)} {mark}", message.text, *more)
            elif is_near and message.role == "system":
                texts += (mark, without_trailer(message.text))
            else:
                texts += (mark, message.text)
        if similarity == "masked":
            return normalise(list(map(_masked, texts)))
        if similarity == "exact":
            return normalise(texts)
        if last.role != "user" or last.results:
            return normalise(texts)  # only a prompt is sent with something around it, or twice
        texts[-1] = without_envelope(texts[-1])
        return without_repetition(normalise(texts))

    return content


@cache
def numbered_retry(tail: int) -> Content:
    """The same prompt, which says itself how often it was sent: "attempt 7".

    Times, ids and counters do not count. No timer counts its attempts: so the pauses between them
    may be long.
    """

    def content(call: Call) -> bytes | None:
        if not call.generates:
            return None
        messages = call.tail(tail)
        if not messages or messages[-1].role != "user" or messages[-1].results:
            return None
        last = messages[-1].text
        if retry_number(last) < MIN_RETRY_NUMBER or len(last) > LONG_TEXT:
            return None
        texts = [text for message in messages[:-1] for text in (message.role, message.text)]
        return normalise([call.model, call.chain, *texts, without_retry_number(last)])

    return content


@cache
def request(with_reads: bool, masked: bool) -> Content:
    """The same HTTP request: method, path, sorted query and body.

    The key order of a JSON body does not matter; without the body the scope does not apply.
    GET and HEAD count only `with_reads`: clients repeat reads.
    """

    def content(call: Call) -> bytes | None:
        sent = call.request
        if sent.lacks_body or (not with_reads and sent.method in ("GET", "HEAD")):
            return None
        body = _canonical(sent.body)
        if masked:
            body = _masked(body.decode("utf-8", "replace")).encode()
        query = sorted(parse_qsl(sent.query, keep_blank_values=True))
        values = [part for pair in query for part in pair]
        return blake2b(body).digest() + join([sent.method, normal_path(sent.path).lower(), *values])

    return content


@cache
def session(named: bool) -> Content:
    """The calls of one agent run: its model, and whether it uses tools.

    Applies to the calls that name a session, or to those that do not.
    """

    def content(call: Call) -> bytes | None:
        if not call.generates or bool(call.request.session) != named:
            return None
        return join([call.model, "tools" if call.tools else ""])

    return content


@cache
def tool(masked: bool) -> Content:
    """The same tool with the same arguments, called over MCP."""

    def content(call: Call) -> bytes | None:
        if call.dialect != "mcp":
            return None
        called = [text for message in call.tail(1) for text in _tools(message)]
        if not called:
            return None
        return normalise([_masked(text) for text in called] if masked else called)

    return content


def _tools(message: Message) -> list[str]:
    texts: list[str] = []
    for call in message.calls:
        texts += ("call", call.name, call.arguments)
    for result in message.results:
        texts += ("error" if result.is_error else "result", result.text)
    return texts


def _masked(text: str) -> str:
    return mask(text) if len(text) <= LONG_TEXT else text


def _canonical(body: bytes) -> bytes:
    if body[:1] not in (b"{", b"["):
        return body
    try:
        return _sorted_json.encode(msgspec.json.decode(body))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return body
