"""Captures: what is written of which calls, who can read it, and that no call ever suffers."""

import asyncio
import errno
import gzip
import json
import os
import re
import stat
from datetime import UTC, datetime
from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.serving import CHAT, JSON, chat
from tests.replay.captured import CANARY, DIALECTS, MODEL, TOOL
from tests.wire.fake_client import Clock

from looptrap.dialect.captured import Line
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.errors import ConfigError
from looptrap.gateway import capture
from looptrap.gateway.capture import Capture, CaptureEncoder, CaptureFolder
from looptrap.policy.verdict import ALLOWED
from looptrap.testing import Reply

NAME = re.compile(r"looptrap-\d{8}T\d{6}\.\d{6}Z-\d+\.jsonl")
BEARER = {"Authorization": f"Bearer sk-{CANARY}"}


@pytest.fixture
def capturing(serve, tmp_path):
    """Start a gateway that captures into `calls`."""

    async def start(form="digests", toml="", **flags):
        folder = tmp_path / "calls"
        return await serve(toml, capture=form, capture_dir=str(folder), **flags)

    return start


async def written(here, tmp_path):
    """Let the gateway write all it took; return the lines of calls."""
    return [line for line in await all_written(here, tmp_path) if "answers" not in line]


async def all_written(here, tmp_path):
    """Let the gateway write all it took; return all lines."""
    await asyncio.to_thread(here.app.capture.stop)
    return [
        json.loads(line)
        for file in sorted((tmp_path / "calls").iterdir())
        for line in file.read_text("utf-8").splitlines()
    ]


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def call(body=None, path=CHAT, **request):
    encoded = chat() if body is None else msgspec.json.encode(body)
    return read(Request(path=path, body=encoded, **request))


def said(*texts):
    return call({"model": MODEL, "messages": [{"role": "user", "content": one} for one in texts]})


# Which calls, and what of them


async def test_a_call_is_a_line_with_its_verdict(capturing, tmp_path):
    here = await capturing("content")
    headers = JSON | {"X-Looptrap-Session": "s-1", "X-Stainless-Retry-Count": "1"}
    for _ in range(2):
        await here.ask(headers=JSON, body=chat("Hello?", stream=True))
    await here.ask(headers=headers, body=chat("Hello?", user="ann"))
    first, again, retried = await written(here, tmp_path)
    assert first.pop("t") <= again.pop("t")
    assert len(first.pop("run")) == len(first.pop("caller")) == 16
    assert first.pop("call") != again.pop("call")
    assert first == {
        "looptrap": 1,
        "form": "content",
        "dialect": "openai_chat",
        "path": CHAT,
        "model": "gpt-5.3",
        "stream": True,
        "tools": [],
        "messages": [{"role": "user", "content": "Hello?"}],
        "rest": len(chat("Hello?", stream=True)) - len('{"role":"user","content":"Hello?"}'),
    }
    assert (again["kept"], again.get("messages", [])) == (1, [])
    assert (retried["session"], retried["user"], retried["retry"]) == ("s-1", "ann", True)
    assert retried["run"] != again["run"]


async def test_what_was_refused_is_captured_too(capturing, tmp_path):
    here = await capturing()
    for _ in range(6):
        await here.ask(headers=JSON, body=chat())
    lines = await written(here, tmp_path)
    assert [line.get("verdict") for line in lines[:5]] == [None] * 5
    assert lines[5]["verdict"] == {
        "action": "block",
        "rule": "identical-conversation",
        "signal": "conversation",
    }


async def test_what_a_proxy_asks_about_is_captured(capturing, tmp_path):
    here = await capturing()
    await here.ask(target=f"/looptrap/decision{CHAT}", headers=JSON, body=chat())
    assert [line["path"] for line in await written(here, tmp_path)] == [CHAT]


