"""A command in a terminal: it has the foreground, Ctrl-C and Ctrl-Z are for it, time is limited."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from contextlib import contextmanager
from threading import Thread

import pytest
from tests.cli.running import start
from tests.patience import PATIENCE

from looptrap.cli import run_process
from looptrap.cli.run_process import RunProcess


class Terminal:
    """The other end of a terminal: what it shows, and the keys that are pressed."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._unread = ""

    @property
    def foreground(self):
        """The process group that the terminal is for."""
        return os.tcgetpgrp(self._descriptor)

    def press(self, keys):
        os.write(self._descriptor, keys)

    def read_until(self, text):
        """Return what the terminal shows until the end of a text; what follows is read later."""
        while text not in self._unread:
            assert select.select([self._descriptor], [], [], PATIENCE)[0], self._unread
            self._unread += os.read(self._descriptor, 4096).decode()
        shown, _, self._unread = self._unread.partition(text)
        return shown + text


@contextmanager
def in_terminal(folder, script, **options):
    """Run a shell script as the foreground job of a terminal; give the process and the terminal."""
    ours, theirs = pty.openpty()

    def begin_job():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)

    process = start(
        folder, "--", "sh", "-c", script,
        **{"stdin": theirs, "stdout": theirs, "stderr": theirs} | options,
        start_new_session=True, preexec_fn=begin_job,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield process, Terminal(ours)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        os.close(ours)


def ready(process, terminal):
    """Wait until the command has said so, and has the terminal; return what was shown."""
    shown = terminal.read_until("ready\r\n")
    end = time.monotonic() + PATIENCE
    while terminal.foreground == process.pid:
        assert time.monotonic() < end
        time.sleep(0.005)
    return shown


def test_a_command_reads_the_terminal_and_the_report_follows_it(tmp_path):
    script = 'test -t 0 && test -t 1 && echo ready; read line; echo "read $line"'
    with in_terminal(tmp_path, script) as (process, terminal):
        assert "guards sh at" in ready(process, terminal)
        terminal.press(b"this\n")
        assert "read this\r\n" in terminal.read_until("looptrap: ended after")
        assert process.wait(PATIENCE) == 0


def test_ctrl_c_is_for_the_command(tmp_path):
    script = "trap 'echo caught' INT; echo ready; read line; echo after; exit 4"
    with in_terminal(tmp_path, script) as (process, terminal):
        ready(process, terminal)
        terminal.press(b"\x03")
        terminal.read_until("caught\r\n")
        terminal.press(b"go\n")
        terminal.read_until("looptrap: ended after")
        assert process.wait(PATIENCE) == 4


def test_ctrl_z_stops_the_whole_job_and_it_goes_on_with_it(tmp_path):
    script = 'echo ready; read line; echo "read $line"'
    with in_terminal(tmp_path, script) as (process, terminal):
        ready(process, terminal)
        terminal.press(b"\x1a")
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.kill(process.pid, signal.SIGCONT)
        terminal.press(b"more\n")
        terminal.read_until("read more\r\n")
        assert process.wait(PATIENCE) == 0


def test_in_a_pipeline_the_terminal_stays_with_the_whole_job(tmp_path):
    read = "read line < /dev/tty"  # which a caught signal ends
    script = f"trap 'echo caught >&2' INT; echo ready >&2; {read} || {read}; echo got $line"
    with in_terminal(tmp_path, script, stdout=subprocess.PIPE) as (process, terminal):
        terminal.read_until("ready\r\n")
        assert terminal.foreground == process.pid
        terminal.press(b"\x03")
        shown = terminal.read_until("caught\r\n")
        terminal.press(b"it\n")
        assert process.stdout.readline() == "got it\n"
        shown += terminal.read_until("looptrap: ended after")
        assert shown.count("caught") == 1
        assert process.wait(PATIENCE) == 0
        process.stdout.close()


def end_when_ready(process, file):
    """Let the time of a command be over as soon as it has made a file."""

    def wait_and_end():
        end = time.monotonic() + PATIENCE
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.005)
        process._end_in_time()

    Thread(target=wait_and_end, daemon=True).start()


@pytest.mark.parametrize(
    ("script", "status"),
    [
        pytest.param("touch {}; sleep 600 & wait", 128 + signal.SIGTERM, id="at once"),
        pytest.param("trap 'exit 3' TERM; touch {}; sleep 600 & wait", 3, id="by itself"),
        pytest.param(
            "trap '' TERM; touch {}; sleep 600; sleep 600", 128 + signal.SIGKILL, id="by force"
        ),
    ],
)
def test_a_command_ends_when_its_time_is_over(tmp_path, monkeypatch, script, status):
    monkeypatch.setattr(run_process, "KILL_GRACE_S", 0.05)
    process = RunProcess(["sh", "-c", script.format(tmp_path / "ready")], os.environ)
    end_when_ready(process, tmp_path / "ready")
    assert process.wait() == status
    assert process.is_out_of_time


def test_a_limit_reaches_the_children_of_the_command(tmp_path):
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    script = f"sleep 600 & touch {tmp_path / 'ready'}; wait"
    process = RunProcess(["sh", "-c", script], os.environ)
    os.close(theirs)
    end_when_ready(process, tmp_path / "ready")
    process.wait()
    # The pipe ends when all that had inherited it have ended.
    assert select.select([ours], [], [], PATIENCE)[0]
    assert os.read(ours, 1) == b""
    os.close(ours)


def test_signals_that_python_ignores_are_not_ignored_by_the_command():
    process = RunProcess(["sh", "-c", "kill -PIPE $$; exit 9"], os.environ)
    assert process.wait() == 128 + signal.SIGPIPE
