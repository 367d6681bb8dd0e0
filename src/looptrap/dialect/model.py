"""The neutral form of a request: what every dialect is read into.

A `Request` is what arrived and from whom. A `Call` is the same in neutral form. It is cheap to
make: messages stay undecoded until they are asked for, and `tail(3)` decodes three of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Literal

import msgspec

MAX_TOKENS = 1_000_000_000_000
"""More tokens than any call has. A limit that is higher is none, and a count that is higher was not
reported: so every sum and product stays a number that is quick to compute."""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens used, counted alike for all dialects."""

    input_tokens: int = 0
    """All of the input, whether cached or not, whether text or not."""
    output_tokens: int = 0
    """All of the output, thoughts included."""
    cached_tokens: int = 0
    """The part of the input that was read from the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that was thought and not said."""
    cache_write_tokens: int = 0
    """The part of the input that was written to the provider's cache."""
    audio_input_tokens: int = 0
    """The part of the input that was audio."""
    audio_output_tokens: int = 0
    """The part of the output that was audio."""
    is_estimated: bool = False
    """Whether all this was estimated from sizes, as the provider reported nothing."""

    def plus(self, other: Usage) -> Usage:
        """Return both together; what is estimated in part is estimated."""
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
    "mcp",
    "http",
]

Json = dict[str, Any]

NO_CLAIMS: Mapping[str, str] = MappingProxyType({})

LONGEST_NAME = 128
"""Characters of a model, session, tool or user that are shown or kept: clients may send any."""


class Request(msgspec.Struct, gc=False):
    """What arrived, and from whom. Header names are lower-case bytes."""

    method: str = "POST"
    path: str = "/"
    query: str = ""
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""
    caller: str = ""
    """Who pays. Everything else below is scoped by it."""
    project: str = ""
    session: str = ""
    """The session id the client sent; empty where it sent none."""
    address: str = ""
    claims: Mapping[str, str] = NO_CLAIMS
    """JWT claims; empty unless they were verified, or the operator trusts them unverified."""
    is_retry: bool = False
    """A transport retry of the client's SDK, not a new decision of the agent."""
    progress: str = ""
    """The application's word that it got on: while it is another, what came before is over."""
    lacks_body: bool = False
    """There may be a body, but the service that asks about the request did not send it along."""
    session_limit: int | None = None
    """The most that the session may cost, in nano-dollars, by the client's own word."""
    room: object = None
    """What accounts for the memory of the body, and has to live as long as the request does."""

    def header(self, name: bytes) -> bytes | None:
        """Return the first header of that (lower-case) name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """One use of a tool, as the model asked for it."""

    id: str
    name: str
    arguments: str
    """Canonical JSON (sorted keys, no spaces); the raw text where it is not JSON."""


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a tool answered."""

    call_id: str
    text: str
    is_error: bool = False
    """Whether the dialect itself marks the result as an error."""
    name: str = ""
    """The tool's name, where the dialect repeats it."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message: its text flattened, its tool calls and results apart.

    Roles are `system`, `user`, `assistant` and `tool` (nothing but results) in every dialect; one
    that no dialect knows stays as it was sent.
    """

    role: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


class ToolUse(msgspec.Struct, frozen=True, gc=False):
    """A tool call with its result, if one has come back."""

    call: ToolCall
    result: ToolResult | None


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of a call upstream."""

    status: int = 0
    """The upstream's HTTP status; 0 when it never answered or was never asked."""
    usage: Usage = NO_USAGE
    cut_off: bool = False
    """The answer ended before it was complete."""
    cost: int | None = None
    """What that cost, in nano-dollars; None where no price is known."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a call is not served, before it takes the shape of a dialect."""

    status: int
    code: str
    kind: str
    """OpenAI's `type`; the other dialects derive theirs from the status."""
    message: str
    detail: Json
    """The same in every dialect."""


