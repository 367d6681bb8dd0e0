"""Errors inside a stream that began with 200."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.retry.failure import classify_event


def chat(code=None, kind=None, message="no"):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind, message="no"):
    return {"type": "error", "error": {"type": kind, "message": message}}


def failed(code, message="no"):
    response = {"id": "resp_1", "status": "failed", "error": {"code": code, "message": message}}
    return {"type": "response.failed", "sequence_number": 3, "response": response}


def responses(code, message="no"):
    return {"type": "error", "code": code, "message": message, "param": None}


def gemini(code, status):
    return {"error": {"code": code, "message": "no", "status": status}}


@pytest.mark.parametrize(
    ("event", "bucket", "reason", "trips"),
    [
        pytest.param(
            anthropic("overloaded_error"), "rate_limit", "overloaded", "provider", id="overloaded"
        ),
        pytest.param(
            anthropic("rate_limit_error"), "rate_limit", "rate_limited", "credential", id="limited"
        ),
        pytest.param(anthropic("api_error"), "server", "http_500", "provider", id="api_error"),
        pytest.param(anthropic("timeout_error"), "server", "http_504", "provider", id="timeout"),
        pytest.param(
            anthropic("invalid_request_error"), "permanent", "http_400", "", id="bad request"
        ),
        pytest.param(chat(None, "server_error"), "server", "http_500", "provider", id="chat"),
        pytest.param(
            chat("rate_limit_exceeded", "tokens"),
            "rate_limit",
            "rate_limited",
            "credential",
            id="chat, limited",
        ),
        pytest.param(
            chat("insufficient_quota"), "permanent", "insufficient_quota", "credential", id="quota"
        ),
        pytest.param(chat(502), "server", "http_502", "provider", id="chat, a status as code"),
        pytest.param(chat("502"), "server", "http_502", "provider", id="chat, that as text"),
        pytest.param(chat("novel"), "server", "stream_error", "provider", id="chat, unheard-of"),
        pytest.param(
            chat(None, None, "exceeds the context window"),
            "permanent",
            "context_length",
            "",
            id="chat, only words",
        ),
        pytest.param({"error": "boom"}, "server", "stream_error", "provider", id="error as text"),
        pytest.param(failed("server_error"), "server", "http_500", "provider", id="failed"),
        pytest.param(
            failed("rate_limit_exceeded"),
            "rate_limit",
            "rate_limited",
            "credential",
            id="failed, limited",
        ),
        pytest.param(failed("bio_policy"), "permanent", "content_policy", "", id="failed, policy"),
        pytest.param(failed("invalid_prompt"), "permanent", "http_400", "", id="failed, prompt"),
        pytest.param(
            responses("server_is_overloaded"), "rate_limit", "overloaded", "provider", id="error"
        ),
        pytest.param(
            responses("context_length_exceeded"), "permanent", "context_length", "", id="too long"
        ),
        pytest.param(
            gemini(503, "UNAVAILABLE"), "server", "http_503", "provider", id="Gemini, unavailable"
        ),
        pytest.param(
            gemini(429, "RESOURCE_EXHAUSTED"),
            "rate_limit",
            "rate_limited",
            "credential",
            id="Gemini, limited",
        ),
        pytest.param(
            [gemini(500, "INTERNAL")], "server", "http_500", "provider", id="Gemini, in a list"
        ),
    ],
)
def test_an_error_event(event, bucket, reason, trips):
    failure = classify_event(json.dumps(event).encode())
    assert (failure.bucket, failure.reason, failure.trips) == (bucket, reason, trips)


def test_openai_writes_the_time_into_its_message():
    event = failed("rate_limit_exceeded", "Rate limit reached. Please try again in 11.054s.")
    assert classify_event(json.dumps(event).encode()).retry_after == 11.054


@pytest.mark.parametrize(
    "data",
    [
        b"[DONE]",
        b"",
        b'{"choices":[{"delta":{"content":"an error occurred"}}]}',
        b'{"choices":[{"delta":{"content":"{\\"error\\": 1}"}}]}',
        b'{"choices":[],"error":null}',
        b'{"type":"response.created","response":{"id":"r","error":null}}',
        b'{"type":"response.completed","response":{"id":"r","error":null}}',
        b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"error"}}',
        b'{"candidates":[{"content":{"parts":[{"text":"error"}]}}]}',
        b'{"choices":[{"delta":{"content":"an err',
        b'"error"',
    ],
)
def test_other_events_are_none(data):
    assert classify_event(data) is None


def test_an_error_that_is_cut_off_is_one_all_the_same():
    data = json.dumps(anthropic("overloaded_error")).encode()
    assert classify_event(data[:-4]).reason == "overloaded"
    assert classify_event(b'{"error": {"mess').reason == "stream_error"


@given(st.binary(max_size=80))
def test_no_event_is_too_strange(data):
    classify_event(b'{"error":' + data)
    classify_event(data)
