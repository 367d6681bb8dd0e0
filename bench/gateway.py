"""What the gateway costs, compared with a plain nginx, one with a loop guard in Lua, and no proxy.

python -m bench.gateway [--quick] [--only BODY ...] [--against NAME=PYTHON ...] [--json FILE]
python -m bench.gateway [--quick] --profile BODY ...
python -m bench.gateway [--quick] --store | --instances N

`--against` measures Looptraps of other environments in turns with this one. The third form measures
the cost of a shared store, with a Valkey that it starts itself.
"""

from __future__ import annotations

import argparse
import json
import os
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from bench import rig, shared, table
from bench.bodies import UNIQUE, agent, encoded, large, small
from bench.figure import Figure
from bench.rig import Load, MissingPartError, PartFailedError, Proxy
from bench.table import Round, Row
from looptrap.cli import interpreter

BODIES: dict[str, Callable[[], dict[str, Any]]] = {
    "small": small,
    "large": large,
    "agent": agent,
    "small_stream": lambda: {**small(), "stream": True},
}
CONNECTIONS = 32
BUSY = 0.7
"""The load average above which there is a warning."""
TAKEN = {"direct", table.NGINX, "nginx + Lua", "litellm", "portkey", table.OURS}
"""Names of rows."""


class Bench:
    """Loads proxies with bodies, never with the same one twice."""

    def __init__(self, folder: Path, seconds: int) -> None:
        self._folder = folder
        self._seconds = seconds
        self._runs = count(1)

    def load(
        self, proxy: Proxy, body: str, *, connections: int = CONNECTIONS, seconds: int = 0
    ) -> Load:
        """Load a proxy for one round."""
        file = self._folder / f"{body}.json"
        if not file.exists():
            file.write_bytes(encoded({**BODIES, **shared.BODIES}[body]()))
        return rig.load(
            proxy,
            file,
            UNIQUE,
            next(self._runs),
            connections=connections,
            seconds=seconds or self._seconds,
        )

    def round(self, proxy: Proxy, body: str, connections: int) -> Round:
        """Load a proxy and measure its CPU time."""
        before = proxy.cpu()
        load = self.load(proxy, body, connections=connections)
        after = proxy.cpu()
        return Round(load, after.user - before.user, after.system - before.system)

    def compare(self, proxies: Sequence[Proxy], bodies: Sequence[str], rounds: int) -> list[Row]:
        """Measure all proxies with all bodies in turns, so that noise affects all."""
        loads = [(body, CONNECTIONS) for body in bodies]
        if "small" in bodies:
            loads.append(("small", 1))
        rows = [
            Row(body, connections, proxy.name, is_looptrap=proxy.is_looptrap)
            for body, connections in loads
            for proxy in proxies
        ]
        named = {proxy.name: proxy for proxy in proxies}
        for proxy in proxies:
            self.load(proxy, bodies[0], seconds=1)  # what is made on first use is no request's cost
        for number in range(rounds):
            for at, row in enumerate(rows):
                _progress(f"round {number + 1} of {rounds}, {at + 1} of {len(rows)}: {row.label}")
                row.rounds.append(self.round(named[row.proxy], row.body, row.connections))
        _progress("")
        return rows


def profile(bench: Bench, folder: Path, provider: Proxy, preset: str, body: str) -> None:
    """Print where the gateway's time goes; the profiler makes calls look slower than they are."""
    file = folder / "profile"
    with rig.looptrap(folder, provider.port, preset=preset, profile=file) as proxy:
        load = bench.load(proxy, body)
    print(f"\nprofile of {body}: {load.requests:,} requests; divide by that for one request")
    pstats.Stats(str(file)).sort_stats("tottime").print_stats(25)


def count_together(
    bench: Bench, folder: Path, provider: Proxy, options: argparse.Namespace, rounds: int
) -> None:
    """Print what a shared store costs a gateway, and the rate of several gateways on one store."""
    if options.store:
        loads = [(body, number) for number in (CONNECTIONS, 1) for body in shared.BODIES]
        for line in shared.compare(folder / "store", provider, bench.round, loads, rounds):
            print(line)
    if options.instances:
        for line in shared.together(
            folder / "instances", provider, bench.round, options.instances, rounds
        ):
            print(line)


@contextmanager
def started(
    folder: Path, provider: Proxy, preset: str, against: Mapping[str, Path]
) -> Iterator[list[Proxy]]:
    """Start every proxy that is installed; say which are not."""
    with ExitStack() as stack:
        proxies = [provider]
        for start in (rig.nginx, rig.nginx_with_lua, rig.litellm, rig.portkey):
            try:
                proxies.append(stack.enter_context(start(folder, provider.port)))
            except (MissingPartError, PartFailedError) as error:
                print(error, file=sys.stderr)
        for name, python in {**against, table.OURS: None}.items():
            own = folder / f"looptrap-{name}"
            own.mkdir()
            gateway = rig.looptrap(own, provider.port, name=name, python=python, preset=preset)
            proxies.append(stack.enter_context(gateway))
        yield proxies


