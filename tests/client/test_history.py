"""Incidents of a process without a gateway: kept as the gateway keeps its own."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest
from click.testing import CliRunner
from tests.cli.serving import run
from tests.client.vendors import WAY, chat

import looptrap
from looptrap.cli import main
from looptrap.client.history import LocalHistory
from looptrap.incident.history import IncidentHistory
from looptrap.incident.setting import IncidentSettings
from looptrap.testing import Reply, Tokens


def incidents(file):
    """Return what a history has."""
    history = IncidentHistory(str(file), IncidentSettings())
    history.open()
    try:
        return history.incidents().items
    finally:
        history.close()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "looptrap.db"


@pytest.mark.parametrize("name", ["chat", "chat, async", "messages stream"])
async def test_a_loop_is_an_incident_when_the_client_is_closed(name, provider, guarded, file):
    way = WAY[name]
    provider._script = [Reply.text("Done.", tokens=Tokens(1000, 100))]
    client = guarded(way, history=file, caller="nightly", session="run-1")
    more = {
        "extra_body": {
            "model": "gpt-4o" if way.vendor.__name__ == "openai" else "claude-sonnet-4-5"
        }
    }
    for _ in range(8):
        try:
            await way.ask(client, **more)
        except looptrap.LoopDetectedError as error:
            refused = error
    await (client.close() if way.is_async else _closed(client))
    (incident,) = incidents(file)
    assert (incident.caller, incident.session, incident.rule) == (
        "nightly",
        "run-1",
        "identical-conversation",
    )
    assert (incident.refused, incident.count) == (3, 8)
    assert incident.fingerprint == refused.fingerprint
    assert incident.request_id == refused.request_id
    assert incident.saved_usd > 0
    assert incident.provider == "127.0.0.1"


async def _closed(client):
    client.close()


async def test_a_gateway_that_is_given_the_file_shows_it(provider, guarded, file):
    client = guarded(WAY["chat"], history=file, caller="nightly")
    for _ in range(8):
        with suppress(looptrap.LoopDetectedError):
            chat(client, "Again?")
    client.close()
    flags = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", provider.url)
    async with run(file.parent, *flags, env={"LOOPTRAP_HISTORY": str(file)}) as gateway:
        admin = (await gateway.hears(r"Dashboard +http://([^/\s]+)/"))[1]
        command = ["incidents", "list", "--admin", admin]
        listed = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert listed.exit_code == 0, listed.output
    assert "nightly" in listed.output
    assert "identical-conversation" in listed.output


def test_what_is_allowed_leaves_no_trace(provider, guarded, file):
    client = guarded(WAY["chat"], history=file)
    for number in range(3):
        chat(client, f"Question {number}.")
    client.close()
    assert incidents(file) == []


def test_clients_of_one_file_write_one_journal(provider, guarded, file):
    assert LocalHistory.open(file) is LocalHistory.open(str(file))
    guard = looptrap.Guard.from_preset("default")
    clients = [guarded(WAY["chat"], guard, history=file, session="run") for _ in range(2)]
    for number in range(8):
        with suppress(looptrap.LoopDetectedError):
            chat(clients[number % 2], "Again?")
    for client in clients:
        client.close()
    (incident,) = incidents(file)
    assert incident.refused == 3


def test_a_history_that_cannot_be_kept_is_told_at_once(guarded, tmp_path):
    with pytest.raises(looptrap.ConfigError):
        guarded(WAY["chat"], history=tmp_path)


SCRIPT = """
    import sys, openai, looptrap
    client = looptrap.guard(
        openai.OpenAI(base_url=sys.argv[1], api_key="k"), history=sys.argv[2], session="run-1"
    )
    for _ in range(6):
        client.chat.completions.create(
            model="gpt-5.3", messages=[{"role": "user", "content": "Again?"}]
        )
"""


def test_a_process_that_dies_of_a_refusal_has_written_it(provider, file):
    script = textwrap.dedent(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "-c", script, f"{provider.url}/v1", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    raised = (
        "looptrap.client.openai.LoopDetectedError: Blocked (recursive_loop_detected): identical"
    )
    assert raised in ended.stderr
    (incident,) = incidents(file)
    assert (incident.session, incident.refused) == ("run-1", 1)


def _loop_in_child(client):
    for _ in range(6):
        try:
            chat(client, "Again?")
        except looptrap.LoopDetectedError:
            client.close()
            os._exit(0)
    os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_writes_a_journal_of_its_own(provider, guarded, file):
    client = guarded(WAY["chat"], history=file, session="run-1")
    child = multiprocessing.get_context("fork").Process(target=_loop_in_child, args=(client,))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    (incident,) = incidents(file)
    assert incident.refused == 1
