"""The neutral Call: what it decodes, and how results find their calls."""

from __future__ import annotations

from itertools import islice

import msgspec
import pytest
from tests.dialect.tool_uses import ToolUse, tool_uses

from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult

RAWS = [msgspec.Raw(b"%d" % number) for number in range(10)]


def said(message: Message) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(message))


def history(*messages: Message) -> Call:
    read = msgspec.json.Decoder(Message).decode
    return Call(Request(), "openai_chat", raws=list(map(said, messages)), read=read)


class Counting:
    """A reader that remembers what it was asked to decode."""

    def __init__(self) -> None:
        self.decoded: list[str] = []

    def __call__(self, raw: msgspec.Raw) -> Message:
        self.decoded.append(bytes(raw).decode())
        return Message("user", self.decoded[-1])


def test_a_tail_decodes_nothing_else() -> None:
    reader = Counting()
    call = Call(Request(), "openai_chat", raws=RAWS, read=reader)
    assert [message.text for message in call.tail(3)] == ["7", "8", "9"]
    assert reader.decoded == ["7", "8", "9"]


def test_going_backwards_decodes_as_it_goes() -> None:
    reader = Counting()
    call = Call(Request(), "openai_chat", raws=RAWS, read=reader)
    assert [message.text for message in islice(call.backwards(), 2)] == ["9", "8"]
    assert reader.decoded == ["9", "8"]


def test_all_messages_are_decoded_once() -> None:
    reader = Counting()
    call = Call(Request(), "openai_chat", raws=RAWS, read=reader)
    assert call.messages is call.messages
    assert list(call.backwards()) == call.messages[::-1]
    assert call.tail(2) == call.messages[-2:]
    assert len(reader.decoded) == len(RAWS)


@pytest.mark.parametrize("count", [0, -1])
def test_no_tail_is_empty(count: int) -> None:
    call = Call(Request(), "openai_chat", raws=RAWS, read=Counting())
    assert call.tail(count) == []
    assert call.messages
    assert call.tail(count) == []


def test_tools_are_decoded_once_when_asked() -> None:
    asked: list[None] = []

    def read_tools() -> tuple[str, ...]:
        asked.append(None)
        return ("search",)

    call = Call(Request(), "openai_chat", read_tools=read_tools)
    assert not asked
    assert call.tools == call.tools == ("search",)
    assert len(asked) == 1


def calls(*ids: str, name: str = "f") -> Message:
    return Message("assistant", calls=tuple(ToolCall(one, name, "{}") for one in ids))


def results(*found: tuple[str, str], name: str = "") -> Message:
    return Message("tool", results=tuple(ToolResult(i, text, name=name) for i, text in found))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [calls("a", "b"), results(("b", "2"), ("a", "1"))],
            [("a", "1"), ("b", "2")],
            id="by id, in any order",
        ),
        pytest.param(
            [calls("a"), calls("b"), results(("b", "2"))],
            [("a", None), ("b", "2")],
            id="unanswered",
        ),
        pytest.param(
            [calls("a"), results(("a", "1")), calls("a"), results(("a", "2"))],
            [("a", "1"), ("a", "2")],
            id="an id used again",
        ),
        pytest.param(
            [calls("", ""), results(("", "1"), ("", "2"), name="f")],
            [("", "1"), ("", "2")],
            id="without ids by name, in order",
        ),
        pytest.param(
            [calls("a"), results(("", "1"), name="f")],
            [("a", "1")],
            id="by name where only the call has an id",
        ),
        pytest.param(
            [calls("f", name="g"), results(("", "1"), name="f")],
            [("f", None)],
            id="a name is never taken for an id",
        ),
        pytest.param(
            [results(("a", "1")), calls("a")], [("a", None)], id="no result before its call"
        ),
        pytest.param([calls("a"), results(("", "1"))], [("a", None)], id="a result of nothing"),
    ],
)
def test_results_find_their_calls(
    messages: list[Message], expected: list[tuple[str, str | None]]
) -> None:
    found = tool_uses(history(*messages))
    assert [(use.call.id, use.result.text if use.result else None) for use in found] == expected


def test_a_use_holds_call_and_result() -> None:
    call, result = ToolCall("a", "f", "{}"), ToolResult("a", "1", is_error=True)
    messages = Message("assistant", calls=(call,)), Message("tool", results=(result,))
    assert tool_uses(history(*messages)) == [ToolUse(call, result)]


def test_the_first_header_of_a_name_counts() -> None:
    request = Request(headers=[(b"a", b"1"), (b"b", b"2"), (b"b", b"3")])
    assert request.header(b"b") == b"2"
    assert request.header(b"c") is None