def reject_refusals(proxies: Sequence[Proxy]) -> None:
    """Raise an error if a Looptrap did anything but allow: then it measured something else."""
    for proxy in proxies:
        if proxy.is_looptrap and (acted_on := proxy.acted_on()):
            raise PartFailedError(f"INVALID: {proxy.name} did not simply allow {acted_on} requests")


def figures(rounds: int, seconds: int, bodies: Sequence[str]) -> Iterator[Figure]:
    """Yield the figures of the report."""
    warn_of_interpreter(table.OURS, interpreter.describe(), interpreter.is_optimised())
    with tempfile.TemporaryDirectory(prefix="looptrap-bench-") as name:
        folder = Path(name)
        bench = Bench(folder, seconds)
        with (
            rig.provider(folder) as provider,
            started(folder, provider, "default", built()) as proxies,
        ):
            idle = {proxy.name: proxy.rss() for proxy in proxies}
            rows = bench.compare(proxies, bodies, rounds)
            reject_refusals(proxies)
    yield from table.figures(rows, idle)


def built() -> dict[str, Path]:
    """Return the environment with the compiled wheel, if `make test-compiled` has made it."""
    python = Path(__file__).parent.parent / ".compiled/bin/python"
    return {table.COMPILED: python} if python.exists() else {}


def measure(options: argparse.Namespace, folder: Path) -> None:
    seconds, rounds = (1, 3) if options.quick else (options.seconds, options.rounds)
    bench = Bench(folder, seconds)
    with rig.provider(folder) as provider:
        if options.profile:
            for body in options.profile:
                profile(bench, folder, provider, options.preset, body)
            return
        if options.store or options.instances:
            count_together(bench, folder, provider, options, rounds)
            return
        against = dict(options.against)
        interpreters = describe_interpreters({**against, table.OURS: Path(sys.executable)})
        with started(folder, provider, options.preset, against) as proxies:
            idle = {proxy.name: proxy.rss() for proxy in proxies}
            rows = bench.compare(proxies, options.only, rounds)
            loaded = {proxy.name: proxy.rss() for proxy in proxies}
            print(table.render(rows, idle, loaded, interpreters))
            if options.json:
                found = table.as_json(rows, idle, loaded, interpreters)
                options.json.write_text(json.dumps(found, indent=2) + "\n")
            reject_refusals(proxies)


def describe_interpreters(pythons: Mapping[str, Path]) -> dict[str, str]:
    """Return what each Python says of itself; warn of those that are slow."""
    described = {}
    for name, python in pythons.items():
        asked = [python, Path(interpreter.__file__)]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        described[name] = done.stdout.strip()
        warn_of_interpreter(name, described[name], not done.returncode)
    return described


def warn_of_interpreter(name: str, described: str, is_optimised: bool) -> None:
    """Warn if a Looptrap runs on a Python that was built without optimisation."""
    if not is_optimised:
        print(f"{name} runs on {described}: every figure of it is too high", file=sys.stderr)


def environment(text: str) -> tuple[str, Path]:
    """Read NAME=PYTHON: a row, and the interpreter of an environment with another Looptrap."""
    name, _, python = text.partition("=")
    if not name or name in TAKEN or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r}: NAME=PYTHON, and no name of another row")
    path = Path(python).absolute()  # not resolved: the link is in the environment, its target not
    if not path.with_name("looptrap").exists():
        raise argparse.ArgumentTypeError(f"{python!r}: there is no looptrap beside it")
    return name, path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short rounds: under a minute")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the least counts")
    parser.add_argument("--seconds", type=int, default=3, help="how long a round takes")
    parser.add_argument("--only", nargs="+", choices=BODIES, default=list(BODIES), metavar="BODY")
    parser.add_argument(
        "--against",
        nargs="+",
        type=environment,
        default=[],
        metavar="NAME=PYTHON",
        help="other environments, such as base=../base/.venv/bin/python",
    )
    parser.add_argument("--preset", default="default", help="the policies to measure with")
    parser.add_argument("--profile", nargs="+", choices=BODIES, metavar="BODY", help="cProfile")
    parser.add_argument("--store", action="store_true", help="compare with a Valkey, and a cluster")
    parser.add_argument("--instances", type=int, default=0, metavar="N", help="N on one Valkey")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there too")
    options = parser.parse_args()
    if len(dict(options.against)) < len(options.against):
        parser.error("--against: two environments have one name")
    if len(rig.cores()) < 2:
        print("one core: load and proxy share it, latencies say little", file=sys.stderr)
    if (busy := os.getloadavg()[0]) > BUSY:
        print(f"the machine is busy (load {busy:.1f}): every figure is too high", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="looptrap-bench-") as folder:
        try:
            measure(options, Path(folder))
        except (MissingPartError, PartFailedError) as error:
            sys.exit(str(error))


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
