"""The neutral form of a request: what every dialect is read into.

A `Request` is what arrived and from whom. A `Call` is the same in neutral form. It is cheap to
make: messages stay undecoded until somebody looks at them, and `tail(3)` decodes three of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

Dialect = Literal[
    "openai_chat",
    "openai_responses",
    "openai_completions",
    "openai_embeddings",
    "anthropic",
    "gemini",
    "mcp",
    "http",
]

NO_CLAIMS: Mapping[str, str] = {}


@dataclass(slots=True)
class Request:
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
    claims: Mapping[str, str] = field(default_factory=lambda: NO_CLAIMS)
    """Verified JWT claims; empty unless somebody verified them."""

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
    """One message: its text flattened, its tool calls and results apart."""

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
    input_tokens: int = 0
    output_tokens: int = 0
    cut_off: bool = False
    """The answer ended before it was complete."""


class Call:
    """One request in neutral form."""

    __slots__ = (
        "_messages",
        "_raws",
        "_read",
        "_read_tools",
        "_tools",
        "chain",
        "dialect",
        "generates",
        "model",
        "request",
        "stream",
        "user",
    )

    def __init__(
        self,
        request: Request,
        dialect: Dialect,
        *,
        model: str = "",
        stream: bool = False,
        user: str = "",
        chain: str = "",
        generates: bool = False,
        raws: Sequence[msgspec.Raw] = (),
        read: Callable[[msgspec.Raw], Message] | None = None,
        read_tools: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        self.request = request
        self.dialect = dialect
        self.model = model
        self.stream = stream
        self.user = user
        """The end user the client named (`user`, `metadata.user_id`)."""
        self.chain = chain
        """Server-side history this call continues (`previous_response_id`, `conversation`)."""
        self.generates = generates
        """Whether a model writes an answer: not embeddings, token counts, lists or other HTTP."""
        self._raws = raws
        self._read = read
        self._read_tools = read_tools
        self._messages: list[Message] | None = None
        self._tools: tuple[str, ...] | None = None

    def __len__(self) -> int:
        """Return the number of messages, decoding none of them."""
        return len(self._raws)

    def tail(self, count: int) -> list[Message]:
        """Return the last `count` messages, decoding no others."""
        if self._messages is not None:
            return self._messages[-count:]
        if self._read is None:
            return []
        return [self._read(raw) for raw in self._raws[-count:]]

    @property
    def messages(self) -> list[Message]:
        """Return all messages; decoded on the first use."""
        if self._messages is None:
            self._messages = self.tail(len(self._raws)) if self._raws else []
        return self._messages

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the names of the tools the request offers; decoded on the first use."""
        if self._tools is None:
            self._tools = self._read_tools() if self._read_tools is not None else ()
        return self._tools

    def tool_uses(self) -> list[ToolUse]:
        """Return every tool call of the history with its result.

        Results are matched by id; where a dialect sends none (Gemini), by name, in order.
        """
        calls: list[ToolCall] = []
        results: dict[str, list[ToolResult]] = {}
        for message in self.messages:
            calls.extend(message.calls)
            for result in message.results:
                results.setdefault(result.call_id or result.name, []).append(result)
        matched = []
        for call in calls:
            waiting = results.get(call.id or call.name)
            matched.append(ToolUse(call, waiting.pop(0) if waiting else None))
        return matched
