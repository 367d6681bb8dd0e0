"""Chat bodies to measure with: made here, the same in every run."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from typing import Any

WORDS = (
    "the agent opens a report then asks the billing tool about an invoice error while the cache"
    " layer times out and a customer waits for the status of order code seven"
).split()
UNIQUE = "@@ID@@"
"""A placeholder in the last message of every body; replace it to make a call unique."""


TOOLS = ["bash", "read_file", "search"]


class Author:
    """Writes text that looks like work."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)

    def text(self, size: int) -> str:
        words = [self._random.choice(WORDS) for _ in range(size // 4 + 8)]
        return " ".join(words)[:size]

    def about(self, size: int) -> int:
        """Return a size between half and one and a half of it, so that results differ in length."""
        return round(size * self._random.uniform(0.5, 1.5))

    def tool(self) -> str:
        return self._random.choice(TOOLS)

    def call_id(self) -> str:
        """Return the id of a tool call as providers make them: random."""
        chars = self._random.choices(string.ascii_letters + string.digits, k=24)
        return f"call_{''.join(chars)}"


def small() -> dict[str, Any]:
    """About 1 KB: a system prompt and two questions."""
    author = Author()
    return {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": author.text(330)},
            {"role": "user", "content": author.text(280)},
            {"role": "user", "content": f"{author.text(180)} {UNIQUE}"},
        ],
        "temperature": 0.2,
        "max_tokens": 256,
    }


def alike() -> dict[str, Any]:
    """Like `small`, but all have the same end, like a template over different data."""
    body = small()
    words = body["messages"][-1]["content"].removesuffix(UNIQUE).strip()
    body["messages"][-1]["content"] = f"{UNIQUE} {words}"
    return body


def large(messages: int = 60, size: int = 58_000) -> dict[str, Any]:
    """A long chat with tools; every third message is the user's."""
    author = Author()
    each = (size - 6_000) // (messages - 1) - 60
    history: list[dict[str, Any]] = [{"role": "system", "content": author.text(2_000)}]
    for turn in range(messages - 2):
        match turn % 3:
            case 0:
                history.append({"role": "user", "content": author.text(each)})
            case 1:
                asked = {"query": author.text(each - 160), "limit": 10, "page": turn}
                history.append(_tool_call(f"call_{turn}", "search_docs", asked))
            case _:
                history.append(_tool_result(f"call_{turn - 1}", author.text(each)))
    history.append({"role": "user", "content": f"{author.text(400)} {UNIQUE}"})
    names = ["search_docs", *(f"tool_{number}" for number in range(7))]
    return {"model": "gpt-4o-mini", "messages": history, "tools": _tools(author, names)}


def agent(rounds: int = 40, size: int = 57_000) -> dict[str, Any]:
    """One user message, then honest tool rounds: every call and result new."""
    author = Author()
    history = _agent_history(author, [f"call_{turn}" for turn in range(rounds)], size)
    history[-1]["content"] = f"{UNIQUE} {history[-1]['content']}"
    return {"model": "gpt-4o-mini", "messages": history, "tools": _tools(author, TOOLS)}


def agent_run(seed: int, first: int = 1, last: int = 45) -> Iterator[dict[str, Any]]:
    """Yield the requests of one agent, with `first` to `last` rounds: each repeats the one before
    and adds a round. Ids of tool calls are random, as providers give them."""
    author = Author(seed)
    history = _agent_history(author, [author.call_id() for _ in range(last)], 64_000)
    tools = _tools(author, TOOLS)
    for rounds in range(first, last + 1):
        yield {"model": "gpt-4o-mini", "messages": history[: 2 + 2 * rounds], "tools": tools}


def _agent_history(author: Author, ids: list[str], size: int) -> list[dict[str, Any]]:
    """Return a system prompt, a user message, and a round for each id of a tool call."""
    each = (size - 4_000) // len(ids) - 260
    history: list[dict[str, Any]] = [
        {"role": "system", "content": author.text(2_000)},
        {"role": "user", "content": author.text(600)},
    ]
    for turn, call_id in enumerate(ids):
        call = _tool_call(call_id, author.tool(), {"command": author.text(60), "n": turn})
        history.append({**call, "content": author.text(80)})
        history.append(_tool_result(call_id, author.text(author.about(each))))
    return history


def encoded(body: dict[str, Any]) -> bytes:
    """Return the body as a client sends it."""
    return json.dumps(body, separators=(",", ":")).encode()


BODIES = {
    "small": lambda: encoded(small()),
    "alike": lambda: encoded(alike()),
    "large": lambda: encoded(large()),
    "agent": lambda: encoded(agent()),
    "1 MB": lambda: encoded(large(400, 1_000_000)),
}


def _tool_call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _tool_result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _tools(author: Author, names: list[str]) -> list[dict[str, Any]]:
    properties = {"query": {"type": "string"}, "limit": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": author.text(200),
                "parameters": parameters,
            },
        }
        for name in names
    ]
