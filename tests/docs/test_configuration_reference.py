"""The pages on configuration, presets and bundles say what is: no more, no less, no other."""

import json
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
REFERENCE = (DOCS / "reference" / "configuration.md").read_text("utf-8")
PRESETS = (DOCS / "presets.md").read_text("utf-8")
FAIRVISOR = (DOCS / "fairvisor.md").read_text("utf-8")
BUDGETS = (DOCS / "budgets.md").read_text("utf-8")


def row(entry: Entry) -> str:
    """Return the row of the reference's tables that documents a setting."""
    setting = entry.field
    if setting.required:
        default = "required"
    elif setting.default is None or isinstance(setting.kind, Table):
        default = "–"
    else:
        default = f"`{shown(setting.kind.plain(setting.default))}`"
    return f"| `{entry.place}` | {setting.kind.words()} | {default} | {setting.doc} |"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.mark.parametrize("entry", list(entries(CONFIG)), ids=lambda entry: entry.place)
def test_every_setting_is_documented_as_it_is(entry):
    assert row(entry) in REFERENCE.splitlines()


def test_every_documented_setting_exists():
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
    """The first console block of a page checks the first file the page shows."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    command, _, expected = blocks(page, "console")[0].partition("\n")
    path = tmp_path / command.split()[-1]
    path.write_text(blocks(page, suffix)[0], "utf-8")
    result = CliRunner().invoke(main, ["check", str(path)])
    assert result.output == expected
