"""Listeners: whatever the chunks, an answer passes byte for byte until it is cut between events."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from looptrap.dialect.answer import answer_reader
from looptrap.dialect.body import read_body
from looptrap.policy.action import Action
from looptrap.policy.stream_guard import StreamGuard
from looptrap.policy.verdict import Verdict

CALL = read_body({"model": "m", "stream": True, "messages": [{"role": "user", "content": "Go."}]})
CHANT = "I cannot find that file. Let me try once more. "


def event(text):
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [delta]}
    return b"data: %b\n\n" % msgspec.json.encode(chunk)


STREAM = b"".join(event(CHANT) for _ in range(400))
SAID = Verdict(
    action=Action.STOP, reason="loop_detected", rule="chanting", message="Stopped: x.", count=9
)


def listener(hear, *, can_cut=True):
    hearing = answer_reader("openai_chat", stream=True)
    return StreamGuard(CALL, hearing, hear, can_cut=can_cut, request_id="r", block_status=429)


def passed(one, sizes):
    """Return all that passes of the stream, in chunks of these sizes over and over."""
    told, at, number = b"", 0, 0
    while at < len(STREAM) and not one.is_over:
        size = sizes[number % len(sizes)]
        told += one.take(STREAM[at : at + size])
        at, number = at + size, number + 1
    return told


sizes = st.lists(st.integers(1, 5_000), min_size=1, max_size=5)


@settings(max_examples=examples(30), deadline=None)
@given(sizes=sizes)
def test_it_is_cut_between_two_events_and_ends_as_the_dialect_does(sizes):
    one = listener(lambda text: SAID if len(text) > 1_000 else None)
    told = passed(one, sizes)
    assert one.is_over
    body, _, end = told.partition(b": looptrap stop")
    assert STREAM.startswith(body)
    assert body.endswith(b"\n\n")
    assert end.endswith(b"data: [DONE]\n\n")
    assert b'"finish_reason":"stop"' in end
    assert one.tokens > 0


@settings(max_examples=examples(30), deadline=None)
@given(sizes=sizes)
def test_what_nobody_minds_passes_byte_for_byte(sizes):
    heard = []
    one = listener(heard.append)
    assert passed(one, sizes) == STREAM
    one.finish()
    assert heard
    assert not one.is_over


def test_what_said_how_long_it_is_cannot_be_cut():
    one = listener(lambda _text: SAID, can_cut=False)
    assert passed(one, [777]) == STREAM
