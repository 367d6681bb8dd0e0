"""What a span tells of a call."""

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Proto
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from tests.gateway.serving import chat
from tests.gateway.tracing import (
    LOOP,
    LOOP_TOLD,
    PARENT,
    TRACE,
    TRACEPARENT,
    WARNED,
    called,
    relayed,
    told,
)
from tests.store.serving import PATIENCE

from looptrap.config.gateway import TraceSettings
from looptrap.dialect.model import Outcome
from looptrap.gateway.trace import CLIENT_CLOSED_STATUS, Tracer
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict


def test_a_span_continues_the_clients_trace(trace):
    fields = f"traceparent: {TRACEPARENT}\r\ntracestate: a=1,b=2\r\n".encode()
    span = trace(fields=fields)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.trace_state == "a=1,b=2"
    assert len(span.span_id) == 8
    assert span.span_id.hex() != PARENT


def test_a_span_that_begins_a_trace_has_no_parent(trace):
    span = trace()
    assert len(span.trace_id) == 16
    assert span.parent_span_id == b""


def test_a_span_is_a_clients_and_lasts_as_long_as_its_call(trace):
    span = trace()
    assert span.kind == Proto.SPAN_KIND_CLIENT
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1000_500000000, 1002_000000000)


def test_a_clock_that_was_set_back_makes_no_span_end_before_it_began(trace):
    span = trace(ended=900.0)
    assert span.start_time_unix_nano == span.end_time_unix_nano


@pytest.mark.parametrize(
    ("fields", "sample"),
    [(f"traceparent: 00-{TRACE}-{PARENT}-00\r\n".encode(), 1.0), (b"", 0.0)],
    ids=["by the client", "by chance"],
)
def test_what_is_not_sampled_neither_waits_nor_is_sent(collector, fields, sample):
    tracer = Tracer.of(TraceSettings(endpoint=collector.url, sample=sample), {})
    tracer.start()
    tracer.settled(tracer.begin(fields, 0.0), relayed(), Outcome(200), 1.0)
    assert tracer.export.waiting == 0
    tracer.stop(PATIENCE)
    assert collector.requests == []


def test_a_span_tells_what_became_of_a_call(trace):
    call = called(body=chat("SECRET", stream=True), session="run-7", project="research")
    span = trace(relayed(call, request_id=b"req-1"))
    assert span.name == "chat gpt-5.3"
    assert told(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5.3",
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": "run-7",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 34,
        "http.response.status_code": 200,
        "looptrap.verdict": "allow",
        "looptrap.provider": "openai",
        "looptrap.caller": "ci",
        "looptrap.project": "research",
        "looptrap.request_id": "req-1",
    }
    assert list(span.events) == []
    assert span.status.code == Status.STATUS_CODE_UNSET


GEMINI = "/v1beta/models/gemini-3.1-pro:generateContent"
CONTENTS = b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
PROMPT = b'{"model":"m","prompt":"hi"}'
MESSAGES = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}'


@pytest.mark.parametrize(
    ("call", "provider", "name", "by"),
    [
        pytest.param(called(), "upstream", "chat gpt-5.3", "openai", id="chat"),
        pytest.param(
            called("/v1/responses", b'{"model":"m","input":"hi"}'), "openai", "chat m", "openai",
            id="responses",
        ),
        pytest.param(
            called("/v1/completions", PROMPT), "groq", "text_completion m", "groq",
            id="completions, elsewhere",
        ),
        pytest.param(
            called("/v1/embeddings", b'{"model":"m","input":"hi"}'), "", "embeddings m", "openai",
            id="embeddings, refused",
        ),
        pytest.param(called("/v1/messages", MESSAGES), "", "chat m", "anthropic", id="messages"),
        pytest.param(
            called(GEMINI, CONTENTS), "gemini", "generate_content gemini-3.1-pro", "gcp.gemini",
            id="gemini",
        ),
        pytest.param(called("/v1/models", b"", "GET"), "openai", "GET", None, id="no model asked"),
        pytest.param(
            called("/v1/messages/count_tokens", MESSAGES), "anthropic", "POST", None,
            id="nothing generated",
        ),
    ],
)  # fmt: skip
def test_a_span_is_named_by_what_is_asked_of_whom(trace, call, provider, name, by):
    span = trace(relayed(call, provider=provider))
    attributes = told(span.attributes)
    assert (span.name, attributes.get("gen_ai.provider.name")) == (name, by)
    assert attributes.get("gen_ai.operation.name", "") == (name.partition(" ")[0] if by else "")
    assert attributes.get("url.path", "") == ("" if by else call.request.path)


