"""`looptrap doctor`: what is wrong, in a line each, with what to do about it."""

import asyncio
import json
import shutil
import socket
import sqlite3
import threading
import time
from email.utils import formatdate

import pytest
from click.testing import CliRunner
from tests.cli.serving import run as serve
from tests.store.sentinels import NAME, PASSWORD, sentinel_group
from tests.store.serving import server

from looptrap.cli import main
from looptrap.cli.doctor_checks import _judge_store, clock_finding
from looptrap.cli.provider_probe import models_path
from looptrap.testing import FakeProvider, Reply

PROVIDER = """
[[providers]]
name = "mine"
base_url = "{url}/v1"
api_key_env = "MY_KEY"
"""


def examine(folder, *arguments, toml="", **env):
    """Run the command in a folder; return its exit status, and the findings by what they are of."""
    file = folder / "looptrap.toml"
    file.write_text(toml)
    listen = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    arguments = ["doctor", "--config", str(file), "--json", *listen, *arguments]
    # What nothing else says goes to a place of this machine, not to the world.
    arguments += ["--upstream", "http://127.0.0.1:1"] if "--upstream" not in arguments else []
    result = CliRunner().invoke(main, arguments, env=env)
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, {one["what"]: one for one in json.loads(result.stdout)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def provider():
    """Start a provider in a thread of its own, since the command has its own loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = []

    def do(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    def start(reply):
        one = FakeProvider(lambda _: reply)
        do(one.__aenter__())
        running.append(one)
        return one

    yield start
    for one in running:
        do(one.__aexit__(None, None, None))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_provider_that_accepts_the_key_is_well(folder, provider):
    one = provider(Reply.status(200, {"data": []}))
    toml = PROVIDER.format(url=one.url)
    status, found = examine(folder, "--upstream", one.url, toml=toml, MY_KEY="sk-right")
    assert status == 0
    assert found["provider mine"]["status"] == "ok"
    assert "accepts the key in MY_KEY" in found["provider mine"]["message"]
    asked = one.requests[0]
    assert (asked.method, asked.target) == ("GET", "/v1/models")
    assert {name.lower(): value for name, value in asked.headers.items()}["authorization"] == (
        "Bearer sk-right"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_a_problem_that_names_its_variable(folder, provider, status):
    one = provider(Reply.status(status))
    code, found = examine(
        folder, "--upstream", one.url, toml=PROVIDER.format(url=one.url), MY_KEY="sk-wrong"
    )
    assert code == 1
    assert found["provider mine"]["message"] == f"refuses the key in MY_KEY (status {status})"
    assert found["provider mine"]["remedy"] == "put a valid key into MY_KEY"
    assert "sk-wrong" not in json.dumps(found)


def test_a_key_that_is_not_set_is_a_warning(folder, provider):
    one = provider(Reply.status(401))
    code, found = examine(folder, "--upstream", one.url, toml=PROVIDER.format(url=one.url))
    assert code == 0
    assert "names the variable MY_KEY, which is not set" in found["settings"]["message"]
    assert found["provider mine"]["status"] == "ok"


@pytest.mark.parametrize(
    ("url", "message", "remedy"),
    [
        ("http://127.0.0.1:1", "Connection refused", "whether it runs"),
        ("http://nowhere.invalid", "no address found", "DNS"),
    ],
    ids=["a closed port", "an unknown name"],
)
def test_a_provider_that_cannot_be_reached_is_a_problem_with_its_reason(
    folder, url, message, remedy
):
    code, found = examine(folder, "--upstream", url)
    assert code == 1
    assert message in found["provider upstream"]["message"]
    assert remedy in found["provider upstream"]["remedy"]


def test_a_certificate_that_is_not_trusted_is_a_problem_of_tls(folder, provider):
    one = provider(Reply.status(200))
    code, found = examine(folder, "--upstream", one.url.replace("http://", "https://"))
    assert code == 1
    assert "TLS" in found["provider upstream"]["message"]


def test_a_clock_that_differs_from_the_providers_is_a_problem(folder, provider):
    date = formatdate(time.time() - 600, usegmt=True)
    one = provider(Reply.status(200, headers={"Date": date}))
    code, found = examine(folder, "--upstream", one.url)
    assert code == 1
    assert "ahead" in found["clock"]["message"]
    assert "NTP" in found["clock"]["remedy"]


def test_clocks_are_compared_by_most_of_them():
    assert clock_finding([1.0, 2.0, 4_000.0]).status == "ok"
    assert clock_finding([-90.0]).message == "90 s behind"


def test_a_port_that_another_program_has_is_a_problem(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, found = examine(folder, "--listen", address)
    assert code == 1
    assert "address already in use" in found["port listen"]["message"]
    assert "--listen" in found["port listen"]["remedy"]


async def test_the_ports_of_a_running_looptrap_are_well(folder, monkeypatch):
    async with serve(folder, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0") as gateway:
        url = (await gateway.hears(r"guards http://(\S+)"))[1]
        admin = (await gateway.hears(r"Dashboard +http://(\S+)/"))[1]
        flags = ["--listen", url, "--admin", admin]
        _, found = await asyncio.to_thread(examine, folder, *flags)
    assert found["port listen"]["status"] == found["port admin"]["status"] == "ok"
    assert "by the Looptrap" in found["port admin"]["message"]


def test_a_state_file_that_others_can_read_is_a_warning(folder):
    CliRunner().invoke(main, ["keys", "add", "ci"])
    (folder / "looptrap.state").chmod(0o644)
    _, found = examine(folder)
    assert found["state file"]["status"] == "warning"
    assert found["state file"]["remedy"] == "chmod 600 looptrap.state"


def test_a_history_of_another_program_or_a_full_disk_is_a_problem(folder, monkeypatch):
    with sqlite3.connect(folder / "looptrap.db") as other:
        other.execute("CREATE TABLE other (x)")
    usage = shutil.disk_usage(folder)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    code, found = examine(folder)
    assert code == 1
    assert "is a database of another program" in found["settings"]["message"]
    assert found["settings"]["remedy"] == "move it away, or restore a backup"
    assert "history" not in found  # it is counted once
    assert (found["disk"]["status"], found["disk"]["remedy"][:4]) == ("problem", "free")


def test_mistakes_in_the_file_are_problems(folder):
    code, found = examine(folder, toml="block_status = 500")
    assert code == 1
    assert "block_status" in found["settings"]["message"]


def test_what_serve_would_refuse_is_a_problem_in_the_same_words(folder):
    code, found = examine(folder, toml='[[channels]]\nurl_env = "HOOK"')
    assert code == 1
    assert found["settings"]["message"] == (
        "channels[0].url_env: names the variable HOOK, which is not set"
    )
    assert "environment" in found["settings"]["remedy"]
    assert "alerts" not in found  # it is counted once


def test_a_test_alert_is_sent_only_on_demand(folder, provider):
    hook = provider(Reply.status(200))
    channel = (
        f'[[channels]]\nname = "ops"\nurl = "{hook.url}/hook"\n'
        "allow_http = true\nallow_private = true\n"
    )
    upstream = ["--upstream", provider(Reply.status(200)).url]
    assert examine(folder, *upstream, toml=channel)[1]["channel ops"]["status"] == "ok"
    assert hook.requests == []
    assert examine(folder, *upstream, "--send", toml=channel)[1]["channel ops"]["message"] == (
        "took a test alert"
    )
    assert len(hook.requests) == 1


def test_a_store_that_is_away_is_a_problem(folder):
    code, found = examine(folder, "--store", "redis://:secret@127.0.0.1:1")
    assert code == 1
    assert "cannot connect" in found["store"]["message"]
    assert "secret" not in json.dumps(found)


@pytest.mark.slow
def test_each_sentinel_is_asked_and_then_the_primary(folder):
    with sentinel_group() as group:
        _, found = examine(folder, "--store", group.url)
        assert (found["store"]["status"], "Valkey" in found["store"]["message"]) == ("ok", True)
        assert PASSWORD not in json.dumps(found)
        lost = group.sentinels[2]
        lost.kill()
        _, found = examine(folder, "--store", group.url)
        assert found["sentinel"]["status"] == "warning"
        assert f"redis://127.0.0.1:{lost.port}: cannot connect" in found["sentinel"]["message"]
        assert found["store"]["status"] == "ok"
        code, found = examine(folder, "--store", group.url.replace(f"/{NAME}", "/others"))
        assert code == 1
        assert "no sentinel knows 'others'" in found["store"]["message"]


def test_a_store_is_described_by_version_latency_and_eviction(folder, provider):
    one = provider(Reply.status(200))
    with server() as valkey:
        _, found = examine(folder, "--upstream", one.url, "--store", valkey.url)
    assert "Valkey" in found["store"]["message"]
    assert found["store"]["message"].endswith(" ms")
    assert found["eviction"]["status"] in ("ok", "warning")


@pytest.mark.parametrize(
    ("info", "settings", "statuses"),
    [
        ({"redis_version": "6.0.16"}, {"maxmemory": "0", "maxmemory-policy": "noeviction"}, "po"),
        ({"redis_version": "7.2.4"}, {"maxmemory": "9", "maxmemory-policy": "noeviction"}, "ow"),
        ({"redis_version": "7.2.4"}, {"maxmemory": "9", "maxmemory-policy": "allkeys-lru"}, "ow"),
        ({"redis_version": "7.2.4"}, {"maxmemory": "9", "maxmemory-policy": "volatile-ttl"}, "oo"),
        ({"valkey_version": "8.1.0", "redis_version": "7.2.4"}, {}, "ow"),
    ],
    ids=["too old", "full means away", "settings are evicted", "as it should be", "does not say"],
)
def test_stores_are_judged(info, settings, statuses):
    found = _judge_store("redis://here", 0.2, info, settings)
    assert "".join(one.status[0] for one in found) == statuses


@pytest.mark.parametrize(
    ("url", "speaks", "path"),
    [
        ("https://api.openai.com/v1", (), "/v1/models"),
        ("https://api.anthropic.com", ("anthropic",), "/v1/models"),
        ("https://generativelanguage.googleapis.com", ("gemini",), "/v1beta/models"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", (), "/v1beta/openai/models"),
        ("https://openrouter.ai/api/v1", (), "/api/v1/models"),
    ],
)
def test_where_models_are_listed(url, speaks, path):
    assert models_path(url, speaks) == path


def test_people_get_lines_and_a_sum(folder):
    arguments = ["doctor", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"]
    result = CliRunner().invoke(main, [*arguments, "--admin", "127.0.0.1:0"])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(("ok       python: CPython", "warning  python: CPython"))
    assert any(line.startswith("problem  provider upstream: does not answer") for line in lines)
    assert lines[-1] in (
        "1 problem, 1 warning.",
        "1 problem, 2 warnings.",
        "1 problem, no warnings.",
    )
    assert not (folder / "looptrap.db").exists()
