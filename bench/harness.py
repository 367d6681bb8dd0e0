"""The same runs as harnesses would write them that no rule knows: noise around results and calls.

A detector that learnt the habits of a few harnesses sees every result as new in another one. Here
each run is written anew in ways that none of them has; what a run says stays the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Run = dict[str, Any]
Write = Callable[[str, Random, int], str]
"""Writes a result anew: its text, chance, and the number of the step."""


def _line_below(text: str, chance: Random, _: int) -> str:
    size = f"{chance.randrange(20, 90)}.{chance.randrange(10)} MB"
    return f"{text}\n\n[job {chance.randrange(10_000, 99_999)} · {chance.random():.3f} s · {size}]"


def _line_above(text: str, chance: Random, _: int) -> str:
    call, worker = chance.randrange(1_000, 9_000), chance.randrange(40)
    return f"tool call #{call} took {chance.random():.2f} on worker-{worker}\n{text}"


def _load_below(text: str, chance: Random, _: int) -> str:
    load = f"load {chance.random():.2f} {chance.random():.2f}"
    return f"{text}\n---\ncpu {chance.random():.2f} mem {chance.randrange(1_000, 9_000)} {load}"


def _budget_below(text: str, chance: Random, step: int) -> str:
    return f"{text}\n(context: {5_000 + step * 731 + chance.randrange(700)} of 200000 tokens used)"


def _id_below(text: str, chance: Random, _: int) -> str:
    return f"{text}\nrequest {chance.randrange(16**10):010x}-{chance.randrange(9_999)}"


def _stamped_lines(text: str, chance: Random, step: int) -> str:
    clock = f"2026-11-12T10:{step % 60:02}:{chance.randrange(60):02}.{chance.randrange(999):03}Z"
    return "\n".join(f"{clock} {line}" for line in text.split("\n"))


def _fenced(text: str, chance: Random, step: int) -> str:
    head = f"Here is the output of your command (ran in {chance.random():.2f}s):"
    return f"{head}\n\n```\n{text}\n```\n\nYou have {200 - step} steps left."


def _in_tags(text: str, chance: Random, _: int) -> str:
    inner = f"<output>\n{text}\n</output>\n<duration>{chance.random():.3f}</duration>"
    return f"<tool_result>\n{inner}\n<job>{chance.randrange(9_999)}</job>\n</tool_result>"


def _json(text: str, _: Random, __: int) -> str:
    return json.dumps({"result": text})


def _json_parts(text: str, _: Random, __: int) -> str:
    return json.dumps([{"type": "text", "text": text}])


def _json_with_state(text: str, chance: Random, step: int) -> str:
    meta = {"trace": f"{chance.randrange(16**8):08x}", "step": step, "tokens_used": step * 731}
    return json.dumps({"ok": True, "result": text, "meta": meta})


def _json_nested(text: str, chance: Random, _: int) -> str:
    return json.dumps({"status": "success", "data": {"output": text, "took": chance.random()}})


RESULTS: dict[str, Write] = {
    "a line below": _line_below,
    "a line above": _line_above,
    "load below": _load_below,
    "a budget below": _budget_below,
    "an id below": _id_below,
    "stamped lines": _stamped_lines,
    "fenced": _fenced,
    "in tags": _in_tags,
    "JSON": _json,
    "JSON parts": _json_parts,
    "JSON with state": _json_with_state,
    "JSON, nested": _json_nested,
}

REMINDERS: dict[str, Callable[[Random, int], str]] = {
    "steps left, as the user": lambda chance, step: (
        f"Step {step} of 200. Time left: {chance.randrange(60)} minutes. Go on with the task."
    ),
    "spending, as the user": lambda chance, step: (
        f"[status] {step} steps used; ${step * 0.013:.3f} spent; {chance.randrange(90_000)} tokens"
    ),
}

_WHY = (
    "check inspect the module again now carefully before moving forward with next planned step of"
    " our work to understand why it behaves like this and what else could be wrong here"
).split()

HARNESSES = ("as recorded", *RESULTS, *REMINDERS, "an intent in calls")


def write_as(harness: str, run: Run, seed: int) -> Run:
    """Return a run as a harness would have written it."""
    chance, step, messages = Random(seed), 0, list[Any]()
    for message in run["messages"]:
        message = dict(message)
        if message["role"] == "tool" and isinstance(message["content"], str):
            step += 1
            if harness in RESULTS:
                message["content"] = RESULTS[harness](message["content"], chance, step)
        if harness == "an intent in calls" and message.get("tool_calls"):
            message["tool_calls"] = [_explained(call, chance) for call in message["tool_calls"]]
        messages.append(message)
        if harness in REMINDERS and message["role"] == "tool":
            messages.append({"role": "user", "content": REMINDERS[harness](chance, step)})
    return {**run, "messages": messages}


def _explained(call: Any, chance: Random) -> Any:
    arguments = call["function"]["arguments"]
    values = json.loads(arguments) if isinstance(arguments, str) else arguments
    values = {"intent": " ".join(chance.sample(_WHY, 9)), **values}
    return {**call, "function": {**call["function"], "arguments": json.dumps(values)}}
