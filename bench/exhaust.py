"""Attempts to exhaust a gateway: does its memory stay bounded, and is honest traffic still served?

python -m bench.exhaust [--only WORD ...] [--share 1.0] [--json FILE]
python -m bench.exhaust --structures [--share 1.0]

The second form fills the data structures of the gateway directly: 10 million fingerprints, a
million sessions. `--share 0.1` makes a tenth of every attempt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench import structure
from bench.attempts import PLANS, Plan
from bench.client import Client, chat, request
from bench.rig import HERE, PATIENCE, free_port
from bench.stage import Part
from bench.watch import MB, holding

PAUSE = 0.02
"""Seconds between two honest questions."""
ALONE = 100
"""Honest questions before an attempt begins, for comparison."""
SLOWEST = 10.0
"""The maximum of seconds for an honest question."""

CONFIGURATION = """
max_fingerprints = 20_000
[gateway]
head_timeout = 5
body_timeout = 5
write_timeout = 5
decision_log = "off"
[incidents]
max_size = "16MB"
"""


@dataclass
class Found:
    """The result of one attempt."""

    name: str
    endings: Mapping[str, int]
    rss_before: int
    rss_most: int
    rss_after: int
    room: int
    honest: int
    """Questions of honest agents during the attempt …"""
    unserved: int
    """… and those that were not answered with 200."""
    alone_ms: float
    """Their median latency without the attempt …"""
    meanwhile_ms: float
    """… with it …"""
    slowest_ms: float
    """… and the slowest."""
    problems: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Record every violation."""
        grown = (self.rss_most - self.rss_before) / MB
        if grown > self.room:
            self.problems.append(f"memory grew by {grown:.0f} MB, at most {self.room}")
        if self.unserved or not self.honest:
            self.problems.append(f"{self.unserved} of {self.honest} honest questions not served")
        if self.slowest_ms > SLOWEST * 1000:
            self.problems.append(f"an honest question took {self.slowest_ms:.0f} ms")


class Ground:
    """A gateway with one process, and a provider."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "log").open("w")
        self.port, self.admin, port = free_port(), free_port(), free_port()
        program = [sys.executable, "-m", "bench.upstream", str(port), "/dev/null"]
        self._upstream = Part("upstream", program, port, self._log)
        file = folder / "looptrap.toml"
        file.write_text(CONFIGURATION)
        command = [str(Path(sys.executable).with_name("looptrap")), "serve", "--config", str(file)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}"]
        command += ["--upstream", f"http://127.0.0.1:{port}", "--state", str(folder / "state")]
        self.history = folder / "history.db"
        self._gateway = Part(
            "gateway", [*command, "--history", str(self.history)], self.admin, self._log
        )

    @contextmanager
    def serving(self) -> Iterator[Ground]:
        """Run both for as long as the context lasts."""
        try:
            self._upstream.start()
            self._gateway.start()
            yield self
        finally:
            self._gateway.kill()
            self._upstream.kill()
            self._log.close()

    def rss(self) -> int:
        """Return the gateway's resident bytes."""
        assert self._gateway.process is not None
        return holding(self._gateway.process.pid).rss

    async def meet(self, name: str, plan: Plan, share: float = 1.0) -> Found:
        """Make an attempt while an honest agent asks questions; return the result."""
        alone = [await self._ask(f"{name} before {number}") for number in range(ALONE)]
        before = self.rss()
        most, meanwhile = [before], [await self._ask(f"{name} first")]
        port = self.admin if plan.on_admin else self.port
        times = max(int(plan.times * share), 1)
        loop = asyncio.get_running_loop()
        attempt = loop.create_task(_attempt(name, port, times, plan.seconds))
        while not attempt.done():
            meanwhile.append(await self._ask(f"{name} meanwhile {len(meanwhile)}"))
            most.append(self.rss())
        found = Found(
            name,
            dict(await attempt),
            before,
            max(most),
            self.rss(),
            plan.room,
            len(meanwhile),
            sum(status != 200 for status, _ in meanwhile),
            median(seconds for _, seconds in alone) * 1000,
            median(seconds for _, seconds in meanwhile) * 1000,
            max(seconds for _, seconds in meanwhile) * 1000,
        )
        found.judge()
        return found

    async def _ask(self, text: str) -> tuple[int, float]:
        client = Client(self.port, patience=3 * SLOWEST)
        answer = await client.ask(request(chat(f"Honest question: {text}?")))
        client.close()
        await asyncio.sleep(PAUSE)
        return answer.status, answer.seconds


async def _attempt(name: str, port: int, times: int, seconds: float) -> Mapping[str, int]:
    words = (sys.executable, "-m", "bench.attempts", name, str(port), str(times), str(seconds))
    process = await asyncio.create_subprocess_exec(*words, cwd=HERE.parent, stdout=PIPE)
    try:
        async with asyncio.timeout(seconds + PATIENCE):
            told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found: Mapping[str, int] = json.loads(told)
    return found


LINE = "{:<31}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9}{:>9}  {}"


def main() -> int:
    """Make the attempts, print their results, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="WORD", help="attempts whose names have these")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--structures", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.structures:
        return _structures(given.share)
    plans = {
        name: plan
        for name, plan in PLANS.items()
        if not given.only or any(word in name for word in given.only)
    }
    found = asyncio.run(_meet_all(plans, given.share))
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    return int(any(one.problems for one in found))


async def _meet_all(plans: Mapping[str, Plan], share: float) -> list[Found]:
    head = ("attempt", "MB", "most", "after", "honest", "alone ms", "with ms", "worst ms")
    print(LINE.format(*head, "how its requests ended"))
    found = []
    with tempfile.TemporaryDirectory() as folder, Ground(Path(folder)).serving() as ground:
        for name, plan in plans.items():
            one = await ground.meet(name, plan, share)
            found.append(one)
            sizes = (one.rss_before, one.rss_most, one.rss_after)
            times = (one.alone_ms, one.meanwhile_ms, one.slowest_ms)
            endings = ", ".join(f"{number:,} × {what}" for what, number in one.endings.items())
            print(
                LINE.format(
                    name,
                    *(f"{size / MB:.0f}" for size in sizes),
                    one.honest,
                    *(f"{time:.1f}" for time in times),
                    endings,
                ),
                flush=True,
            )
            for problem in one.problems:
                print(f"  VIOLATION {problem}")
        with suppress(OSError):
            files = ground.history.parent.glob("history.db*")
            print(f"history: {sum(file.stat().st_size for file in files) / MB:.1f} MB")
    return found


def _structures(share: float) -> int:
    print(f"{'remembered':<42}{'times':>12}{'MB at 30 %':>12}{'MB at end':>11}{'s':>7}")
    is_bounded = True
    for name in structure.STRUCTURES:
        held = structure.drive(name, share)
        is_bounded &= held.is_bounded
        sizes = f"{held.filled / MB:>12.1f}{held.last / MB:>11.1f}"
        unbounded = "" if held.is_bounded else "  VIOLATION it grows"
        print(f"{name:<42}{held.number:>12,}{sizes}{held.seconds:>7.1f}{unbounded}", flush=True)
    return int(not is_bounded)


if __name__ == "__main__":
    sys.exit(main())
