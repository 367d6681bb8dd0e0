"""What an agent sends and gets: one conversation over time, in any of four dialects."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from bench.loops.scenario import START, Step
from looptrap.dialect.body import read_body
from looptrap.dialect.dialect import ModelAnswer
from looptrap.dialect.model import DialectName, ToolCall, Usage
from looptrap.dialect.registry import DIALECTS as WRITTEN

ALNUM = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a request offers; every parameter is a string."""

    name: str
    description: str
    parameters: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": {name: {"type": "string"} for name in self.parameters},
            "required": list(self.parameters),
        }


@dataclass(frozen=True, slots=True)
class Use:
    """A call of a tool, with the id that the provider gave it ("" for none)."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said: an assistant's text and tool calls, or a user's text and results."""

    role: str
    text: str = ""
    uses: tuple[Use, ...] = ()
    results: tuple[tuple[Use, str], ...] = ()


Fields = dict[str, Any]
Tools = Sequence[Tool]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one API writes a request, and the ids that it gives to tool calls."""

    name: str
    api: DialectName
    path: str
    body: Callable[[str, Sequence[Turn], Tools], Fields]
    id_prefix: str
    """How the id of a tool call begins; "" where calls have none."""
    id_chars: int
    """How many random characters follow."""
    asks_stream: Fields = field(default_factory=dict)
    """The fields of a body that ask for a stream."""

    def call_id(self, rng: Random) -> str:
        """Return an id for a tool call."""
        return self.id_prefix + token(rng, self.id_chars)

    def answer(self, body: Fields, turn: Turn, name: str, at: float) -> bytes:
        """Return the answer to a body, in one piece or as a stream; `name` is part of its id."""
        call = read_body(body, self.path)
        calls = [ToolCall(use.id, use.name, _dumped(use)) for use in turn.uses]
        said = len(turn.text) + sum(len(made.arguments) for made in calls)
        answer = ModelAnswer(
            call,
            body,
            name,
            int(START + at),
            re.findall(r"\S+\s*|\s+", turn.text),
            calls,
            Usage(len(call.request.body) // 4, 1 + said // 4),
        )
        writer = WRITTEN[self.api].writer
        assert writer is not None
        if call.stream:
            text = b"".join(writer.stream(answer)).decode()
        else:
            text = json.dumps(writer.body(answer))
        for place, use in enumerate(turn.uses):
            for prefix in ("call", "toolu"):  # the writer's own ids
                text = text.replace(f"{prefix}_{name}_{place}", use.id)
        return text.encode()


def token(rng: Random, length: int) -> str:
    """Return random letters and digits."""
    return "".join(rng.choices(ALNUM, k=length))


def _dumped(use: Use) -> str:
    return json.dumps(dict(use.arguments))


def _chat_message(turn: Turn) -> list[Fields]:
    messages: list[Fields] = [
        {"role": "tool", "tool_call_id": use.id, "content": text} for use, text in turn.results
    ]
    if turn.uses:
        calls = [
            {
                "id": use.id,
                "type": "function",
                "function": {"name": use.name, "arguments": _dumped(use)},
            }
            for use in turn.uses
        ]
        messages.append({"role": turn.role, "content": turn.text or None, "tool_calls": calls})
    elif turn.text or not turn.results:
        messages.append({"role": turn.role, "content": turn.text})
    return messages


def _chat_body(system: str, turns: Sequence[Turn], tools: Tools) -> Fields:
    body: Fields = {
        "model": "gpt-4.1",
        "messages": [{"role": "system", "content": system}] if system else [],
    }
    for turn in turns:
        body["messages"] += _chat_message(turn)
    if tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema(),
                },
            }
            for tool in tools
        ]
    return body


def _anthropic_blocks(turn: Turn) -> list[Fields]:
    blocks: list[Fields] = [
        {"type": "tool_result", "tool_use_id": use.id, "content": text}
        for use, text in turn.results
    ]
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    return blocks + [
        {"type": "tool_use", "id": use.id, "name": use.name, "input": dict(use.arguments)}
        for use in turn.uses
    ]


def _anthropic_body(system: str, turns: Sequence[Turn], tools: Tools) -> Fields:
    body: Fields = {"model": "claude-sonnet-4-5-20250929", "max_tokens": 8192}
    if system:
        body["system"] = [{"type": "text", "text": system}]
    body["messages"] = [{"role": turn.role, "content": _anthropic_blocks(turn)} for turn in turns]
    if tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema()}
            for tool in tools
        ]
    return body


def _responses_items(turn: Turn) -> list[Fields]:
    items: list[Fields] = [
        {"type": "function_call_output", "call_id": use.id, "output": text}
        for use, text in turn.results
    ]
    if turn.text:
        kind = "output_text" if turn.role == "assistant" else "input_text"
        content = [{"type": kind, "text": turn.text}]
        items.append({"type": "message", "role": turn.role, "content": content})
    return items + [
        {"type": "function_call", "call_id": use.id, "name": use.name, "arguments": _dumped(use)}
        for use in turn.uses
    ]


def _responses_body(system: str, turns: Sequence[Turn], tools: Tools) -> Fields:
    body: Fields = {"model": "gpt-5"}
    if system:
        body["instructions"] = system
    body["input"] = [item for turn in turns for item in _responses_items(turn)]
    if tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema(),
            }
            for tool in tools
        ]
    return body


def _gemini_content(turn: Turn) -> Fields:
    parts: list[Fields] = [
        {"functionResponse": {"name": use.name, "response": {"output": text}}}
        for use, text in turn.results
    ]
    if turn.text:
        parts.append({"text": turn.text})
    parts += [
        {"functionCall": {"name": use.name, "args": dict(use.arguments)}} for use in turn.uses
    ]
    return {"role": "model" if turn.role == "assistant" else "user", "parts": parts}


def _gemini_body(system: str, turns: Sequence[Turn], tools: Tools) -> Fields:
    body: Fields = {"contents": [_gemini_content(turn) for turn in turns]}
    if system:
        body["systemInstruction"] = {"role": "user", "parts": [{"text": system}]}
    if tools:
        declared = [
            {"name": tool.name, "description": tool.description, "parameters": tool.schema()}
            for tool in tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    body["generationConfig"] = {"temperature": 0, "topP": 1}
    return body


CHAT = Dialect("chat", "openai_chat", "/v1/chat/completions", _chat_body, "call_", 24)
ANTHROPIC = Dialect("anthropic", "anthropic", "/v1/messages", _anthropic_body, "toolu_01", 22)
RESPONSES = Dialect("responses", "openai_responses", "/v1/responses", _responses_body, "call_", 24)
GEMINI = Dialect(
    "gemini", "gemini", "/v1beta/models/gemini-2.5-pro:generateContent", _gemini_body, "", 0
)
DIALECTS = (CHAT, ANTHROPIC, RESPONSES, GEMINI)

CHAT_STREAM = replace(
    CHAT,
    name="chat-stream",
    asks_stream={"stream": True, "stream_options": {"include_usage": True}},
)
ANTHROPIC_STREAM = replace(ANTHROPIC, name="anthropic-stream", asks_stream={"stream": True})
RESPONSES_STREAM = replace(RESPONSES, name="responses-stream", asks_stream={"stream": True})
GEMINI_STREAM = replace(
    GEMINI,
    name="gemini-stream",
    path="/v1beta/models/gemini-2.5-pro:streamGenerateContent",
)
STREAMS = (CHAT_STREAM, ANTHROPIC_STREAM, RESPONSES_STREAM, GEMINI_STREAM)


class Agent:
    """One conversation with its harness: what it has said, and the requests sent so far."""

    def __init__(
        self,
        rng: Random,
        dialect: Dialect,
        system: str,
        tools: Tools = (),
        *,
        start: float = 0.0,
        pace: tuple[float, float] = (3.0, 28.0),
        gap: tuple[float, float] = (0.05, 1.5),
        keep: int = 0,
        keeps_first: bool = True,
        is_chained: bool = False,
        has_fixed_ids: bool = False,
        headers: Mapping[str, str] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin at `start`; `keep` rounds are sent (0: all), with or without the first message.

        A chained agent leaves its history with the provider (Responses' `previous_response_id`).
        """
        self.rng = rng
        self.dialect = dialect
        self.system = system
        self.tools = tools
        self.now = start
        self.pace = pace
        self.gap = gap
        self.keep = keep
        self.keeps_first = keeps_first
        self.is_chained = is_chained
        self.has_fixed_ids = has_fixed_ids
        self.headers = dict(headers or {})
        self.fields = dict(fields or {})
        self.turns: list[Turn] = []
        self.steps: list[Step] = []

    def hear(self, text: str) -> None:
        """Add a user's message; one right after tool results is part of their turn."""
        if self.turns and self.turns[-1].role == "user":
            self.turns[-1] = Turn("user", text, results=self.turns[-1].results)
        else:
            self.turns.append(Turn("user", text))

    def say(self, text: str, *uses: tuple[str, Mapping[str, Any]]) -> None:
        """Send the conversation so far; the model answers with this text and these tool calls."""
        made = tuple(
            Use(name, arguments, self._call_id(place))
            for place, (name, arguments) in enumerate(uses)
        )
        turn = Turn("assistant", text, made)
        body = self.dialect.body(self.system, self._window(), self.tools)
        body |= self.fields | self.dialect.asks_stream
        name = token(self.rng, 29)
        takes = self.rng.uniform(*self.pace)
        self.steps.append(
            Step(
                round(self.now, 3),
                round(takes, 3),
                body,
                self.dialect.answer(body, turn, name, self.now),
                self.dialect.path,
                dict(self.headers),
            )
        )
        self.now += takes + self.rng.uniform(*self.gap)
        self.turns.append(turn)
        if self.is_chained:
            self.fields["previous_response_id"] = f"resp_{name}"

    def get(self, *texts: str) -> None:
        """Add the results of the tool calls of the last answer."""
        uses = self.turns[-1].uses
        self.turns.append(Turn("user", results=tuple(zip(uses, texts, strict=True))))

    def use(self, text: str, name: str, arguments: Mapping[str, Any], result: str) -> None:
        """Say something with one tool call, and get its result."""
        self.say(text, (name, arguments))
        self.get(result)

    def forget(self) -> None:
        """Drop the conversation: the next message begins a new one."""
        self.turns = []
        self.fields.pop("previous_response_id", None)

    def _call_id(self, place: int) -> str:
        return f"call_{place}" if self.has_fixed_ids else self.dialect.call_id(self.rng)

    def _window(self) -> Sequence[Turn]:
        if self.is_chained:
            return self.turns[-1:]
        if not self.keep:
            return self.turns
        if self.keeps_first:
            return [*self.turns[:1], *self.turns[1:][-2 * self.keep :]]
        return self.turns[-(2 * self.keep + 1) :]


def merge(*agents: Agent) -> list[Step]:
    """Return the requests of several agents in the order of their times."""
    return sorted((step for agent in agents for step in agent.steps), key=lambda step: step.at)