class Call(msgspec.Struct, gc=False, eq=False):
    """One request in neutral form."""

    # Call and Request are Structs because one of each is made for every request: made in C, they
    # cost a fifth of a class with an __init__ of its own.

    request: Request
    dialect: DialectName
    model: str = ""
    stream: bool = False
    user: str = ""
    """The end user the client named (`user`, `metadata.user_id`)."""
    chain: str = ""
    """Server-side history this call continues (`previous_response_id`, `conversation`)."""
    generates: bool = False
    """Whether a model makes an answer: not embeddings, token counts, lists or other HTTP."""
    opaque: bool = False
    """Whether its body was not read: it is judged by its bytes and charged by its size."""
    raws: Sequence[msgspec.Raw] = ()
    """The messages, undecoded."""
    read: Callable[[msgspec.Raw], Message] | None = None
    """Reads one of `raws`; never raises."""
    peek: Callable[[msgspec.Raw], str] | None = None
    """Reads only the role of one of `raws`, where that is cheaper; never raises."""
    scattered: bool = False
    """Whether one turn of the assistant may lie scattered over several of `raws`."""
    read_tools: Callable[[], tuple[str, ...]] | None = None
    """Reads the names of the tools offered; never raises."""
    _messages: list[Message] | None = None
    _tail: list[Message] | None = None
    _tools: tuple[str, ...] | None = None

    def tail(self, count: int) -> list[Message]:
        """Return the last `count` messages, decoding no others."""
        if count < 1 or self.read is None:
            return []
        if self._messages is not None:
            return self._messages[-count:]
        known = self._tail
        if known is not None and len(known) >= count:
            return known[-count:]
        if self.scattered:
            self._tail = list(islice(self.backwards(), count))[::-1]
        else:
            self._tail = list(map(self.read, self.raws[-count:]))
        return self._tail

    def backwards(self) -> Iterator[Message]:
        """Yield the messages from the last to the first, decoding each as it comes."""
        if self._messages is not None:
            return reversed(self._messages)
        if self.read is None:
            return iter(())
        known = self.known
        unread = map(self.read, islice(reversed(self.raws), len(known), None))
        messages = chain(reversed(known), unread) if known else unread
        return _gathered(messages) if self.scattered else messages

    @property
    def known(self) -> Sequence[Message]:
        """The latest messages, as far as they have been read: one for each of the last `raws`."""
        return () if self.scattered else self._messages or self._tail or ()

    @property
    def messages(self) -> list[Message]:
        """Return all messages; decoded on the first use."""
        if self._messages is None:
            self._messages = list(self.backwards())[::-1]
        return self._messages

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the names of the tools the request offers; decoded on the first use."""
        if self._tools is None:
            self._tools = self.read_tools() if self.read_tools is not None else ()
        return self._tools

    def tool_uses(self) -> list[ToolUse]:
        """Return every tool call of the history with the result that followed it.

        Results are matched by id; where either side has none (Gemini), by name, in order.
        """
        calls: list[ToolCall] = []
        found: list[ToolResult | None] = []
        by_id: defaultdict[str, deque[int]] = defaultdict(deque)
        by_name: defaultdict[str, deque[int]] = defaultdict(deque)
        for message in self.messages:
            for call in message.calls:
                by_id[call.id].append(len(calls))
                by_name[call.name].append(len(calls))
                calls.append(call)
                found.append(None)
            for result in message.results:
                place = _first_open(by_id[result.call_id], found) if result.call_id else None
                if place is None and result.name:
                    place = _first_open(by_name[result.name], found)
                if place is not None:
                    found[place] = result
        return list(map(ToolUse, calls, found))


def _gathered(backwards: Iterator[Message]) -> Iterator[Message]:
    """Join what an assistant said and called in one turn; a result in between ends the turn."""
    turn: list[Message] = []
    for message in backwards:
        if turn and (message.role != "assistant" or turn[0].role != "assistant" or message.results):
            yield _joined(turn[::-1])
            turn = []
        turn.append(message)
    if turn:
        yield _joined(turn[::-1])


def _joined(turn: Sequence[Message]) -> Message:
    if len(turn) == 1:
        return turn[0]
    return Message(
        "assistant",
        "\n".join(message.text for message in turn if message.text),
        tuple(call for message in turn for call in message.calls),
        turn[-1].results,
    )


def _first_open(places: deque[int], found: Sequence[ToolResult | None]) -> int | None:
    """Return the first place without a result, dropping those that have one."""
    while places:
        if found[places[0]] is None:
            return places[0]
        places.popleft()
    return None
