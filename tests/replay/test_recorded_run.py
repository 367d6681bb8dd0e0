"""Recorded runs: how files are read, what is one, and which requests it was made of."""

import gzip
import json
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.recorded import ASKED, anthropic_round, line, openai_round, stuck

from looptrap.dialect import openai_chat
from looptrap.dialect.body import read_body
from looptrap.errors import CallError
from looptrap.replay import recorded_run
from looptrap.replay.recorded_run import iter_lines, read_run

STYLES = pytest.mark.parametrize(
    "style", [openai_round, anthropic_round], ids=["OpenAI", "Anthropic"]
)


@STYLES
def test_a_request_is_what_a_client_would_have_sent(style):
    messages = stuck(3, style)
    fields = {"tools": [{"name": "read_file"}], "user": "ann"}
    if style is anthropic_round:
        fields["system"] = "Be brief."
    run = read_run(line(messages, **fields), "x")
    for turn, end in enumerate(run.ends):
        sent = {"model": "gpt-x", "messages": messages[: 1 + 2 * turn], **fields}
        expected = read_body(sent, "/v1/messages" if "system" in fields else None)
        request = run.request(end)
        assert request.messages == expected.messages
        assert (request.model, request.tools) == (expected.model, expected.tools)
        assert request.request.path == expected.request.path
        assert request.generates


@pytest.mark.parametrize(
    ("messages", "fields", "dialect"),
    [
        pytest.param(stuck(2), {}, "openai_chat", id="tool_calls"),
        pytest.param(stuck(2), {"system": "Be brief."}, "openai_chat", id="both: what was called"),
        pytest.param(stuck(2, anthropic_round), {}, "anthropic", id="tool_use"),
        pytest.param([ASKED], {"system": "Be brief."}, "anthropic", id="system"),
        pytest.param([ASKED], {}, "openai_chat", id="nothing but text"),
    ],
)
def test_the_messages_tell_the_style(messages, fields, dialect):
    run = read_run(line(messages, **fields), "x")
    assert run.whole.dialect == dialect
    called = [call.name for message in run.messages for call in message.calls]
    assert called == ["read_file"] * len(run.turns)


@pytest.mark.parametrize(
    ("messages", "requests"),
    [
        pytest.param(stuck(3), 4, id="ends in a tool result"),
        pytest.param(stuck(3, anthropic_round), 4, id="ends in a tool result of Anthropic's"),
        pytest.param([*stuck(2), {"role": "user", "content": "And?"}], 3, id="ends in a question"),
        pytest.param(stuck(3)[:-1], 3, id="ends in a call"),
        pytest.param([*stuck(1), {"role": "assistant", "content": "Done."}], 2, id="ends in text"),
        pytest.param([ASKED], 1, id="has no answer yet"),
    ],
)
def test_the_request_that_would_follow_is_one_more(messages, requests):
    assert len(read_run(line(messages), "x").ends) == requests


def test_a_run_is_its_own_caller_and_session():
    request = read_run(line(stuck(1), id=17), "x").request(1).request
    assert (request.caller, request.session) == ("17", "17")


def test_what_a_run_does_not_say_is_filled_in():
    run = read_run(json.dumps({"messages": [ASKED]}).encode(), "runs.jsonl:7")
    request = run.request(1)
    assert (run.id, run.judged) == ("runs.jsonl:7", None)
    assert (request.model, request.tools) == ("unknown", ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(b"not JSON", "Expecting value", id="no JSON"),
        pytest.param(b"[1, 2]", "object", id="a list"),
        pytest.param(b'{"id": "a"}', "messages", id="no messages"),
        pytest.param(b'{"messages": []}', "no messages", id="empty"),
        pytest.param(b'{"messages": "hi"}', "array", id="messages that are text"),
        pytest.param(line([ASKED], model=7), "style", id="a model that is a number"),
        pytest.param(line([ASKED], jsonrpc="2.0"), "style", id="MCP"),
        pytest.param(line([ASKED], judged={"label": 3}), "label", id="a label that is a number"),
        pytest.param(b'{"messages": ' + b"[" * 100_000, "recursion", id="nested without end"),
    ],
)
def test_what_is_not_a_run_is_refused(text, why):
    with pytest.raises(CallError, match=why):
        read_run(text, "x")


def test_half_an_emoji_does_not_spoil_a_run():
    text = line([{"role": "user", "content": "cut \ud83d"}])
    assert read_run(text, "x").messages[0].text.startswith("cut ")


def test_odd_messages_are_kept_in_their_place():
    run = read_run(line([ASKED, 5, {"role": "assistant", "content": "Hm."}, None]), "x")
    assert run.ends == [2]
    assert len(run.request(2).messages) == 2


