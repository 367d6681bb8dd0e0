"""The tool calls of answers whose history the client repeats, as requests repeat them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialect.streams import FORMS, events, whole
from tests.dialect.test_stream import pieces

from looptrap.dialect.answer import answer_reader, answered_turn
from looptrap.dialect.model import AnsweredTurn, Message, Request, ToolCall, ToolResult
from looptrap.dialect.registry import read
from looptrap.dialect.stream import (
    DONE,
    MAX_EVENT_BYTES,
    MAX_KEPT_CHARS,
    UNREAD_BYTES,
    named_events,
    sse_event,
)

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
GEMINI, GEMINI_STREAM = "/v1/models/m:generateContent", "/v1/models/m:streamGenerateContent"
PATHS = {
    "chat": CHAT,
    "anthropic": MESSAGES,
    "gemini": GEMINI_STREAM,
    "gemini array": GEMINI_STREAM,
}
in_every_form = pytest.mark.parametrize("form", PATHS)

LOOK = ToolCall("", "look", '{"by": "me", "at": 1}')
PING = ToolCall("", "ping", "{}")


def request(path, stream=True, **fields):
    fields = {"contents": []} if "models/" in path else {"messages": [], **fields}
    body = {"model": "m", "stream": stream, **fields}
    return read(Request(path=path, body=json.dumps(body).encode()))


def passed(call, chunks):
    """Return the turn of an answer that was read while it passed."""
    reader = answer_reader(call.dialect, call.stream)
    for chunk in chunks:
        reader.follow(chunk)
    return answered_turn(call, reader)


# How each dialect writes calls, given as id, name and arguments


def chat_call(made):
    call_id, name, arguments = made
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def chat_message(calls, text):
    return {"role": "assistant", "content": text, "tool_calls": list(map(chat_call, calls))}


def chat_chunk(delta=None, reason=None, index=0, **fields):
    choice = {"index": index, "delta": delta or {}, "finish_reason": reason}
    return sse_event({"id": "chatcmpl-1", "choices": [choice], **fields})


def tool_delta(index, call_id=None, name=None, arguments=None, **fields):
    function = {"name": name, "arguments": arguments}
    delta = {"index": index, "id": call_id, "function": function}
    delta["function"] = {key: value for key, value in function.items() if value is not None}
    delta = {key: value for key, value in delta.items() if value is not None}
    return chat_chunk({"tool_calls": [{**delta, **fields}]})


def chat_stream(calls, text, cuts):
    sent = [chat_chunk({"role": "assistant", "content": ""}), chat_chunk({"content": text})]
    for index, (call_id, name, arguments) in enumerate(calls):
        sent.append(tool_delta(index, call_id, name, "", type="function"))
        sent += (tool_delta(index, arguments=one) for one in pieces(json.dumps(arguments), cuts))
    return [*sent, chat_chunk(reason="tool_calls"), DONE]


def block(made):
    call_id, name, arguments = made
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def block_events(index, shape, texts=(), *, ends=True):
    sent = [{"type": "content_block_start", "index": index, "content_block": shape}]
    for text in texts:
        kind = "text_delta" if shape["type"] == "text" else "input_json_delta"
        field = "text" if shape["type"] == "text" else "partial_json"
        delta = {"type": kind, field: text}
        sent.append({"type": "content_block_delta", "index": index, "delta": delta})
    return [*sent, {"type": "content_block_stop", "index": index}] if ends else sent


def messages_stream(*blocks):
    head = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    sent = [{"type": "message_start", "message": head}, {"type": "ping"}]
    sent += (event for one in blocks for event in one)
    sent += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}]
    return list(named_events([*sent, {"type": "message_stop"}]))


def tool_use(index, cuts, made):
    _, _, arguments = made
    return block_events(index, {**block(made), "input": {}}, pieces(json.dumps(arguments), cuts))


def function_call(made):
    call_id, name, arguments = made
    return {"functionCall": {"id": call_id, "name": name, "args": arguments}}


def candidate(*parts, **fields):
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, **fields}], "responseId": "r1"}


def gemini_stream(*responses):
    return [sse_event(one) for one in responses]


def gemini_array(*responses):
    sent = [
        (b",\r\n" if index else b"[") + json.dumps(one).encode()
        for index, one in enumerate(responses)
    ]
    return [*sent, b"\n]"]


def texts_of_gemini(calls, text):
    yield candidate({"text": text})
    for made in calls:
        yield candidate(function_call(made))
    yield candidate({"text": ""}, finishReason="STOP")


WRITERS = {
    "chat": lambda calls, text, cuts: (
        {"messages": [chat_message(calls, text)]},
        {"id": "1", "choices": [{"message": chat_message(calls, text), "finish_reason": "stop"}]},
        chat_stream(calls, text, cuts),
    ),
    "anthropic": lambda calls, text, cuts: (
        {"messages": [{"role": "assistant", "content": list(map(block, calls))}]},
        {
            "id": "1",
            "type": "message",
            "content": [{"type": "text", "text": text}, *map(block, calls)],
        },
        messages_stream(
            block_events(0, {"type": "text", "text": ""}, [text]),
            *(tool_use(index, cuts, made) for index, made in enumerate(calls, 1)),
        ),
    ),
    "gemini": lambda calls, text, _: (
        {"contents": [{"role": "model", "parts": list(map(function_call, calls))}]},
        candidate({"text": text}, *map(function_call, calls), finishReason="STOP"),
        gemini_stream(*texts_of_gemini(calls, text)),
    ),
    "gemini array": lambda calls, text, _: (
        {"contents": [{"role": "model", "parts": list(map(function_call, calls))}]},
        candidate({"text": text}, *map(function_call, calls), finishReason="STOP"),
        gemini_array(*texts_of_gemini(calls, text)),
    ),
}
"""Of some calls after a text: the request that repeats them, the answer whole, and streamed."""

values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
made_calls = st.lists(
    st.tuples(
        st.uuids().map(str),
        st.sampled_from(["look", "write_file", "mcp__files__read"]),
        st.dictionaries(st.text(max_size=4), values, max_size=4),
    ),
    max_size=4,
)


@in_every_form
@given(
    calls=made_calls,
    text=st.sampled_from(["", "Let me look.", "word " * (UNREAD_BYTES // 5)]),
    splits=st.lists(st.integers(0, 10**6), max_size=6),
    cuts=st.lists(st.integers(0, 10**6), max_size=12),
)
def test_the_calls_are_those_of_the_request_that_repeats_them(form, calls, text, splits, cuts):
    repeated, once, streamed = WRITERS[form](calls, text, splits)
    path = PATHS[form]
    sent = read(Request(path=path, body=json.dumps({"model": "m", **repeated}).encode()))
    expected = sent.messages[-1].calls
    assert len(expected) == len(calls)
    data = b"".join(streamed)
    whole_data = json.dumps(once).encode()
    assert answered_turn(request(path, stream=False), whole_data).calls == expected
    assert answered_turn(request(path), data).calls == expected
    assert passed(request(path), pieces(data, cuts)).calls == expected
    assert passed(request(path, stream=False), pieces(whole_data, cuts)).calls == expected


@in_every_form
@pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "in one piece"])
def test_an_answer_has_its_id_and_its_calls_and_no_texts(form, is_stream):
    calls = [LOOK, PING]
    data = b"".join(events(form, "Hm.", calls)) if is_stream else whole(form, "Hm.", calls)
    turn = answered_turn(request(PATHS[form], is_stream), data)
    assert turn.response_id.endswith("fake-1")
    assert [(made.name, made.arguments) for made in turn.calls] == [
        ("look", '{"at":1,"by":"me"}'),
        ("ping", "{}"),
    ]
    assert [message.text for message in turn.messages] == [""]


@in_every_form
@pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "in one piece"])
def test_an_answer_without_calls_has_no_messages(form, is_stream):
    data = b"".join(events(form, "Done.")) if is_stream else whole(form, "Done.")
    assert answered_turn(request(PATHS[form], is_stream), data).messages == ()


# Shapes that providers send

A = ToolCall("a", "look", '{"at":1}')
B = ToolCall("b", "ping", "{}")
END = chat_chunk(reason="tool_calls")
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "s",
    "content": [{"type": "text", "text": "x"}],
}


def bits(*values, goes_on=True):
    sent = {"partialArgs": [{"jsonPath": path, **value} for path, value in values]}
    return candidate({"functionCall": {**sent, "willContinue": goes_on}})


CHAT_STREAMS = {
    "interleaved": (
        [
            tool_delta(0, "a", "look", ""),
            tool_delta(1, "b", "ping", ""),
            tool_delta(0, arguments='{"a'),
            tool_delta(1, arguments="{"),
            tool_delta(0, arguments='t": 1}'),
            tool_delta(1, arguments="}"),
            END,
        ],
        [A, B],
    ),
    "two in one chunk": (
        [
            chat_chunk(
                {
                    "tool_calls": [
                        {"index": 0, **chat_call(("a", "look", {"at": 1}))},
                        {"index": 1, **chat_call(("b", "ping", {}))},
                    ]
                },
                "tool_calls",
            ),
        ],
        [A, B],
    ),
    "nulls in every delta": (
        [
            chat_chunk(
                {
                    "content": None,
                    "function_call": None,
                    "tool_calls": [
                        {"index": 0, "id": "a", "function": {"name": "look", "arguments": None}}
                    ],
                }
            ),
            chat_chunk(
                {
                    "content": None,
                    "function_call": None,
                    "tool_calls": [
                        {
                            "index": 0,
                            "id": None,
                            "function": {"name": None, "arguments": '{"at":1}'},
                        }
                    ],
                }
            ),
            END,
        ],
        [A],
    ),
    "an id in every delta": (
        [
            tool_delta(0, "a", "look", '{"at"'),
            tool_delta(0, "a2", "", ":1"),
            tool_delta(0, "a", "look", "}"),
            END,
        ],
        [A],
    ),
    "one index for all": (
        [tool_delta(0, "a", "look", '{"at":1}'), tool_delta(0, "b", "ping", ""), END],
        [A, B],
    ),
    "one index and no ids": (
        [tool_delta(0, "", "look", '{"at":1}'), tool_delta(0, "", "look", '{"at":1}'), END],
        [ToolCall("", "look", '{"at":1}')] * 2,
    ),
    "no index": (
        [
            tool_delta(None, "a", "look", '{"at"'),
            tool_delta(None, arguments=":1}"),
            tool_delta(None, "b", "ping"),
            END,
        ],
        [A, B],
    ),
    "an id that comes late": (
        [tool_delta(0, name="look"), tool_delta(0, "a", arguments='{"at":1}'), END],
        [A],
    ),
    "arguments as an object": ([tool_delta(0, "a", "look", {"at": 1}), END], [A]),
    "arguments that are not JSON": (
        [tool_delta(0, "a", "look", '{"at":'), END],
        [ToolCall("a", "look", '{"at":')],
    ),
    "arguments of blanks": (
        [tool_delta(0, "b", "ping", " "), tool_delta(0, arguments="\n"), END],
        [B],
    ),
    "cut inside an escape": (
        [
            tool_delta(0, "a", "look", '{"q":"\\u00'),
            tool_delta(0, arguments="e9\\"),
            tool_delta(0, arguments='n"}'),
            END,
        ],
        [ToolCall("a", "look", '{"q":"é\\n"}')],
    ),
    "a custom tool": (
        [
            tool_delta(0, "a", type="custom", function=None, custom={"name": "sh", "input": ""}),
            tool_delta(0, function=None, custom={"input": '{"b": 1, '}),
            tool_delta(0, function=None, custom={"input": '"a": 2}'}),
            END,
        ],
        [ToolCall("a", "sh", '{"b": 1, "a": 2}')],
    ),
    "a legacy function": (
        [
            chat_chunk({"function_call": {"name": "look", "arguments": ""}}),
            chat_chunk({"function_call": {"arguments": '{"at"'}}),
            chat_chunk({"function_call": {"arguments": ": 1}"}}),
            chat_chunk(reason="function_call"),
        ],
        [ToolCall("", "look", '{"at":1}')],
    ),
    "several choices": (
        [
            tool_delta(0, "a", "look", '{"at":1}'),
            chat_chunk(
                {"tool_calls": [{"index": 0, "id": "z", "function": {"name": "z"}}]}, index=1
            ),
            END,
            chat_chunk(reason="tool_calls", index=1),
        ],
        [A],
    ),
    "usage at the end": (
        [
            tool_delta(0, "b", "ping", "{}"),
            END,
            sse_event({"id": "chatcmpl-1", "choices": [], "usage": {}}),
            DONE,
        ],
        [B],
    ),
    "no end, as some servers send it": ([tool_delta(0, "a", "look", '{"at":1}'), DONE], [A]),
}

MESSAGE_STREAMS = {
    "thoughts and text before": (
        [
            block_events(0, {"type": "thinking", "thinking": "", "signature": ""}),
            block_events(1, {"type": "text", "text": ""}, ["Let me", " look."]),
            tool_use(2, [], ("a", "look", {"at": 1})),
            tool_use(3, [], ("b", "ping", {})),
        ],
        [A, B],
    ),
    "no input": ([block_events(0, {**block(("b", "ping", {}))}, [""])], [B]),
    "the input at once": ([block_events(0, block(("a", "look", {"at": 1})))], [A]),
    "input that is not JSON": (
        [block_events(0, block(("a", "look", {})), ['{"at":', "1"])],
        [ToolCall("a", "look", '{"at":1')],
    ),
    "cut inside an escape": (
        [block_events(0, block(("a", "look", {})), ["", '{"q": "\\u00', "e9\\", 'n"}'])],
        [ToolCall("a", "look", '{"q":"é\\n"}')],
    ),
    "interleaved": (
        [
            block_events(0, block(("a", "look", {})), ['{"at"'], ends=False),
            block_events(1, block(("b", "ping", {})), ["{"], ends=False),
            block_events(0, {"type": "tool_use"}, [": 1}"])[1:],
            block_events(1, {"type": "tool_use"}, ["}"])[1:],
        ],
        [A, B],
    ),
    "a tool of Anthropic's own": (
        [block_events(0, SEARCH, ['{"query"', ':"q"}']), block_events(1, FOUND)],
        [ToolCall("s", "web_search", '{"query":"q"}')],
    ),
}  # fmt: skip

GEMINI_STREAMS = {
    "parallel in one response": (
        [candidate({"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "s"},
                   {"functionCall": {"name": "ping"}}, finishReason="STOP")],
        [ToolCall("", "look", '{"at":1}'), ToolCall("", "ping", "{}")],
    ),
    "a thought before, an empty text after": (
        [
            candidate({"text": "Hm.", "thought": True}),
            candidate(function_call(("a", "look", {"at": 1}))),
            candidate({"text": ""}, finishReason="STOP"),
        ],
        [A],
    ),
    "several candidates": (
        [
            {"candidates": [
                {"index": 1, "content": {"parts": [{"functionCall": {"name": "z"}}]}},
                {"index": 0, "content": {"parts": [function_call(("b", "ping", {}))]}},
            ], "responseId": "r1"},
        ],
        [B],
    ),
    "arguments bit by bit": (
        [
            candidate({"functionCall": {"id": "a", "name": "write", "willContinue": True}}),
            bits(("$.path", {"stringValue": "a.", "willContinue": True})),
            bits(("$.path", {"stringValue": "py"}), ("$.lines[0]['n o']", {"numberValue": 1})),
            bits(("$.lines[0].on", {"boolValue": False}), ("$.lines[1].x", {"nullValue": None})),
            candidate({"functionCall": {}}),
            candidate({"functionCall": {"name": "ping", "id": "b"}}, finishReason="STOP"),
        ],
        [ToolCall("a", "write", '{"lines":[{"n o":1,"on":false},{"x":null}],"path":"a.py"}'), B],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("chunks", "calls"), CHAT_STREAMS.values(), ids=CHAT_STREAMS)
def test_calls_in_chunks_of_chat_completions(chunks, calls):
    expected = AnsweredTurn.of_calls("chatcmpl-1", tuple(calls))
    assert answered_turn(request(CHAT), b"".join(chunks)) == expected
    assert passed(request(CHAT), chunks) == expected


@pytest.mark.parametrize(("blocks", "calls"), MESSAGE_STREAMS.values(), ids=MESSAGE_STREAMS)
def test_calls_in_blocks_of_messages(blocks, calls):
    turn = passed(request(MESSAGES), messages_stream(*blocks))
    assert (turn.response_id, turn.calls) == ("msg_1", tuple(calls))


@pytest.mark.parametrize("write", [gemini_stream, gemini_array])
@pytest.mark.parametrize(("responses", "calls"), GEMINI_STREAMS.values(), ids=GEMINI_STREAMS)
def test_calls_in_responses_of_gemini(responses, calls, write):
    turn = passed(request(GEMINI_STREAM), write(*responses))
    assert turn == AnsweredTurn.of_calls("r1", tuple(calls))


CHAT_MESSAGES = {
    "a custom tool": (
        {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "sh", "input": "{ }"}}]},
        [ToolCall("a", "sh", "{ }")],
    ),
    "a legacy function": (
        {"function_call": {"name": "look", "arguments": '{"at": 1}'}},
        [ToolCall("", "look", '{"at":1}')],
    ),
    "arguments as an object": (
        {"tool_calls": [{"id": "a", "function": {"name": "look", "arguments": {"at": 1}}}]},
        [A],
    ),
    "no arguments": ({"tool_calls": [{"id": "b", "function": {"name": "ping"}}]}, [B]),
    "no calls": ({"content": "Done.", "tool_calls": None, "function_call": None}, []),
}


@pytest.mark.parametrize(("message", "calls"), CHAT_MESSAGES.values(), ids=CHAT_MESSAGES)
def test_calls_in_a_whole_chat_completion(message, calls):
    data = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", **message}}]})
    turn = answered_turn(request(CHAT, stream=False), data.encode())
    assert turn == AnsweredTurn.of_calls("", tuple(calls))
    repeated = request(CHAT, messages=[{"role": "assistant", **message}])
    assert repeated.messages[-1].calls == turn.calls


def test_a_tool_of_anthropics_own_has_its_result_too():
    content = [{**SEARCH, "input": {"query": "q"}}, FOUND]
    data = json.dumps({"type": "message", "content": content}).encode()
    turn = answered_turn(request(MESSAGES, stream=False), data)
    call = ToolCall("s", "web_search", '{"query":"q"}')
    assert turn.messages == (Message("assistant", "", (call,), (ToolResult("s", "x"),)),)
    assert turn.messages == tuple(
        request(MESSAGES, messages=[{"role": "assistant", "content": content}]).messages
    )


# Incomplete, odd and huge


@in_every_form
@given(calls=made_calls, share=st.floats(0, 1))
def test_a_cut_stream_has_the_calls_that_were_complete(form, calls, share):
    _, _, streamed = WRITERS[form](calls, "Hm.", [3])
    data = b"".join(streamed)
    complete = answered_turn(request(PATHS[form]), data).calls
    turn = answered_turn(request(PATHS[form]), data[: int(len(data) * share)])
    found = turn.calls if turn is not None else ()
    assert found == complete[: len(found)]


@pytest.mark.parametrize("chunks", [
    [tool_delta(0, "a", "look", '{"at":1}'), tool_delta(1, "b", "ping", "")],
    [tool_delta(0, "a", "look", '{"at":1}'), tool_delta(1, "b", "ping", '{"x"')],
    [
        tool_delta(0, "a", "look", '{"at":1}'),
        tool_delta(1, "b", custom={"name": "s", "input": "{}"}, function=None),
    ],
])  # fmt: skip
def test_a_chat_call_that_was_not_complete_is_left_out(chunks):
    assert passed(request(CHAT), chunks).calls == (A,)


def test_a_block_that_did_not_end_is_left_out():
    stream = messages_stream(
        tool_use(0, [], ("a", "look", {"at": 1})), tool_use(1, [], ("b", "ping", {}))
    )
    assert passed(request(MESSAGES), stream[:-3]).calls == (A,)


def test_a_gemini_call_that_goes_on_is_left_out():
    begun = candidate({"functionCall": {"name": "look", "willContinue": True}})
    stream = gemini_stream(candidate(function_call(("b", "ping", {}))), begun)
    call = request(GEMINI_STREAM)
    reader = answer_reader(call.dialect, call.stream)
    for chunk in stream:
        reader.follow(chunk)
    assert answered_turn(call, reader).calls == (B,)
    assert not reader.parser.can_end


@in_every_form
@pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "in one piece"])
@pytest.mark.parametrize("data", [
    b"",
    b"{",
    b"{}",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"data: \n\n",
    b"data: [DONE]\n\n",
    b": comment\n\n",
    b"<html>Bad gateway</html>",
    b'{"error": {"message": "m"}}',
    b'data: {"type": "error", "error": {"message": "m"}}\n\n',
    b'{"choices": 3, "candidates": 3, "type": "message", "content": 3}',
    b'{"choices": [], "candidates": [], "type": "ping"}',
])  # fmt: skip
def test_what_is_no_answer_has_no_turn(form, is_stream, data):
    assert answered_turn(request(PATHS[form], is_stream), data) is None


ODD = [
    3,
    None,
    {},
    [],
    "x",
    {"type": 1},
    {"function": 3},
    {"functionCall": 3},
    {"index": "x"},
    {"id": 1},
]


@pytest.mark.parametrize("odd", ODD, ids=json.dumps)
def test_an_odd_item_does_not_hide_the_others(odd):
    chunk = chat_chunk({"tool_calls": [odd, {"index": 5, **chat_call(("a", "look", {"at": 1}))}]})
    assert answered_turn(request(CHAT), chunk + END).calls[-1] == A
    message = {"tool_calls": [odd, chat_call(("a", "look", {"at": 1}))]}
    data = json.dumps({"choices": [{"message": message}]}).encode()
    assert answered_turn(request(CHAT, stream=False), data).calls[-1] == A
    data = json.dumps({"type": "message", "content": [odd, block(("a", "look", {"at": 1}))]})
    assert answered_turn(request(MESSAGES, stream=False), data.encode()).calls == (A,)
    if isinstance(odd, dict):
        data = json.dumps(
            candidate(odd, {"functionCall": odd}, function_call(("a", "look", {"at": 1})))
        )
        assert answered_turn(request(GEMINI, stream=False), data.encode()).calls[-1] == A


@in_every_form
@given(st.binary(max_size=300), st.booleans(), st.lists(st.integers(0, 300), max_size=5))
def test_any_bytes_can_be_read(form, data, is_stream, cuts):
    call = request(PATHS[form], is_stream)
    answered_turn(call, data)
    passed(call, pieces(data, cuts))


CALL_OF = b'{"name":"n","arguments":%b,"args":%b,"input":%b,"type":"tool_use"}'
DEEP_ANSWERS = [
    (CHAT, b'{"choices":[{"delta":{"tool_calls":[{"function":%b}]}}]}'),
    (CHAT, b'{"choices":[{"message":{"tool_calls":[{"function":%b}]}}]}'),
    (CHAT, b'{"choices":[{"delta":{"function_call":%b}}]}'),
    (MESSAGES, b'{"type":"message","content":[%b]}'),
    (GEMINI, b'{"candidates":[{"content":{"parts":[{"functionCall":%b}]}}]}'),
]


@pytest.mark.parametrize("depth", [100, *range(900, 1_000, 9), 100_000])
@pytest.mark.parametrize(("path", "answer"), DEEP_ANSWERS)
def test_deep_arguments_can_be_read(path, answer, depth):
    deep = b"[" * depth + b"]" * depth
    answer %= CALL_OF % (deep, deep, deep)
    answered_turn(request(path), b"data: " + answer + b"\n\n")
    turn = answered_turn(request(path, stream=False), answer)
    assert depth > 100 or turn is not None


def test_a_deep_path_of_arguments_can_be_read():
    bit = {"jsonPath": "$" + ".x" * 100_000, "stringValue": ""}
    part = {"functionCall": {"name": "n", "partialArgs": [bit]}}
    answered_turn(request(GEMINI_STREAM), sse_event(candidate(part)))


def huge(form):
    """Return a stream with a small call, then one of which no more is kept, then another."""
    pad = "x" * (MAX_EVENT_BYTES // 8)
    count = MAX_KEPT_CHARS // len(pad) + 2
    if form == "chat":
        yield tool_delta(0, "a", "look", '{"at":1}')
        yield tool_delta(1, "h", "huge", '"')
        yield from (tool_delta(1, arguments=pad) for _ in range(count))
        yield tool_delta(2, "b", "ping", "{}")
        yield END
    elif form == "anthropic":
        yield from messages_stream(
            tool_use(0, [], ("a", "look", {"at": 1})),
            block_events(1, block(("h", "huge", {})), ['"', *[pad] * count]),
            tool_use(2, [], ("b", "ping", {})),
        )
    else:
        calls = [("a", "look", {"at": 1}), *[("h", "huge", {"x": pad})] * count, ("b", "ping", {})]
        write = gemini_array if form == "gemini array" else gemini_stream
        yield from write(*(candidate(function_call(made)) for made in calls))


@in_every_form
def test_of_a_huge_stream_the_first_calls_are_known(form):
    call = request(PATHS[form])
    reader = answer_reader(call.dialect, call.stream)
    for chunk in huge(form):
        reader.follow(chunk)
    calls = answered_turn(call, reader).calls
    assert calls[0] == A
    assert B not in calls
    assert reader.parser.kept_chars < 2 * MAX_KEPT_CHARS


def test_ever_new_calls_are_not_kept_for_ever():
    call = request(CHAT)
    reader = answer_reader(call.dialect, call.stream)
    for number in range(100_000):
        reader.follow(tool_delta(number))
    assert reader.is_lost
    assert len(answered_turn(call, reader).calls) == 0


@in_every_form
def test_a_very_large_answer_in_one_piece_is_not_read(form):
    _, once, _ = WRITERS[form]([("a", "look", {})], "x" * (2 * MAX_EVENT_BYTES), [])
    assert answered_turn(request(PATHS[form], stream=False), json.dumps(once).encode()) is None


# What it costs


@pytest.mark.parametrize("form", ["chat", "anthropic", "gemini"])
def test_a_reader_of_texts_alone_keeps_no_calls(form):
    _, _, streamed = WRITERS[form]([("a", "look", {"q": "x" * UNREAD_BYTES})], "Hm.", [9])
    reader = answer_reader(FORMS[form][0], True, keeps_calls=False)
    for chunk in streamed:
        reader.follow(chunk)
    assert reader.parser.texts
    assert reader.parser.kept_chars == 0
    assert answered_turn(request(PATHS[form]), reader) is None


@in_every_form
def test_it_may_be_asked_for_twice(form):
    call = request(PATHS[form])
    reader = answer_reader(call.dialect, call.stream)
    for chunk in WRITERS[form]([("a", "look", {"at": 1})], "Hm.", [])[2]:
        reader.follow(chunk)
    assert answered_turn(call, reader) == answered_turn(call, reader)
    assert answered_turn(call, reader).calls == (A,)


def test_a_legacy_function_call_is_not_cut_in_half():
    call = request(CHAT)
    reader = answer_reader(call.dialect, call.stream, keeps_calls=False)
    reader.follow(chat_chunk({"function_call": {"name": "look", "arguments": "x" * UNREAD_BYTES}}))
    assert not reader.parser.can_end
