"""`looptrap alerts`: channels are listed and tested; what was given up is seen and sent again."""

import json
import re

import msgspec
import pytest
from click.testing import CliRunner
from tests.cli.operating import operated
from tests.incident.alert.receiving import status

from looptrap.cli import main

HOOK = """
[[channels]]
name = "ops"
url = "{hook}"
secret_env = "SECRET"
events = ["loop.*"]
allow_http = true
allow_private = true
"""
ENV = {"SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}

LOOPED = "loop.detected"


@pytest.fixture
def running(tmp_path):
    with operated(tmp_path, HOOK, env=ENV) as one:
        yield one


@pytest.fixture
def dead(running):
    """Return a gateway with one alert that was given up, and its event."""
    running.receiver.always = status(410)
    running.ask(6)
    listed = running.until(lambda out: LOOPED in out, "alerts", "dead")
    running.receiver.always = None
    return running, re.search(r"evt_\w+", listed.stdout)[0]


def test_channels_are_listed_without_what_is_secret(running):
    running.ask(6)
    listed = running.until(lambda out: re.search(r" 1 +0 +1$", out, re.MULTILINE), "alerts")
    headings, line = listed.stdout.splitlines()
    assert headings.split() == "NAME KIND TO EVENTS WAITING DELIVERED DEAD ATTEMPTS".split()
    assert line.split() == "ops webhook 127.0.0.1 loop.* 0 1 0 1".split()
    assert "secret" not in running.run("alerts", "--json").stdout


def test_without_channels_it_says_where_they_are_set(tmp_path):
    with operated(tmp_path) as running:
        for command in (["alerts"], ["alerts", "test"]):
            result = running.run(*command)
            assert result.stdout == ""
            assert result.stderr.startswith("No channels are set")
        assert result.exit_code == 1


def test_a_test_reaches_the_receiver_signed(running):
    result = running.run("alerts", "test")
    assert (result.exit_code, result.stdout) == (0, "ops: delivered\n")
    [got] = running.receiver.got
    assert msgspec.json.decode(got.body)["data"]["test"] is True
    assert got.headers["webhook-signature"].startswith("v1,")


def test_a_channel_that_fails_is_said_to_and_exits_1(running):
    running.receiver.always = status(500)
    result = running.run("alerts", "test", "--channel", "ops")
    assert result.exit_code == 1
    assert result.stdout == f"ops: http://127.0.0.1:{running.receiver.port} answered 500\n"
    failed = running.run("alerts", "test", "--json")
    assert (failed.exit_code, json.loads(failed.stdout)[0]["ok"]) == (1, False)
    unknown = running.run("alerts", "test", "--channel", "opps")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert unknown.stderr == "No channel is called opps; there is ops.\n"


def test_a_configuration_is_tested_without_a_gateway(running, tmp_path):
    file = tmp_path / "other.toml"
    file.write_text(HOOK.replace("{hook}", running.receiver.url))
    command = ["alerts", "test", "--config", str(file)]
    result = CliRunner().invoke(main, command, env=ENV)
    assert (result.exit_code, result.stdout) == (0, "ops: delivered\n")
    assert len(running.receiver.got) == 1
    unset = CliRunner().invoke(main, command)
    assert unset.exit_code == 2
    assert unset.stderr == ("channels[0].secret_env: names the variable SECRET, which is not set\n")
    unknown = CliRunner().invoke(main, [*command, "--channel", "x"], env=ENV)
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith("--channel: no channel of ")
    missing = CliRunner().invoke(main, ["alerts", "test", "--config", str(tmp_path / "none")])
    assert missing.exit_code == 2


def test_what_was_given_up_is_listed_with_the_reason(dead):
    running, event = dead
    listed = running.run("alerts", "dead")
    headings, line = listed.stdout.splitlines()
    assert headings.split() == "EVENT NAME CHANNEL CREATED ATTEMPTS ERROR".split()
    assert re.fullmatch(
        rf"{event}  {LOOPED}  ops +(just now|\d+ s ago) +1  http://127\.0\.0\.1:\d+ answered 410",
        line,
    )
    assert "looptrap alerts resend --dead" in listed.stderr
    [letter] = json.loads(running.run("alerts", "dead", "--json").stdout)
    assert (letter["event"], letter["state"]) == (event, "dead")
    assert "1 given up: see `looptrap alerts dead`." in running.run("alerts").stderr


@pytest.mark.parametrize("by", ["event", "all", "channel"])
def test_what_was_given_up_is_sent_again(dead, by):
    running, event = dead
    arguments = {"event": [event], "all": ["--dead"], "channel": ["--dead", "--channel", "ops"]}
    resent = running.run("alerts", "resend", *arguments[by])
    assert (resent.exit_code, resent.stdout) == (0, "1 alert is on the way again.\n")
    running.until(lambda out: '"delivered": 1' in out, "alerts", "--json")
    assert running.receiver.heard == [event]
    again = running.run("alerts", "resend", *arguments[by])
    assert (again.exit_code, again.stderr) == (1, "No such alert was given up.\n")


@pytest.mark.parametrize("arguments", [[], ["evt_1", "--dead"]], ids=["nothing", "both"])
def test_what_is_to_be_sent_again_has_to_be_said(running, arguments):
    result = running.run("alerts", "resend", *arguments)
    assert (result.exit_code, result.stderr) == (2, "give an EVENT, or --dead for all\n")


def test_without_dead_letters_it_says_so(running):
    result = running.run("alerts", "dead")
    assert (result.stdout, result.stderr) == ("", "No alert was given up.\n")