async def test_another_line_tells_when_a_call_was_answered(capturing, tmp_path):
    clock = Clock()

    def answer(_received):
        clock.now += 12
        return Reply.text("Done.")

    here = await capturing(script=answer, clock=clock)
    for _ in range(2):
        await here.ask(headers=JSON, body=chat())
    first, answered, second, again = await all_written(here, tmp_path)
    assert answered == {"looptrap": 1, "answers": first["call"], "t": 1012.0}
    assert (second["t"], again["answers"], again["t"]) == (1012.0, second["call"], 1024.0)


@pytest.mark.parametrize("form", ["digests", "content"])
async def test_what_a_kept_answer_called_is_written_too(capturing, tmp_path, form):
    calling = Reply.tool_call(TOOL, {"what": CANARY})
    here = await capturing(form, script=[calling])
    body = {"model": MODEL, "input": "Where?"}
    sent = msgspec.json.encode(body)
    told = await here.ask(target="/v1/responses", headers=JSON, body=sent)
    response = msgspec.json.decode(told.body)
    item = {"type": "function_call_output", "call_id": "x", "output": "no"}
    more = {**body, "previous_response_id": response["id"], "input": [item]}
    await here.ask(target="/v1/responses", headers=JSON, body=msgspec.json.encode(more))
    first, answered, second, _ = await all_written(here, tmp_path)
    assert first["keeps_history"]
    assert answered["response"] == second["chain"]
    assert [one["name"] for one in answered["calls"]] == [TOOL]
    assert (CANARY in str(answered)) is (form == "content")
    assert (response["id"] in str(answered)) is (form == "content")


@pytest.mark.parametrize("form", ["digests", "content"])
async def test_the_session_that_an_agent_names_is_written(capturing, tmp_path, form):
    here = await capturing(form)
    await here.ask(headers=JSON | {"X-Claude-Code-Session-Id": CANARY}, body=chat())
    await here.ask(headers=JSON, body=chat(metadata={"session_id": CANARY}))
    in_header, in_body = await written(here, tmp_path)
    assert in_header["session"]
    assert in_body["agent_session"]
    assert (CANARY in str([in_header, in_body])) is (form == "content")


@pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param("/v1/embeddings", {"model": "m", "input": "x"}, id="embeddings"),
        pytest.param("/v1/messages/count_tokens", {"messages": []}, id="token counts"),
        pytest.param("/v1/files", {"purpose": "x"}, id="another API"),
    ],
)
async def test_nothing_but_generation_is_captured(capturing, tmp_path, target, body):
    here = await capturing()
    await here.ask(target=target, headers=JSON, body=msgspec.json.encode(body))
    assert await written(here, tmp_path) == []


