"""The Python that runs this: its version, and whether a profile guided its compiler.

PYTHON src/looptrap/cli/interpreter.py

prints that, and exits with 1 unless it is optimised and new enough for Looptrap. It imports nothing
that old Pythons lack: `make` asks each Python that it finds.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Callable

OLDEST = (3, 11)


def is_optimised(setting: Callable[[str], object] = sysconfig.get_config_var) -> bool:
    """Return whether a profile guided its compiler: such a build runs the same code faster."""
    if "--enable-optimizations" in str(setting("CONFIG_ARGS") or ""):
        return True
    # Debian and Ubuntu run `make profile-opt` without that option, and afterwards empty the flags
    # that only optimised builds need. Without optimisation the flags stay as configure wrote them.
    return bool(setting("PGO_PROF_GEN_FLAG")) and setting("PGO_PROF_USE_FLAG") == ""


def describe() -> str:
    """Return implementation, version and kind of build in a few words."""
    kind = "optimised" if is_optimised() else "not optimised"
    return f"{platform.python_implementation()} {platform.python_version()}, {kind}"


if __name__ == "__main__":
    sys.stdout.write(f"{describe()}\n")
    sys.exit(sys.version_info < OLDEST or not is_optimised())
