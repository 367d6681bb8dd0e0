"""What the bodies of failed answers add to their status."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.retry.classify.bodies import HELP, anthropic, google, openai, quota, retry_info

from looptrap.retry.failure import classify_answer


@pytest.mark.parametrize(
    ("status", "body", "bucket", "reason", "trips"),
    [
        pytest.param(
            429,
            openai("rate_limit_exceeded", "requests"),
            "rate_limit",
            "rate_limited",
            "credential",
            id="OpenAI, limit of a minute",
        ),
        pytest.param(
            429,
            openai("insufficient_quota", "insufficient_quota"),
            "permanent",
            "insufficient_quota",
            "credential",
            id="OpenAI, out of quota",
        ),
        pytest.param(
            429,
            openai("billing_hard_limit_reached", "invalid_request_error"),
            "permanent",
            "insufficient_quota",
            "credential",
            id="OpenAI, billing limit",
        ),
        pytest.param(
            429,
            openai(
                "rate_limit_exceeded", "tokens", "Request too large for gpt-5 on tokens per min"
            ),
            "permanent",
            "request_too_large",
            "",
            id="OpenAI, one request above the limit of a minute",
        ),
        pytest.param(
            400,
            openai("context_length_exceeded", "invalid_request_error"),
            "permanent",
            "context_length",
            "",
            id="OpenAI, context too long",
        ),
        pytest.param(
            400,
            openai("content_policy_violation"),
            "permanent",
            "content_policy",
            "",
            id="OpenAI, content policy",
        ),
        pytest.param(
            503,
            openai("server_is_overloaded", "server_error"),
            "rate_limit",
            "overloaded",
            "provider",
            id="OpenAI, overloaded",
        ),
        pytest.param(
            409, openai("conversation_locked"), "server", "locked", "", id="OpenAI, a lock"
        ),
        pytest.param(
            500,
            openai(None, "invalid_request_error"),
            "server",
            "http_500",
            "provider",
            id="a type that says less than the status",
        ),
        pytest.param(
            429,
            anthropic("rate_limit_error"),
            "rate_limit",
            "rate_limited",
            "credential",
            id="Anthropic, limit",
        ),
        pytest.param(
            429,
            anthropic("rate_limit_error", error_code="enforced_spend_limit_reached"),
            "permanent",
            "insufficient_quota",
            "credential",
            id="Anthropic, spend limit",
        ),
        pytest.param(
            429,
            anthropic("rate_limit_error", error_code="ramp_limit_exceeded"),
            "rate_limit",
            "rate_limited",
            "credential",
            id="Anthropic, grown too fast",
        ),
        pytest.param(
            529,
            anthropic("overloaded_error"),
            "rate_limit",
            "overloaded",
            "provider",
            id="Anthropic, overloaded",
        ),
        pytest.param(
            503,
            anthropic("overloaded_error"),
            "rate_limit",
            "overloaded",
            "provider",
            id="Anthropic, overloaded under another status",
        ),
        pytest.param(
            400,
            anthropic(
                "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"
            ),
            "permanent",
            "context_length",
            "",
            id="Anthropic, context too long",
        ),
        pytest.param(
            500, anthropic("api_error"), "server", "http_500", "provider", id="Anthropic, their bug"
        ),
        pytest.param(
            429,
            google("RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later."),
            "rate_limit",
            "rate_limited",
            "credential",
            id="Vertex, no room just now",
        ),
        pytest.param(
            429,
            google(
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
                quota("GenerateRequestsPerMinutePerProjectPerModel"),
                retry_info("34.074s"),
            ),
            "rate_limit",
            "rate_limited",
            "credential",
            id="Gemini, limit of a minute",
        ),
        pytest.param(
            429,
            google(
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
                quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
                retry_info("34s"),
            ),
            "permanent",
            "insufficient_quota",
            "credential",
            id="Gemini, limit of a day, whatever RetryInfo says",
        ),
        pytest.param(
            429,
            google("RESOURCE_EXHAUSTED", "no", quota("RequestsPerMinute", "0"), retry_info("3s")),
            "permanent",
            "insufficient_quota",
            "credential",
            id="Gemini, a model with no quota at all",
        ),
        pytest.param(
            429,
            google("RESOURCE_EXHAUSTED", "You exceeded your current quota, please check.", HELP),
            "permanent",
            "insufficient_quota",
            "credential",
            id="Gemini, out of quota without a time",
        ),
        pytest.param(
            503,
            google("UNAVAILABLE", "The model is overloaded.", code=503),
            "server",
            "http_503",
            "provider",
            id="Gemini, unavailable",
        ),
        pytest.param(
            400,
            b"[" + google("INVALID_ARGUMENT", "The input token count exceeds", code=400) + b"]",
            "permanent",
            "context_length",
            "",
            id="Gemini, context too long, as the list it sends for streams",
        ),
    ],
)
def test_what_the_body_adds(status, body, bucket, reason, trips):
    failure = classify_answer(status, {}, body)
    assert (failure.bucket, failure.reason, failure.trips) == (bucket, reason, trips)


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_not_active"])
def test_a_body_that_is_cut_off_still_tells_its_code(code):
    body = openai(code)[:-1]
    assert classify_answer(429, {}, body).bucket == "permanent"


def test_a_code_quoted_in_a_message_is_not_the_code():
    body = openai("rate_limit_exceeded", "requests", 'was {"code": "insufficient_quota"}')
    assert classify_answer(429, {}, body).bucket == "rate_limit"
    assert classify_answer(429, {}, body[:-3]).bucket == "rate_limit"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>502 Bad Gateway</html>",
        b"null",
        b"[]",
        b"[1]",
        b'"error"',
        b'{"error": null}',
        b'{"error": 7}',
        b'{"error": {"code": 17, "message": {}, "details": 3}}',
        b'{"error": {"code": null, "details": [{"violations": 3, "retryDelay": {}}, 4]}}',
        b'{"detail": "Bad Gateway"}',
        b"\xff\xfe",
    ],
)
def test_bodies_that_say_nothing_leave_it_to_the_status(body):
    assert classify_answer(502, None, body).reason == "http_502"


@given(st.integers(400, 599), st.binary(max_size=200))
def test_no_body_is_too_strange(status, body):
    assert classify_answer(status, [], body).bucket in ("permanent", "rate_limit", "server")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["error", "code", "type", "details", "message", "detail", "response"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_document_is_too_strange(document):
    assert classify_answer(500, {}, json.dumps(document).encode()) is not None
    assert classify_answer(500, {}, document) is not None
