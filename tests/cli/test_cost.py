"""`looptrap cost`: a table for people, an object for programs, and what to do without a price."""

import json
import re

import pytest
from click.testing import CliRunner

from looptrap.cli import main
from looptrap.config.load import VARIABLES
from looptrap.replay.projection import SPAN_SECONDS

LOOP = ("--model", "gpt-4o", "--tokens", "20000", "--rps", "0.2")
OWN = ("--model", "mine", "--tokens", "1000000", "--output", "0", "--rps", "1")
PRICED = ("--input-price", "2", "--output-price", "10")
CONFIG = """
[prices.mine]
input = 7
output = 8

[[policies]]
name = "strict"

  [[policies.rules]]
  name = "twice"
  watch = "conversation"
  threshold = 2
  action = "block"
  window = 3600
  cooldown = 3600
"""


@pytest.fixture
def cost(tmp_path, monkeypatch):
    """Run the command in a folder and an environment of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("LOOPTRAP_PRESET", *VARIABLES):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "own.toml").write_text(CONFIG)
    return lambda *arguments: CliRunner().invoke(main, ["cost", *arguments])


def told(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_table_says_what_each_time_costs(cost):
    result = cost(*LOOP)
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["minute", "12", "$0.66", "5", "$0.28", "$0.39"] in rows
    [weekend] = [row for row in rows if row[:1] == ["weekend"]]
    assert weekend[1:3] == ["45,360", "$2,494.80"]


def test_words_say_what_a_call_costs_and_where_the_loop_is_caught(cost):
    words = " ".join(cost(*LOOP).stdout.split())
    assert "20,000 tokens in and 500 out: $0.0550 a call, at $2.50 a million" in words
    assert "identical-conversation of preset default refuses call 6" in words
    assert "an agent that ends there has spent $0.28." in words


def test_a_table_says_that_slow_loops_are_caught_as_well(cost):
    rows = [line.split() for line in cost(*LOOP).stdout.splitlines()]
    assert ["1", "s", "3,600", "$198.00", "call", "6", "$0.28"] in rows
    assert ["60", "s", "60", "$3.30", "call", "6", "$0.28"] in rows


def test_the_object_has_the_same_figures(cost):
    bill = told(cost(*LOOP, "--json"))
    assert (bill["model"], bill["rule"], bill["first_refused"]) == (
        "gpt-4o",
        "identical-conversation",
        6,
    )
    assert bill["call_usd"] == pytest.approx(0.055)
    assert bill["until_refused_usd"] == pytest.approx(5 * 0.055)
    assert [one["span"] for one in bill["spans"]] == list(SPAN_SECONDS)
    assert {one["first_refused"] for one in bill["by_answer_time"]} == {6}
    for one in bill["spans"]:
        assert one["calls"] == round(one["seconds"] * 0.2)
        assert 0 < one["passed"] < one["calls"]
        assert one["cost_usd"] == pytest.approx(one["calls"] * 0.055)
        assert one["with_looptrap_usd"] == pytest.approx(one["passed"] * 0.055)
        assert one["saved_usd"] == pytest.approx(one["cost_usd"] - one["with_looptrap_usd"])


def test_a_weekend_lasts_from_friday_evening_to_monday_morning():
    assert SPAN_SECONDS["weekend"] == (6 + 24 + 24 + 9) * 3600


@pytest.mark.parametrize(
    ("arguments", "dollars"),
    [
        pytest.param((*OWN, *PRICED), 2.0, id="as the command line says"),
        pytest.param((*OWN, "--config", "own.toml"), 7.0, id="as the configuration says"),
        pytest.param((*OWN, *PRICED, "--config", "own.toml"), 2.0, id="the command line first"),
        pytest.param((*OWN, *PRICED, "--output", "100000"), 3.0, id="with output"),
        pytest.param(
            ("--model", "gemini-2.5-pro", "--tokens", "300000", "--output", "0", "--rps", "1"),
            0.75,
            id="of the tier it falls into",
        ),
        pytest.param(
            ("--model", "claude-sonnet-4-5", "--provider", "anthropic", *OWN[2:4], "--rps", "1",
             "--output", "0"),
            6.0,
            id="at a provider",
        ),
    ],
)  # fmt: skip
def test_a_call_costs(cost, arguments, dollars):
    assert told(cost(*arguments, "--json"))["call_usd"] == pytest.approx(dollars)


def test_policies_of_ones_own_are_tried(cost):
    bill = told(cost(*OWN, "--config", "own.toml", "--json"))
    assert (bill["rule"], bill["first_refused"], bill["policies"]) == ("twice", 2, "own.toml")
    assert [one["passed"] for one in bill["spans"]][:2] == [1, 1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("--preset", "fairvisor-throttle"), "only slow it down", id="slowed down"),
        pytest.param(("--preset", "fairvisor-warn"), "let all of it pass", id="warned about"),
        pytest.param(("--preset", "aisg", "--rps", "0.01"), "let all of it pass", id="too slow"),
    ],
)
def test_a_loop_that_is_not_refused_is_told(cost, arguments, words):
    assert words in cost(*OWN, *PRICED, *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("--model", "gpt-4.0o"),
            r'--model: no price is known for "gpt-4.0o", did you mean gpt-4o, .+ or .+\?'
            r" --input-price and --output-price give one, in dollars a million tokens\n",
            id="a model like others",
        ),
        pytest.param(
            ("--model", "qqqqqqqq"),
            r'--model: no price is known for "qqqqqqqq"; --input-price and --output-price .+\n',
            id="a model like no other",
        ),
        pytest.param(
            ("--model", "gpt-4o", "--input-price", "3"),
            r"--input-price: needs --output-price beside it, and the other way round\n",
            id="half a price",
        ),
        pytest.param(
            ("--model", "gpt-4o", "--preset", "nope"),
            r"--preset: .+\n",
            id="a preset that does not exist",
        ),
        pytest.param(
            ("--model", "gpt-4o", "--config", "missing.toml"), r"missing\.toml.+\n", id="no file"
        ),
    ],
)
def test_a_mistake_is_told_in_a_line(cost, arguments, message):
    result = cost(*arguments, "--tokens", "1", "--rps", "1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(message, result.stderr)


@pytest.mark.parametrize("rps", ["0", "-1", "51", "nan", "inf", "1e-300"])
def test_a_rate_that_makes_no_loop_is_refused(cost, rps):
    result = cost("--model", "gpt-4o", "--tokens", "1", "--rps", rps)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Invalid value for '--rps'" in result.stderr
