"""Runs slow questions in a process of their own, so that the gateway is not blocked.

    python -m looptrap.replay.subprocess_worker TASK

reads a question from standard input and writes the answer to standard output, both as JSON.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Any, Literal

import msgspec

from looptrap.errors import CallError

TaskName = Literal["what-if", "try", "captured-loop"]

NICENESS = 5
"""The gateway has priority."""


class _Answer(msgspec.Struct, frozen=True):
    answer: msgspec.Raw = msgspec.Raw(b"null")
    problem: str | None = None
    """Why the question cannot be answered."""


async def run_in_subprocess(task: TaskName, question: msgspec.Struct, seconds: float) -> Any:
    """Return the answer to a question; a cancellation ends the process.

    Raises CallError for a question that cannot be read, TimeoutError for one that takes longer than
    `seconds`, and ChildProcessError where the process ends without an answer.
    """
    child = _Child(task, seconds)
    # In a thread: forking a large process blocks the loop for long, and uvloop forks.
    working = asyncio.ensure_future(asyncio.to_thread(child.ask, msgspec.json.encode(question)))
    try:
        output = await asyncio.shield(working)
    except asyncio.CancelledError:
        child.end()
        await asyncio.gather(working, return_exceptions=True)
        raise
    answer = msgspec.json.decode(output, type=_Answer)
    if answer.problem is not None:
        raise CallError(answer.problem)
    return msgspec.json.decode(answer.answer)


class _Child:
    """A process that answers one question; asked in one thread, and ended in another."""

    def __init__(self, task: TaskName, seconds: float) -> None:
        # -P: no module is imported from the folder where the gateway was started.
        program = [sys.executable, "-P", "-m", "looptrap.replay.subprocess_worker"]
        self._command = [*program, task, str(seconds)]
        self._seconds = seconds
        self._process: Popen[bytes] | None = None
        self._is_cancelled = False

    def ask(self, question: bytes) -> bytes:
        # A traceback may quote the question, which is private.
        with Popen(self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
            self._process = process
            if self._is_cancelled:
                process.kill()
            try:
                output, _ = process.communicate(question, self._seconds)
            except TimeoutExpired:
                process.kill()
                raise TimeoutError from None
        if process.returncode:
            raise ChildProcessError(f"ended with status {process.returncode}")
        return output

    def end(self) -> None:
        # In this order: `ask` checks the flag after it sets the process.
        self._is_cancelled = True
        if self._process is not None:
            self._process.kill()


def main(task: str, seconds: str) -> None:
    """Answer one question."""
    os.nice(NICENESS)
    # The parent, which would end this process, may be gone.
    signal.alarm(int(float(seconds)) + 1)
    question = sys.stdin.buffer.read()
    try:
        answer = _Answer(msgspec.Raw(msgspec.json.encode(_answer(task, question))))
    except CallError as error:
        answer = _Answer(problem=str(error))
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def _answer(task: str, question: bytes) -> object:
    from looptrap.replay import capture, try_it, what_if

    decode, clock = msgspec.json.decode, time.monotonic
    if task == "what-if":
        return what_if.compare(decode(question, type=what_if.WhatIfRequest), clock)
    if task == "captured-loop":
        return capture.find_loop(decode(question, type=capture.CapturedLoopRequest))
    return try_it.judge_transcript(decode(question, type=try_it.TryItRequest), clock)


if __name__ == "__main__":
    main(*sys.argv[1:])
