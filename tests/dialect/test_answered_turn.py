"""What a later call can continue of an answer, where the provider keeps the history."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialect.streams import events, whole
from tests.dialect.test_stream import pieces

from looptrap.dialect.answer import answer_reader, answered_turn
from looptrap.dialect.model import AnsweredTurn, Message, Request, ToolCall, ToolResult
from looptrap.dialect.registry import read
from looptrap.dialect.stream import MAX_EVENT_BYTES, MAX_KEPT_CHARS, UNREAD_BYTES, sse_event

LOOK = ToolCall("call_fake-1_0", "look", '{"at":1,"by":"me"}')
SAID = ToolCall("", "look", '{"by": "me", "at": 1}')
"""The same as a model writes it: the reader sorts its keys."""

SHELL = {"type": "local_shell_call", "call_id": "c2", "action": {"command": ["ls"]}, "id": "lsh_1"}
PATCH = {"type": "custom_tool_call", "call_id": "c3", "name": "patch", "input": "*** Begin"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "action": {"query": "q"}, "status": "completed"}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "code": "1+1",
    "outputs": [{"type": "logs", "logs": "2"}],
}
MCP = {"type": "mcp_call", "id": "mcp_1", "name": "ask", "arguments": "{}", "output": "yes"}
COMPUTER = {"type": "computer_call", "call_id": "c4", "action": {"type": "click", "x": 1}}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hm"}]}
ITEMS = [SHELL, PATCH, SEARCH, CODE, MCP, COMPUTER, THOUGHT, TEXT]


def request(path="/v1/responses", **fields):
    fields.setdefault("input", "hi")
    return read(Request(path=path, body=json.dumps({"model": "m", **fields}).encode()))


def answer(items, **fields):
    """Return a response with these items, in one piece."""
    return {"id": "resp_1", "object": "response", "output": items, **fields}


def stream(items, *, last="completed", repeats=True):
    """Return the events of a response with these items; `repeats` puts them into the last one."""
    sent = [{"type": "response.created", "response": answer([])}]
    for index, item in enumerate(items):
        place = {"output_index": index, "item": item}
        sent.append({"type": "response.output_item.added", **place})
        sent.append({"type": "response.output_item.done", **place})
    ending = answer(items if repeats else [])
    if last:
        sent.append({"type": f"response.{last}", "response": ending})
    return b"".join(sse_event(one, one["type"]) for one in sent)


def read_passing(call, chunks):
    reader = answer_reader(call.dialect, call.stream)
    for chunk in chunks:
        reader.follow(chunk)
    return answered_turn(call, reader)


class TestReading:
    @pytest.mark.parametrize("form", ["in one piece", "streamed"])
    def test_the_calls_have_the_form_of_a_request(self, form):
        is_stream = form == "streamed"
        call = request(stream=is_stream)
        if is_stream:
            data = b"".join(events("responses", "Let me look.", [SAID]))
        else:
            data = whole("responses", "Let me look.", [SAID])
        expected = Message("assistant", "Let me look.", (LOOK,))
        assert answered_turn(call, data) == AnsweredTurn("resp_fake-1", "", (expected,))
        assert answered_turn(call, data).calls == (LOOK,)

    @given(items=st.lists(st.sampled_from(ITEMS), max_size=8))
    def test_the_turn_is_what_a_request_would_repeat(self, items):
        repeated = tuple(request(input=items).messages)
        turns = [
            answered_turn(request(), json.dumps(answer(items)).encode()),
            answered_turn(request(stream=True), stream(items)),
            answered_turn(request(stream=True), stream(items, repeats=False)),
        ]
        assert turns == [AnsweredTurn("resp_1", "", repeated)] * 3

    def test_a_built_in_tool_is_a_call_with_its_result(self):
        turn = answered_turn(request(), json.dumps(answer([MCP])).encode())
        assert turn.calls == (ToolCall("mcp_1", "ask", "{}"),)
        assert turn.messages[0].results == (ToolResult("mcp_1", "yes"),)

    @given(
        items=st.lists(st.sampled_from(ITEMS), max_size=5),
        is_stream=st.booleans(),
        filler=st.sampled_from([0, UNREAD_BYTES]),
        cuts=st.lists(st.integers(0, 10**6), max_size=20),
    )
    def test_it_is_read_however_the_bytes_are_cut(self, items, is_stream, filler, cuts):
        items = [*items, {**TEXT, "content": "x" * filler}]
        data = stream(items) if is_stream else json.dumps(answer(items)).encode()
        call = request(stream=is_stream)
        passed = read_passing(call, pieces(data, cuts))
        assert passed == answered_turn(call, data)
        assert len(passed.messages) >= 1

    @pytest.mark.parametrize("sent", ["conv_1", {"id": "conv_1"}])
    def test_the_conversation_is_named(self, sent):
        data = json.dumps(answer([], conversation=sent)).encode()
        assert answered_turn(request(), data).conversation == "conv_1"

    def test_it_may_be_asked_for_twice(self):
        call = request()
        reader = answer_reader(call.dialect, call.stream)
        reader.follow(json.dumps(answer([TEXT, PATCH])).encode())
        assert answered_turn(call, reader) == answered_turn(call, reader) is not None

    def test_a_short_stream_is_read_and_still_not_judged(self):
        call = request(stream=True)
        reader = answer_reader(call.dialect, call.stream)
        reader.follow(b"".join(events("responses", "Short.", [SAID])))
        assert answered_turn(call, reader).calls == (LOOK,)
        assert reader.finish() == []


class TestIncomplete:
    def test_a_cut_stream_has_the_items_that_ended(self):
        data = stream([PATCH, SHELL])
        cut = data[: data.index(b'"output_index":1')]
        turn = answered_turn(request(stream=True), cut)
        assert [call.id for call in turn.calls] == ["c3"]

    @pytest.mark.parametrize("last", ["incomplete", "failed"])
    def test_an_answer_that_ends_badly_has_its_items(self, last):
        turn = answered_turn(request(stream=True), stream([PATCH], last=last))
        assert [call.id for call in turn.calls] == ["c3"]

    def test_an_error_after_the_items_does_not_undo_them(self):
        data = stream([PATCH], last="") + sse_event({"type": "error", "message": "m"}, "error")
        assert len(answered_turn(request(stream=True), data).calls) == 1

    def test_an_answer_in_the_background_has_only_its_id(self):
        data = json.dumps(answer([], status="queued")).encode()
        assert answered_turn(request(), data) == AnsweredTurn("resp_1")

    @pytest.mark.parametrize("data", [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"data: \n\n",
        b"<html>Bad gateway</html>",
        b'{"output": []}',
        b'{"id": "resp_1", "output": 3}',
        b'{"error": {"message": "m"}}',
        b'data: {"type": "response.created", "response": null}\n\n',
        b'data: {"type": "response.created", "response": {"id": null}}\n\n',
    ])  # fmt: skip
    @pytest.mark.parametrize("is_stream", [True, False])
    def test_an_answer_without_an_id_cannot_be_continued(self, data, is_stream):
        assert answered_turn(request(stream=is_stream), data) is None

    @pytest.mark.parametrize("item", [3, None, {}, {"type": 1}, {"type": "function_call"}, []])
    def test_an_odd_item_does_not_hide_the_others(self, item):
        data = json.dumps(answer([item, TEXT, PATCH])).encode()
        assert answered_turn(request(), data).calls[-1].id == "c3"

    def test_of_a_very_large_stream_the_first_items_are_known(self):
        large = {**TEXT, "content": "x" * (MAX_KEPT_CHARS // 2)}
        data = stream([PATCH, large, large, large, SHELL], last="")
        turn = answered_turn(request(stream=True), data)
        assert [call.id for call in turn.calls] == ["c3"]

    def test_a_very_large_answer_in_one_piece_is_not_read(self):
        items = [PATCH, {**TEXT, "content": "x" * (2 * MAX_EVENT_BYTES)}]
        assert answered_turn(request(), json.dumps(answer(items)).encode()) is None


class TestKeptHistories:
    @pytest.mark.parametrize(("call", "keeps"), [
        (request(), True),
        (request(store=True), True),
        (request(store=None), True),
        (request(store=False), False),
        (request(store=False, previous_response_id="resp_0"), False),
        (request(store=False, conversation="conv_1"), True),
        (request(store=False, conversation={"id": "conv_1"}), True),
        (request("/v1/chat/completions", messages=[], store=True), False),
        (request("/v1/messages", messages=[]), False),
        (request("/v1beta/models/m:generateContent", contents=[]), False),
    ])  # fmt: skip
    def test_the_provider_keeps_what_the_call_does_not_forbid(self, call, keeps):
        assert call.keeps_history is keeps

    def test_whoever_asks_decides_which_answers_are_read(self):
        turn = answered_turn(request(store=False), json.dumps(answer([PATCH])).encode())
        assert [call.id for call in turn.calls] == ["c3"]
