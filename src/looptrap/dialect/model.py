"""The neutral form of a request, which every dialect reads into.

A `Request` is what arrived, and its sender. A `Call` is the same in neutral form. It is cheap to
make: messages are decoded on their first use, and `tail(3)` decodes three of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import ceil
from types import MappingProxyType
from typing import Any, Literal

import msgspec

MAX_TOKENS = 1_000_000_000_000
"""More tokens than any call has. A higher limit counts as none, and a higher count as not reported:
so every sum and product is fast to compute."""

BYTES_PER_TOKEN = 4
"""An estimate for requests, and for answers in one piece."""

MAX_NAME_CHARS = 128
"""Characters of a model, session, tool or user that are shown or stored: clients may send more."""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens used, counted alike for all dialects."""

    input_tokens: int = 0
    """All of the input, cached or not, text or not."""
    output_tokens: int = 0
    """All of the output, with thoughts."""
    cached_tokens: int = 0
    """The part of the input that was read from the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that was thoughts."""
    cache_write_tokens: int = 0
    """The part of the input that was written to the provider's cache."""
    audio_input_tokens: int = 0
    """The part of the input that was audio."""
    audio_output_tokens: int = 0
    """The part of the output that was audio."""
    is_estimated: bool = False
    """Whether the counts are estimated from sizes, because the provider reported none."""

    def plus(self, other: Usage) -> Usage:
        """Return the sum, which is estimated if one of the two is."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.audio_input_tokens + other.audio_input_tokens,
            self.audio_output_tokens + other.audio_output_tokens,
            self.is_estimated or other.is_estimated,
        )

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return self.input_tokens + self.output_tokens


NO_USAGE = Usage()


DialectName = Literal[
    "openai_chat",
    "openai_responses",
    "openai_completions",
    "openai_embeddings",
    "anthropic",
    "gemini",
    "gemini_interactions",
    "mcp",
    "http",
]

Json = dict[str, Any]

NO_CLAIMS: Mapping[str, str] = MappingProxyType({})


class Request(msgspec.Struct, gc=False):
    """A request and its sender. Header names are lower-case bytes."""

    method: str = "POST"
    path: str = "/"
    query: str = ""
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""
    caller: str = ""
    """Who pays; the scope of all fields below."""
    project: str = ""
    session: str = ""
    """The session id of the client; empty if it sent none."""
    address: str = ""
    claims: Mapping[str, str] = NO_CLAIMS
    """JWT claims that are verified, or that the operator trusts unverified."""
    is_retry: bool = False
    """Whether it is a transport retry of the client's SDK, not a new decision of the agent."""
    progress: str = ""
    """A value by which the application reports progress: a new one ends what came before."""
    lacks_body: bool = False
    """Whether the service that asks for a decision did not send the body, if there is one."""
    session_limit: int | None = None
    """The cost limit that the client set for the session, in nano-dollars."""
    agent: str = ""
    """The name of the agent, where headers and body are not kept."""
    room: object = None
    """The reservation of memory for the body, which must live as long as the request."""

    def header(self, name: bytes) -> bytes | None:
        """Return the first header of that (lower-case) name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A model's call of a tool."""

    id: str
    name: str
    arguments: str
    """Canonical JSON (sorted keys, no spaces); the raw text where it is not JSON."""


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a tool call."""

    call_id: str
    text: str
    is_error: bool = False
    """Whether the dialect marks the result as an error."""
    name: str = ""
    """The tool's name, where the dialect repeats it."""

    def with_text(self, text: str) -> ToolResult:
        """Return the result with another text."""
        return ToolResult(self.call_id, text, self.is_error, self.name)


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message: its flattened text, its tool calls and its results.

    Roles are `system`, `user`, `assistant` and `tool` (only results) in every dialect; an unknown
    role is unchanged.
    """

    role: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


class AnsweredTurn(msgspec.Struct, frozen=True, gc=False):
    """A model's answer in the form in which a request would repeat it in its history.

    Where the provider keeps the history, the next request has only the results of these calls.
    Where the client repeats it, the messages have only calls and results, and no texts.
    """

    response_id: str
    """The id by which a later request continues the answer (`previous_response_id`); where the
    client repeats the history, the id of the answer, or none."""
    conversation: str = ""
    """The conversation to which the provider added the answer, if it names one."""
    messages: tuple[Message, ...] = ()
    """One message of the assistant, or more where built-in tools gave results between its calls."""

    @classmethod
    def of_calls(cls, response_id: str, calls: tuple[ToolCall, ...]) -> AnsweredTurn:
        """Return the turn with these calls and no more."""
        return cls(response_id, messages=(Message("assistant", "", calls),) if calls else ())

    def short_text(self, limit: int) -> str:
        """Return what it says; nothing if that is longer than `limit`."""
        text = "\n".join(message.text for message in self.messages if message.role == "assistant")
        return text if len(text) <= limit else ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All tool calls, in their order."""
        return tuple(call for message in self.messages for call in message.calls)


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The result of a call upstream."""

    status: int = 0
    """The upstream's HTTP status; 0 if it did not answer, or was not called."""
    usage: Usage = NO_USAGE
    cut_off: bool = False
    """Whether the answer ended before it was complete."""
    cost: int | None = None
    """The cost in nano-dollars; None without a known price."""


