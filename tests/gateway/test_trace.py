"""Traces: what a collector receives of calls, what a provider does, and what neither costs."""

import gzip
import logging
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Condition, Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Proto
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceFlags
from tests.gateway.serving import CHAT, JSON, chat, serving
from tests.store.serving import PATIENCE

from looptrap.call.model import Outcome, Request
from looptrap.call.read import read
from looptrap.detect.evidence import Evidence
from looptrap.gateway.auth import Identity
from looptrap.gateway.envelope import Envelope
from looptrap.gateway.relay import Relay
from looptrap.gateway.trace import Tracer
from looptrap.gateway.trace.export import MOST_WAITING
from looptrap.gateway.trace.sender import Sender
from looptrap.gateway.trace.span import begin, members
from looptrap.guard import Ticket
from looptrap.incident.setting import TraceSettings
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
LOOP = Verdict(
    action=Action.BLOCK,
    reason="loop_detected",
    policy="agents",
    rule="identical-conversation",
    message="Blocked: SECRET sent 6 times.",
    count=6,
    fingerprint="c1-abc",
    evidence=(Evidence(signal="conversation", what="SECRET", count=6),),
)
SPAN = ReadableSpan("one", SpanContext(1, 1, False, TraceFlags(1)), start_time=1, end_time=2)
LOOP_TOLD = {
    "looptrap.reason": "loop_detected",
    "looptrap.policy": "agents",
    "looptrap.rule": "identical-conversation",
    "looptrap.count": 6,
    "looptrap.fingerprint": "c1-abc",
}
WARNED = Verdict(action=Action.WARN, reason="loop_detected", policy="agents", rule="r", count=3)


class Collector:
    """Receives spans as a collector does, or fails to."""

    def __init__(self):
        self.status = 200
        self.lets_answer = Event()
        self.lets_answer.set()
        self.requests = []
        self.bodies = []
        self.arrived = Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.arrived:
                    collector.requests.append((self.path, self.headers))
                    collector.bodies.append(
                        gzip.decompress(body) if self.headers["Content-Encoding"] else body
                    )
                    collector.arrived.notify_all()
                collector.lets_answer.wait(PATIENCE)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self):
        return [span for scope in self.scopes for span in scope.spans]

    @property
    def scopes(self):
        return [scope for one in self.resources for scope in one.scope_spans]

    @property
    def resources(self):
        found = map(ExportTraceServiceRequest.FromString, self.bodies)
        return [resource for one in found for resource in one.resource_spans]

    def wait(self):
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.bodies, PATIENCE)


