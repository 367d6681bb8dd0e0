"""How spans reach a collector, and what happens where none is there."""

import logging
import time
from threading import Thread

import pytest
from tests.gateway.serving import JSON, chat, serving
from tests.gateway.tracing import PARENT, SPAN, TRACE, TRACEPARENT, listening, relayed, told
from tests.store.serving import PATIENCE

from looptrap.config.gateway import TraceSettings
from looptrap.dialect.model import Outcome
from looptrap.gateway.trace import Tracer
from looptrap.gateway.trace_export import MAX_WAITING_SPANS, SpanSender


@pytest.mark.parametrize("end", ["", "/", "/tenant", "/tenant/"])
def test_the_endpoint_is_a_base(trace, collector, end):
    collector.url += end
    trace(service="edge")
    [(path, headers)] = collector.requests
    assert path == f"{end.rstrip('/')}/v1/traces"
    assert headers["Content-Type"] == "application/x-protobuf"
    [resource] = collector.resources
    assert told(resource.resource.attributes)["service.name"] == "edge"
    assert collector.scopes[0].scope.name == "looptrap"


@pytest.mark.parametrize(
    "env",
    [
        {"OTEL_EXPORTER_OTLP_HEADERS": "X-Token=abc%20def"},
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "X-Token=other",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "X-Token=abc def",
        },
    ],
    ids=["for all", "for traces"],
)
def test_headers_of_the_environment_are_sent(trace, collector, env):
    trace(env=env)
    [(_, headers)] = collector.requests
    assert headers["X-Token"] == "abc def"


def test_spans_are_sent_while_calls_go_on(collector):
    tracer = Tracer.of(TraceSettings(endpoint=collector.url), {})
    tracer.start()
    tracer.settled(tracer.begin(b"", 0.0), relayed(), Outcome(200), 1.0)
    collector.wait()
    assert len(collector.spans) == 1
    tracer.stop()


def test_a_tracer_that_never_started_ends_too(collector):
    Tracer.of(TraceSettings(endpoint=collector.url), {}).stop()
    assert collector.requests == []


def test_a_collector_that_hangs_costs_spans_and_nothing_else(collector, caplog):
    collector.lets_answer.clear()
    tracer = Tracer.of(TraceSettings(endpoint=collector.url), {})
    tracer.start()
    relay = relayed()
    for _ in range(2 * MAX_WAITING_SPANS):
        tracer.settled(tracer.begin(b"", 0.0), relay, Outcome(200), 1.0)
    collector.wait()
    assert tracer.export.waiting <= MAX_WAITING_SPANS
    assert tracer.export.sender.lost >= MAX_WAITING_SPANS / 2
    began = time.monotonic()
    tracer.stop(0.05)
    assert time.monotonic() - began < 2
    assert [record.name for record in caplog.records] == ["looptrap"]
    assert "spans or more were not sent before the end" in caplog.text
    collector.lets_answer.set()
    while tracer.export.waiting and time.monotonic() < began + PATIENCE:
        time.sleep(0.005)
    assert (tracer.export.waiting, len(collector.requests)) == (0, 1)


def test_a_collector_that_takes_nothing_is_spoken_of_once_a_minute(collector, caplog):
    now = [0.0]
    sender = SpanSender(collector.url, {}, lambda: now[0])
    collector.status = 404
    for second in (0, 1, 59, 60, 61):
        now[0] = float(second)
        sender.export([SPAN])
    sender.shutdown()
    assert {(record.name, record.levelno) for record in caplog.records} == {
        ("looptrap", logging.WARNING)
    }
    lines = [record.getMessage().partition(": ") for record in caplog.records]
    assert [line for line, _, _ in lines] == [
        f"spans do not reach {collector.url}, {lost} lost so far" for lost in (1, 4)
    ]
    assert all("404" in why for _, _, why in lines)
    assert (sender.sent, sender.failed, sender.taken) == (0, 5, 5)


