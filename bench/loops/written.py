"""Tool calls that agents write as text, where a request offers no tools, and their results.

The forms are those of well-known agents: a block of bash (mini-swe-agent, SWE-agent), an element
for each tool (Cline), `Action:` (ReAct, CrewAI), fields between markers (DSPy), code (smolagents),
and JSON (Hermes, browser-use).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Written = tuple[str, str]
"""A tool, and its arguments as canonical JSON."""

BASH = re.compile(r"```(?:bash|sh|mswea_bash_command)\n(.*?)\n?```", re.DOTALL)
DISCUSSED = re.compile(r"\ADISCUSSION\b.*?```\n(.*?)\n?```", re.DOTALL)
CODE = re.compile(r"<code>\n?(.*?)\n?</code>", re.DOTALL)
TOOL_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
ACTION = re.compile(
    r"^Action: *(.+?)\nAction Input: *(.*?)(?=\n(?:Observation|Thought):|\Z)",
    re.MULTILINE | re.DOTALL,
)
FIELDS = re.compile(
    r"## next_tool_name ## \]\]\n(.*?)\n.*?## next_tool_args ## \]\]\n(.*?)\n\n", re.DOTALL
)
ELEMENT = re.compile(r"^<(\w+)>\n(<(\w+)>.*?</\3>.*?)\n</\1>", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)

AROUND = re.compile(r"\s*<environment_details>.*?</environment_details>", re.DOTALL)
"""What an editor adds to each message of the user."""
OBSERVED = (
    re.compile(r"\nObservation: (.*)\Z", re.DOTALL),
    re.compile(r".*## observation_\d+ ## \]\]\n(.*?)(?=\n\n|\Z)", re.DOTALL),
    re.compile(r".*\nAction Results:\n(.*?)\n</step_\d+>(?:.*?(<browser_state>.*))?", re.DOTALL),
)
"""The last result in a text that has a whole history."""


def read_written(text: str) -> list[Written]:
    """Return the tool calls that a text has; none where it is only a text."""
    for form in _FORMS:
        if found := list(form(text)):
            return found
    return []


def without_surroundings(text: str) -> str:
    """Return a user's message without what an editor has added."""
    return AROUND.sub("", text).strip()


def last_observation(text: str) -> str | None:
    """Return the last result that a text with a history has."""
    for form in OBSERVED:
        if found := form.match(text) or (form is OBSERVED[0] and form.search(text)):
            return "\n".join(part for part in found.groups() if part)
    return None


def _dumped(arguments: Any) -> str:
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


def _arguments(text: str) -> str:
    """Return arguments in canonical form; the text itself where they are not JSON."""
    try:
        return _dumped(json.loads(text))
    except ValueError:
        return text.strip()


def _commands(text: str) -> Iterator[Written]:
    for command in BASH.findall(text) or DISCUSSED.findall(text):
        yield "bash", _dumped({"command": command})


def _code(text: str) -> Iterator[Written]:
    for code in CODE.findall(text):
        yield "python", _dumped({"code": code})


def _tool_calls(text: str) -> Iterator[Written]:
    for call in TOOL_CALL.findall(text):
        yield from _named(call)


def _named(text: str) -> Iterator[Written]:
    try:
        call = json.loads(text)
    except ValueError:
        return
    if isinstance(call, dict) and isinstance(call.get("name"), str):
        yield call["name"], _dumped(call.get("arguments", {}))


def _actions(text: str) -> Iterator[Written]:
    for name, arguments in ACTION.findall(text):
        yield name, _arguments(arguments)


def _fields(text: str) -> Iterator[Written]:
    for name, arguments in FIELDS.findall(f"{text}\n\n"):
        if name != "finish":
            yield name, _arguments(arguments)


def _elements(text: str) -> Iterator[Written]:
    for name, inner, _ in ELEMENT.findall(text):
        yield name, _dumped(dict(FIELD.findall(inner)))


def _answers(text: str) -> Iterator[Written]:
    """Yield the actions of an answer that is one JSON object."""
    if not text.lstrip().startswith("{"):
        return
    try:
        answer = json.loads(text)
    except ValueError:
        return
    actions = answer.get("action", []) if isinstance(answer, dict) else []
    for action in actions if isinstance(actions, list) else []:
        for name, arguments in action.items():
            if name not in ("done", "finish"):
                yield name, _dumped(arguments)


_FORMS: tuple[Callable[[str], Iterator[Written]], ...] = (
    _tool_calls,
    _commands,
    _code,
    _actions,
    _fields,
    _elements,
    _answers,
)
