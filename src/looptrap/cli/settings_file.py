"""Settings files of other programs: values in them are read, and changed without losing others."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from looptrap.errors import ConfigError, Problem
from looptrap.gateway.state_file import write_atomically
from looptrap.schema.wording import escaped, found

Key = tuple[str, ...]
"""The names of the tables around a value, and its own."""

Values = Mapping[Key, str | bool]

Form = Literal["json", "toml", "env", "yaml"]


class UnchangeableError(ValueError):
    """Why a file cannot be changed by a program."""


def read_value(path: Path, key: Key) -> str:
    """Return a text in a file; "" where it, or the file, cannot be read."""
    try:
        text = path.read_text("utf-8")
        if _form(path) in ("env", "yaml"):
            return _read_line(text, key)
        value: Any = json.loads(text) if _form(path) == "json" else tomllib.loads(text)
        for name in key:
            value = value[name]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""


def merge_file(path: Path, values: Values) -> tuple[str, str]:
    """Return the text of a file, "" where there is none, and the text with these values in it."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError([Problem(escaped(str(path)), f"cannot be read: {why}")]) from None
    try:
        return text, _MERGERS[_form(path)](text, values)
    except UnchangeableError as error:
        message = f"{error}, so it is left as it is: change it by hand"
        raise ConfigError([Problem(escaped(str(path)), message)]) from None


def replace_file(path: Path, text: str, now: datetime) -> Path | None:
    """Replace a file at once, or make it; return the copy of the earlier one."""
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        backup, mode = None, 0o600
        if target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
            backup = target.with_name(f"{target.name}.bak-{now:%Y%m%d-%H%M%S}")
            write_atomically(backup, target.read_bytes(), lambda new: os.fchmod(new, mode))
        write_atomically(target, text.encode(), lambda new: os.fchmod(new, mode))
    except OSError as error:
        raise ConfigError(
            [Problem(escaped(str(path)), f"cannot be written: {error.strerror}")]
        ) from None
    return backup


def new_text(path: Path, values: Values) -> str:
    """Return these values as a new file at that path has them."""
    return _MERGERS[_form(path)]("", values)


def _form(path: Path) -> Form:
    forms: dict[str, Form] = {".json": "json", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml"}
    return forms.get(path.suffix, "env")


def with_values(content: dict[str, Any], values: Values) -> dict[str, Any]:
    """Return a deep copy of tables with these values in it."""
    merged: dict[str, Any] = json.loads(json.dumps(content, default=str))
    for key, value in values.items():
        table = merged
        for name in key[:-1]:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise UnchangeableError(f"has {found(table)} as {name}, must have a table")
        table[key[-1]] = value
    return merged


def _merge_json(text: str, values: Values) -> str:
    try:
        content = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnchangeableError(f"is not plain JSON ({error})") from None
    if not isinstance(content, dict):
        raise UnchangeableError(f"is {found(content)}, must be an object")
    merged = with_values(content, values)
    if merged == content:
        return text
    indent = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    return json.dumps(merged, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _merge_toml(text: str, values: Values) -> str:
    """Change lines; the result must be what a parser makes of the earlier file and the values."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnchangeableError(f"is not valid TOML ({error})") from None
    wanted = with_values(content, values)
    if wanted == with_values(content, {}):
        return text
    lines = text.splitlines()
    for key, value in values.items():
        _set_toml(lines, key, f"{key[-1]} = {json.dumps(value)}")
    merged = "\n".join(lines) + "\n"
    try:
        is_right = with_values(tomllib.loads(merged), {}) == wanted
    except ValueError:
        is_right = False
    if not is_right:
        raise UnchangeableError("is written in a form that this command cannot change")
    return merged


def _set_toml(lines: list[str], key: Key, line: str) -> None:
    """Put the line of a key into its table: in place of the earlier one, else as the first."""
    begin = 0
    if key[:-1]:
        header = f"[{'.'.join(key[:-1])}]"
        begin = next((i for i, one in enumerate(lines) if one.strip() == header), -1) + 1
        if not begin:
            lines += [*([""] if lines else []), header, line]
            return
    for i in range(begin, len(lines)):
        if lines[i].lstrip().startswith("["):
            lines.insert(begin if not key[:-1] else i, line)
            break
        if re.match(rf"\s*{re.escape(key[-1])}\s*=", lines[i]):
            lines[i] = line
            return
    else:
        lines.append(line)


def _merge_env(text: str, values: Values) -> str:
    lines = text.splitlines()
    for (name,), value in values.items():
        places = [i for i, one in enumerate(lines) if _is_assignment(one, name)]
        for i in places:
            lines[i] = f"{name}={value}"
        if not places:
            lines.append(f"{name}={value}")
    return "\n".join(lines) + "\n"


def _is_assignment(line: str, name: str) -> bool:
    return re.match(rf"\s*(?:export\s+)?{re.escape(name)}\s*=", line) is not None


def _merge_yaml(text: str, values: Values) -> str:
    """Set scalars at the top, and `NAME=value` items of lists at the top."""
    lines = text.splitlines()
    if any(line.startswith(("{", "%")) or "\t" in line for line in lines):
        raise UnchangeableError("is written in a form that this command cannot change")
    for key, value in values.items():
        heads = [i for i, one in enumerate(lines) if one.startswith(f"{key[0]}:")]
        if len(key) == 1:
            line = f"{key[0]}: {value}"
            if heads:
                lines[heads[0]] = line
            else:
                lines.append(line)
            continue
        if not heads:
            heads = [len(lines)]
            lines.append(f"{key[0]}:")
        _set_yaml_item(lines, heads[0], key[1], f"{key[1]}={value}")
    return "\n".join(lines) + "\n"


def _set_yaml_item(lines: list[str], head: int, name: str, item: str) -> None:
    """Put an item into the list under a line: in place of the one of that name, else at its end."""
    if lines[head].split("#")[0].rstrip()[-1] != ":":
        raise UnchangeableError(
            f"has {lines[head].split(':')[0]} on one line, must have one item a line"
        )
    end, indent = head + 1, "  "
    while end < len(lines) and (match := re.match(r"(\s*)- *['\"]?(.*)", lines[end])):
        indent = match[1]
        if _is_assignment(match[2], name):
            lines[end] = f"{indent}- {item}"
            return
        end += 1
    lines.insert(end, f"{indent}- {item}")


def _read_line(text: str, key: Key) -> str:
    """Return the value in a line of an environment or YAML file."""
    for line in text.splitlines():
        bare = re.sub(r"^\s*- *['\"]?", "", line) if len(key) > 1 else line
        match = re.match(rf"\s*(?:export\s+)?{re.escape(key[-1])}\s*[=:]\s*(\S+)", bare)
        if match:
            return match[1].strip("'\"")
    return ""


_MERGERS: dict[Form, Callable[[str, Values], str]] = {
    "json": _merge_json,
    "toml": _merge_toml,
    "env": _merge_env,
    "yaml": _merge_yaml,
}