def test_of_a_collector_that_is_not_there_the_reason_is_told(caplog, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    with listening() as collector:
        url = collector.url
    sender = SpanSender(url, {}, time.monotonic)
    sender.export([SPAN])
    sender.shutdown()
    [record] = caplog.records
    assert record.name == "looptrap"
    assert "refused" in record.getMessage()


def test_a_collector_that_is_too_slow_is_spoken_of_too(collector, caplog):
    sender = SpanSender(collector.url, {}, time.monotonic)
    sender.overflowed = 3
    sender.export([SPAN])
    sender.shutdown()
    [record] = caplog.records
    assert record.getMessage().endswith("3 lost so far: more come than it takes")
    assert (sender.sent, sender.lost) == (1, 3)


def test_what_others_log_by_the_sdk_meanwhile_is_theirs(collector, caplog):
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    collector.lets_answer.clear()
    sender = SpanSender(collector.url, {}, time.monotonic)
    sending = Thread(target=sender.export, args=([SPAN],))
    sending.start()
    collector.wait()
    logger.warning("of another exporter")
    collector.lets_answer.set()
    sending.join()
    sender.shutdown()
    assert [record.getMessage() for record in caplog.records] == ["of another exporter"]


# Through a running gateway


RULE = """
[[policies]]
name = "agents"
mode = "{mode}"
  [[policies.rules]]
  name = "identical"
  watch = "conversation"
  window = 60
  threshold = 2
  action = "block"
"""


def settings(collector, rest=""):
    return f'[traces]\nendpoint = "{collector.url}"\nservice = "edge"\n{rest}'


async def test_a_call_is_traced_from_client_to_provider(tmp_path, collector):
    headers = {**JSON, "traceparent": TRACEPARENT, "tracestate": "a=1"}
    async with serving(tmp_path, settings(collector)) as here:
        assert (await here.ask(headers=headers, body=chat("SECRET"))).status == 200
        [received] = here.provider.requests
    [span] = collector.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert (
        told(span.attributes).items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5.3",
            "http.response.status_code": 200,
            "looptrap.verdict": "allow",
            "looptrap.provider": "upstream",
        }.items()
    )
    assert told(span.attributes)["gen_ai.usage.output_tokens"] > 0
    assert span.start_time_unix_nano < span.end_time_unix_nano
    assert received.headers["traceparent"] == f"00-{TRACE}-{span.span_id.hex()}-01"
    assert received.headers["tracestate"] == "a=1"
    assert b"SECRET" not in b"".join(collector.bodies)


async def test_a_call_without_a_trace_begins_one_at_the_gateway(tmp_path, collector):
    async with serving(tmp_path, settings(collector)) as here:
        await here.ask(
            headers={**JSON, "traceparent": "nonsense", "tracestate": "a=1"}, body=chat()
        )
        [received] = here.provider.requests
    [span] = collector.spans
    assert span.parent_span_id == b""
    assert received.headers["traceparent"] == f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"
    assert "tracestate" not in received.headers


@pytest.mark.parametrize(("mode", "status"), [("enforce", 429), ("shadow", 200)])
async def test_a_loop_is_an_event_in_its_trace(tmp_path, collector, mode, status):
    toml = settings(collector, RULE.replace("{mode}", mode))
    headers = {**JSON, "traceparent": TRACEPARENT}
    async with serving(tmp_path, toml) as here:
        answers = [await here.ask(headers=headers, body=chat()) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, status]
    first, second = collector.spans
    assert list(first.events) == []
    assert second.parent_span_id.hex() == PARENT
    [event] = second.events
    told_of = told(event.attributes)
    assert told_of.pop("looptrap.fingerprint")
    assert told_of == {
        "looptrap.action": "block",
        "looptrap.mode": mode,
        "looptrap.reason": "loop_detected",
        "looptrap.policy": "agents",
        "looptrap.rule": "identical",
        "looptrap.count": 2,
    }
    assert told(second.attributes)["http.response.status_code"] == status


async def test_a_streamed_answer_is_traced_to_its_end(tmp_path, collector):
    async with serving(tmp_path, settings(collector)) as here:
        answer = await here.ask(headers=JSON, body=chat(stream=True))
    assert answer.status == 200
    [span] = collector.spans
    assert told(span.attributes)["gen_ai.request.stream"] is True


async def test_a_dead_collector_fails_no_call(tmp_path):
    with listening() as collector:
        toml = settings(collector)
    async with serving(tmp_path, toml) as here:
        answers = [await here.ask(headers=JSON, body=chat(f"{n}")) for n in range(5)]
    assert [answer.status for answer in answers] == [200] * 5


async def test_where_nothing_is_traced_headers_pass_as_they_came(serve):
    here = await serve()
    sent = {"traceparent": "nonsense", "tracestate": "a=1"}
    await here.ask(headers={**JSON, **sent}, body=chat())
    [received] = here.provider.requests
    assert {name: received.headers[name] for name in sent} == sent
