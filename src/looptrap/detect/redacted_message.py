"""Stand-ins: messages of which nothing is left but what the signals ask.

Every text becomes keyed digests beside a few fixed words, and is read by the same code as the text
itself. So the digests are spelt in what that code takes for what it stands for:

letters g to v   what must be the same when volatile tokens are masked: none of them looks like one
0x and digits    what must be the same to the letter: masked as an id is
fixed words      that it failed, brought nothing, goes on by itself, waits, alters something …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

import msgspec

from looptrap.detect.call_kind import (
    MAX_ACKNOWLEDGEMENT_CHARS,
    adds_something,
    changes_something,
    is_poll,
    is_put_off,
    is_step,
)
from looptrap.detect.canonical import LONG_TEXT, join, normalise
from looptrap.detect.failure import failure_of, is_empty_result, is_test_report
from looptrap.detect.mask import mask, mask_result
from looptrap.detect.round import MAX_RESULT_CHARS, NUDGE_MARK, without_nudge
from looptrap.detect.signals.signal import SignalOptions
from looptrap.detect.signals.unknown_tool import UnknownTool
from looptrap.detect.similarity import gist_of_result
from looptrap.detect.trajectory import Trajectory, begins_turn
from looptrap.dialect.content import UNREADABLE, malformed
from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult

ROLES = frozenset(("system", "user", "assistant", "tool", ""))
"""Roles that stay as they are; any other is a client's own word."""

MAX_RESULT_LENGTH = 1 << 20
"""Results are read as no longer than this, whatever a file says."""

_DEEDS = ("", "touch ", '"action":"edit" ', '"action":"create" ', '"action":"view" ')
"""What arguments may tell of what a call does: the first that tells the same is taken."""

_TOOLS = ("", "view", "edit")
"""Names that tell nothing of it, that nothing is altered, and that something is."""

_NO_ONE: frozenset[str] = frozenset()
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
_SIGNS = str.maketrans("0123456789abcdef", "!#$%()*+,-./:;=?")
_DIGITS = 10**16


class RedactedResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What stands for the result of a tool."""

    call_id: str
    text: str
    length: int
    """How many characters the result had."""
    is_error: bool = False
    name: str = ""


class RedactedMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What stands for a message."""

    role: str
    size: int
    """How many bytes the message took as it was sent."""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[RedactedResult, ...] = ()


_decode = msgspec.json.Decoder(RedactedMessage).decode


def read_redacted(raw: msgspec.Raw) -> Message:
    """Read a stand-in as the message it stands for."""
    try:
        sent = _decode(raw)
    except UNREADABLE:
        return malformed(raw)
    results = tuple(
        # As long as the result was: one that grows is told from one that stays by its length.
        ToolResult(
            one.call_id, one.text.ljust(min(one.length, MAX_RESULT_LENGTH)), one.is_error, one.name
        )
        for one in sent.results
    )
    return Message(sent.role, sent.text, sent.calls, results)


def original_size(raw: msgspec.Raw) -> int:
    """Return how many bytes the message took that a stand-in stands for."""
    try:
        return _decode(raw).size
    except UNREADABLE:
        return 0


class Redactor:
    """Makes stand-ins, under one secret: without it nobody can try what a digest may be of."""

    def __init__(self, secret: bytes) -> None:
        self._keyed = {
            what: blake2b(digest_size=16, key=secret[:64], person=b"lt-%b" % what)
            for what in (b"name", b"gist", b"exact", b"failure")
        }

    def of(self, messages: Iterable[tuple[Message, int]]) -> Iterator[RedactedMessage]:
        """Yield what stands for messages that follow each other, each with the bytes it took."""
        called: dict[str, str] = {}
        for message, size in messages:
            called.update((call.id, call.name) for call in message.calls)
            role = message.role
            yield RedactedMessage(
                role if role in ROLES else f"?{self.name(role)}",
                size,
                self._text(message),
                tuple(map(self._call, message.calls)),
                tuple(
                    self._result(one, one.name or called.get(one.call_id, ""))
                    for one in message.results
                ),
            )

    def name(self, text: str) -> str:
        """Return what stands for an id or a name; nothing for nothing."""
        return self._digest(b"name", join([text])).translate(_LETTERS)[:16] if text else ""

    def _text(self, message: Message) -> str:
        text = message.text
        if not text.strip():
            return ""
        exact = normalise([text])
        if message.role == "user" and not message.results and not begins_turn(message):
            return f"continue{self._digest(b'exact', exact).translate(_SIGNS)[:16]}"
        return self._both(_gist(text, mask), exact)

    def _call(self, call: ToolCall) -> ToolCall:
        arguments = call.arguments
        words = self._both(_gist(arguments, mask_result), join([arguments]))
        if is_poll(_NO_ONE, arguments, ""):
            words = f"wait {words}"
        deed = _deed(arguments)
        told = next((one for one in _DEEDS if _deed(one + words) == deed), "")
        return ToolCall(self.name(call.id), call.name, told + words)

    def _result(self, result: ToolResult, tool: str) -> RedactedResult:
        text = without_nudge(result.text) if NUDGE_MARK in result.text else result.text
        told = self._told(text, result, tool) if text.strip() else ""
        return RedactedResult(
            self.name(result.call_id), told, len(text), result.is_error, result.name
        )

    def _told(self, text: str, result: ToolResult, tool: str) -> str:
        """Return what stands for a text that is not blank, whether or not it is marked an error."""
        failure = failure_of(text)
        words = []
        if failure is None and failure_of(text, is_error=True) is None:
            words.append("exit code 0")  # which speaks louder than any error
        if is_poll(_NO_ONE, "", text):
            words.append("running")
        if is_put_off(text):
            words.append("try again later")
        if len(text) <= MAX_ACKNOWLEDGEMENT_CHARS and not is_step(_NO_ONE, text):
            words.append("[part 0000000000000000]")  # an image, or the like
        if failure is None and is_empty_result(text):
            words.append("no output")
        if tool and tool in text and _is_unknown(tool, text):
            words.append(f"unknown tool {tool}")
        gist = gist_of_result(text[:MAX_RESULT_CHARS], result.is_error or failure is not None)
        words.append(self._both(gist, normalise([result.text])))
        told = " ".join(words)
        if failure is None:
            return told
        which = self._digest(b"failure", join([failure])).translate(_LETTERS)
        return f"error {which}{' 1 failed' if is_test_report(failure) else ''}\n{told}"

    def _both(self, gist: bytes, exact: bytes) -> str:
        digits = int(self._digest(b"exact", exact), 16) % _DIGITS
        return f"{self._digest(b'gist', gist).translate(_LETTERS)} 0x{digits:016}"

    def _digest(self, what: bytes, content: bytes) -> str:
        keyed = self._keyed[what].copy()
        keyed.update(content)
        return keyed.hexdigest()


def _gist(text: str, masking: Callable[[str], str]) -> bytes:
    return normalise([masking(text) if len(text) <= LONG_TEXT else text])


def _is_unknown(tool: str, text: str) -> bool:
    """Say whether a result tells that there is no such tool: the signal itself is asked."""
    called = Message("assistant", "", (ToolCall("1", tool, "{}"),))
    answered = Message("tool", "", (), (ToolResult("1", text),))
    call = Call(Request(), "http", _messages=[called, answered])
    return UnknownTool(SignalOptions(1))(Trajectory(call)) is not None


def _deed(arguments: str) -> list[bool]:
    """Return what arguments make of a call, whatever its tool is called."""
    return [
        says(tool, arguments) for tool in _TOOLS for says in (changes_something, adds_something)
    ]
