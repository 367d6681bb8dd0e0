"""The pages on configuration, presets and bundles say what is: no more, no less, no other.

What follows a comment such as `<!-- settings: gateway -->` in the reference is made from the
declarations of settings; `LOOPTRAP_WRITE_TABLES=1` writes it anew instead of comparing it.
"""

import json
import os
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from looptrap.cli import main
from looptrap.config.load import VARIABLES
from looptrap.config.setting import CONFIG, GATEWAY_SCALARS, SCALARS, variable
from looptrap.policy import fairvisor, preset
from looptrap.schema import Entry, Table, entries, read
from looptrap.schema.wording import shown

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "configuration.md"
REFERENCE = PAGE.read_text("utf-8")
PRESETS = (DOCS / "presets.md").read_text("utf-8")
FAIRVISOR = (DOCS / "fairvisor.md").read_text("utf-8")
BUDGETS = (DOCS / "budgets.md").read_text("utf-8")


MARK = re.compile(r"(?m)^<!-- (settings|variables|restart)(?:: (.*))? -->\n(?:.+\n)+")
"""A comment that says what is listed, and the list after it."""

TABLE = "| setting | allowed | default | what it does |\n|---|---|---|---|"


def row(entry: Entry) -> str:
    """Return the row of the reference's tables that documents a setting."""
    setting = entry.field
    if setting.required:
        default = "required"
    elif setting.default is None or isinstance(setting.kind, Table):
        default = "–"
    else:
        default = f"`{shown(setting.kind.plain(setting.default))}`"
    default = setting.default_doc or default
    return f"| `{entry.place}` | {setting.kind.words()} | {default} | {setting.doc} |"


def made(mark: re.Match[str]) -> str:
    """Return a comment of the reference and the list that belongs after it."""
    what, which = mark[1], mark[2]
    if what == "restart":
        lines = [", ".join(f"`{one.place}`" for one in entries(CONFIG) if one.field.restart) + "."]
    elif what == "variables" and which == "gateway":
        lines = [", ".join(map(variable, GATEWAY_SCALARS)) + "."]
    elif what == "variables":
        rows = [f"| {variable(one)} | `{one.name}` |" for one in SCALARS]
        lines = ["| variable | what it sets |\n|---|---|", *rows]
    else:
        wanted = which.split()
        lines = [TABLE, *(row(one) for one in entries(CONFIG) if owner(one.place) in wanted)]
    return "\n".join([mark[0].partition("\n")[0], *lines, ""])


def owner(place: str) -> str:
    """Return the longest beginning of a place that a table of the page lists; `*` for none."""
    named = " ".join(which for what, which in MARK.findall(REFERENCE) if what == "settings")
    return max((one for one in named.split() if place.startswith(one)), key=len, default="*")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_lists_of_the_reference_are_made_from_the_declarations():
    page = MARK.sub(made, REFERENCE)
    if os.environ.get("LOOPTRAP_WRITE_TABLES"):
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page


def test_every_setting_is_documented_once():
    documented = re.findall(r"^\| `([^`]+)` \|.*\|.*\|.*\|$", REFERENCE, re.MULTILINE)
    assert sorted(documented) == sorted(entry.place for entry in entries(CONFIG))


def test_every_variable_is_documented_and_exists():
    scalars = [*SCALARS, *GATEWAY_SCALARS]
    known = {*(variable(setting) for setting in scalars), *VARIABLES, "LOOPTRAP_SECRET"}
    assert set(re.findall(r"\b(?:LOOPTRAP|LOOP_GUARD)_[A-Z_]+\b", REFERENCE)) == known


@pytest.mark.parametrize(
    "page",
    [REFERENCE, PRESETS, FAIRVISOR, BUDGETS],
    ids=["reference", "presets", "fairvisor", "budgets"],
)
def test_every_example_is_valid(page):
    examples = blocks(page, "toml")
    for example in examples:
        read(CONFIG, tomllib.loads(example))
    for example in blocks(page, "json"):
        fairvisor.load(json.loads(example), datetime(2026, 6, 1, tzinfo=UTC))


def test_every_preset_is_described_in_its_own_words():
    described = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", PRESETS, re.MULTILINE)
    assert described == [(name, preset.summary(name)) for name in preset.names()]


@pytest.mark.parametrize(
    ("page", "suffix"),
    [(REFERENCE, "toml"), (FAIRVISOR, "json"), (BUDGETS, "toml")],
    ids=["reference", "fairvisor", "budgets"],
)
def test_what_check_prints_is_what_the_page_shows(page, suffix, tmp_path, monkeypatch):
    """The first console block of a page checks its first file; … stands for further lines."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    command, _, expected = blocks(page, "console")[0].partition("\n")
    path = tmp_path / command.split()[-1]
    path.write_text(blocks(page, suffix)[0], "utf-8")
    result = CliRunner().invoke(main, ["check", str(path)])
    lines = [".*" if line == "…" else re.escape(line) for line in expected.splitlines()]
    assert re.fullmatch("\n".join(lines), result.output.rstrip("\n"), re.DOTALL), result.output
