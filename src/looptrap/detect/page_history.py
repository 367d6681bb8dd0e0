"""Page histories: the steps of a browser agent in one prompt, with the page as it is now.

browser-use lists what was done inside `<agent_history>`, step by step, and shows only the page that
the latest step led to. So a request shows one round whole. The pages before it were in the requests
before, and are known from the memory of the run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

_BEGIN, _END = "<agent_history>", "</agent_history>"

MAX_HISTORY_CHARS = 100_000
"""Characters at the end of a history that are read."""

MAX_COMPARED_STEPS = 4
"""Latest steps by which a run is known again."""

_STEP_TAG = re.compile(r"<(/?)step(?:_(\d{1,5}))?>:?")
_RESULT = re.compile(
    r"^(?:(?:action|tool) results?|results?|actions?) ?(?::|$)\s*", re.IGNORECASE | re.MULTILINE
)
"""What stands before the actions of a step and what came of them."""
_NUMBERED = re.compile(r"^action \d{1,3}/\d{1,3}:.*", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"^action \d{1,3}/\d{1,3}:", re.IGNORECASE)
_WORD = re.compile(r"[a-z][a-z_]{0,40}", re.IGNORECASE)
_STEP_INFO = re.compile(r"<step_info>[^<]*</step_info>")
_STEP_COUNT = re.compile(r"^step (\d{1,5}) of \d{1,5}\b.*\n?", re.IGNORECASE | re.MULTILINE)


class PageStep(NamedTuple):
    """The latest step of a browser agent."""

    action: str
    """What it did: the first line about each action. The others may tell what a page logs."""
    tool: str
    """The first word of that."""
    page: str
    """What else the prompt shows now, apart from how many steps there were."""
    id: str
    """Names the step, with those before it …"""
    id_before: str
    """… and the step before; empty for the first."""


def may_have_pages(text: str) -> bool:
    """Return whether a prompt may be such a history: most are not."""
    return _END in text


def page_step(text: str) -> PageStep | None:
    """Return the latest step in a prompt that is such a history; None for any other."""
    end = text.rfind(_END)
    begin = text.find(_BEGIN, 0, max(end, 0))
    rest = text[end + len(_END) :]
    if begin < 0 or not rest.strip():
        return None
    history = text[max(begin + len(_BEGIN), end - MAX_HISTORY_CHARS) : end]
    steps, number = _steps_in(history)
    action = _action_in(steps[-1]) if steps else ""
    if not action:
        return None
    before = _id_of(steps[:-1], number - 1) if len(steps) > 1 else ""
    page = _without_count(text[:begin] + rest, number)
    tool = _WORD.search(_NUMBER.sub("", action, count=1))
    return PageStep(action, tool[0] if tool else "", page, _id_of(steps, number), before)


def _steps_in(history: str) -> tuple[Sequence[str], int]:
    """Return the texts of the steps, and the number of the latest one."""
    steps: list[str] = []
    number, opened = 0, -1
    for tag in _STEP_TAG.finditer(history):
        if not tag[1]:
            opened, number = tag.end(), int(tag[2] or number + 1)
        elif opened >= 0:
            steps.append(history[opened : tag.start()].strip())
            opened = -1
    return steps, number


def _action_in(step: str) -> str:
    label = _RESULT.search(step)
    if label is None:
        return ""
    acted = step[label.end() :]
    return "\n".join(_NUMBERED.findall(acted)) or acted.partition("\n")[0].strip()


def _without_count(text: str, number: int) -> str:
    """Return a text without how many steps there were, which the harness counts."""
    counted = (str(number), str(number + 1))
    text = _STEP_INFO.sub("", text)
    return _STEP_COUNT.sub(lambda line: "" if line[1] in counted else line[0], text).strip()


def _id_of(steps: Sequence[str], number: int) -> str:
    content = "\0".join([str(number), *steps[-MAX_COMPARED_STEPS:]])
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
