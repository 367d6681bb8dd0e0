"""`looptrap release`: calls that are refused as a loop pass again."""

import json

import pytest
from tests.cli.operating import operated


@pytest.fixture
def running(tmp_path):
    with operated(tmp_path) as one:
        yield one


def refused(running):
    """Run into a refusal; return its incident."""
    assert running.ask(6) == [200] * 5 + [429]
    wanted = lambda out: '"refused": 1' in out  # noqa: E731
    return json.loads(running.until(wanted, "incidents", "--json").stdout)[0]


@pytest.mark.parametrize("by", ["fingerprint", "caller", "incident", "both"])
def test_the_next_call_passes(running, by):
    found = refused(running)
    assert running.ask() == [429]
    caller, incident = ["--caller", found["caller"]], ["--incident", found["id"]]
    arguments = {
        "fingerprint": [found["fingerprint"]],
        "caller": caller,
        "incident": incident,
        "both": [*caller, *incident],
    }[by]
    released = running.run("release", *arguments)
    assert released.exit_code == 0, released.output
    assert released.stdout == f"The next call of {found['fingerprint']} passes.\n"
    assert running.ask() == [200]


def test_json_is_for_programs(running):
    found = refused(running)
    released = running.run("release", "--caller", found["caller"], "--json")
    assert json.loads(released.stdout) == {
        "released": 1, "fingerprints": [found["fingerprint"]],
    }  # fmt: skip
    again = running.run("release", found["fingerprint"], "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (1, {"released": False})


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--caller", "key:nobody"], 1, "Nothing was refused there"),
        (["1-" + "0" * 32], 1, "Nothing was refused there"),
        (["--incident", "inc_none"], 2, "No incident has this id"),
        (["nonsense"], 2, "Send "),
        ([], 2, "give a FINGERPRINT, or --caller, or --incident"),
        (["1-ab", "--caller", "key:ci"], 2, "give a FINGERPRINT, or --caller, or --incident"),
    ],
    ids=["caller", "fingerprint", "incident", "nonsense", "nothing", "two kinds"],
)
def test_where_nothing_is_to_be_released_it_says_so(running, arguments, status, says):
    result = running.run("release", *arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert result.stderr.startswith(says)