@contextmanager
def listening():
    collector = Collector()
    thread = Thread(target=collector.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        collector.lets_answer.set()
        collector.server.shutdown()
        collector.server.server_close()
        thread.join()


@pytest.fixture
def collector():
    with listening() as one:
        yield one


@pytest.fixture
def trace(collector):
    """Send the span of one settled call, and return it as the collector received it."""

    def send(relay=None, outcome=None, *, fields=b"", env=None, began=1000.5, ended=1002.0, **more):
        relay = relay or relayed()
        tracer = Tracer.of(TraceSettings(endpoint=collector.url, **more), env or {})
        tracer.start()
        span = tracer.begin(fields, began)
        tracer.settled(span, relay, outcome or Outcome(200, 12, 34), ended)
        tracer.close(PATIENCE)
        return collector.spans[-1]

    return send


def relayed(call=None, *, provider="openai", request_id=b"", **ticket):
    """Return a relay as it is when its call is settled."""
    call = call or called()
    asked = (Identity(caller="ci"), None, False, "POST", CHAT, "", b"", b"")
    envelope = Envelope(*asked, "", request_id, False, b"", "")
    relay = Relay(None, None, envelope, call, Ticket(call, **ticket))
    relay.provider = provider
    return relay


def called(path=CHAT, body=None, method="POST", **more):
    body = chat("SECRET") if body is None else body
    return read(Request(method, path, headers=(), body=body, caller="ci", **more))


def told(attributes):
    """Return attributes as plain values."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def started(fields=b"", sample=1.0, seed=0):
    return begin(fields, 0.0, sample, Random(seed))


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


# Whether there is anything to pay


def test_without_an_endpoint_opentelemetry_is_not_even_imported():
    done = run(
        "import sys, looptrap.gateway.app, looptrap.gateway.trace as trace\n"
        "from looptrap.incident.setting import TraceSettings\n"
        "assert trace.Tracer.of(TraceSettings(), {}) is None\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert done.returncode == 0, done.stderr


def test_an_endpoint_without_the_extra_is_a_mistake_in_the_configuration():
    done = run(
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from looptrap.gateway.trace import Tracer\n"
        "from looptrap.incident.setting import TraceSettings\n"
        "from looptrap.errors import ConfigError\n"
        "try: Tracer.of(TraceSettings(endpoint='http://127.0.0.1:1'), {})\n"
        "except ConfigError as error: print(error)"
    )
    assert done.stdout == 'traces.endpoint: needs OpenTelemetry: pip install "looptrap[otel]"\n'


# Which trace a span belongs to


@pytest.mark.parametrize(
    ("traceparent", "flags"),
    [
        pytest.param(TRACEPARENT, 1, id="sampled"),
        pytest.param(f"00-{TRACE}-{PARENT}-00", 0, id="not sampled"),
        pytest.param(f"00-{TRACE}-{PARENT}-03", 3, id="sampled, with a random id"),
        pytest.param(f"00-{TRACE}-{PARENT}-fd", 1, id="flags that nobody knows"),
        pytest.param(f"cc-{TRACE}-{PARENT}-01", 1, id="a later version"),
        pytest.param(f"cc-{TRACE}-{PARENT}-01-what-else", 1, id="a later version that says more"),
    ],
)
def test_a_clients_trace_is_continued(traceparent, flags):
    fields = f"accept: */*\r\ntraceparent: {traceparent}\r\ntracestate: a=1\r\n".encode()
    span = started(fields, sample=0.5)
    assert (f"{span.trace_id:032x}", f"{span.parent_id:016x}") == (TRACE, PARENT)
    assert (span.flags, span.state) == (flags, "a=1")
    assert span.forwarded(fields).decode() == (
        f"accept: */*\r\ntracestate: a=1\r\ntraceparent: 00-{TRACE}-{span.id:016x}-{flags:02x}\r\n"
    )


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("", id="none"),
        pytest.param("traceparent: \r\n", id="empty"),
        pytest.param(f"traceparent: {TRACEPARENT}-more\r\n", id="too long for its version"),
        pytest.param(f"traceparent: {TRACEPARENT[:-1]}\r\n", id="too short"),
        pytest.param(f"traceparent: {TRACEPARENT.upper()}\r\n", id="in capitals"),
        pytest.param(f"traceparent: ff-{TRACE}-{PARENT}-01\r\n", id="the version that is none"),
        pytest.param(f"traceparent: 00-{'0' * 32}-{PARENT}-01\r\n", id="a trace that is none"),
        pytest.param(f"traceparent: 00-{TRACE}-{'0' * 16}-01\r\n", id="a parent that is none"),
        pytest.param(f"traceparent: {TRACEPARENT}\r\n" * 2, id="two of them"),
        pytest.param("tracestate: b=2\r\n", id="a state alone"),
    ],
)
def test_what_names_no_trace_begins_a_new_one(given):
    fields = f"accept: */*\r\n{given}tracestate: a=1\r\nx-a: traceparent: 1\r\n".encode()
    span = started(fields)
    assert (span.parent_id, span.state, span.flags) == (0, "", 1)
    assert f"{span.trace_id:032x}" != TRACE
    assert span.forwarded(fields).decode() == (
        "accept: */*\r\nx-a: traceparent: 1\r\n"
        f"traceparent: 00-{span.trace_id:032x}-{span.id:016x}-01\r\n"
    )


VALUE = st.one_of(
    st.sampled_from([TRACEPARENT, f"cc-{TRACE}-{PARENT}-00", f"{TRACEPARENT}-more", "a=1,b=2"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60),
)
FIELD = st.tuples(st.sampled_from(["traceparent", "tracestate", "x-traceparent", "accept"]), VALUE)


@given(given=st.lists(FIELD), seed=st.integers())
def test_whatever_is_sent_the_provider_gets_one_parent_and_all_else_as_it_was(given, seed):
    fields = "".join(f"{name}: {value}\r\n" for name, value in given).encode("latin-1")
    span = started(fields, seed=seed)
    *others, parent = span.forwarded(fields).split(b"\r\n")[:-1]
    assert re.fullmatch(rb"traceparent: 00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]", parent)
    dropped = ("traceparent",) if span.parent_id else ("traceparent", "tracestate")
    kept = [f"{name}: {value}".encode("latin-1") for name, value in given if name not in dropped]
    assert others == kept


@pytest.mark.parametrize(
    ("sample", "least", "most"), [(0, 0, 0), (0.25, 200, 300), (1, 1000, 1000)]
)
def test_the_share_that_is_sampled_of_traces_begun_here(sample, least, most):
    rng = Random(7)
    kept = sum(begin(b"", 0.0, sample, rng).is_sampled for _ in range(1000))
    assert least <= kept <= most


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("a=1,b@c=x y", [("a", "1"), ("b@c", "x y")]),
        (" a=1 ,, b=2", [("a", "1"), ("b", "2")]),
        ("a=1,A=2", []),
        ("a=1,a=2", []),
        ("a=1,nonsense", []),
        (",".join(f"k{i}=1" for i in range(33)), []),
    ],
    ids=["two", "with spaces", "a bad key", "one twice", "no pair", "too many"],
)
def test_a_state_is_taken_as_a_whole_or_not_at_all(state, expected):
    assert members(state) == expected


# What the collector receives


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
    tracer.close(PATIENCE)
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
        pytest.param({}, Outcome(0, cut_off=True), "cancelled", id="the client left"),
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
    assert attributes.get("http.response.status_code", 0) == outcome.status
    wrong = Status.STATUS_CODE_ERROR if error else Status.STATUS_CODE_UNSET
    assert (span.status.code, span.status.message) == (wrong, "")


def test_no_text_of_a_call_is_told(trace, collector):
    trace(relayed(verdict=LOOP, shadow=LOOP, heard=LOOP), Outcome(429))
    [body] = collector.bodies
    assert b"identical-conversation" in body
    assert b"SECRET" not in body


# How it gets there


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
    tracer.close()


def test_a_tracer_that_never_started_ends_too(collector):
    Tracer.of(TraceSettings(endpoint=collector.url), {}).close()
    assert collector.requests == []


def test_a_collector_that_hangs_costs_spans_and_nothing_else(collector, caplog):
    collector.lets_answer.clear()
    tracer = Tracer.of(TraceSettings(endpoint=collector.url), {})
    tracer.start()
    relay = relayed()
    for _ in range(2 * MOST_WAITING):
        tracer.settled(tracer.begin(b"", 0.0), relay, Outcome(200), 1.0)
    collector.wait()
    assert tracer.export.waiting <= MOST_WAITING
    assert tracer.export.sender.lost >= MOST_WAITING / 2
    began = time.monotonic()
    tracer.close(0.05)
    assert time.monotonic() - began < 2
    assert [record.name for record in caplog.records] == ["looptrap"]
    assert "spans or more were not sent before the end" in caplog.text
    collector.lets_answer.set()
    while tracer.export.waiting and time.monotonic() < began + PATIENCE:
        time.sleep(0.005)
    assert (tracer.export.waiting, len(collector.requests)) == (0, 1)


def test_a_collector_that_takes_nothing_is_spoken_of_once_a_minute(collector, caplog):
    now = [0.0]
    sender = Sender(collector.url, {}, lambda: now[0])
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
    sender = Sender(url, {}, time.monotonic)
    sender.export([SPAN])
    sender.shutdown()
    [record] = caplog.records
    assert record.name == "looptrap"
    assert "refused" in record.getMessage()


def test_a_collector_that_is_too_slow_is_spoken_of_too(collector, caplog):
    sender = Sender(collector.url, {}, time.monotonic)
    sender.overflowed = 3
    sender.export([SPAN])
    sender.shutdown()
    [record] = caplog.records
    assert record.getMessage().endswith("3 lost so far: more come than it takes")
    assert (sender.sent, sender.lost) == (1, 3)


def test_what_others_log_by_the_sdk_meanwhile_is_theirs(collector, caplog):
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    collector.lets_answer.clear()
    sender = Sender(collector.url, {}, time.monotonic)
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
