"""Settings written as TOML, as a configuration file has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from looptrap.schema.wording import shown


def toml_table(header: str, values: Mapping[str, Any]) -> str:
    """Return a table under its header; lists of tables are left out."""
    return "\n".join((header, *toml_lines(values))) + "\n"


def toml_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each value; lists of tables have headers of their own, and are left out."""
    for name, value in values.items():
        if not (isinstance(value, list) and value and isinstance(value[0], dict)):
            yield f"{name} = {shown(value)}"
