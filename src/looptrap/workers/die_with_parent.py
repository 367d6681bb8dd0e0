"""Run a program that ends with its parent: `die_with_parent.py PARENT PROGRAM ARGUMENT…`.

Run as a file by a bare interpreter: the supervisor cannot be forked safely while its loop runs.
Linux only; elsewhere the program is started without the tie.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def exec_tied_to_parent(parent: int, command: list[str]) -> None:
    """Replace this process by the command, which the kernel kills when the parent has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:  # otherwise the parent ended before the call above
        os.execv(command[0], command)


if __name__ == "__main__":
    exec_tied_to_parent(int(sys.argv[1]), sys.argv[2:])
