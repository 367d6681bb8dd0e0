"""What incidents cost the gateway: refused calls of a few incidents, or of one incident each.

Run it with `python -m bench.incident`; it needs what `bench.gateway` needs.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench.bodies import UNIQUE, encoded, small
from bench.rig import Proxy, load, looptrap, provider

RATE = 2_000
"""Incidents a second that may cost at most 5 per cent of what requests cost."""

REPEATED = 6
"""Equal rounds: enough to be refused at the first request."""


def stuck(*, is_new: bool) -> dict[str, Any]:
    """A history that is refused at once, of a new agent each time or always of the same."""
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": '{"n":1}'}}
    task = "Find the bug in the parser of the importer, and mend it without breaking the tests."
    history = [
        {"role": "system", "content": "You are a careful engineer. " * 10},
        {"role": "user", "content": f"{task} {UNIQUE if is_new else ''}"},
    ]
    for _ in range(REPEATED):
        history.append({"role": "assistant", "content": None, "tool_calls": [call]})
        history.append({"role": "tool", "tool_call_id": "c", "content": "still wrong at line 3"})
    # A field that no rule reads differs too, so that both have the same size.
    return {"model": "gpt-5.3", "messages": history, "metadata": {"n": "" if is_new else UNIQUE}}


BODIES = {
    "allowed": small,
    "refused, of few incidents": lambda: stuck(is_new=False),
    "refused, an incident each": lambda: stuck(is_new=True),
}


def cpu_us(proxy: Proxy, body: Path, run: int, seconds: int) -> tuple[float, int]:
    """Return the CPU time of one request, and the number of requests."""
    before = proxy.cpu()
    seen = load(proxy, body, UNIQUE, run, connections=32, seconds=seconds)
    after = proxy.cpu()
    used = (after.user - before.user) + (after.system - before.system)
    return used / seen.requests * 1e6, seen.requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--seconds", type=int, default=3, metavar="S")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, list[float]] = {body: [] for body in BODIES}
        for body, make in BODIES.items():
            (folder / body).write_bytes(encoded(make()))
        with provider(folder) as upstream, looptrap(folder, upstream.port) as proxy:
            run = 0
            for _ in range(options.rounds):
                for body in BODIES:
                    run += 1
                    cost, _ = cpu_us(proxy, folder / body, run, options.seconds)
                    found[body].append(cost)
    least = {body: min(costs) for body, costs in found.items()}
    for body, costs in found.items():
        spread = median(costs) / least[body] - 1
        print(f"{body:28} {least[body]:7.1f} CPU µs a request   spread {spread:.0%}")
    allowed, few, each = least.values()
    added = max(each - few, 0.0)
    share = RATE * added / 1e6
    print(f"an incident costs {added:.1f} µs: {added / allowed:.0%} of an allowed request")
    print(f"{RATE} incidents a second take {share:.1%} of a core that is busy with requests")


if __name__ == "__main__":
    main()
