"""Whose trace a call belongs to, and what of it is passed on."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.tracing import PARENT, TRACE, TRACEPARENT, run, started

from looptrap.gateway.trace import parse_tracestate, start_span


def test_without_an_endpoint_opentelemetry_is_not_even_imported():
    done = run(
        "import sys, looptrap.gateway.app, looptrap.gateway.trace as trace\n"
        "from looptrap.config.gateway import TraceSettings\n"
        "assert trace.Tracer.of(TraceSettings(), {}) is None\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert done.returncode == 0, done.stderr


def test_an_endpoint_without_the_extra_is_a_mistake_in_the_configuration():
    done = run(
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from looptrap.gateway.trace import Tracer\n"
        "from looptrap.config.gateway import TraceSettings\n"
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
    kept = sum(start_span(b"", 0.0, sample, rng).is_sampled for _ in range(1000))
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
    assert parse_tracestate(state) == expected


# What the collector receives
