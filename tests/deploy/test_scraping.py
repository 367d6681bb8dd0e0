"""Compose's Prometheus, run for real: it is let in, and the panels of the dashboard have data."""

import asyncio
import json
import subprocess
from contextlib import AsyncExitStack, contextmanager
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from tests.cli.serving import run
from tests.deploy.files import COMPOSE, compose
from tests.deploy.test_prometheus import ALERTS, PANELS, filled
from tests.gateway.serving import chat
from tests.store.serving import PATIENCE, free_port, server, until

from looptrap.testing import FakeProvider

SERVICES = compose()
RATE = 'rate(looptrap_requests_total{job="looptrap"}[5m])'
SILENT = {"What policies in shadow would have done", "Alerts by channel and outcome"}
"""Panels about what these gateways do not have."""
TOKENS = {"ADMIN_TOKEN": "may-do-all", "READ_TOKEN": "may-see-all"}


class Prometheus:
    """A Prometheus that runs as the compose file says, with paths and targets of this test."""

    def __init__(self, program, folder, targets):
        self.port, self.folder = free_port(), folder
        text = (COMPOSE / "prometheus.yml").read_text("utf-8")
        for name, target in zip(("gateway-1:4101", "gateway-2:4101"), targets, strict=True):
            assert name in text
            text = text.replace(name, target)
        assert text.count("15s") == 2
        text = text.replace("15s", "1s").replace("/tmp/", f"{folder}/")
        (folder / "prometheus.yml").write_text(text)
        (folder / "alerts.yml").write_text(ALERTS.read_text("utf-8"))
        (script,) = SERVICES["prometheus"]["command"]
        for path in ("/tmp", "/etc/prometheus", "/prometheus"):
            script = script.replace(f" {path}/", f" {folder}/").replace(f"={path}", f"={folder}")
        script = script.replace("exec prometheus", f"exec {program}")
        self.script = f"{script} --web.listen-address=127.0.0.1:{self.port}"

    @contextmanager
    def running(self, token):
        shell = SERVICES["prometheus"]["entrypoint"]
        env = {"PATH": "/usr/bin:/bin", "READ_TOKEN": token}
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen([*shell, self.script], env=env, stderr=log)
        try:
            yield self
        finally:
            process.terminate()
            process.wait(PATIENCE)

    def ask(self, expression):
        """Return what an expression comes to; None until it is up."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urlencode({'query': expression})}"
        try:
            with urlopen(url, timeout=PATIENCE) as answer:
                return json.load(answer)["data"]["result"]
        except HTTPError as error:
            return None if error.code == 503 else pytest.fail(error.read().decode())
        except OSError:
            return None

    def values(self, expression):
        return [one["value"][1] for one in self.ask(expression) or ()]


@pytest.fixture
async def gateways(tmp_path):
    """Run both gateways with the file of compose; return their admin addresses and one client."""
    file = COMPOSE / "looptrap.toml"
    async with AsyncExitStack() as stack:
        valkey = stack.enter_context(server())
        provider = await stack.enter_async_context(FakeProvider())
        admins, asking = [], None
        for number in range(2):
            folder = tmp_path / f"gateway-{number}"
            folder.mkdir()
            admins.append(f"127.0.0.1:{free_port()}")
            places = ["--listen", "127.0.0.1:0", "--admin", admins[-1]]
            flags = ["--store", valkey.url, "--upstream", provider.url]
            here = run(folder, "--config", file, *places, *flags, env=TOKENS)
            asking = await stack.enter_async_context(here)
            asking.url = (await asking.hears(r"(http://127\.0\.0\.1:\d+)"))[1]
        yield admins, asking


@pytest.fixture
def prometheus(needs, gateways, tmp_path):
    admins, _ = gateways
    return Prometheus(needs("prometheus", "prometheus"), tmp_path, admins)


def test_promtool_takes_the_configuration(needs, tmp_path):
    text = (COMPOSE / "prometheus.yml").read_text("utf-8").replace("/tmp/", f"{tmp_path}/")
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "read-token").write_text("t")
    (tmp_path / "alerts.yml").write_text(ALERTS.read_text("utf-8"))
    command = [needs("promtool", "prometheus"), "check", "config", tmp_path / "prometheus.yml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


async def test_both_gateways_are_scraped_and_every_panel_has_an_answer(prometheus, gateways):
    _, asking = gateways
    statuses = [(await asking.ask(chat())).status for _ in range(7)]
    assert statuses == [200] * 5 + [429] * 2
    with prometheus.running(TOKENS["READ_TOKEN"]):
        refused = 'sum(looptrap_requests_total{job="looptrap",verdict="block"})'
        await asyncio.to_thread(until, lambda: prometheus.values(refused) == ["2"])
        await asyncio.to_thread(
            until, lambda: prometheus.values('up{job="looptrap"}') == ["1", "1"]
        )
        await asyncio.to_thread(until, lambda: prometheus.ask(RATE))
        empty = {panel["title"] for panel in PANELS if not _answers(prometheus, panel)}
    assert empty == SILENT
    token = prometheus.folder / "read-token"
    assert (token.read_text(), token.stat().st_mode & 0o777) == (TOKENS["READ_TOKEN"], 0o600)


def _answers(prometheus, panel):
    """Return all that the questions of a panel come to."""
    return [one for target in panel["targets"] for one in prometheus.ask(filled(target["expr"]))]


async def test_without_the_token_nobody_is_told_anything(prometheus, gateways):
    (admin, _), _ = gateways
    with pytest.raises(HTTPError, match="401"):
        await asyncio.to_thread(urlopen, f"http://{admin}/metrics")
    headers = {"Authorization": f"Bearer {TOKENS['READ_TOKEN']}"}
    change = Request(f"http://{admin}/api/v1/kill-switches", b"{}", headers, method="POST")
    with pytest.raises(HTTPError, match="403"):
        await asyncio.to_thread(urlopen, change)
    with prometheus.running("wrong"):
        await asyncio.to_thread(
            until, lambda: prometheus.values('up{job="looptrap"}') == ["0", "0"]
        )
