"""Runs of agents, described once and written in each dialect."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from looptrap.detect.signals import ROUNDS, SIGNALS, SignalOptions
from looptrap.detect.signals.signal import Evidence
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read


@dataclass(frozen=True)
class Use:
    """One call of a tool, and what came back; None while nothing has."""

    tool: str
    arguments: Any
    result: str | None = ""
    is_error: bool = False
    """Only Anthropic has a flag for it."""


@dataclass(frozen=True)
class Turn:
    """What the assistant said and called in one go."""

    text: str = ""
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True)
class Person:
    """What somebody typed."""

    text: str


Step = Use | Turn | Person
Body = dict[str, Any]


def bash(command: str, result: str | None) -> Use:
    """Describe a shell command and its output."""
    return Use("bash", {"command": command}, result)


def says(text: str) -> Turn:
    """Describe a turn without any call."""
    return Turn(text)


def together(*uses: Use, text: str = "") -> Turn:
    """Describe parallel calls of one turn."""
    return Turn(text, uses)


def openai(steps: Sequence[Step], tools: Sequence[str] = ()) -> Body:
    """Write a run as a Chat Completions request."""
    messages: list[Body] = [{"role": "user", "content": "Make the tests pass."}]
    for number, step in enumerate(steps):
        if isinstance(step, Person):
            messages.append({"role": "user", "content": step.text})
            continue
        turn = _turn(step)
        said: Body = {"role": "assistant", "content": turn.text or None}
        if turn.uses:
            said["tool_calls"] = [
                {"id": id, "type": "function", "function": _function(use)}
                for id, use in _named(number, turn)
            ]
        messages.append(said)
        messages += [
            {"role": "tool", "tool_call_id": id, "content": use.result}
            for id, use in _named(number, turn)
            if use.result is not None
        ]
    offered = [{"type": "function", "function": {"name": name}} for name in tools]
    return {"model": "m", "messages": messages} | ({"tools": offered} if offered else {})


def anthropic(steps: Sequence[Step], tools: Sequence[str] = ()) -> Body:
    """Write a run as a Messages request."""
    messages: list[Body] = [{"role": "user", "content": "Make the tests pass."}]
    for number, step in enumerate(steps):
        if isinstance(step, Person):
            messages.append({"role": "user", "content": step.text})
            continue
        turn = _turn(step)
        blocks: list[Body] = [{"type": "text", "text": turn.text}] if turn.text else []
        blocks += [
            {"type": "tool_use", "id": id, "name": use.tool, "input": use.arguments}
            for id, use in _named(number, turn)
        ]
        messages.append({"role": "assistant", "content": blocks})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": id,
                "content": [{"type": "text", "text": use.result}],
                "is_error": use.is_error,
            }
            for id, use in _named(number, turn)
            if use.result is not None
        ]
        if results:
            messages.append({"role": "user", "content": results})
    offered = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    return {"model": "m", "max_tokens": 64, "messages": messages} | (
        {"tools": offered} if offered else {}
    )


Write = Callable[..., Body]
DIALECTS: dict[str, Write] = {"OpenAI": openai, "Anthropic": anthropic}
PATHS: dict[Write, str] = {openai: "/v1/chat/completions", anthropic: "/v1/messages"}


def requests(write: Write, steps: Sequence[Step], tools: Sequence[str] = ()) -> list[Body]:
    """Return every request of a run: one before each turn, and the one that would follow."""
    ends = [end for end, step in enumerate(steps) if not isinstance(step, Person)]
    return [write(steps[:end], tools) for end in [*ends, len(steps)]]


def trajectory(write: Write, steps: Sequence[Step], tools: Sequence[str] = ()) -> Trajectory:
    """Return the trajectory that the request after these steps carries."""
    body = json.dumps(write(steps, tools)).encode()
    return Trajectory(read(Request(path=PATHS[write], body=body)))


def evidence(
    signal: str,
    write: Write,
    steps: Sequence[Step],
    *,
    tools: Sequence[str] = (),
    rounds: int | None = None,
    with_results: bool = True,
) -> Evidence | None:
    """Return what a signal sees in a run."""
    looks_at = rounds or ROUNDS.get(signal, 0)
    return SIGNALS[signal](SignalOptions(looks_at, with_results))(trajectory(write, steps, tools))


def count(signal: str, write: Write, steps: Sequence[Step], **options: Any) -> int:
    """Return how often a signal sees it; 0 when it sees nothing."""
    found = evidence(signal, write, steps, **options)
    return found.count if found else 0


def _turn(step: Use | Turn) -> Turn:
    return step if isinstance(step, Turn) else Turn("", (step,))


def _named(number: int, turn: Turn) -> list[tuple[str, Use]]:
    return [(f"call_{number}_{place}", use) for place, use in enumerate(turn.uses)]


def _function(use: Use) -> Body:
    return {"name": use.tool, "arguments": json.dumps(use.arguments)}