async def test_without_being_asked_for_nothing_is_written(serve, tmp_path):
    here = await serve()
    before = set(tmp_path.rglob("*"))
    await here.ask(headers=JSON, body=chat())
    assert here.app.capture is None
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("form", ["digests", "content"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_digests_hold_no_word_of_any_dialect(capturing, tmp_path, dialect, form):
    here = await capturing(form)
    path, body = DIALECTS[dialect]
    headers = JSON | BEARER | {"X-Looptrap-Session": CANARY, "X-Looptrap-Progress": CANARY}
    for rounds in range(3):
        sent = msgspec.json.encode(body(rounds))
        await here.ask(target=f"{path}?key={CANARY}", headers=headers, body=sent)
    lines = await written(here, tmp_path)
    assert len(lines) == 3
    assert {line["dialect"] for line in lines} == {dialect}
    assert {line["model"] for line in lines} == {MODEL}
    if dialect != "openai_completions":
        assert lines[0]["tools"] == [TOOL]
    (file,) = (tmp_path / "calls").iterdir()
    text = file.read_text("utf-8").lower()
    assert (CANARY in text) is (form == "content")
    assert f"sk-{CANARY}" not in text
    if form == "digests":
        for word in ("where", "mind", "png", "base64"):
            assert not re.search(rf"\b{word}\b", text)


async def test_lines_stay_lines_however_a_body_is_written(capturing, tmp_path):
    here = await capturing("content")
    body = json.dumps(json.loads(chat("one\ntwo")), indent=2).replace("\n", "\r\n")
    await here.ask(headers=JSON, body=body.encode())
    (line,) = await written(here, tmp_path)
    assert line["messages"] == [{"role": "user", "content": "one\ntwo"}]


async def test_a_compressed_body_is_captured_in_plain(capturing, tmp_path):
    here = await capturing("content")
    headers = JSON | {"Content-Encoding": "gzip"}
    await here.ask(headers=headers, body=gzip.compress(chat("Hello?")))
    (line,) = await written(here, tmp_path)
    assert line["messages"] == [{"role": "user", "content": "Hello?"}]


# Lines lean on those before


def lines_of(*calls, form="content", times=None):
    lines = CaptureEncoder(form, b"secret")
    stamps = times or count(1000)
    return [
        msgspec.json.decode(lines.line(one, ALLOWED, now), type=Line)
        for one, now in zip(calls, stamps, strict=False)
    ]


def test_only_what_is_new_is_written():
    lines = lines_of(said("a"), said("a", "b", "c"), said("a", "b", "c"), said("a", "x"))
    assert [(line.kept, len(line.messages)) for line in lines] == [(0, 1), (1, 2), (3, 0), (1, 1)]
    assert len({line.run for line in lines}) == 1


def test_tools_are_written_when_they_are_others():
    offers = [[{"name": "a"}], [{"name": "a"}], [], [{"name": "b"}]]
    messages = [{"role": "user", "content": "Hi"}]
    calls = [call({"messages": messages, "tools": tools}) for tools in offers]
    assert [line.tools for line in lines_of(*calls)] == [("a",), None, (), ("b",)]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param(said("a", "b"), said("a", "c"), True, id="how it began"),
        pytest.param(said("a"), said("b"), False, id="another beginning"),
        pytest.param(call(caller="x"), call(caller="y"), False, id="another caller"),
        pytest.param(call(session="x"), call(session="y"), False, id="another session"),
        pytest.param(
            call({"messages": []}, session="x"), call(session="x"), True, id="the session it names"
        ),
        pytest.param(
            call(caller="x", session="s"), call(caller="y", session="s"), False, id="nobody else's"
        ),
        pytest.param(
            call({"model": "m", "messages": []}), call({"model": "n", "messages": []}), False,
            id="another model",
        ),
    ],
)  # fmt: skip
def test_a_run_is_a_session_or_else_how_it_began(one, other, is_same):
    first, second = lines_of(one, other)
    assert (first.run == second.run) is is_same


def test_no_line_leans_on_one_under_another_secret(capture_to, tmp_path):
    one = capture_to(form="digests")
    for secret in (b"one", b"one", b"other"):
        if secret == b"other":
            one.rekey(secret)
        one.add(said("a"), ALLOWED, 1000.0)
        one._write_some()
    one._folder.close()
    (file,) = (tmp_path / "calls").iterdir()
    lines = [msgspec.json.decode(line, type=Line) for line in file.read_bytes().splitlines()]
    assert [line.kept for line in lines] == [0, 1, 0]
    assert lines[0].run == lines[1].run != lines[2].run
    assert bytes(lines[0].messages[0]) != bytes(lines[2].messages[0])


def test_a_run_that_was_silent_for_an_hour_is_written_anew():
    lines = lines_of(said("a"), said("a"), said("a"), times=[0.0, 3600.0, 7201.0])
    assert [line.kept for line in lines] == [0, 1, 0]


histories = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), max_size=8)


