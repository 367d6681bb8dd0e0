"""Gemini's Interactions API: what Google's client sends, and what it understands."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from tests.dialect.answering import google_at
from tests.dialect.streams import events, whole

from looptrap.dialect.answer import (
    Answer,
    answer_reader,
    answered_turn,
    close_stream,
    final_answer,
    nudged_body,
    refusal_answer,
)
from looptrap.dialect.model import (
    AnsweredTurn,
    Call,
    Message,
    Refusal,
    Request,
    ToolCall,
    ToolResult,
    Usage,
)
from looptrap.dialect.output_limit import is_in_background, max_output
from looptrap.dialect.registry import read
from looptrap.dialect.stream import EVENT_STREAM, JSON, sse_event
from looptrap.dialect.usage_meter import UsageReader, usage_of

PATH = "/v1beta/interactions"
LOOK = ToolCall("call_fake-1_0", "look", '{"at":1,"by":"me"}')
SAID = ToolCall("", "look", '{"by": "me", "at": 1}')
TEXT = {"type": "text", "text": "a"}
RESULT = {"type": "function_result", "call_id": "c", "name": "f", "result": "r"}


def interact(**fields: Any) -> Call:
    body = {"model": "gemini-3", "input": "hi", **fields}
    return read(Request(path=PATH, body=json.dumps(body).encode()))


def result(text: str, **more: Any) -> Message:
    return Message("tool", results=(ToolResult("c", text, **more),))


class TestReading:
    @pytest.mark.parametrize(
        ("sent", "expected"),
        [
            pytest.param("a", [Message("user", "a")], id="a text"),
            pytest.param(TEXT, [Message("user", "a")], id="a part"),
            pytest.param([TEXT, TEXT], [Message("user", "a\na")], id="parts are one message"),
            pytest.param([], [], id="nothing"),
            pytest.param(None, [], id="null"),
            pytest.param([TEXT, RESULT], [Message("user", "a"), result("r", name="f")], id="both"),
            pytest.param(
                [{"type": "user_input", "content": "a"}], [Message("user", "a")], id="bare text"
            ),
            pytest.param(
                [{"role": "user", "content": "a"}, {"role": "model", "content": [TEXT]}],
                [Message("user", "a"), Message("assistant", "a")],
                id="turns of the first version",
            ),
            pytest.param(
                [{"role": "user", "content": [RESULT]}], [result("r", name="f")], id="result turn"
            ),
            pytest.param(
                [{"role": "model", "content": [{"type": "function_call", "id": "c", "name": "f"}]}],
                [Message("assistant", calls=(ToolCall("c", "f", "{}"),))],
                id="call in a turn",
            ),
            pytest.param(
                [{"type": "google_search_call", "id": "c", "arguments": {"queries": ["q"]}}],
                [
                    Message(
                        "assistant", calls=(ToolCall("c", "google_search", '{"queries":["q"]}'),)
                    )
                ],
                id="a tool of Google's is named by its kind",
            ),
            pytest.param(
                [{"type": "thought", "signature": "s"}], [Message("assistant")], id="idea"
            ),
        ],
    )
    def test_every_form_of_an_input_is_read(self, sent: Any, expected: list[Message]) -> None:
        assert interact(input=sent).messages == expected

    @pytest.mark.parametrize(
        ("fields", "text", "is_error"),
        [
            ({"result": "r"}, "r", False),
            ({"result": "r", "is_error": True}, "r", True),
            ({"result": [{"type": "text", "text": "r"}]}, "r", False),
            ({"result": {"content": [{"type": "text", "text": "r"}]}}, "r", False),
            ({"result": {"b": 1, "a": 2}}, '{"a":2,"b":1}', False),
            ({}, "", False),
        ],
    )
    def test_a_result_is_read(self, fields: Any, text: str, is_error: bool) -> None:
        step = {"type": "function_result", "call_id": "c", **fields}
        assert interact(input=[step]).messages == [result(text, is_error=is_error)]

    def test_what_is_the_same_in_every_answer_counts(self) -> None:
        step = {"type": "code_execution_call", "id": "c", "arguments": {"code": "1"}}
        first, second = (interact(input=[{**step, "signature": sign}]) for sign in ("x", "y"))
        assert first.messages == second.messages

    def test_the_history_that_google_keeps_is_named(self) -> None:
        call = interact(previous_interaction_id="v1_1", stream=True)
        assert (call.chain, call.keeps_history, call.stream) == ("v1_1", True, True)
        assert not interact(store=False).keeps_history

    def test_an_agent_is_the_model(self) -> None:
        assert interact(model=None, agent="deep-research").model == "deep-research"

    @pytest.mark.parametrize("body", [b"{}", b'{"input":"hi"}', b'{"model":3}', b"[]", b"{"])
    def test_another_body_is_judged_by_its_bytes(self, body: bytes) -> None:
        call = read(Request(path=PATH, body=body))
        assert (call.is_opaque, call.generates) == (True, True)

    def test_limits_and_the_background_are_known(self) -> None:
        assert max_output(interact(generation_config={"max_output_tokens": 7}), 99) == 7
        assert is_in_background(interact(background=True))
        assert not is_in_background(interact(background=False))


class TestUsage:
    COUNTS: ClassVar = {
        "total_tokens": 346,
        "total_input_tokens": 11,
        "input_tokens_by_modality": [{"modality": "audio", "tokens": 4}],
        "total_cached_tokens": 5,
        "total_output_tokens": 90,
        "total_tool_use_tokens": 3,
        "total_thought_tokens": 245,
    }
    USAGE = Usage(14, 335, 5, 245, audio_input_tokens=4)

    def test_thoughts_and_tools_are_counted_with_the_rest(self) -> None:
        body = json.dumps({"id": "v1_1", "steps": [], "usage": self.COUNTS}).encode()
        assert usage_of("gemini_interactions", body) == self.USAGE

    def test_the_last_event_of_a_stream_counts(self) -> None:
        earlier = {"index": 0, "event_type": "step.stop", "usage": {"total_input_tokens": 1}}
        last = {"interaction": {"id": "v1_1", "usage": self.COUNTS}, "event_type": "x"}
        reader = UsageReader("gemini_interactions", stream=True)
        for one in (sse_event(earlier), sse_event(last), b"event: done\ndata: [DONE]\n\n"):
            reader.feed(one)
        assert reader.finish() == self.USAGE


class TestAnsweredTurn:
    EXPECTED = AnsweredTurn("v1_fake-1", "", (Message("assistant", "Let me look.", (LOOK,)),))

    def test_it_is_read_from_an_answer_in_one_piece(self) -> None:
        data = whole("interactions", "Let me look.", [SAID])
        assert answered_turn(interact(), data) == self.EXPECTED

    def test_it_is_read_from_a_stream(self) -> None:
        data = b"".join(events("interactions", "Let me look.", [SAID]))
        assert answered_turn(interact(stream=True), data) == self.EXPECTED

    def test_tools_of_google_have_their_results(self) -> None:
        steps = [
            {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}},
            {"type": "google_search_result", "call_id": "s", "result": [TEXT]},
            {"type": "model_output", "content": [TEXT]},
        ]  # fmt: skip
        sent = [{"interaction": {"id": "v1_1"}, "event_type": "interaction.created"}]
        for index, step in enumerate(steps):
            place: dict[str, Any] = {"index": index}
            opening = {"type": step["type"]}
            deltas = step.get("content", [step])
            sent.append({**place, "step": opening, "event_type": "step.start"})
            sent += [{**place, "delta": one, "event_type": "step.delta"} for one in deltas]
            sent.append({**place, "event_type": "step.stop"})
        streamed = b"".join(map(sse_event, sent))
        once = json.dumps({"id": "v1_1", "steps": steps}).encode()
        repeated = interact(input=steps).messages
        assert answered_turn(interact(stream=True), streamed) == AnsweredTurn(
            "v1_1", "", tuple(repeated)
        )
        assert answered_turn(interact(), once) == AnsweredTurn("v1_1", "", tuple(repeated))

    def test_a_cut_stream_has_the_steps_that_ended(self) -> None:
        stream = events("interactions", "Let me look.", [SAID, SAID])
        stops = [at for at, one in enumerate(stream) if b"step.stop" in one]
        found = [
            len(turn.calls)
            for end in stops
            if (turn := answered_turn(interact(stream=True), b"".join(stream[: end + 1])))
        ]
        assert found == [0, 1, 2]

    @pytest.mark.parametrize(
        "data",
        [b"", b"{}", b"[]", b'{"steps": []}', b'{"id": "v1_1", "steps": 3}', b"data: {}\n\n"],
    )
    def test_an_answer_without_an_id_cannot_be_continued(self, data: bytes) -> None:
        assert answered_turn(interact(), data) is None


class TestNudging:
    @pytest.mark.parametrize(
        "sent",
        [
            "a",
            TEXT,
            [TEXT],
            [{"type": "user_input", "content": [TEXT]}],
            [{"role": "user", "content": "a"}],
            [RESULT],
        ],
        ids=["a text", "a part", "parts", "steps", "turns", "results"],
    )
    def test_the_nudge_is_the_last_thing_said(self, sent: Any) -> None:
        body = nudged_body(interact(input=sent), "Try something else.")
        assert body is not None
        last = read(Request(path=PATH, body=body)).messages[-1]
        assert last.role == "user"
        assert last.text.endswith("Try something else.")
        kinds = [set(one) for one in json.loads(body)["input"]]
        assert all(("role" in one) == ("role" in other) for one, other in pairwise(kinds))


def finish(call: Call) -> Answer:
    found = final_answer(call, "That was all.", [], request_id="r", now=1_750_000_000.0)
    assert found is not None
    return found


class TestGooglesClient:
    async def test_it_understands_an_answer_in_one_piece(self) -> None:
        async with google_at(finish) as (client, server):
            found = await client.interactions.create(model="gemini-3", input="hi")
        assert (found.id, found.status) == ("v1_r", "completed")
        assert found.steps[-1].content[0].text == "That was all."
        assert server.calls[0].dialect == "gemini_interactions"

    async def test_it_understands_a_stream(self) -> None:
        async with google_at(finish) as (client, _):
            stream = await client.interactions.create(model="gemini-3", input="hi", stream=True)
            sent = [event async for event in stream]
        assert [event.event_type for event in sent] == [
            "interaction.created",
            "step.start",
            "step.delta",
            "step.stop",
            "interaction.completed",
        ]

    @pytest.mark.parametrize("is_stream", [True, False])
    async def test_what_it_reads_of_a_call_is_what_is_written(self, is_stream: bool) -> None:
        def respond(_call: Call) -> Answer:
            if is_stream:
                data = b"".join(events("interactions", "", [SAID]))
                return Answer(200, [(b"Content-Type", EVENT_STREAM)], data)
            return Answer(200, [(b"Content-Type", JSON)], whole("interactions", "", [SAID]))

        async with google_at(respond) as (client, _):
            found = await client.interactions.create(model="m", input="hi", stream=is_stream)
            if is_stream:
                sent = [event async for event in found]
                pieces = [
                    event.delta.arguments for event in sent if event.event_type == "step.delta"
                ]
                assert json.loads("".join(pieces)) == {"at": 1, "by": "me"}
                assert sent[-1].interaction.status == "requires_action"
            else:
                assert found.steps[0].arguments == {"at": 1, "by": "me"}
                assert found.status == "requires_action"

    async def test_it_sends_what_is_read(self) -> None:
        async with google_at(finish) as (client, server):
            await client.interactions.create(
                model="gemini-3",
                previous_interaction_id="v1_0",
                input=[RESULT],
                tools=[{"type": "function", "name": "f"}],
                system_instruction="Be brief.",
                store=False,
            )
        (call,) = server.calls
        assert call.messages == [Message("system", "Be brief."), result("r", name="f")]
        assert (call.model, call.chain, call.tools) == ("gemini-3", "v1_0", ("f",))
        assert not call.keeps_history

    @pytest.mark.parametrize("error", [None, b'{"error":{"message":"Stop that."}}'])
    async def test_it_understands_the_end_of_a_cut_stream(self, error: bytes | None) -> None:
        stream = events("interactions", "Twelve words are said here.")
        sent = b"".join(stream[:4])
        reader = answer_reader("gemini_interactions", stream=True)
        assert reader is not None
        reader.feed(sent)
        reader.read()
        end = close_stream(reader, error, "looptrap stop chant")
        assert end is not None
        answer = Answer(200, [(b"Content-Type", EVENT_STREAM)], sent + end)
        async with google_at(lambda _call: answer) as (client, _):
            found = await client.interactions.create(model="m", input="hi", stream=True)
            kinds = [event.event_type async for event in found]
        if error is None:
            assert kinds[-2:] == ["step.stop", "interaction.completed"]
        else:
            assert kinds[-1] == "error"

    async def test_a_refusal_says_why(self) -> None:
        refusal = Refusal(429, "loop", "loop_detected", "Stop that.", {})
        async with google_at(lambda call: refusal_answer(call, refusal, [], "r")) as (client, _):
            with pytest.raises(Exception, match=r"Stop that\.") as raised:
                await client.interactions.create(model="gemini-3", input="hi")
        assert getattr(raised.value, "status_code", 0) == 429
