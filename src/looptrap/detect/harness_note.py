"""Harness notes: what a harness puts around a result, which says nothing about the call.

Reminders, the state of an editor, the frame of a shell. A note that is all of a result is its
content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from looptrap.dialect.content import canonical, decode_or_none

_BLOCKS = ("system-reminder", "environment_details", "usage")
"""Tags of blocks that harnesses add before or after a result."""
_OPENINGS = tuple(f"<{name}>" for name in _BLOCKS)
NOTE_MARKS = tuple(f"{name}>".encode() for name in _BLOCKS)
"""What the bytes of a message contain that has such a block."""

MAX_NOTES = 8
"""Most blocks that are taken from one end."""

_TERMINALS = re.compile(
    r"^# (?:Actively Running|Inactive) Terminals.*?(?=^# |\Z)", re.MULTILINE | re.DOTALL
)
"""The part of an editor's state that says what commands printed since."""

_FIRST_WORDS = (
    *_OPENINGS,
    *("Chunk ID: ", "Wall time: ", "Exit code: ", "Process exited ", "Process running "),
    *("Command: ", "Output: "),
)
_FIRST_LETTERS = frozenset(word[0] for word in _FIRST_WORDS)
_SPACES = frozenset(" \n\r\t")
MAX_WRAPPED_CHARS, MAX_WRAPPED_DEPTH = 65_536, 3
_JSON_STARTS, _JSON_ENDS = ("{", "["), ("}", "]")
MAX_HEADER_LINES = 8
MAX_TRAILER_LINES = 8
MAX_TRAILER_CHARS = 2_000

_VOLATILE_LINE = re.compile(
    r"(?:Chunk ID|Wall time|Original token count): [\w.]{1,40}(?: seconds?)?"
)
_EXITED = re.compile(r"Process exited with code (-?\d{1,5})")
_BLANK_LINE = re.compile(
    r"(?:Error|Exit Code|Signal): \(none\)|(?:Background PIDs|Process Group PGID): [^\n]*"
)
_STATUS_LINE = re.compile(r"(?:Exit Code|Signal): [^\n]*")
_PLACE_LINE = re.compile(r"\[(?:Current working directory|Python interpreter): [^\n]*\]")


def without_notes(text: str) -> str:
    """Return a result without what its harness added; unchanged where nothing else would be left.

    For most results the first word and the last character are all that is looked at.
    """
    if text[:1] in _JSON_STARTS and text[-1:] in _JSON_ENDS:
        text = _unwrapped(text)
    last = text[-1:]
    if last in _SPACES:
        last = text[-16:].rstrip()[-1:]
    if last == ">":
        text = _without_blocks_after(text)
    if text[:1] in _FIRST_LETTERS and text.startswith(_FIRST_WORDS):
        return _without_blocks_before(text) if text[0] == "<" else _without_frame(text)
    return _without_place(text) if last == "]" else text


def _unwrapped(text: str) -> str:
    """Return the only text in an object of JSON, with the other values below it.

    A failure reads the same whether a framework writes it as it is, or as `{"output": "…"}`. A text
    has several lines, or is all that there is beside names of types.
    """
    if len(text) > MAX_WRAPPED_CHARS:
        return text
    value: Any = decode_or_none(text)
    if value is None:
        return text
    places = list(_strings(value, 0))
    found = [place for place in places if "\n" in place[0][place[1]]]
    if not found and len(places) == 1 and " " in places[0][0][places[0][1]]:
        found = places
    if len(found) != 1:
        return text
    holder, name = found[0]
    if "err" in str(name).lower():
        return text
    inner = holder[name]
    del holder[name]
    return f"{inner}\n{canonical(value)}" if _has_scalars(value) else inner


def _strings(value: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    """Yield where strings stand: what holds them, and their name or place in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in items:
        if type(item) is str and name != "type":
            yield value, name
        elif isinstance(item, (dict, list)) and depth < MAX_WRAPPED_DEPTH:
            yield from _strings(item, depth + 1)


def _has_scalars(value: Any) -> bool:
    """Return whether anything but names of types is left."""
    if isinstance(value, dict):
        return any(_has_scalars(item) for name, item in value.items() if name != "type")
    return any(map(_has_scalars, value)) if isinstance(value, list) else True


def _without_blocks_after(text: str) -> str:
    rest, kept = text, ""
    for _ in range(MAX_NOTES):
        rest = rest.rstrip()
        name = next((name for name in _BLOCKS if rest.endswith(f"</{name}>")), None)
        start = -1 if name is None else rest.rfind(f"<{name}>")
        if start < 0:
            break
        kept = _news_in(rest[start:]) + kept
        rest = rest[:start]
    return f"{rest}{kept}" if rest.strip() else text


def _without_blocks_before(text: str) -> str:
    rest, kept = text, ""
    for _ in range(MAX_NOTES):
        name = next((name for name in _BLOCKS if rest.startswith(f"<{name}>")), None)
        end = -1 if name is None else rest.find(f"</{name}>")
        if name is None or end < 0:
            break
        end += len(name) + 3
        kept += _news_in(rest[:end])
        rest = rest[end:].lstrip()
    return f"{rest}{kept}" if rest else text


def _news_in(block: str) -> str:
    """Return what a block says about commands that run."""
    found = _TERMINALS.findall(block) if "Terminals" in block else ()
    return "".join(f"\n{part.removesuffix('</environment_details>').rstrip()}" for part in found)


def _without_frame(text: str) -> str:
    """Return what a shell printed, and its exit status, without the harness's other lines."""
    if text.startswith(("Command: ", "Output: ")):
        return _without_labels(text)
    lines = text.split("\n", MAX_HEADER_LINES)
    kept: list[str] = []
    for place, line in enumerate(lines):
        if line.rstrip() == "Output:":
            return "\n".join([*kept, *lines[place + 1 :]])
        if _VOLATILE_LINE.fullmatch(line) is None:
            status = _EXITED.fullmatch(line)
            kept.append(line if status is None else f"Exit code: {status[1]}")
    return text


def _without_labels(text: str) -> str:
    start = 0 if text.startswith("Output: ") else text.find("\nOutput: ") + 1
    if text.startswith("Command: ") and not (start and "\nDirectory: " in text[:start]):
        return text
    lines = text[start + len("Output: ") :].rstrip().rsplit("\n", MAX_TRAILER_LINES)
    kept: list[str] = []
    end = len(lines)
    while end and (_BLANK_LINE.fullmatch(lines[end - 1]) or _STATUS_LINE.fullmatch(lines[end - 1])):
        end -= 1
        if _BLANK_LINE.fullmatch(lines[end]) is None:
            kept.insert(0, lines[end])
    if end == len(lines):
        return text
    output = "\n".join(lines[:end])
    return "\n".join([*([] if output in ("", "(empty)") else [output]), *kept])


def _without_place(text: str) -> str:
    """Return a result without where a shell stands, in brackets before its exit status."""
    if "\n[" not in text[-MAX_TRAILER_CHARS:]:
        return text
    lines = text.rstrip().rsplit("\n", MAX_TRAILER_LINES)
    end = len(lines)
    while end and lines[end - 1][:1] == "[" and lines[end - 1][-1:] == "]":
        end -= 1
    trailer = [line for line in lines[end:] if _PLACE_LINE.fullmatch(line) is None]
    if len(trailer) == len(lines) - end or not any(line.strip() for line in lines[:end]):
        return text
    return "\n".join([*lines[:end], *trailer])