@pytest.mark.parametrize(
    ("stamps", "times"),
    [
        pytest.param([None] * 6, [0, 1, 2], id="none: one call a second"),
        pytest.param([10, 12, 20, 22, 30, 31], [10, 20, 30], id="of the last message carried"),
        pytest.param([None, 12, None, 22, None, 32], [12, 22, 32], id="else of the answer"),
        pytest.param([10, None, None, None, 30, None], [10, 11, 30], id="some"),
        pytest.param([10, 11, 5, 6, 12, 13], [10, 10, 12], id="never backwards"),
        pytest.param([1.5, None, "soon", True, 9, None], [1.5, 2.5, 9], id="not a number"),
        pytest.param([1, None, 10**400, None, 9, None], [1, 2, 9], id="beyond all numbers"),
    ],
)
def test_requests_are_as_old_as_recorded(stamps, times):
    turns = [ASKED, *openai_round(0), *openai_round(1), {"role": "assistant", "content": "Done."}]
    messages = [
        message if t is None else {**message, "t": t}
        for message, t in zip(turns, stamps, strict=True)
    ]
    assert read_run(line(messages), "x").times == times


def test_the_time_after_the_last_message_is_that_message_s():
    assert read_run(line([{**ASKED, "t": 5}]), "x").times == [5]


def test_each_message_is_read_once_however_many_requests_carry_it(monkeypatch):
    read, seen = openai_chat.read_message, []

    def counting(raw):
        seen.append(raw)
        return read(raw)

    monkeypatch.setattr(openai_chat, "read_message", counting)
    run = read_run(line(stuck(20)), "x")
    for end in run.ends:
        request = run.request(end)
        assert request.tail(3) == request.messages[-3:]
        list(request.backwards())
    assert len(seen) == 41


def test_volumes_are_those_of_the_messages():
    first, second = stuck(2)[1:3], stuck(2)[3:]
    run = read_run(line([ASKED, *first, *second]), "x")
    sizes = [len(json.dumps(one)) for one in [ASKED, *first, *second]]
    assert [run.prompt_bytes(turn) for turn in (0, 1)] == [sizes[0], sum(sizes[:3])]
    assert [run.answer_bytes(turn) for turn in (0, 1)] == [sizes[1], sizes[3]]


@given(text=st.binary(max_size=60))
def test_whatever_a_line_holds_it_is_a_run_or_refused(text):
    with suppress(CallError):
        assert read_run(text, "x").messages


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.gz", "runs"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_lines_are_numbered_as_an_editor_does(tmp_path, name, pack):
    path = tmp_path / name
    path.write_bytes(pack(b'{"a":1}\n\n  \n{"b":2}\r\n{"c":3}'))
    found = [(line.number, (line.text or b"").strip()) for line in iter_lines(path)]
    assert found == [(1, b'{"a":1}'), (4, b'{"b":2}'), (5, b'{"c":3}')]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_last_line_ends_where_the_file_does(tmp_path, pack):
    path = tmp_path / "runs"
    path.write_bytes(pack(b"1\n2\n3\n"))
    positions = [line.position for line in iter_lines(path)]
    assert positions == sorted(positions)
    assert positions[-1] == path.stat().st_size


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "empty").touch()
    assert list(iter_lines(tmp_path / "empty")) == []


@pytest.mark.parametrize(
    ("size", "is_kept"), [(9, True), (10, True), (11, False), (35, False)], ids=str
)
def test_a_line_that_is_too_long_is_passed_over(tmp_path, monkeypatch, size, is_kept):
    monkeypatch.setattr(recorded_run, "MAX_LINE_BYTES", 10)
    path = tmp_path / "runs"
    path.write_bytes(b"1\n" + b"x" * (size - 1) + b"\n3\n")
    found = [line.text for line in iter_lines(path)]
    assert found == [b"1\n", b"x" * (size - 1) + b"\n" if is_kept else None, b"3\n"]


@pytest.mark.parametrize(
    "damage",
    [lambda packed: packed[:-20], lambda packed: packed[:40] + b"?" * 40 + packed[80:]],
    ids=["cut off", "overwritten"],
)
def test_a_broken_gzip_file_is_an_error(tmp_path, damage):
    path = tmp_path / "runs.gz"
    path.write_bytes(damage(gzip.compress(json.dumps(list(range(9_000))).encode())))
    with pytest.raises(OSError):
        list(iter_lines(path))


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "runs.gz"
    with gzip.open(path, "wb", compresslevel=1) as packed:
        for _ in range(300):
            packed.write(b'{"messages":"' + b"x" * 100_000 + b'"}\n')
    tracemalloc.start()
    try:
        count = sum(1 for _ in iter_lines(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 300
    assert peak < 2_000_000
