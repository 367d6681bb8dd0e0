"""`looptrap calls`: logged calls are listed and followed through the admin address."""

import json
import re
import signal

import pytest
from tests.admin.operating import operating
from tests.cli.operating import operated
from tests.cli.test_incidents import TIME, address, following, loop

from looptrap.cli import output
from looptrap.cli.calls import print_calls


@pytest.fixture
def running(tmp_path):
    with operated(tmp_path) as one:
        yield one


def logged(running, number=7, **headers):
    """Run into a refusal; return the calls once so many are listed."""
    assert running.ask(7, "Again?", **headers) == [200] * 5 + [429] * 2
    found = running.until(lambda out: len(json.loads(out)) == number, "calls", "--json").stdout
    return json.loads(found)


def test_calls_are_listed_the_latest_first(running):
    logged(running, **{"X-Looptrap-Session": "run-1", "User-Agent": "claude-cli/2.0"})
    listed = running.run("calls")
    assert listed.exit_code == 0, listed.output
    lines = listed.stdout.splitlines()
    assert len(lines) == 7
    whose = "addr:127.0.0.1 run-1 Claude Code gpt-5.3"
    assert re.fullmatch(
        rf"{TIME}  block 429  {whose}: by identical-conversation, \d+ ms", lines[0]
    ), lines[0]
    assert re.fullmatch(
        rf"{TIME}  allow 200  {whose}: [\d,]+ tokens in, [\d,]+ out, .+, \d+ ms", lines[-1]
    ), lines[-1]


def test_in_a_narrow_terminal_a_call_has_two_lines_and_none_is_cut(capsys, monkeypatch):
    call = {
        "time": "2026-11-19T12:58:58Z", "verdict": "block", "shadow": "", "status": 429,
        "caller": "cred:11a780e435b400fa", "session": "nightly-build", "agent": "",
        "model": "gpt-5.4", "weight": 1, "rule": "no-progress", "input_tokens": 0,
        "output_tokens": 0, "cost_usd": None, "latency": 0.001,
    }  # fmt: skip
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    print_calls([call])
    monkeypatch.setenv("COLUMNS", "200")
    print_calls([call])
    when, names = (
        "2026-11-19 12:58:58 UTC  block 429",
        "cred:11a780e435b400fa nightly-build gpt-5.4",
    )
    assert capsys.readouterr().out.splitlines() == [
        f"{when}  by no-progress, 1 ms",
        f"  {names}",
        f"{when}  {names}: by no-progress, 1 ms",
    ]


FILTERED = {
    "--verdict refused": 2,
    "--verdict allow": 5,
    "--status 4xx": 2,
    "--caller addr:127.0.0.1 --since 1h": 7,
    "--caller key:other": 0,
    "--until 1h": 0,
    "--min-latency 3600": 0,
    "--limit 3": 3,
}


def test_only_calls_of_a_kind_are_listed(running):
    logged(running)
    found = {
        flags: len(json.loads(running.run("calls", "--json", *flags.split()).stdout))
        for flags in FILTERED
    }
    assert found == FILTERED


def test_nothing_is_said_to_be_nothing(running):
    assert running.run("calls").stdout == "There are no logged calls.\n"
    narrowed = running.run("calls", "--caller", "key:ci").stdout
    assert narrowed == "There are no logged calls of that kind.\n"


def test_a_status_that_is_none_is_a_mistake(running):
    answer = running.run("calls", "--status", "many")
    assert answer.exit_code == 2
    assert "status" in answer.stderr


def test_a_log_that_is_off_is_said_to_be_off(tmp_path):
    with operated(tmp_path, "[call_log]\nenabled = false\n") as running:
        running.ask(2)
        answer = running.run("calls")
    assert answer.stdout == "There are no logged calls.\n"
    assert answer.stderr == "This gateway logs no calls: call_log.enabled is false.\n"


async def test_follow_prints_what_there_is_and_then_what_comes(tmp_path):
    async with operating(tmp_path) as (here, operator):
        command = ("calls", "--follow", "--json", "--verdict", "refused")
        async with following(address(operator), command=command) as it:
            await loop(here)
            first = json.loads(await it.line())
            assert (first["verdict"], first["rule"]) == ("block", "identical-conversation")
            await loop(here, "Something else?")
            later = first
            while later["request_id"] == first["request_id"]:
                later = json.loads(await it.line())
            assert later["id"] > first["id"]
            assert await it.interrupted(signal.SIGTERM) == (0, "")
