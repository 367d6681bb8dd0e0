"""What the default policy does on loops across requests, and on honest runs like them.

python -m bench.loops [--seed N] [--kind KIND] [--list]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from statistics import median

from bench.loops import across, prompts, visible
from bench.loops.scenario import Played, Scenario, play
from looptrap import Guard

MODULES = (across, prompts, visible)
"""Where the scenarios come from: each has `scenarios(seed)`."""

Judged = tuple[Scenario, Played]


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the scenarios, and print what became of them."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--seed", type=int, default=0, help="other seeds draw other scenarios")
    options.add_argument("--kind", help="only scenarios of this kind")
    options.add_argument("--list", action="store_true", help="list the scenarios; play none")
    chosen = options.parse_args(arguments)
    found = [
        one
        for module in MODULES
        for one in module.scenarios(chosen.seed)
        if chosen.kind in (None, one.kind)
    ]
    if chosen.list:
        for one in found:
            print(f"{one.name:48} {'loop' if one.is_loop else 'honest':6} {len(one.steps):4} steps")
        return
    judged = [(one, play(one, Guard.from_preset("default", secret=b"bench"))) for one in found]
    _print_table(judged)
    _print_misses(judged)


def _print_table(judged: Iterable[Judged]) -> None:
    by_kind: dict[str, list[Judged]] = {}
    for one in judged:
        by_kind.setdefault(one[0].kind, []).append(one)
    print("kind         loops  refused  warned  calls after | honest  refused  warned")
    for kind, rows in by_kind.items():
        loops = [row for row in rows if row[0].is_loop]
        honest = [row for row in rows if not row[0].is_loop]
        after = [played.refused - one.begins for one, played in loops if played.refused is not None]
        middle = f"{median(after):.0f}" if after else "-"
        print(
            f"{kind:12} {len(loops):5}  {_refused(loops):7}  {_warned(loops):6}  {middle:>11} |"
            f" {len(honest):6}  {_refused(honest):7}  {_warned(honest):6}"
        )


def _refused(rows: Iterable[Judged]) -> int:
    return sum(played.refused is not None for _, played in rows)


def _warned(rows: Iterable[Judged]) -> int:
    """Count those that were warned of, or refused."""
    return sum(played.refused is not None or played.warned is not None for _, played in rows)


def _print_misses(judged: Iterable[Judged]) -> None:
    for one, played in judged:
        if one.is_loop and played.refused is None:
            seen = "missed" if played.warned is None else f"only warned at {played.warned}"
            print(f"loop {seen}: {one.name} ({len(one.steps)} steps, begins {one.begins})")
        elif not one.is_loop and played.refused is not None:
            print(f"honest refused: {one.name} at {played.refused}: {played.why}")


if __name__ == "__main__":
    main()
