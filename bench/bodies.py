"""Chat bodies to measure with: made here, the same in every run."""

from __future__ import annotations

import json
import random
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
                history.append(_tool_call(turn, "search_docs", asked))
            case _:
                history.append(_tool_result(turn - 1, author.text(each)))
    history.append({"role": "user", "content": f"{author.text(400)} {UNIQUE}"})
    names = ["search_docs", *(f"tool_{number}" for number in range(7))]
    return {"model": "gpt-4o-mini", "messages": history, "tools": _tools(author, names)}


def agent(rounds: int = 40, size: int = 57_000) -> dict[str, Any]:
    """One user message, then honest tool rounds: every call and result new."""
    author = Author()
    each = (size - 4_000) // rounds - 260
    history: list[dict[str, Any]] = [
        {"role": "system", "content": author.text(2_000)},
        {"role": "user", "content": author.text(600)},
    ]
    for turn in range(rounds):
        call = _tool_call(turn, author.tool(), {"command": author.text(60), "n": turn})
        history.append({**call, "content": author.text(80)})
        history.append(_tool_result(turn, author.text(author.about(each))))
    history[-1]["content"] = f"{UNIQUE} {history[-1]['content']}"
    return {"model": "gpt-4o-mini", "messages": history, "tools": _tools(author, TOOLS)}


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


def _tool_call(turn: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{turn}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _tool_result(turn: int, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{turn}", "content": text}


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