@pytest.mark.parametrize("form", ["content", "digests"])
@given(histories=histories)
def test_every_history_can_be_put_together_again(form, histories):
    calls = [said(*texts) for texts in histories]
    known = {}
    for one, line in zip(calls, lines_of(*calls, form=form), strict=True):
        messages = known.get(line.run, [])[: line.kept] + [bytes(raw) for raw in line.messages]
        assert len(messages) == len(one.raws)
        if form == "content":
            assert messages == [bytes(raw) for raw in one.raws]
        known[line.run] = messages


# Files


async def test_only_their_owner_can_read_them(capturing, tmp_path):
    umask = os.umask(0)
    try:
        here = await capturing()
        await here.ask(headers=JSON, body=chat())
        await written(here, tmp_path)
    finally:
        os.umask(umask)
    folder = tmp_path / "calls"
    assert mode(folder) == 0o700
    (file,) = folder.iterdir()
    assert mode(file) == 0o600
    assert NAME.fullmatch(file.name)
    assert f"-{os.getpid()}." in file.name


def test_a_file_is_never_open_to_others_not_even_empty(tmp_path):
    umask = os.umask(0)
    try:
        folder = CaptureFolder(tmp_path, 1 << 20, lambda: 0.0)
        folder.open()
        (file,) = tmp_path.iterdir()
        assert (mode(file), file.stat().st_size) == (0o600, 0)
        folder.close()
    finally:
        os.umask(umask)


def test_files_of_one_instant_do_not_meet(tmp_path):
    folder = CaptureFolder(tmp_path, 1 << 20, lambda: 0.0)
    for line in (b"1\n", b"2\n"):
        folder.open()
        folder.write(line)
    folder.close()
    assert [file.read_bytes() for file in sorted(tmp_path.iterdir())] == [b"1\n", b"2\n"]


@pytest.fixture
def capture_to(tmp_path):
    """Make a capture that has not been started: what it takes is written when it is stopped."""

    def make(path=None, limit=1 << 20, form="content", **clocks):
        return Capture(form, path or tmp_path / "calls", limit=limit, secret=b"s", **clocks)

    return make


def write(capture, *calls):
    """Let a capture write these calls, and end it."""
    capture.start()
    for one in calls:
        capture.add(one, ALLOWED, 1000.0)
    capture.stop()


def test_a_full_file_is_followed_by_another_that_stands_alone(capture_to, tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "MAX_FILE_BYTES", 1000)
    history = [str(number) * 100 for number in range(9)]
    write(capture_to(), *(said(*history[:end]) for end in range(1, 10)))
    files = sorted((tmp_path / "calls").iterdir())
    assert len(files) > 1
    for file in files:
        lines = file.read_bytes().splitlines()
        assert msgspec.json.decode(lines[0], type=Line).kept == 0
        assert all(msgspec.json.decode(line, type=Line).kept for line in lines[1:])


def test_the_oldest_files_make_room_and_nothing_else_does(tmp_path):
    names = [f"looptrap-2026010{day}T000000.000000Z-1.jsonl" for day in range(1, 5)]
    others = ["looptrap-notes.jsonl", "looptrap.db", f"{names[0]}.gz"]
    for name in (*names, *others):
        (tmp_path / name).write_bytes(bytes(300_000))
    folder = CaptureFolder(tmp_path, 1 << 20, lambda: datetime(2026, 2, 1, tzinfo=UTC).timestamp())
    folder.open()
    folder.write(b"x\n")
    folder.close()
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == sorted([*names[2:], *others, left[-3]])
    assert left[-3].startswith("looptrap-20260201T")


def test_a_file_that_somebody_removed_is_followed_by_another(tmp_path):
    folder = CaptureFolder(tmp_path / "calls", 1 << 20, lambda: 0.0)
    folder.open()
    assert not folder.is_at_end()
    for file in (tmp_path / "calls").iterdir():
        file.unlink()
    (tmp_path / "calls").rmdir()
    assert folder.is_at_end()
    folder.open()
    folder.write(b"1\n")
    assert not folder.is_at_end()
    folder.close()


# Whatever goes wrong


