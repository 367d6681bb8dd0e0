"""The parts of the gateway's benchmark: processes that are started, pinned, watched and ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from secrets import token_urlsafe
from string import Template
from typing import NamedTuple
from urllib.request import urlopen

HERE = Path(__file__).parent
LOAD_CORE, PROXY_CORE = 0, -1
"""The cores: the first for load and provider, the last for the proxy."""
PATIENCE = 60.0
"""Seconds that a part has to start."""
TICKS = os.sysconf("SC_CLK_TCK")
NO_LUA = (
    "nginx has no Lua with cjson: its row is left out"
    " (apt-get install libnginx-mod-http-lua lua-cjson)"
)


class MissingPartError(Exception):
    """A program that must be installed first."""


class PartFailedError(Exception):
    """A part that ended, or did not start."""


class Cpu(NamedTuple):
    """Seconds of CPU that a process and its children have used."""

    user: float
    system: float


@dataclass(frozen=True, slots=True)
class Proxy:
    """A target of the load: a proxy, or the provider itself."""

    name: str
    port: int
    process: subprocess.Popen[str]
    fields: tuple[str, ...] = ()
    """Header fields that it requires, as Name=Value."""
    admin: int = 0
    """The port of Looptrap's admin listener; others have none."""

    @property
    def is_looptrap(self) -> bool:
        return self.admin > 0

    def cpu(self) -> Cpu:
        """Return the CPU used so far."""
        stats = [_stat(pid) for pid in _family(self.process.pid)]
        return Cpu(sum(int(s[11]) for s in stats) / TICKS, sum(int(s[12]) for s in stats) / TICKS)

    def rss(self) -> int:
        """Return the resident bytes."""
        page = os.sysconf("SC_PAGE_SIZE")
        return sum(int(_stat(pid)[21]) for pid in _family(self.process.pid)) * page

    def acted_on(self) -> int:
        """Return how many requests Looptrap did not allow."""
        with urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10) as metrics:
            lines = metrics.read().decode().splitlines()
        counts = [line.split() for line in lines if line.startswith("looptrap_requests_total{")]
        return sum(int(float(number)) for name, number in counts if "allow" not in name)


class Load(NamedTuple):
    """The results of the load generator in one run; latencies in microseconds."""

    requests: int
    seconds: float
    refused: int
    """Answers with a status of 400 or more."""
    broken: int
    """Connections that failed, and requests that timed out."""
    p50: int
    p99: int


def cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def part(command: str, package: str) -> str:
    """Return the path of an installed command."""
    found = shutil.which(command) or shutil.which(command, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise MissingPartError(f"{command} is missing: apt-get install {package}")
    return found


def load(proxy: Proxy, body: Path, mark: str, run: int, *, connections: int, seconds: int) -> Load:
    """Post unique bodies for whole seconds; `run` is a number not used before."""
    command = [part("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s"]
    command += ["-s", str(HERE / "post.lua"), f"http://127.0.0.1:{proxy.port}/v1/chat/completions"]
    command += ["--", str(body), str(run), mark, *proxy.fields]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds + PATIENCE,
        preexec_fn=partial(_pin, LOAD_CORE),
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return Load(**json.loads(line.removeprefix("RESULT ")))
    raise PartFailedError(f"wrk ended with {done.returncode}: {done.stderr.strip() or done.stdout}")


@contextmanager
def provider(folder: Path) -> Iterator[Proxy]:
    """Compile and run the provider."""
    binary = folder / "provider"
    compiler = part("cc", "gcc libc6-dev")
    subprocess.run([compiler, "-O2", "-o", binary, HERE / "provider.c"], check=True, timeout=120)
    with _running([str(binary)], folder, LOAD_CORE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Proxy("direct", port, process)


@contextmanager
def nginx(folder: Path, provider_port: int) -> Iterator[Proxy]:
    """Run nginx as a plain reverse proxy."""
    command, port = part("nginx", "nginx-light"), free_port()
    file = _nginx_settings(folder, provider_port, port)
    with _nginx_running(command, folder, file, port) as process:
        yield Proxy("nginx", port, process)


@contextmanager
def nginx_with_lua(folder: Path, provider_port: int) -> Iterator[Proxy]:
    """Run the same nginx with a small loop guard in Lua, and see that it guards."""
    command, port = part("nginx", "nginx-light"), free_port()
    folder = folder / "lua"
    folder.mkdir()
    file = _nginx_settings(
        folder,
        provider_port,
        port,
        modules=lua_modules(command),
        shared='lua_shared_dict calls 64m; init_by_lua_block { require "cjson.safe" }',
        # As text, because workers run as a user who may not read this folder.
        guard=f"access_by_lua_block {{\n{(HERE / 'guard.lua').read_text()}}}",
    )
    # Without cjson it does not start: this says so.
    test = [command, "-t", "-q", "-p", str(folder), "-c", str(file), "-e", "stderr"]
    tested = subprocess.run(test, capture_output=True, text=True, timeout=PATIENCE)
    if tested.returncode:
        raise MissingPartError(f"{NO_LUA} ({tested.stderr.strip().partition(chr(10))[0]})")
    with _nginx_running(command, folder, file, port) as process:
        proxy = Proxy("nginx + Lua", port, process)
        if (statuses := equal_calls(proxy, 6)) != [200] * 5 + [429]:
            raise PartFailedError(f"nginx + Lua answered six equal calls with {statuses}")
        yield proxy


def lua_modules(nginx: str) -> str:
    """Return the directives that load nginx's Lua module; none where it is built in."""
    done = subprocess.run([nginx, "-V"], capture_output=True, text=True, timeout=PATIENCE)
    options = done.stderr.split()
    if any(one.startswith("--add-module=") and "lua" in one for one in options):
        return ""
    places = [one.partition("=")[2] for one in options if one.startswith("--modules-path=")]
    files = [Path(*places, f"{name}.so") for name in ("ndk_http_module", "ngx_http_lua_module")]
    if not places or not files[-1].exists():
        raise MissingPartError(NO_LUA)
    # Some builds of the Lua module contain the kit that others load as a module of its own.
    return " ".join(f"load_module {file};" for file in files if file.exists())


def equal_calls(proxy: Proxy, times: int) -> list[int]:
    """Send one small call several times, and return the statuses of the answers."""
    body = {"model": "any", "messages": [{"role": "user", "content": "Are we there yet?"}]}
    fields = {"Content-Type": "application/json", "Authorization": "Bearer sk-equal"}
    statuses = []
    for _ in range(times):
        connection = HTTPConnection("127.0.0.1", proxy.port, timeout=10)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), fields)
        statuses.append(connection.getresponse().status)
        connection.close()
    return statuses


@contextmanager
def looptrap(
    folder: Path,
    provider_port: int,
    *,
    name: str = "looptrap",
    python: Path | None = None,
    preset: str = "default",
    profile: Path | None = None,
    max_fingerprints: int | None = None,
    settings: str = "",
) -> Iterator[Proxy]:
    """Run the gateway as its users do; under cProfile when there is a file to write to.

    `python` is the interpreter of another environment, whose Looptrap runs instead of this one.
    """
    port, admin = free_port(), free_port()
    command = [str((python or Path(sys.executable)).with_name("looptrap")), "serve"]
    command += ["--preset", preset, "--upstream", f"http://127.0.0.1:{provider_port}"]
    command += ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    if max_fingerprints is not None:
        settings = f"max_fingerprints = {max_fingerprints}\n{settings}"
    if settings:
        file = folder / "looptrap.toml"
        file.write_text(settings)
        command += ["--config", str(file)]
    if profile is not None:
        command = [sys.executable, "-m", "cProfile", "-o", str(profile), *command]
    # A path meant for this environment would let another one run this code.
    env = {"PYTHONPATH": ""} if python is not None else None
    with _running(command, folder, PROXY_CORE, env=env) as process:
        _await_port(process, admin)  # the second to be opened
        yield Proxy(name, port, process, admin=admin)


@contextmanager
def litellm(folder: Path, provider_port: int) -> Iterator[Proxy]:
    """Run LiteLLM's proxy with one worker, if it is on the path or where tests install it."""
    ours = HERE.parent / ".frameworks" / "b" / "bin"
    command, port = shutil.which("litellm") or shutil.which("litellm", path=ours), free_port()
    if command is None:
        raise MissingPartError("litellm is not on the path: its column is left out")
    model = {"model": "openai/*", "api_base": f"http://127.0.0.1:{provider_port}/v1"}
    model["api_key"] = "sk-bench"
    file = folder / "litellm.json"  # JSON is YAML
    file.write_text(json.dumps({"model_list": [{"model_name": "*", "litellm_params": model}]}))
    arguments = [command, "--host", "127.0.0.1", "--port", str(port), "--config", str(file)]
    key = f"sk-{token_urlsafe(32)}"  # it does not start without one
    env = {"LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": key}
    with _running(arguments, folder, PROXY_CORE, env=env) as process:
        _await_port(process, port)
        yield Proxy("litellm", port, process, (f"Authorization=Bearer {key}",))


@contextmanager
def portkey(folder: Path, provider_port: int) -> Iterator[Proxy]:
    """Run Portkey's gateway by the command in BENCH_PORTKEY, in which {port} is filled in."""
    command, port = os.environ.get("BENCH_PORTKEY"), free_port()
    if not command:
        raise MissingPartError("BENCH_PORTKEY holds no command: Portkey's column is left out")
    with _running(command.format(port=port).split(), folder, PROXY_CORE) as process:
        _await_port(process, port)
        host = f"x-portkey-custom-host=http://127.0.0.1:{provider_port}/v1"
        yield Proxy("portkey", port, process, ("x-portkey-provider=openai", host))


def free_port() -> int:
    """Return a free port of the loopback address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _nginx_settings(
    folder: Path,
    provider_port: int,
    port: int,
    *,
    modules: str = "",
    shared: str = "",
    guard: str = "",
) -> Path:
    settings = Template((HERE / "nginx.conf").read_text())
    file = folder / "nginx.conf"
    text = settings.substitute(
        folder=folder,
        provider=provider_port,
        port=port,
        modules=modules,
        shared=shared,
        guard=guard,
    )
    file.write_text(text)
    return file


@contextmanager
def _nginx_running(
    command: str, folder: Path, file: Path, port: int
) -> Iterator[subprocess.Popen[str]]:
    arguments = [command, "-p", str(folder), "-c", str(file), "-e", str(folder / "error.log")]
    with _running(arguments, folder, PROXY_CORE) as process:
        _await_port(process, port)
        yield process


@contextmanager
def _running(
    command: Sequence[str],
    folder: Path,
    core: int,
    *,
    env: Mapping[str, str] | None = None,
    stdout: int | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a command on one core, in a session of its own; end it and its children afterwards."""
    with (folder / f"{Path(command[0]).name}.log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            text=True,
            start_new_session=True,
            preexec_fn=partial(_pin, core),
        )
    try:
        yield process
    finally:
        family = _family(process.pid)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            for pid in family:
                _kill(pid)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _pin(core: int) -> None:
    os.sched_setaffinity(0, {cores()[core]})


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _await_port(process: subprocess.Popen[str], port: int) -> None:
    """Return when a process listens at the port."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PartFailedError(f"{process.args!r} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise PartFailedError(f"{process.args!r} did not listen within {PATIENCE:g} s")


def _family(pid: int) -> list[int]:
    """Return the process and all that descend from it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [pid, *(one for child in children for one in _family(int(child)))]


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on: the second may contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
