# ruff: noqa: T201 - says what it found
"""Fuzz the parsers for as long as you like.

python -m fuzz [--seconds 60] [--target NAME …] [--list]     fuzz targets, one after the other
python -m fuzz --replay FILE …                                try saved inputs again

Inputs that broke a law are kept in fuzz/crashes/TARGET/, those that found something new in
fuzz/corpus/TARGET/, from which the next run goes on.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from pathlib import Path

from fuzz.engine import CRASHES, has_atheris, holds
from fuzz.targets import TARGETS


def main() -> int:
    """Return 0 where every law holds."""
    options = _options()
    if options.list:
        print("\n".join(f"{name:12} {one.check.__doc__}" for name, one in TARGETS.items()))
        return 0
    if options.replay:
        logging.disable()
        return int(False in [_replayed(path) for path in options.replay])
    names = [name for name in TARGETS if _is_meant(name, options.target)]
    if not names:
        sys.exit(f"there is no target {', '.join(options.target)}: {', '.join(TARGETS)}")
    print(f"engine: {'atheris' if has_atheris() else 'random (pip install atheris for more)'}")
    broken = [name for name in names if _fuzz(name, options.seconds)]
    print(f"{len(names)} targets, {len(broken)} with broken laws: {', '.join(broken) or 'none'}")
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", action="append", default=[], help="a target, or its module")
    parser.add_argument("--replay", nargs="+", type=Path, default=[], metavar="FILE")
    parser.add_argument("--list", action="store_true", help="say which targets there are")
    return parser.parse_args()


def _is_meant(name: str, wanted: list[str]) -> bool:
    module = TARGETS[name].check.__module__.rpartition(".")[2]
    return not wanted or name in wanted or module in wanted


def _fuzz(name: str, seconds: int) -> bool:
    """Fuzz one target; say whether a law was broken."""
    command = [sys.executable, "-m", "fuzz.engine", name, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    said = (done.stdout + done.stderr).splitlines()
    counts = [one for one in said if "number_of_executed_units" in one or one.endswith(" inputs")]
    print(
        f"{name}: {counts[-1].split()[-1] if 'executed' in ''.join(counts) else ''.join(counts)}"
        f"{'' if done.returncode == 0 else ' BROKEN'}",
        flush=True,
    )
    if done.returncode != 0:
        print("\n".join(said[-60:]))
    return done.returncode != 0


def _replayed(path: Path) -> bool:
    """Try one saved input again; its folder says which target it is for."""
    name = path.resolve().parent.name
    if name not in TARGETS:
        sys.exit(f"{path}: lies in no folder that is named for a target, such as {CRASHES}/call/")
    is_good = holds(TARGETS[name].check, path.read_bytes())
    print(f"{path}: {'fine' if is_good else 'broken'}")
    return is_good


if __name__ == "__main__":
    sys.exit(main())
