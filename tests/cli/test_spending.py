"""`looptrap spending`: what calls cost, in a table that people can read."""

import json
import re

import pytest
from tests.cli.operating import operated
from tests.gateway.serving import JSON, chat
from tests.gateway.test_usage import PRICES

from looptrap.testing import Reply, Tokens


@pytest.fixture
def running(tmp_path):
    script = [Reply.text(tokens=Tokens(1_000, 500))] * 50
    with operated(tmp_path, PRICES, script=script) as one:
        yield one


def spent(running, *arguments, calls):
    """Return what the command prints once all calls are told."""

    def is_told(out):
        return f" {calls} calls" in out

    running.until(is_told, "spending")
    return running.run("spending", *arguments)


def test_callers_are_listed_with_their_cost_and_all_of_it_is_summed_up(running):
    running.ask(8, "Again?")
    result = spent(running, calls=8)
    assert result.exit_code == 0, result.output
    headings, line, total = result.stdout.splitlines()
    assert headings.split() == ["CALLER", "CALLS", "REFUSED", "TOKENS", "COST", "SAVED"]
    assert re.fullmatch(r"addr:127\.0\.0\.1 +8 +3 +7,500 +\$10\.00 +\$\S+", line)
    assert re.fullmatch(r"Since 24h ago: 8 calls, \$10\.00; 3 refused, \$\S+ saved\.", total)


def test_sessions_are_listed_with_their_tokens_a_minute(running):
    running.ask(2, "Go on.", **{"X-Looptrap-Session": "run-42"})
    result = spent(running, "--by", "session", "--since", "1h", calls=2)
    headings, line, _ = result.stdout.splitlines()
    expected = "SESSION CALLER MODEL CALLS REFUSED TOKENS TOKENS/MIN COST"
    assert headings.split() == expected.split()
    assert line.split()[0] == "run-42"
    assert line.split()[-1] == "$4.00"


def test_what_has_no_price_is_unpriced_and_never_nothing(tmp_path):
    with operated(tmp_path, script=[Reply.text(tokens=Tokens(10, 5))] * 5) as running:
        asked = running.here.ask(headers=JSON, body=chat("Hi", model="nobody-knows-it"))
        assert running.wait(asked).status == 200
        result = spent(running, "--by", "model", calls=1)
        assert "$" not in result.stdout
        assert result.stdout.splitlines()[1].split() == [
            "nobody-knows-it", "1", "0", "15", "unpriced", "–"
        ]  # fmt: skip
        running.ask(1, "Hi")
        result = spent(running, "--by", "provider", calls=2)
        assert "+ unpriced" in result.stdout.splitlines()[1]


def test_programs_get_all_of_it(running):
    running.ask(1, "Hi")
    result = spent(running, "--json", "--by", "model", calls=1)
    found = json.loads(result.stdout)
    assert found["by"] == "model"
    assert found["rows"][0]["cost_usd"] == found["totals"]["cost_usd"] == 2.0


def test_where_nothing_was_spent_that_is_said(running):
    assert running.run("spending").stdout == "Since 24h ago: 0 calls, $0.00.\n"


def test_a_mistake_is_a_line_on_standard_error(running):
    result = running.run("spending", "--since", "soon")
    assert result.exit_code == 2
    assert "--since" in result.stderr
