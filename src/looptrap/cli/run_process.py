"""RunProcess: a command in the foreground of the terminal, its signals and its time limit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any

KILL_GRACE_S = 10.0
"""Seconds that a command has to end by itself after its time is over."""

NOT_FOUND_STATUS = 127
NOT_EXECUTABLE_STATUS = 126
"""Exit statuses of shells for commands that cannot be started."""

SIGNAL_BASE = 128
"""What shells add to the number of the signal that ended a command."""

FORWARDED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM,
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH,
)  # fmt: skip

FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""What a terminal sends to its whole foreground."""

TERMINAL_ACCESS = (signal.SIGTTIN, signal.SIGTTOU)
"""What stops a process that uses a terminal in whose foreground it is not."""


@contextmanager
def signals_held() -> Iterator[set[signal.Signals | int]]:
    """Hold signals back until the end of this block; give the mask from before.

    Threads that are started here never get them: they must interrupt the main thread.
    """
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    try:
        yield earlier
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


class Terminal:
    """The controlling terminal, if this process is in its foreground."""

    def __init__(self) -> None:
        self._own_group = os.getpgrp()
        try:
            self._descriptor = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self._descriptor = -1

    @property
    def exists(self) -> bool:
        """Whether there is one."""
        return self._descriptor >= 0

    @property
    def is_ours(self) -> bool:
        """Whether this process, not another job of the shell, has the terminal."""
        with suppress(OSError):
            return os.tcgetpgrp(self._descriptor) == self._own_group
        return False

    def give(self, group: int) -> None:
        """Make a process group the one that the terminal reads for and signals."""
        # A background process that sets this is stopped, unless it ignores the signal.
        earlier = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(OSError):
            os.tcsetpgrp(self._descriptor, group)
        signal.signal(signal.SIGTTOU, earlier)

    def take(self) -> None:
        """Make this process's group the foreground again."""
        self.give(self._own_group)

    def close(self) -> None:
        """Close it."""
        if self.exists:
            os.close(self._descriptor)


class RunProcess:
    """One command with the standard input, output and error of this process.

    It has a process group of its own, which is the foreground of the terminal if this process was:
    Ctrl-C and Ctrl-Z are for the command, and a time limit reaches all its children. Only in a
    pipeline, whose other programs need the terminal too, it stays in the group of this process.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self.is_out_of_time = False
        self._terminal = Terminal()
        is_interactive = os.isatty(0) and os.isatty(1)
        self._shares_group = self._terminal.is_ours and not is_interactive
        self._has_terminal = self._terminal.is_ours and is_interactive
        # Python ignores these two, and a command must not inherit that.
        defaults = (signal.SIGPIPE, signal.SIGXFSZ)
        with signals_held() as mask:
            try:
                self._pid = os.posix_spawnp(
                    words[0],
                    list(words),
                    dict(env),
                    setpgroup=os.getpgrp() if self._shares_group else 0,
                    setsigmask=mask,
                    setsigdef=defaults,
                )
            except OSError:
                self._terminal.close()
                raise
            self._handlers = self._forward_signals()

    def wait(self, seconds: float | None = None) -> int:
        """Wait for its end, at most so long; return its status as a shell would."""
        timer = Timer(seconds or 0, self._end_in_time)
        timer.daemon = True
        if seconds is not None:
            with signals_held():
                timer.start()
        try:
            return self._wait_in_foreground()
        finally:
            timer.cancel()
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _wait_in_foreground(self) -> int:
        try:
            self._give_terminal()
            while True:
                _, status = os.waitpid(self._pid, os.WUNTRACED)
                if not os.WIFSTOPPED(status):
                    break
                if self._has_terminal and os.WSTOPSIG(status) in TERMINAL_ACCESS:
                    self._signal(signal.SIGCONT)  # it was used before it was given
                else:
                    self._stop_too()
        finally:
            if self._has_terminal:
                self._terminal.take()
            self._terminal.close()
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else SIGNAL_BASE - code

    def _give_terminal(self) -> None:
        if self._has_terminal:
            self._terminal.give(self._pid)

    def _stop_too(self) -> None:
        """Stop with the command, as one job of the shell; go on with it when that is continued."""
        if self._shares_group or not self._terminal.exists:
            return  # the terminal has stopped this process too, or no shell waits for a job
        if self._has_terminal:
            self._terminal.take()
        os.killpg(os.getpgrp(), signal.SIGSTOP)
        # The shell has continued this process, in the foreground or in the background.
        self._has_terminal = self._terminal.is_ours
        self._give_terminal()
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        send = os.kill if self._shares_group else os.killpg
        with suppress(ProcessLookupError, PermissionError):
            send(self._pid, number)

    def _forward(self, number: int) -> None:
        # In a shared group, the terminal has sent these to the command as well.
        if not (self._shares_group and number in FROM_TERMINAL):
            self._signal(number)

    def _forward_signals(self) -> dict[signal.Signals, Any]:
        """Send the command what this process gets; return the handlers from before."""
        return {
            number: signal.signal(number, lambda number, _frame: self._forward(number))
            for number in FORWARDED
            # A signal that is ignored, as under nohup, is ignored by the command too.
            if signal.getsignal(number) is not signal.SIG_IGN
        }

    def _end_in_time(self) -> None:
        self.is_out_of_time = True
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        killer = Timer(KILL_GRACE_S, self._signal, [signal.SIGKILL])
        killer.daemon = True
        killer.start()
