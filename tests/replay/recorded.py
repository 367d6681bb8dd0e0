"""Runs as they are recorded, in both styles, and policies to play them against."""

import json
from collections.abc import Sequence
from typing import Any

from looptrap.detect.window import Window
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule

ASKED = {"role": "user", "content": "Make the tests pass."}


def openai_round(number: int, path: str = "a.py", result: str = "no such file") -> list[Any]:
    """One assistant turn that reads a file, and what came back."""
    function = {"name": "read_file", "arguments": json.dumps({"path": path})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
    ]


def anthropic_round(number: int, path: str = "a.py", result: str = "no such file") -> list[Any]:
    """The same in Anthropic's style."""
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read_file"}
    answer = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": result}
    return [
        {"role": "assistant", "content": [{**call, "input": {"path": path}}]},
        {"role": "user", "content": [answer]},
    ]


def stuck(rounds: int, style: Any = openai_round) -> list[Any]:
    """A question, and then the same round over and over."""
    return [ASKED, *(one for i in range(rounds) for one in style(i))]


WORDS = """alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november
oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu""".split()


def honest(rounds: int) -> list[Any]:
    """A question, and then one new file after the other, each with something else in it."""
    found = [" ".join(WORDS[(i * step + step) % 26] for step in range(1, 9)) for i in range(rounds)]
    names = [f"{WORDS[i % 26]}/{WORDS[i // 26]}.py" for i in range(rounds)]
    every = (openai_round(i, names[i], found[i]) for i in range(rounds))
    return [ASKED, *(one for each in every for one in each)]


def line(messages: Sequence[Any], **fields: Any) -> bytes:
    """A run as one line of a file."""
    return json.dumps({"id": "run", "model": "gpt-x", "messages": messages, **fields}).encode()


def policies(seconds: float = 3600, tail: int = 2, **thresholds: int) -> tuple[Policy, ...]:
    """One rule that counts equal ends of conversations."""
    ladder = Ladder({Action(name): count for name, count in thresholds.items()})
    rule = Rule(
        name="same-end",
        watch="conversation",
        parts="content",
        tail=tail,
        ladder=ladder,
        window=Window(seconds),
    )
    return (Policy(name="test", rules=(rule,)),)
