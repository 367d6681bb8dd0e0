"""What arrives from outside takes as long to read as it is long, whatever it repeats."""

from random import Random

import pytest
from fuzz.growth import MOST, TIMES, growth
from fuzz.targets.call import LOOP

from looptrap.dialect.answer import answer_reader
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.dialect.usage_meter import UsageReader
from looptrap.engine import Guard
from looptrap.errors import CallError
from looptrap.gateway.jwt_claims import read_payload as read_claims
from looptrap.gateway.trace import parse_tracestate, start_span
from looptrap.gateway.upstream.outbound_request import find_model_slices
from looptrap.policy.refusal import nudged
from looptrap.replay.transcript import read_transcript
from looptrap.retry.classify import classify_answer, classify_event

pytestmark = pytest.mark.slow

SIZE = 20_000
"""Bytes of the shorter inputs; the longer ones are eight times as long."""

CHAT, ANTHROPIC = "/v1/chat/completions", "/v1/messages"
RESPONSES, GEMINI = "/v1/responses", "/v1beta/models/m:generateContent"

GUARD = Guard.from_preset("default", secret=b"growth" * 6)


def judged(path):
    def run(body):
        GUARD.plan(read(Request(path=path, body=body, caller="c")), 1.0)

    return run


def rewritten(body):
    find_model_slices(body)
    nudged(read(Request(path=CHAT, body=body)), LOOP)


def heard(dialect):
    def run(text):
        hearing, usage = answer_reader(dialect, True), UsageReader(dialect, True)
        for at in range(0, len(text), 1_000):
            usage.feed(text[at : at + 1_000])
            if hearing.feed(text[at : at + 1_000]):
                hearing.read()
        hearing.finish()
        usage.finish()

    return run


def failed(body):
    classify_answer(500, [(b"retry-after", body[:8_000])], body, 1.0)
    classify_event(body)


def pasted(text):
    try:
        read_transcript(text.decode("latin-1"))
    except CallError:
        return


def traced(block):
    start_span(block, 1.0, 1.0, Random(0))
    parse_tracestate(block.decode("latin-1"))


def claimed(payload):
    read_claims(payload, issuer=None, audience=None)


MESSAGE = b'{"role":"user","content":"again"},'
ROUND = (
    b'{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"t","arguments":"{}"}}]},'
    b'{"role":"tool","tool_call_id":"a","content":"ERROR: no"},'
)
END = b'{"role":"user","content":"x"}]}'
CASES = {
    "messages": (judged(CHAT), b'{"model":"m","messages":[', MESSAGE, END),
    "rounds": (judged(CHAT), b'{"model":"m","messages":[', ROUND, END),
    "one long text": (judged(CHAT), b'{"messages":[{"role":"user","content":"', b"word ", b'"}]}'),
    "numbers": (judged(CHAT), b'{"messages":[{"role":"user","content":"', b"1-2:3.", b'"}]}'),
    "line ends": (judged(CHAT), b'{"messages":[{"role":"tool","content":"', rb" \n", b'"}]}'),
    "brackets": (judged(CHAT), b'{"messages":[{"role":"user","content":', b"[", b""),
    "fields": (judged(CHAT), b"{", b'"messages":[],', b'"model":"m"}'),
    "tools": (judged(CHAT), b'{"messages":[],"tools":[', b'{"name":"t"},', b"{}]}"),
    "blocks": (
        judged(ANTHROPIC),
        b'{"messages":[{"role":"user","content":[',
        b'{"type":"tool_result","tool_use_id":"a","content":"no"},',
        b'{"type":"text","text":"x"}]}]}',
    ),
    "items": (
        judged(RESPONSES),
        b'{"input":[',
        b'{"type":"function_call","call_id":"a","name":"t","arguments":"{}"},',
        b'{"role":"user","content":"x"}]}',
    ),
    "parts": (judged(GEMINI), b'{"contents":[{"parts":[', b'{"text":"x"},', b'{"text":"x"}]}]}'),
    "not JSON": (judged(CHAT), b'{"messages":[', b"\xff{", b""),
    "keys to rewrite": (rewritten, b"{", b'"model":"m","a":1,', b'"messages":[]}'),
    "escapes to rewrite": (rewritten, b'{"model":"', rb"\"", b'","messages":[]}'),
    "an event without end": (heard("openai_chat"), b"data: ", b"{", b""),
    "events": (
        heard("openai_chat"),
        b"",
        b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
        b"",
    ),
    "a chant": (
        heard("anthropic"),
        b"",
        b'data: {"type":"content_block_delta","index":0,"delta":{"text":"the same again. "}}\n\n',
        b"",
    ),
    "fences": (
        heard("openai_chat"),
        b"",
        b'data: {"choices":[{"delta":{"content":"~~~~~~~~~~~~~~~~\\n```x"}}]}\n\n',
        b"",
    ),
    "elements": (heard("gemini"), b"[", b'{"candidates":[]},', b""),
    "usages": (heard("openai_chat"), b"data: {", b'"usage":{},', b""),
    "new choices": (heard("openai_responses"), b"", b'data: {"type":"error","error":{}}\n\n', b""),
    "an error": (failed, b'{"error":{"message":"', b"try again in 1m", b'"}}'),
    "an error's codes": (failed, b"<html>", b'"code":"a', b""),
    "a paste": (pasted, b"[", b'{"role":"user"},', b"{}]"),
    "lines of a paste": (pasted, b"", b'{"role":"user","content":"x"}\n', b""),
    "a trace's state": (traced, b"tracestate: ", b"a=1,", b"\r\n"),
    "a header block": (traced, b"", b"tracestate: a=1\r\n", b""),
    "claims": (claimed, b"{", b'"a":{"b":1},', b'"c":1}'),
}


@pytest.mark.parametrize("name", CASES)
def test_reading_takes_as_long_as_there_is_to_read(name):
    run, before, repeated, after = CASES[name]

    def make(size):
        return before + repeated * (size // len(repeated)) + after

    ratio = growth(run, make, size=SIZE)
    if ratio > MOST:  # once more: somebody else may have had the processor
        ratio = min(ratio, growth(run, make, size=SIZE, rounds=9))
    assert ratio <= MOST, f"{TIMES} times the bytes take {ratio:.0f} times as long"


def test_the_check_itself_tells_what_is_not_linear():
    def quadratic(text):
        return sum(text.count(character) for character in text)

    assert growth(quadratic, "a".__mul__, size=500) > MOST
    assert growth(len, "a".__mul__, size=SIZE) == 0.0
