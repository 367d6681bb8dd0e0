"""Exceptions of the SDKs: made by the real ones."""

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors as google

from looptrap.retry.classify import classify

REQUEST = httpx2.Request("POST", "https://api.example.com/v1/chat/completions")


def answer(status, body=None, headers=None):
    return httpx2.Response(status, json=body, headers=headers, request=REQUEST)


def status_error(sdk, status, body=None, headers=None):
    """The exception that the SDK itself makes of an answer."""
    client = sdk.OpenAI(api_key="k") if sdk is openai else sdk.Anthropic(api_key="k")
    with client:
        return client._make_status_error_from_response(answer(status, body, headers))


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
QUOTA = {"error": {"message": "no", "type": "insufficient_quota", "code": "insufficient_quota"}}
EXHAUSTED = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "later"}}
PER_DAY = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota",
        "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}],
    }
}


@pytest.mark.parametrize(
    ("error", "bucket", "reason", "trips"),
    [
        # openai and anthropic
        *(
            pytest.param(status_error(sdk, status), bucket, reason, trips, id=f"{name} {status}")
            for name, sdk in (("openai", openai), ("anthropic", anthropic))
            for status, bucket, reason, trips in [
                (400, "permanent", "http_400", ""),
                (401, "permanent", "http_401", ""),
                (403, "permanent", "http_403", ""),
                (404, "permanent", "http_404", ""),
                (409, "permanent", "http_409", ""),
                (413, "permanent", "http_413", ""),
                (422, "permanent", "http_422", ""),
                (429, "rate_limit", "rate_limited", "credential"),
                (500, "server", "http_500", "provider"),
                (503, "server", "http_503", "provider"),
                (529, "rate_limit", "overloaded", "provider"),
            ]
        ),
        pytest.param(
            status_error(openai, 429, QUOTA),
            "permanent",
            "insufficient_quota",
            "credential",
            id="openai out of quota",
        ),
        pytest.param(
            openai.APIError("no", REQUEST, body={"type": "server_error", "message": "no"}),
            "server",
            "http_500",
            "provider",
            id="openai, an error in a stream",
        ),
        pytest.param(
            openai.APIError("no", REQUEST, body={"code": "insufficient_quota", "message": "no"}),
            "permanent",
            "insufficient_quota",
            "credential",
            id="openai, out of quota in a stream",
        ),
        pytest.param(
            status_error(anthropic, 200, OVERLOADED),
            "rate_limit",
            "overloaded",
            "provider",
            id="anthropic, overloaded in a stream",
        ),
        *(
            pytest.param(error, "server", reason, "provider", id=f"{name} {reason}")
            for name, sdk in (("openai", openai), ("anthropic", anthropic))
            for error, reason in [
                (sdk.APIConnectionError(request=REQUEST), "connection"),
                (sdk.APITimeoutError(request=REQUEST), "timeout"),
            ]
        ),
        pytest.param(
            openai.APIResponseValidationError(answer(200), None),
            "permanent",
            "bad_output",
            "",
            id="openai, not the schema",
        ),
        pytest.param(
            openai.ContentFilterFinishReasonError(), "permanent", "content_policy", "", id="filter"
        ),
        # google-genai
        pytest.param(
            google.ClientError(429, EXHAUSTED),
            "rate_limit",
            "rate_limited",
            "credential",
            id="g429",
        ),
        pytest.param(
            google.ClientError(429, PER_DAY),
            "permanent",
            "insufficient_quota",
            "credential",
            id="google out of quota",
        ),
        pytest.param(
            google.ClientError(400, {"error": {"status": "INVALID_ARGUMENT"}}),
            "permanent",
            "http_400",
            "",
            id="google 400",
        ),
        pytest.param(
            google.ServerError(503, {"error": {"status": "UNAVAILABLE"}}),
            "server",
            "http_503",
            "provider",
            id="google 503",
        ),
        pytest.param(
            google.UnknownApiResponseError("no"), "server", "dropped", "provider", id="google cut"
        ),
    ],
)
def test_an_sdks_exception(error, bucket, reason, trips):
    failure = classify(error)
    assert (failure.bucket, failure.reason, failure.trips) == (bucket, reason, trips)
    assert failure.is_timeout is (reason == "timeout")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(status_error(openai, 429, None, {"retry-after-ms": "1500"}), id="openai"),
        pytest.param(status_error(anthropic, 429, None, {"Retry-After": "1.5"}), id="anthropic"),
        pytest.param(
            google.ClientError(429, EXHAUSTED, answer(429, EXHAUSTED, {"retry-after": "1.5"})),
            id="google",
        ),
    ],
)
def test_every_sdk_tells_when_to_come_again(error):
    assert classify(error).retry_after == 1.5


def test_an_sdk_nobody_has_heard_of_tells_its_status():
    error = type("NovelError", (Exception,), {"status_code": 503})("no")
    assert classify(error).reason == "http_503"


def test_a_looptrap_refusal_through_an_sdk_is_permanent():
    refused = {"X-Looptrap-Verdict": "block", "X-Looptrap-Reason": "loop_detected"}
    failure = classify(status_error(openai, 429, None, refused))
    assert (failure.bucket, failure.reason, failure.trips) == ("permanent", "loop_detected", "")