class Refusal(msgspec.Struct, frozen=True):
    """The reason why a call is not served, before a dialect writes it."""

    status: int
    code: str
    kind: str
    """OpenAI's `type`; the other dialects derive theirs from the status."""
    message: str
    detail: Json | None
    """The same in every dialect; None where the client needs a short body."""

    @property
    def detail_field(self) -> Json:
        """The field of a body with the detail, if there is one."""
        return {} if self.detail is None else {"detail": self.detail}


class Call(msgspec.Struct, gc=False, eq=False):
    """One request in neutral form."""

    # Call and Request are Structs because each request makes one of each: created in C, they
    # cost a fifth of a class with an __init__ of its own.

    request: Request
    dialect: DialectName
    model: str = ""
    stream: bool = False
    user: str = ""
    """The end user that the client named (`user`, `metadata.user_id`)."""
    chain: str = ""
    """The server-side history that this call continues (such as `previous_response_id`)."""
    keeps_history: bool = False
    """Whether the provider keeps this call and its answer, so that a later call can continue it."""
    generates: bool = False
    """Whether a model generates an answer: not embeddings, token counts, lists or other HTTP."""
    is_opaque: bool = False
    """Whether the body was not read: it is judged by its bytes and charged by its size."""
    raws: Sequence[msgspec.Raw] = ()
    """The messages, undecoded."""
    read: Callable[[msgspec.Raw], Message] | None = None
    """Reads one of `raws`; never raises."""
    peek: Callable[[msgspec.Raw], str] | None = None
    """Reads only the role of one of `raws`, where that is cheaper; never raises."""
    has_split_turns: bool = False
    """Whether several of `raws` may be one turn of the assistant."""
    sizes: Sequence[int] | None = None
    """The bytes of each message as it was sent, where `raws` are others."""
    read_tools: Callable[[], tuple[str, ...]] | None = None
    """Reads the names of the tools offered; never raises."""
    _messages: list[Message] | None = None
    _tail: list[Message] | None = None
    _tools: tuple[str, ...] | None = None

    @property
    def estimated_input(self) -> int:
        """The tokens of the body, estimated from its size."""
        return ceil(len(self.request.body) / BYTES_PER_TOKEN)

    def tail(self, count: int) -> list[Message]:
        """Return the last `count` messages, decoding no others."""
        if count < 1 or self.read is None:
            return []
        if self._messages is not None:
            return self._messages[-count:]
        known = self._tail
        if known is not None and len(known) >= count:
            return known[-count:]
        if self.has_split_turns:
            self._tail = list(islice(self.backwards(), count))[::-1]
        else:
            self._tail = list(map(self.read, self.raws[-count:]))
        return self._tail

    def backwards(self) -> Iterator[Message]:
        """Yield the messages from the last to the first, decoding each on its turn."""
        if self._messages is not None:
            return reversed(self._messages)
        if self.read is None:
            return iter(())
        known = self.decoded_tail
        unread = map(self.read, islice(reversed(self.raws), len(known), None))
        messages = chain(reversed(known), unread) if known else unread
        return _join_turns(messages) if self.has_split_turns else messages

    def placed_backwards(self) -> Iterator[tuple[int, Message]]:
        """Yield the same, each with the place in `raws` at which it begins."""
        place = len(self.raws)
        if not self.has_split_turns or self.read is None or not self.raws:
            for message in self.backwards():
                place -= 1
                yield place, message
            return

        def reading(read: Callable[[msgspec.Raw], Message]) -> Iterator[Message]:
            nonlocal place
            for raw in reversed(self.raws):
                place -= 1
                yield read(raw)
            place -= 1

        # A turn is complete only when the message before it has been read.
        for message in _join_turns(reading(self.read)):
            yield place + 1, message

    @property
    def decoded_tail(self) -> Sequence[Message]:
        """The last messages that are already decoded, one for each of the last `raws`."""
        return () if self.has_split_turns else self._messages or self._tail or ()

    @property
    def messages(self) -> list[Message]:
        """All messages; decoded on the first use."""
        if self._messages is None:
            self._messages = list(self.backwards())[::-1]
        return self._messages

    def message_bytes(self, start: int) -> int:
        """Return the bytes of the messages from `start` on, as they were sent."""
        if self.sizes is not None:
            return sum(self.sizes[start:])
        return sum(map(len, self.raws[start:]))

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the request offers; decoded on the first use."""
        if self._tools is None:
            self._tools = self.read_tools() if self.read_tools is not None else ()
        return self._tools


def join_turns(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return messages with the split turns of the assistant joined."""
    return tuple(_join_turns(iter(list(messages)[::-1])))[::-1]


def _join_turns(backwards: Iterator[Message]) -> Iterator[Message]:
    """Join the texts and calls of one turn of the assistant; a result between ends the turn."""
    turn: list[Message] = []
    for message in backwards:
        if turn and (message.role != "assistant" or turn[0].role != "assistant" or message.results):
            yield _join(turn[::-1])
            turn = []
        turn.append(message)
    if turn:
        yield _join(turn[::-1])


def _join(turn: Sequence[Message]) -> Message:
    if len(turn) == 1:
        return turn[0]
    return Message(
        "assistant",
        "\n".join(message.text for message in turn if message.text),
        tuple(call for message in turn for call in message.calls),
        turn[-1].results,
    )
