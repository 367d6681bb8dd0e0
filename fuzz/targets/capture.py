"""Recorded runs: captured lines, runs of others, and what people paste."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec
from tests.replay.captured import DIALECTS

from fuzz.target import Target
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.errors import CallError
from looptrap.gateway.capture import CaptureEncoder
from looptrap.policy import preset
from looptrap.policy.verdict import ALLOWED
from looptrap.replay.capture import CaptureReplayer, is_captured
from looptrap.replay.judge import judge_requests
from looptrap.replay.recorded_run import read_run
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.transcript import read_transcript
from looptrap.retry.turn import Marker

MOST_REQUESTS = 64


@cache
def _rules() -> Ruleset:
    return Ruleset(preset.load(preset.DEFAULT))


def check_capture(data: bytes) -> None:
    """Lines of a capture are played, or a CallError each; what is left is told all the same."""
    player = CaptureReplayer(_rules())
    for line in data.split(b"\n")[:MOST_REQUESTS]:
        is_captured(line)
        try:
            player.play(line)
        except CallError:
            continue
    for _ in player.finish():
        pass


def check_paste(data: bytes) -> None:
    """Pasted text is a row of requests, or a CallError in words."""
    try:
        pasted = read_transcript(data.decode("utf-8", "surrogateescape"))
    except CallError:
        return
    for asked in pasted.requests[:MOST_REQUESTS]:
        assert list(asked.call.backwards()) is not None


def check_run(data: bytes) -> None:
    """A run is judged turn by turn, or a CallError."""
    try:
        run = read_run(data, "run")
    except CallError:
        return
    if len(run.ends) <= MOST_REQUESTS:
        assert len(run.times) == len(run.ends)
        for _ in judge_requests(run, _rules()):
            pass


def check_marker(data: bytes) -> None:
    """A marker is read, or a ValueError."""
    try:
        Marker.loads(data)
    except ValueError:
        return


def lines() -> Iterator[bytes]:
    """Yield what captures hold: all dialects, as digests and as they were sent."""
    for form in ("digests", "content"):
        for path, make in DIALECTS.values():
            writer = CaptureEncoder(form, b"secret" * 6)
            calls = (
                read(Request(path=path, body=msgspec.json.encode(make(rounds)), caller="c"))
                for rounds in (1, 2, 3)
            )
            yield b"".join(writer.line(call, ALLOWED, 1.0) for call in calls)


def pastes() -> Iterator[bytes]:
    """Yield conversations in the forms that people have them in."""
    for _, make in DIALECTS.values():
        yield msgspec.json.encode(make(2))
    yield msgspec.json.encode(DIALECTS["openai_chat"][1](2)["messages"])
    yield from (one for one in list(lines())[:2])


def runs() -> Iterator[bytes]:
    """Yield whole runs."""
    for name in ("openai_chat", "anthropic"):
        yield msgspec.json.encode({"id": 1, "judged": True} | DIALECTS[name][1](3))


def markers() -> Iterator[bytes]:
    """Yield a marker as it is written."""
    yield Marker(turn="t", step=2, reason="deadline", attempts=1).dumps().encode()


WORDS = (
    b'"looptrap":1', b'"kept":', b'"run":', b'"t":', b'"messages":[', b'"form":"digests"',
    b'"dialect":"gemini"', b'"role":"assistant"', b'"tool_calls":[', b"\n",
)  # fmt: skip
TARGETS = [
    Target(name="capture", check=check_capture, seeds=lines, words=WORDS),
    Target(name="paste", check=check_paste, seeds=pastes, words=WORDS),
    Target(name="run", check=check_run, seeds=runs, words=WORDS),
    Target(name="marker", check=check_marker, seeds=markers),
]
