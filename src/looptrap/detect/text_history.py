"""Histories in text: all rounds of an agent written into one message, which grows with each call.

`Thought: … Action: … Action Input: … Observation: …`, as LangChain's and CrewAI's ReAct agents do,
and fields such as `[[ ## tool_name_3 ## ]]`, as DSPy's do. The message must end where the model is
to write the next step: a log that a person or a judge asks about does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from looptrap.dialect.content import canonical_arguments
from looptrap.dialect.model import Message, ToolCall, ToolResult

MAX_STEPS = 40
"""Latest steps that are read."""

END_CHARS = 16_384
"""Characters at the end of a message in which its latest observation begins."""

MAX_TEXT_CHARS = 400_000
"""Characters at the end of a message that are read."""

MAX_NAME_CHARS = 100

_HINT = "bservation"

_LABEL = re.compile(
    r"^[ \t]*(thought|action input|action|observation|question|q|task|query|user|human|goal|example"
    r"|current task|final answer|answer|begin)(?:[ ]?\d{1,3})?[ ]?[:!][ ]?",
    re.IGNORECASE | re.MULTILINE,
)
_FIELD = re.compile(
    r"(?:\[\[ ## |<)(thought|tool_name|tool_args|tool_calls|observation)_(\d{1,4})(?: ## \]\]|>)"
)
_NEXT_STEP = "next_t"
"""Of `next_thought`, `next_tool_name` and `next_tool_calls`: what is asked for."""
_STEP_LABELS = frozenset(("thought", "action", "action input", "observation"))


class TextStep(NamedTuple):
    """One step as it is written: a tool, its input, and what came back."""

    tool: str
    arguments: str
    observation: str

    def messages(self, *, is_named: bool, name: str) -> tuple[Message, Message]:
        """Return the step as a tool call and its result; the tool as `name` if not `is_named`."""
        if is_named:
            called = ToolCall("", self.tool, canonical_arguments(self.arguments))
        else:
            called = ToolCall("", name, f"{self.tool} {self.arguments}")
        result = ToolResult("", self.observation, name=called.name)
        return Message("assistant", "", (called,)), Message("tool", "", (), (result,))


def may_have_steps(text: str) -> bool:
    """Return whether a message may be a history in text: most are not."""
    return text.find(_HINT, -END_CHARS) >= 0


def steps_in_prompt(text: str) -> Sequence[TextStep]:
    """Return the latest steps of the agent whose history a prompt contains, the latest first.

    None in a prompt that asks for something else than the next step, or of worked examples.
    """
    text = text[-MAX_TEXT_CHARS:]
    if _NEXT_STEP in text:
        return _latest(_field_steps(text))
    labels = list(_LABEL.finditer(text))
    if not labels or not _is_open(text, labels[-1]):
        return ()
    return _latest(_labelled_steps(text, labels[:-1], labels[-1].start()))


def steps_in_answer(text: str) -> Sequence[TextStep]:
    """Return the steps that an assistant's message contains with their results, the latest first.

    Some harnesses add each result to the answer itself.
    """
    text = text[-MAX_TEXT_CHARS:]
    return _latest(_labelled_steps(text, list(_LABEL.finditer(text)), len(text)))


def _latest(steps: Iterator[TextStep]) -> Sequence[TextStep]:
    return list(steps)[: -MAX_STEPS - 1 : -1]


def _is_open(text: str, last: re.Match[str]) -> bool:
    """Return whether a text ends with the label of a thought or an action that is to follow."""
    return last[1].lower() in ("thought", "action") and not text[last.end() :].strip()


def _labelled_steps(text: str, labels: Sequence[re.Match[str]], end: int) -> Iterator[TextStep]:
    """Yield the steps since the latest question; those before it are examples."""
    begin = 0
    for place, label in enumerate(labels):
        if label[1].lower() not in _STEP_LABELS:
            begin = place + 1
    ends = [*(label.start() for label in labels[begin + 1 :]), end]
    tool = arguments = ""
    for label, until in zip(labels[begin:], ends, strict=False):
        value = text[label.end() : until].strip()
        kind = label[1].lower()
        if kind == "action":
            tool, arguments = value[:MAX_NAME_CHARS], value[MAX_NAME_CHARS:]
        elif kind == "action input":
            arguments = value
        elif kind == "observation" and tool:
            yield TextStep(tool, arguments, value)
            tool = arguments = ""


def _without_request(text: str) -> str:
    """Return the latest observation without what asks for the next step behind it."""
    asked = text.find(_NEXT_STEP)
    start = text.rfind("\n\n", 0, max(asked, 0))
    return text if asked < 0 or start < 0 else text[:start]


def _field_steps(text: str) -> Iterator[TextStep]:
    """Yield the steps of numbered fields; those before the numbers begin again are examples."""
    fields = list(_FIELD.finditer(text))
    if not fields or _NEXT_STEP not in text[fields[-1].end() :]:
        return
    begin = 0
    for place in range(1, len(fields)):
        if not 0 <= int(fields[place][2]) - int(fields[place - 1][2]) <= 1:
            begin = place
    ends = [*(field.start() for field in fields[begin + 1 :]), len(text)]
    step: dict[str, str] = {}
    for field, until in zip(fields[begin:], ends, strict=True):
        kind, number = field[1], field[2]
        if kind == "thought":
            step = {}
        value = text[field.end() : until]
        if until == len(text):
            value = _without_request(value)
        step[kind] = value.strip().removesuffix(f"</{kind}_{number}>").rstrip()
        if kind == "observation" and ("tool_name" in step or "tool_calls" in step):
            arguments = step.get("tool_args", step.get("tool_calls", ""))
            tool = step.get("tool_name", "")[:MAX_NAME_CHARS] or "tools"
            yield TextStep(tool, arguments, step[kind])
            step = {}