def test_what_a_client_makes_long_is_told_in_part(trace):
    model = "m" * 100_000
    span = trace(relayed(called(body=b'{"model":"%b","messages":[]}' % model.encode())))
    assert told(span.attributes)["gen_ai.request.model"] == "m" * 256
    assert len(span.name) < 300


@pytest.mark.parametrize(
    ("ticket", "outcome", "events"),
    [
        pytest.param(
            {"verdict": LOOP}, Outcome(429), [{"action": "block", "mode": "enforce"}], id="refused"
        ),
        pytest.param(
            {"shadow": LOOP}, Outcome(200), [{"action": "block", "mode": "shadow"}], id="in shadow"
        ),
        pytest.param(
            {"heard": LOOP}, Outcome(200), [{"action": "block", "mode": "enforce"}], id="heard"
        ),
    ],
)
def test_a_verdict_is_an_event(trace, ticket, outcome, events):
    span = trace(relayed(**ticket), outcome)
    assert [event.name for event in span.events] == ["looptrap.verdict"]
    expected = {f"looptrap.{name}": value for name, value in events[0].items()}
    assert told(span.events[0].attributes) == LOOP_TOLD | expected
    when = span.end_time_unix_nano if "heard" in ticket else span.start_time_unix_nano
    assert span.events[0].time_unix_nano == when


def test_every_verdict_of_a_call_is_an_event(trace):
    span = trace(relayed(verdict=WARNED, shadow=LOOP))
    assert told(span.attributes)["looptrap.verdict"] == "warn"
    found = [told(event.attributes) for event in span.events]
    assert [(one["looptrap.action"], one["looptrap.mode"]) for one in found] == [
        ("warn", "enforce"),
        ("block", "shadow"),
    ]


STOPPED = Verdict(action=Action.STOP, reason="loop_detected", rule="r")


@pytest.mark.parametrize(
    ("ticket", "outcome", "error"),
    [
        pytest.param({}, Outcome(200), None, id="none"),
        pytest.param({}, Outcome(500), "500", id="the provider's"),
        pytest.param({}, Outcome(502, cut_off=True), "502", id="no answer"),
        pytest.param({}, Outcome(200, cut_off=True), "cut_off", id="half an answer"),
        pytest.param({}, Outcome(499, cut_off=True), "cancelled", id="the client left"),
        pytest.param({"verdict": WARNED}, Outcome(200), None, id="a warning"),
        pytest.param({"verdict": LOOP}, Outcome(429), "loop_detected", id="a refusal"),
        pytest.param({"verdict": STOPPED}, Outcome(200), None, id="a final message"),
        pytest.param({"heard": STOPPED}, Outcome(200, cut_off=True), None, id="ended in order"),
        pytest.param(
            {"heard": LOOP}, Outcome(200, cut_off=True), "loop_detected", id="cut by a rule"
        ),
    ],
)
def test_a_span_says_what_went_wrong(trace, ticket, outcome, error):
    span = trace(relayed(**ticket), outcome)
    attributes = told(span.attributes)
    assert attributes.get("error.type") == error
    answered = 0 if outcome.status == CLIENT_CLOSED_STATUS else outcome.status
    assert attributes.get("http.response.status_code", 0) == answered
    wrong = Status.STATUS_CODE_ERROR if error else Status.STATUS_CODE_UNSET
    assert (span.status.code, span.status.message) == (wrong, "")


def test_no_text_of_a_call_is_told(trace, collector):
    trace(relayed(verdict=LOOP, shadow=LOOP, heard=LOOP), Outcome(429))
    [body] = collector.bodies
    assert b"identical-conversation" in body
    assert b"SECRET" not in body


# How it gets there
