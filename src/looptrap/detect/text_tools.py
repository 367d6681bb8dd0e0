"""Agents that call tools in plain text: the model writes an action, its harness answers as a user.

How such an answer begins or ends shows that no person wrote it. The message before it is then a
tool call, and the answer its result.
"""

from __future__ import annotations

import re

from looptrap.dialect.model import Message, ToolCall, ToolResult

TEXT_TOOL_NAME = "(in text)"
"""The name of a tool that is called in plain text."""

MAX_PREFIX_BYTES = 240

_BEGINS = re.compile(
    r"""\W{0,3}(?:
      observation s?\b
    | execution\ (?:result|output)s?\b
    | (?:command|tool|code|function|script|terminal)\ (?:output|result|response)s?\b
    | (?:output|results?)\ of\ (?:the\ )?(?:tool|command|action|function|code)\b
    | returncode> | output>
    | tool_(?:result|response|output)\b
    | call\ id:
    | \w+(?:\ for\ [^\]\n]{0,160})?\]\ result:
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_MARKS = " \n\t*#<[("
_FIRST = (
    *("observation", "execution", "command", "tool", "code", "function", "script", "terminal"),
    *("output", "result", "returncode", "call id"),
)
"""First words of such an answer: a cheap test before the pattern."""

_ENDS = re.compile(r"(?:bash-?|shell|root@\S{1,40})[\d.]*[#$]\s*\Z")
"""A shell prompt."""

_RAW = re.compile(
    rb"observation|execution (?:result|output)|(?:output|result|response)s?[ :\\]|returncode>"
    rb"|output>|tool_(?:result|response|output)|call id:|\] result:|[#$]\s*\W{0,4}\Z",
    re.IGNORECASE,
)
_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(
    r"""(['"])id\1:\ ?(['"])[^'"]{1,80}\2,\ ?(?=(['"])type\3:\ ?(['"])function\4)""", re.VERBOSE
)
"""The id of a call written in the API's form: it differs each time."""
_ACTION = re.compile(r"^\W{0,3}action\b.*", re.IGNORECASE | re.MULTILINE | re.DOTALL)


def may_be_observation(raw: memoryview) -> bool:
    """Return, without decoding a message, whether it may be an observation."""
    return _RAW.search(bytes(raw[:MAX_PREFIX_BYTES]) + bytes(raw[-40:])) is not None


def is_observation(text: str) -> bool:
    """Return whether a user's message is a harness's answer to an action in text."""
    # For most messages, which persons write, this test is enough.
    start = text[:24].lstrip(_MARKS).lower()
    if (start.startswith(_FIRST) or text[:1] == "[") and _BEGINS.match(text) is not None:
        return True
    return text[-3:].rstrip()[-1:] in ("#", "$") and _ENDS.search(text[-60:]) is not None


def text_as_call(message: Message) -> Message:
    """Return the assistant's text as a tool call: only the action, where it can be recognised."""
    blocks = _FENCED.findall(message.text)
    if blocks:
        action = "\n".join(blocks)
    else:
        found = _ACTION.search(message.text)
        action = found[0] if found else message.text
    action = _NUMBER.sub("", action.strip())
    return Message("assistant", message.text, (ToolCall("", TEXT_TOOL_NAME, action),))


def text_as_result(message: Message) -> Message:
    """Return the harness's answer as the result of that call."""
    return Message("tool", "", (), (ToolResult("", message.text, name=TEXT_TOOL_NAME),))
