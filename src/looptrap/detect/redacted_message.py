"""Redacted messages: digests and fixed words in place of texts, with all that the signals need.

A redacted message is read by the same code as the text itself. So digests are spelt such that this
code treats them like the original:

letters g to v   equal when the masked texts are equal: none of them looks volatile
0x and digits    equal when the exact texts are equal: masked like an id
fixed words      that a call failed, returned nothing, is in progress, waits, changes something …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

import msgspec

from looptrap.detect.call_kind import (
    MAX_ACKNOWLEDGEMENT_CHARS,
    adds_something,
    changes_something,
    is_deferred,
    is_poll,
    is_step,
    only_looks,
)
from looptrap.detect.call_spelling import spelling
from looptrap.detect.canonical import LONG_TEXT, join, mask, mask_arguments, normalise
from looptrap.detect.failure import (
    failure_of,
    is_check,
    is_empty_result,
    is_success_report,
    is_test_report,
)
from looptrap.detect.round import MAX_RESULT_CHARS, is_random_id, plain_result
from looptrap.detect.signals.signal import SignalOptions
from looptrap.detect.signals.unknown_tool import UnknownTool
from looptrap.detect.similarity import gist_of_result
from looptrap.detect.summary import is_summary
from looptrap.detect.trajectory import Trajectory, begins_turn
from looptrap.dialect.content import UNREADABLE, malformed_message
from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult

ROLES = frozenset(("system", "user", "assistant", "tool", ""))
"""Roles that are not redacted; any other was chosen by a client."""

MAX_RESULT_LENGTH = 1 << 20
"""Longest result that is rebuilt, whatever length a file gives."""

_EFFECT_PREFIXES = (
    "",
    "cat ",
    "touch ",
    '"action":"edit" ',
    '"action":"create" ',
    '"action":"view" ',
)
"""Prefixes for redacted arguments: the first with the effects of the original is used."""

_TOOL_NAMES = ("", "view", "edit")
"""Tool names that say nothing about the effect, that say read, and that say change."""

_NO_NAMES: frozenset[str] = frozenset()
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
_SIGNS = str.maketrans("0123456789abcdef", "!#$%()*+,-./:;=?")
_DIGITS = 10**16


class RedactedResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The redacted result of a tool."""

    call_id: str
    text: str
    length: int
    """How many characters the result had."""
    is_error: bool = False
    name: str = ""


class RedactedMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A redacted message."""

    role: str
    size: int
    """How many bytes the message took as it was sent."""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[RedactedResult, ...] = ()


_decode = msgspec.json.Decoder(RedactedMessage).decode


def read_redacted(raw: msgspec.Raw) -> Message:
    """Read a redacted message as the signals would read the original."""
    try:
        sent = _decode(raw)
    except UNREADABLE:
        return malformed_message(raw)
    results = tuple(
        # As long as the original: signals recognise a growing result by its length.
        ToolResult(
            result.call_id,
            result.text.ljust(min(result.length, MAX_RESULT_LENGTH)),
            result.is_error,
            result.name,
        )
        for result in sent.results
    )
    return Message(sent.role, sent.text, sent.calls, results)


def original_size(raw: msgspec.Raw) -> int:
    """Return the bytes of the original message."""
    try:
        return _decode(raw).size
    except UNREADABLE:
        return 0


class Redactor:
    """Redacts messages under one secret: without it no guess can be checked against a digest."""

    def __init__(self, secret: bytes) -> None:
        self._keyed = {
            what: blake2b(digest_size=16, key=secret[:64], person=b"lt-%b" % what)
            for what in (b"name", b"gist", b"exact", b"failure")
        }

    def of(self, messages: Iterable[tuple[Message, int]]) -> Iterator[RedactedMessage]:
        """Yield redacted messages for consecutive messages, each given with its size in bytes."""
        called: dict[str, str] = {}
        for message, size in messages:
            called.update((call.id, call.name) for call in message.calls)
            role = message.role
            yield RedactedMessage(
                role if role in ROLES else f"?{self.name(role)}",
                size,
                self._text(message),
                tuple(map(self.call, message.calls)),
                tuple(
                    self._result(result, result.name or called.get(result.call_id, ""))
                    for result in message.results
                ),
            )

    def name(self, text: str) -> str:
        """Return the digest of an id or a name; empty for an empty one."""
        return self._digest(b"name", join([text])).translate(_LETTERS)[:16] if text else ""

    def call_id(self, id: str) -> str:
        """Return the digest of a tool-call id; with a digit if no other call has that id."""
        name = self.name(id)
        return f"{name}0" if name and is_random_id(id) else name

    def _text(self, message: Message) -> str:
        text = message.text
        if not text.strip():
            return ""
        exact = normalise([text])
        if message.role == "user" and not message.results and not begins_turn(message):
            return f"continue{self._digest(b'exact', exact).translate(_SIGNS)[:16]}"
        words = self._both(_gist(text, mask), exact)
        is_opening = message.role != "assistant" and is_summary(text)
        return f"summary {words}" if is_opening else words

    def call(self, call: ToolCall) -> ToolCall:
        """Return a redacted call of a tool."""
        arguments = call.arguments
        spelt = spelling(arguments)
        words = self._both(_gist(spelt, mask_arguments), join([spelt]))
        if is_poll(_NO_NAMES, arguments, ""):
            words = f"wait {words}"
        if is_check(arguments):
            words = f"lint {words}"
        effects = _effects(arguments)
        fitting = (prefix for prefix in _EFFECT_PREFIXES if _effects(prefix + words) == effects)
        return ToolCall(self.call_id(call.id), call.name, next(fitting, "") + words)

    def _result(self, result: ToolResult, tool: str) -> RedactedResult:
        text = plain_result(result.text)
        redacted = self._redacted_text(text, result, tool) if text.strip() else ""
        return RedactedResult(
            self.call_id(result.call_id), redacted, len(text), result.is_error, result.name
        )

    def _redacted_text(self, text: str, result: ToolResult, tool: str) -> str:
        """Return the redacted form of a result's text, which is not blank."""
        failure = failure_of(text)
        words = []
        if failure is None and failure_of(text, is_error=True) is None:
            words.append("exit code 0")  # overrides any error word
        if is_poll(_NO_NAMES, "", text):
            words.append("running")
        if is_deferred(text):
            words.append("try again later")
        if len(text) <= MAX_ACKNOWLEDGEMENT_CHARS and not is_step(_NO_NAMES, text):
            words.append("[part 0000000000000000]")  # an image, or the like
        if failure is None and is_empty_result(text):
            words.append("no output")
        if failure is None and is_success_report(text):
            words.append("clean")
        if tool and tool in text and _is_unknown(tool, text):
            words.append(f"unknown tool {tool}")
        gist = gist_of_result(text[:MAX_RESULT_CHARS], result.is_error or failure is not None)
        words.append(self._both(gist, normalise([result.text])))
        redacted = " ".join(words)
        if failure is None:
            return redacted
        which = self._digest(b"failure", join([failure])).translate(_LETTERS)
        return f"error {which}{' 1 failed' if is_test_report(failure) else ''}\n{redacted}"

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
    """Return whether a result says that there is no such tool, by asking the signal itself."""
    called = Message("assistant", "", (ToolCall("1", tool, "{}"),))
    answered = Message("tool", "", (), (ToolResult("1", text),))
    call = Call(Request(), "http", _messages=[called, answered])
    return UnknownTool(SignalOptions(1))(Trajectory(call)) is not None


def _effects(arguments: str) -> list[bool]:
    """Return the effects that arguments give to a call of tools with various names."""
    return [
        says(tool, arguments)
        for tool in _TOOL_NAMES
        for says in (changes_something, adds_something, only_looks)
    ]
