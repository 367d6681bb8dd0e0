"""Configuration files as plain tables: TOML, or JSON for Fairvisor bundles."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from looptrap.errors import ConfigError, Problem
from looptrap.schema.wording import escaped, found


def is_bundle(path: Path) -> bool:
    """Say whether the file is taken for a Fairvisor bundle."""
    return path.suffix.lower() == ".json"


def table(path: Path) -> dict[str, Any]:
    """Return what the file holds; raise ConfigError with the one thing that is wrong with it."""
    try:
        # Windows editors put a byte order mark first; no parser wants to see it.
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise _problem(path, "does not exist") from None
    except IsADirectoryError:
        raise _problem(path, "is a directory, must be a file") from None
    except OSError as error:
        raise _problem(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _problem(path, f"is not UTF-8 text: byte {error.start + 1} is wrong") from None
    except ValueError:
        raise _problem(path, "is not the name of a file") from None
    language = "JSON" if is_bundle(path) else "TOML"
    try:
        content = json.loads(text) if is_bundle(path) else tomllib.loads(text)
    except RecursionError:
        raise _problem(path, f"is not usable {language}: nested too deeply") from None
    except ValueError as error:
        raise _problem(path, f"is not valid {language}: {error}") from None
    if not isinstance(content, dict):
        raise _problem(path, f"is {found(content)}, must be a table")
    return content


def _problem(path: Path, message: str) -> ConfigError:
    return ConfigError([Problem(escaped(str(path)), escaped(message))])
