"""The last bytes of a stream that is cut: after them it is a stream that has ended well."""

import json

import pytest
from tests.dialect.streams import CALL, FORMS, event, events, hear

from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.policy.action import Action
from looptrap.policy.stream_guard import end_stream
from looptrap.policy.verdict import Verdict

TEXT = "I am sorry, I cannot find that file. Let me try once more. " * 20
EVIDENCE = Evidence("chant", "the same 46 characters said 80 times in a row", 80)
PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent",
    "gemini array": "/v1beta/models/m:streamGenerateContent",
    "interactions": "/v1beta/interactions",
}
in_every_form = pytest.mark.parametrize("form", FORMS)


def verdict(action):
    return Verdict(
        action=action,
        reason="loop_detected",
        rule="chanting",
        message="Blocked: the same again.",
        count=80,
        evidence=(EVIDENCE,),
    )


def cut(form, sent, action=Action.STOP):
    """Return the end of a stream of which these bytes were sent."""
    hearing, _ = hear(form, [sent])
    hearing.read()
    assert hearing.is_between_events
    body = b'{"model":"m","messages":[],"input":"","contents":[],"prompt":"","stream":true}'
    call = read(Request(method="POST", path=PATHS[form], query="", headers=[], body=body))
    return end_stream(call, hearing, verdict(action), request_id="r-1", block_status=429)


def data_of(form, stream):
    """Return the JSON of every event, as a client reads it."""
    if form == "gemini array":
        return json.loads(stream)
    found = []
    for one in stream.decode().split("\n\n")[:-1]:
        lines = dict(line.split(": ", 1) for line in one.split("\n") if line[0] != ":")
        if "data" in lines and lines["data"] != "[DONE]":
            found.append(json.loads(lines["data"]))
            kind = found[-1].get("event_type", found[-1].get("type"))
            assert lines.get("event", kind) == kind
    return found


def begun(form, text=TEXT, at=60):
    """Return the first events of a stream."""
    return b"".join(events(form, text)[:at])


def test_a_chat_ends_with_a_reason_for_every_choice_that_is_open():
    head = {"id": "c-1", "object": "chat.completion.chunk", "created": 5, "model": "m"}
    chunks = [
        {**head, "choices": [{"index": index, "delta": {"content": "a"}, "finish_reason": reason}]}
        for index, reason in ((0, None), (1, None), (2, None), (1, "length"))
    ]
    sent = b"".join(map(event, chunks))
    end = cut("chat", sent)
    assert end.startswith(b": looptrap stop chant\n\ndata: ")
    assert end.endswith(b"data: [DONE]\n\n")
    ends = data_of("chat", end)
    assert [one["choices"][0]["index"] for one in ends] == [0, 2]
    for one in ends:
        assert one == {**head, "choices": one["choices"]}
        assert one["choices"][0]["finish_reason"] == "stop"
        assert one["choices"][0]["delta"] == {}


def test_a_message_ends_its_open_block_and_itself():
    end = data_of("anthropic", cut("anthropic", begun("anthropic")))
    kinds = [one["type"] for one in end]
    assert kinds == ["content_block_stop", "message_delta", "message_stop"]
    assert end[1]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert end[1]["usage"]["output_tokens"] > 0


def reasoning_response():
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "status": "in_progress"}
    within = {"item_id": "rs_1", "output_index": 0, "summary_index": 1}
    earlier = {**within, "summary_index": 0}
    part = {"type": "summary_text", "text": ""}
    response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    steps = [
        ("created", {"response": response}),
        ("output_item.added", {"output_index": 0, "item": item}),
        ("reasoning_summary_part.added", {**earlier, "part": part}),
        ("reasoning_summary_text.delta", {**earlier, "delta": "First."}),
        ("reasoning_summary_part.done", {**earlier, "part": {**part, "text": "First."}}),
        ("reasoning_summary_part.added", {**within, "part": part}),
        ("reasoning_summary_text.delta", {**within, "delta": "Then."}),
    ]
    return b"".join(
        event({"type": f"response.{name}", **data, "sequence_number": number})
        for number, (name, data) in enumerate(steps)
    )


def test_thoughts_of_a_response_end_too():
    end = data_of("responses", cut("responses", reasoning_response()))
    assert [one["type"] for one in end] == [
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [one["sequence_number"] for one in end] == [7, 8, 9, 10]
    assert [part["text"] for part in end[2]["item"]["summary"]] == ["First.", "Then."]
    assert end[3]["response"]["output"] == [end[2]["item"]]


def test_a_response_repeats_all_that_was_said_however_long():
    text = TEXT * 20
    sent = begun("responses", text, -4)
    last = data_of("responses", cut("responses", sent))[-1]["response"]
    assert last["output"][0]["content"][0]["text"] == text
    assert last["status"] == last["output"][0]["status"] == "completed"


@pytest.mark.parametrize("form", ["gemini", "gemini array"])
def test_a_candidate_ends_with_a_reason(form):
    sent = begun(form)
    stream = sent + cut(form, sent)
    last = data_of(form, stream)[-1]
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert last["responseId"] == "fake-1"
    assert last["usageMetadata"] == {"promptTokenCount": 12}


def test_an_array_is_closed_wherever_its_comma_stands():
    sent = begun("gemini array")
    for after in (b"", b",", b"\n", b"\n,\r\n"):
        assert json.loads(sent + after + cut("gemini array", sent + after))


@in_every_form
def test_an_error_is_told_as_the_dialect_tells_one_and_says_why(form):
    sent = begun(form)
    stream = sent + cut(form, sent, Action.BLOCK)
    (told,) = [one for one in data_of(form, stream) if "detail" in one]
    assert "Blocked" in told["error"]["message"]
    detail = told["detail"]
    assert detail["error"] == "recursive_loop_detected"
    assert (detail["rule"], detail["hit_count"]) == ("chanting", 80)
    assert detail["evidence"][0]["what"] == EVIDENCE.what
    if form == "anthropic":
        assert stream.count(b"event: error\n") == 1
    if form == "responses":
        assert data_of(form, stream)[-1]["type"] == "response.failed"
        numbers = [one["sequence_number"] for one in data_of(form, stream)]
        assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("form", ["chat", "responses", "anthropic", "interactions"])
def test_a_tool_call_is_not_cut_in_half(form):
    stream = events(form, "Let me look.", [CALL])
    half = next(at for at, one in enumerate(stream) if b"weather" in one)
    assert cut(form, b"".join(stream[: half + 1])) is None


@in_every_form
def test_a_stream_that_has_ended_is_left_alone(form):
    stream = events(form, "That was all.")
    closing = 1 if form in ("anthropic", "gemini array", "chat", "completions") else 0
    sent = b"".join(stream[: len(stream) - closing])
    assert cut(form, sent) is None


@pytest.mark.parametrize("form", [form for form in FORMS if form != "anthropic"])
def test_a_stream_in_which_nothing_was_understood_is_left_alone(form):
    nothing = b'[{"a":1}' if form == "gemini array" else b'data: {"a":1}\n\n'
    assert cut(form, nothing) is None
