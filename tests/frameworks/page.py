"""The table of what each client does on a refusal: measured here, shown in the documentation.

`LOOPTRAP_WRITE_TABLES=1` writes what was measured into the page instead of comparing it.
"""

import os
import re
from pathlib import Path

TABLE = Path(__file__).parents[2] / "docs" / "reference" / "clients.md"


def row(title: str) -> str | None:
    """Return the line of the page that is about a framework, or about a version of an agent."""
    name = re.escape(title)
    shown = rf"^\| (?:\[{name}\]|{name} [\d.]+ \|).*$"
    found = re.search(shown, TABLE.read_text("utf-8"), re.MULTILINE)
    return found[0] if found else None


def compare(title: str, measured: str) -> None:
    """Hold what was measured against the page, or write it there."""
    shown = row(title)
    assert shown is not None, f"{TABLE.name} has no line for {title}"
    if os.environ.get("LOOPTRAP_WRITE_TABLES"):
        text = TABLE.read_text("utf-8")
        TABLE.write_text(text.replace(shown, measured), "utf-8")
    else:
        assert shown == measured
