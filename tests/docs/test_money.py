"""What a loop costs, in the README and on the page about money, is what the command says."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from looptrap.cli import main
from looptrap.config.load import VARIABLES
from looptrap.config.setting import CONFIG
from looptrap.replay.projection import MAX_CALLS
from looptrap.schema import read

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "money.md").read_text("utf-8")
BUDGETS = (ROOT / "docs" / "budgets.md").read_text("utf-8")

COMMAND = re.search(r"`looptrap (cost [^`]+)`", README)[1]
ROWS = re.findall(r"^\| `([^`]+)` \| ([\d.]+), ([\d.]+) \| (\$.+) \|$", README, re.MULTILINE)


@pytest.fixture(autouse=True)
def _without_variables(monkeypatch):
    for name in ("LOOPTRAP_PRESET", *VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("model", "asked", "said", "figures"), ROWS, ids=[row[0] for row in ROWS])
def test_the_table_of_the_readme_is_made_by_the_command_below_it(model, asked, said, figures):
    """At the prices that stand beside it: what providers list may change any day."""
    arguments = shlex.split(COMMAND)
    arguments[arguments.index("--model") + 1] = model
    prices = ["--input-price", asked, "--output-price", said]
    result = CliRunner().invoke(main, [*arguments, *prices, "--json"])
    bill = json.loads(result.stdout)
    spans = {one["span"]: one for one in bill["spans"]}
    expected = [spans[name]["cost_usd"] for name in ("hour", "night", "weekend")]
    expected.append(spans["weekend"]["with_looptrap_usd"])
    assert re.findall(r"\$[\d,.]+", figures) == [f"${amount:,.2f}" for amount in expected]


def test_the_table_of_the_readme_has_models_of_several_makers():
    assert {model.partition("-")[0] for model, *_ in ROWS} == {"gpt", "claude", "gemini"}


def test_the_page_shows_what_the_command_prints():
    command, _, shown = re.search(r"```console\n(.*?)```", PAGE, re.DOTALL)[1].partition("\n")
    result = CliRunner().invoke(main, shlex.split(command.removeprefix("$ looptrap ")))
    assert result.output == shown


def test_the_page_names_every_option_and_the_most_calls():
    for option in main.commands["cost"].params:
        assert f"`{option.opts[0]}" in PAGE
    assert f"{MAX_CALLS:,} times" in PAGE


def test_the_prices_of_the_page_are_valid():
    for example in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL):
        assert read(CONFIG, tomllib.loads(example)).prices


def test_the_example_on_the_page_about_budgets_is_refused_at_last(capsys):
    [block] = re.findall(r"```python\n(.*?)```", BUDGETS, re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out == "purse 100\n"
