# ruff: noqa: T201 - says what it found
"""The long run of one target, in a process of its own: libFuzzer ends the one it runs in.

python -m fuzz.engine TARGET SECONDS
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
CRASHES = HERE / "crashes"

SLOW = 10
"""Seconds after which one input counts as a crash."""


def has_atheris() -> bool:
    """Say whether inputs can be chosen by what they reach."""
    return find_spec("atheris") is not None


def run(name: str, seconds: int) -> int:
    """Fuzz a target for some seconds; return 0 where no law was broken."""
    logging.disable()
    corpus, crashes = CORPUS / name, CRASHES / name
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    return (_guided if has_atheris() else _at_random)(name, seconds, corpus, crashes)


def _guided(name: str, seconds: int, corpus: Path, crashes: Path) -> int:
    """Let libFuzzer choose; half of its changes are ours, which know JSON."""
    import atheris

    with atheris.instrument_imports(include=["looptrap"]):
        from fuzz.targets import TARGETS
    from fuzz.mutation import mutated

    target = TARGETS[name]
    for one in target.seeds():
        (corpus / sha1(one, usedforsecurity=False).hexdigest()).write_bytes(one)

    def mutate(data: bytes, most: int, number: int) -> bytes:
        rng = Random(number)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return mutated(data, rng, target.words)[:most]

    options = [f"-max_total_time={seconds}", f"-timeout={SLOW}", "-rss_limit_mb=2048"]
    options += [f"-artifact_prefix={crashes}/", "-max_len=16384", "-print_final_stats=1"]
    atheris.Setup([name, str(corpus), *options], target.check, custom_mutator=mutate)
    atheris.Fuzz()  # ends the process
    return 0


def _at_random(name: str, seconds: int, _corpus: Path, crashes: Path) -> int:
    """Change good inputs at random, where atheris is not to be had."""
    from fuzz.mutation import mutated
    from fuzz.targets import TARGETS

    target, rng = TARGETS[name], Random()
    seeds = list(target.seeds())
    end, tried = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = mutated(rng.choice(seeds), rng, target.words)
        tried += 1
        if not holds(target.check, data):
            crash = crashes / f"crash-{sha1(data, usedforsecurity=False).hexdigest()}"
            crash.write_bytes(data)
            print(f"{name}: a law is broken, see {crash}")
            return 1
    print(f"{name}: {tried} inputs")
    return 0


def holds(check: Callable[[bytes], None], data: bytes) -> bool:
    """Say whether a target's laws hold for an input; what broke one is told."""
    try:
        check(data)
    except Exception:  # noqa: BLE001 - whatever it is, it must not come out
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], int(sys.argv[2])))
