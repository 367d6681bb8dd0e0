"""How values and places are worded: in messages, escaped and shortened; as TOML, for a file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any

MAX_QUOTED_CHARS = 60


def escaped(text: str) -> str:
    """Return the text with everything that could disturb a terminal written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(text: str) -> str:
    """Return the text in quotes, shortened and safe to print."""
    shown = text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "…"
    return f'"{escaped(shown)}"'


def shown(value: object) -> str:
    """Return the value as it is written in TOML; durations lose a needless `.0`."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + escaped(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'
        case int():
            # Python refuses to write whole numbers of more than 4,300 digits.
            return str(value) if value.bit_length() <= 256 else "a whole number beyond all limits"
        case float():
            return str(int(value)) if math.isfinite(value) and value.is_integer() else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            pairs = ", ".join(f"{inside('', key)} = {shown(v)}" for key, v in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case list() | tuple():
            return "[" + ", ".join(map(shown, value)) + "]"
        case None:
            return "null"
        case _:
            return quoted(str(value))


def toml_table(header: str, values: Mapping[str, Any]) -> str:
    """Return a table under its header; lists of tables are left out."""
    return "\n".join((header, *toml_lines(values))) + "\n"


def toml_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each value; lists of tables have headers of their own, and are left out."""
    for name, value in values.items():
        if not (isinstance(value, list) and value and isinstance(value[0], dict)):
            yield f"{name} = {shown(value)}"


def found(value: object) -> str:
    """Say what a value is, without repeating much of it."""
    match value:
        case str():
            return f"the text {quoted(value)}"
        case dict():
            return "a table"
        case list():
            return "a list"
        case datetime() | date() | time():
            return f"the time {shown(value)}"
        case float():
            return str(value)
        case _:
            return shown(value)


def listed(words: Sequence[str], last: str) -> str:
    """Return `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def suggestion(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `, did you mean …?` when a known word is close, else nothing."""
    close = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f", did you mean {close[0]}?" if close else ""


def inside(place: str, name: str, *, raw: bool = False) -> str:
    """Return the place of `name` in the table at `place`; quoted unless it is a bare key."""
    if not raw and not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        name = shown(name)
    if not place or not name or name.startswith("["):
        return place + name
    return f"{place}.{name}"
