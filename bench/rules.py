"""What each rule, rate, budget and kill switch costs: a guard with it, and one without any.

python -m bench.rules [--rounds 7]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from bench.bodies import BODIES, UNIQUE
from bench.core import HEADERS, cpu_us, loads_all
from looptrap.dialect.model import Outcome, Request, Usage
from looptrap.dialect.registry import read
from looptrap.engine import Guard
from looptrap.money.meters import settlements_of
from looptrap.money.price import Prices
from looptrap.policy import preset
from looptrap.policy.budget import Budget
from looptrap.policy.policy import KillSwitch, Policy
from looptrap.policy.rate import Rate

PRICES = Prices()
USED = Outcome(200, Usage(1200, 340), cost=2_000_000)

SHOWN = ("small", "agent")
"""A first question, and an agent's long history."""


def variants() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each rule, rate, budget and kill switch."""
    for policy in preset.load(preset.DEFAULT):
        for rule in policy.rules:
            yield rule.name, {"policies": [Policy(name="p", rules=(rule,))]}
    rates = {
        "rate, calls": Rate(name="r", rps=1e6, burst=1_000_000),
        "rate, calls by header": Rate(
            name="r", rps=1e6, burst=1_000_000, by=("header:user-agent",)
        ),
        "rate, tokens": Rate(
            name="r", kind="token_bucket_llm", tokens_per_minute=10**12, tokens_per_day=10**12
        ),
    }
    for name, rate in rates.items():
        yield name, {"policies": [Policy(name="p", rates=(rate,))]}
    budgets = {
        "budget, tokens": Budget(name="b", limit_tokens=10**12, period="1d"),
        "budget, dollars": Budget(name="b", limit_usd=1e6, period="1d"),
        "budget of sessions": Budget(name="b", by=("session",), limit_usd=1e6),
    }
    for name, budget in budgets.items():
        yield name, {"budgets": [budget]}
    yield "kill switch", {"kill_switches": [KillSwitch(match=(("caller", "somebody else"),))]}


def judge_all(settings: dict[str, Any], bodies: list[bytes]) -> Callable[[], None]:
    """Return a run that judges the bodies and settles their usage."""
    given = {"policies": (), "prices": PRICES, **settings}

    def run() -> None:
        guard = Guard(secret=b"bench", **given)
        now = 1_800_000_000.0
        for body in bodies:
            now += 0.001
            request = Request("POST", "/v1/chat/completions", "", HEADERS, body, "caller")
            ticket = guard.admit(read(request), now)
            assert not ticket.verdict.action.refuses
            if ticket.holds:
                guard.store.settle(settlements_of(ticket.holds, USED), now)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    bodies = {}
    for name in SHOWN:
        body = BODIES[name]()
        calls = max(20, min(2_000, 20_000_000 // len(body)))
        bodies[name] = [body.replace(UNIQUE.encode(), b"%016d" % n) for n in range(calls)]

    def measure(settings: dict[str, Any]) -> list[float]:
        return [
            cpu_us(judge_all(settings, some), len(some), options.rounds) for some in bodies.values()
        ]

    loaded = [cpu_us(loads_all(some), len(some), options.rounds) for some in bodies.values()]
    bare = measure({})
    print("CPU µs a call, the least of the rounds; what each adds to a call without any\n")
    print(f"{'':<24}" + "".join(f"{name:>10}" for name in SHOWN))
    print(f"{'json.loads':<24}" + "".join(f"{one:>10.1f}" for one in loaded))
    print(f"{'read, no rule at all':<24}" + "".join(f"{one:>10.1f}" for one in bare))
    for name, settings in variants():
        found = measure(settings)
        more = "".join(f"{one - less:>+10.1f}" for one, less in zip(found, bare, strict=True))
        print(f"{name:<24}{more}")


if __name__ == "__main__":
    main()
