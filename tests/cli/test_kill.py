"""`looptrap kill`: calls are refused through the admin address, listed, and let pass again."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from tests.admin.operating import operating
from tests.gateway.serving import JSON, chat
from tests.store.serving import free_port

from looptrap.cli import main

FILE = '[[kill_switches]]\nmatch = { model = "o0" }\n'


class Running:
    """A gateway on a loop of its own, so that a command can wait for its answers."""

    def __init__(self, here, operator, loop):
        self.here = here
        self.admin = f"127.0.0.1:{operator._base_url.port}"
        self.loop = loop

    def run(self, *arguments, **options):
        return CliRunner().invoke(main, [*arguments, "--admin", self.admin], **options)

    def status(self):
        asked = self.here.ask(headers=JSON | {"X-Team": "red"}, body=chat())
        return asyncio.run_coroutine_threadsafe(asked, self.loop).result(20).status


@contextmanager
def gateway(folder, **options):
    ready, stopped, found = threading.Event(), asyncio.Event(), []

    async def serve():
        async with operating(folder, FILE, **options) as (here, operator):
            found.append(Running(here, operator, asyncio.get_running_loop()))
            ready.set()
            await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    try:
        assert ready.wait(20)
        yield found[0]
    finally:
        found[0].loop.call_soon_threadsafe(stopped.set)
        thread.join(20)


@pytest.fixture
def running(tmp_path):
    with gateway(tmp_path) as one:
        yield one


def test_calls_are_refused_until_the_switch_is_ended(running):
    made = running.run("kill", "header:x-team=red", "--reason", "leaked")
    assert made.exit_code == 0, made.stderr
    assert running.status() == 403
    switch_id = made.stdout.strip()
    listed = running.run("kill").stdout
    assert listed.splitlines() == [
        'file      Every call whose model is "o0" is refused.',
        f'{switch_id}  Every call whose header:x-team is "red" is refused (leaked).',
    ]
    ended = running.run("unkill", switch_id)
    assert ended.stdout == f"Kill switch {switch_id} is ended.\n"
    assert running.status() == 200
    assert "No kill switch of this id" in running.run("unkill", switch_id).stderr


def test_json_is_for_programs(running):
    made = json.loads(running.run("kill", "caller=key:ci", "--for", "60", "--json").stdout)
    assert (made["match"], made["pending"]) == ({"caller": "key:ci"}, False)
    assert "expires" in made
    listed = json.loads(running.run("kill", "--json").stdout)
    assert [one["id"] for one in listed] == [None, made["id"]]
    assert json.loads(running.run("unkill", made["id"], "--json").stdout)["ended"]


def test_a_switch_that_can_match_nothing_is_warned_of(running):
    made = running.run("kill", "jwt:org=x")
    assert made.stderr.startswith("warning: match: jwt:org: unverified claims read as empty\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["red"], ["MATCH: must be DESCRIPTOR=VALUE"]),
        (["model=a", "model=b"], ["MATCH: must be DESCRIPTOR=VALUE"]),
        (["model=a", "--for", "1", "--expires", "2099-01-01T00:00:00Z"], ["--for and --expires"]),
        (["model=a", "--for", "1e300"], ["--for: is too long"]),
        (["colour=red", "--expires", "soon"], ["match.colour: is 'colour'", "expires: is the te"]),
    ],
    ids=["no value", "twice", "two ends", "too long", "every mistake"],
)
def test_mistakes_are_a_line_each_and_exit_2(running, arguments, says):
    result = running.run("kill", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert [line.startswith(say) for line, say in zip(lines, says, strict=True)] == [True] * len(
        says
    )


def test_the_token_comes_from_the_variable_that_the_gateway_names(tmp_path):
    with gateway(tmp_path, token="t0ken") as running:
        refused = running.run("kill", "model=x")
        assert refused.exit_code == 2
        assert "needs its token: name the variable that has it with --token-env" in (refused.stderr)
        unset = running.run("kill", "model=x", "--token-env", "NOT_SET")
        assert "the variable NOT_SET is not set, or empty" in unset.stderr
        let_in = running.run("kill", "model=x", "--token-env", "TOKEN", env={"TOKEN": "t0ken"})
        assert let_in.exit_code == 0
        named = {"TOKEN": "t0ken", "LOOPTRAP_ADMIN_TOKEN_ENV": "TOKEN"}
        assert running.run("kill", env=named).exit_code == 0


def test_where_nobody_listens_it_says_so():
    address = f"127.0.0.1:{free_port()}"
    for command in (["kill", "model=x"], ["kill"], ["unkill", "0badcafe"]):
        result = CliRunner().invoke(main, [*command, "--admin", address])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            f"{address}: does not answer (connection refused): is `looptrap serve` running there?\n"
        )


def test_an_address_of_something_else_is_named(running):
    address = f"{running.here.host}:{running.here.port}"
    result = CliRunner().invoke(main, ["kill", "--admin", address])
    assert result.exit_code == 2
    assert "is not the admin address of a gateway" in result.stderr
    bad = CliRunner().invoke(main, ["kill", "--admin", "here"])
    assert bad.stderr.startswith('--admin: is the text "here", must be an address')