@pytest.mark.parametrize(
    ("bound", "most", "taken"),
    [
        pytest.param("MAX_WAITING_CALLS", 3, 3, id="calls"),
        pytest.param("MAX_WAITING_BYTES", 2 * len(chat()) + 1, 2, id="bytes"),
    ],
)
def test_what_finds_no_room_is_dropped_and_counted(capture_to, monkeypatch, bound, most, taken):
    monkeypatch.setattr(capture, bound, most)
    one = capture_to()
    for _ in range(5):
        one.add(call(), ALLOWED, 1000.0)
    assert one.overflowed == 5 - taken
    write(one)
    assert (one.written, one.overflowed, one.failed) == (taken, 5 - taken, 0)


def test_there_is_room_again_when_calls_were_written(capture_to, monkeypatch):
    monkeypatch.setattr(capture, "MAX_WAITING_BYTES", len(chat()))
    one = capture_to()
    one.add(call(), ALLOWED, 1000.0)
    one._write_some()
    one.add(call(), ALLOWED, 1000.0)
    one._write_some()
    assert (one.written, one.overflowed) == (2, 0)
    one._folder.close()


def test_a_burst_is_short_and_writes_something(capture_to):
    ticks = count(0, capture.BURST_S)
    one = capture_to(monotonic=lambda: next(ticks))
    for _ in range(3):
        one.add(call(), ALLOWED, 1000.0)
    bursts = []
    while one._waiting:
        one._write_some()
        bursts.append(one.written)
    one._folder.close()
    assert bursts == [1, 2, 3]


def fail_writing(monkeypatch, after=0):
    """Let the disk be full after so many bytes of the next write."""
    real = os.write

    def write(descriptor, data):
        if after and len(data) > after:
            return real(descriptor, data[:after])
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(capture.os, "write", write)


@pytest.mark.parametrize("after", [0, 20], ids=["at once", "in the midst of a line"])
def test_a_full_disk_leaves_no_part_of_a_line(capture_to, tmp_path, monkeypatch, caplog, after):
    now = [0.0]
    one = capture_to(monotonic=lambda: now[0])
    calls = [said("a"), said("a", "b" * 50), said("a", "b" * 50, "c")]

    def take(call):
        one.add(call, ALLOWED, 1000.0)
        one._write_some()

    take(calls[0])
    with monkeypatch.context() as full:
        fail_writing(full, after)
        take(calls[1])
        take(calls[1])  # within the pause: not even tried
    take(calls[1])
    assert (one.written, one.failed) == (1, 3)
    now[0] += capture.RETRY_PAUSE_S
    take(calls[2])
    one._folder.close()
    assert (one.written, one.failed) == (2, 3)
    assert [record.message for record in caplog.records] == [
        "calls are not captured: no space left on device"
    ]
    lines = [
        [msgspec.json.decode(line, type=Line) for line in file.read_bytes().splitlines()]
        for file in sorted((tmp_path / "calls").iterdir())
    ]
    assert [[(line.kept, len(line.messages)) for line in file] for file in lines] == [
        [(0, 1)],
        [(0, 3)],  # in a file of its own, and whole
    ]


async def test_a_folder_that_is_lost_costs_no_call(capturing, tmp_path, monkeypatch):
    here = await capturing()
    monkeypatch.setattr(
        CaptureFolder, "open", lambda self: (_ for _ in ()).throw(OSError(5, "gone"))
    )
    answers = [(await here.ask(headers=JSON, body=chat(str(n)))).status for n in range(3)]
    await asyncio.to_thread(here.app.capture.stop)
    assert answers == [200] * 3
    assert (here.app.capture.written, here.app.capture.failed) == (0, 3)


def test_a_folder_that_cannot_be_made_is_a_mistake_in_the_configuration(capture_to, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"gateway.capture_dir: .*file/calls: cannot write there"):
        capture_to(tmp_path / "file" / "calls").start()
