"""Become a program that ends with whoever started this: `mortal.py PARENT PROGRAM ARGUMENT…`.

Run as a file by a bare interpreter: a fork of the supervisor itself could not be made safely while
its loop runs. Linux only; elsewhere the program is started as it is.
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
    if os.getppid() == parent:  # otherwise it ended before the kernel knew
        os.execv(command[0], command)


if __name__ == "__main__":
    exec_tied_to_parent(int(sys.argv[1]), sys.argv[2:])
