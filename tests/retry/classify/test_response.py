"""What a failed answer means, by status, headers and body."""

import pytest
from tests.retry.classify.bodies import google, looptrap, openai, retry_info

from looptrap.retry.failure import classify_answer


@pytest.mark.parametrize(
    ("status", "bucket", "reason", "trips"),
    [
        (400, "permanent", "http_400", ""),
        (401, "permanent", "http_401", ""),
        (402, "permanent", "insufficient_quota", "credential"),
        (403, "permanent", "http_403", ""),
        (404, "permanent", "http_404", ""),
        (405, "permanent", "http_405", ""),
        (408, "server", "timeout", "provider"),
        (409, "permanent", "http_409", ""),
        (413, "permanent", "http_413", ""),
        (422, "permanent", "http_422", ""),
        (425, "server", "http_425", ""),
        (429, "rate_limit", "rate_limited", "credential"),
        (451, "permanent", "http_451", ""),
        (499, "permanent", "http_499", ""),
        (500, "server", "http_500", "provider"),
        (501, "permanent", "http_501", ""),
        (502, "server", "http_502", "provider"),
        (503, "server", "http_503", "provider"),
        (504, "server", "http_504", "provider"),
        (505, "permanent", "http_505", ""),
        (508, "server", "http_508", "provider"),
        (511, "permanent", "http_511", ""),
        (520, "server", "http_520", "provider"),
        (521, "server", "http_521", "provider"),
        (522, "server", "http_522", "provider"),
        (523, "server", "http_523", "provider"),
        (524, "server", "http_524", "provider"),
        (529, "rate_limit", "overloaded", "provider"),
    ],
)
def test_a_bare_status(status, bucket, reason, trips):
    failure = classify_answer(status)
    assert (failure.bucket, failure.reason, failure.trips) == (bucket, reason, trips)
    assert failure.is_timeout is (status == 408)


@pytest.mark.parametrize("status", [200, 204, 302, 399])
def test_what_did_not_fail_is_no_failure(status):
    assert classify_answer(status, [], openai("insufficient_quota")) is None


@pytest.mark.parametrize(
    ("status", "should_retry", "bucket", "trips"),
    [
        pytest.param(429, b"false", "permanent", "", id="a limit not to be retried"),
        pytest.param(503, b"False", "permanent", "", id="an outage not to be retried"),
        pytest.param(400, b"true", "server", "", id="a bad request that may be retried"),
        pytest.param(409, b"true", "server", "", id="a conflict that may be retried"),
        pytest.param(429, b"true", "rate_limit", "credential", id="a limit that may be retried"),
        pytest.param(503, b"perhaps", "server", "provider", id="nonsense is nothing"),
    ],
)
def test_the_server_may_say_whether_to_retry(status, should_retry, bucket, trips):
    failure = classify_answer(status, [(b"X-Should-Retry", should_retry)], b"")
    assert (failure.bucket, failure.trips) == (bucket, trips)


def test_out_of_quota_but_told_to_retry_is_retried_as_a_limit():
    failure = classify_answer(429, {"x-should-retry": "true"}, openai("insufficient_quota"))
    assert failure.bucket == "rate_limit"


@pytest.mark.parametrize(
    ("status", "reason", "bucket"),
    [
        (429, "loop_detected", "permanent"),
        (402, "budget_exceeded", "permanent"),
        (403, "killed", "permanent"),
        (429, "rate_limited", "rate_limit"),
        (503, "breaker_open", "server"),
        (503, "store_unavailable", "server"),
    ],
)
@pytest.mark.parametrize("where", ["header", "body"])
def test_a_refusal_of_looptraps_own_counts_against_no_circuit(status, reason, bucket, where):
    headers = {"x-looptrap-verdict": "block", "X-Looptrap-Reason": reason}
    told = (headers, b"") if where == "header" else ({}, looptrap(reason))
    failure = classify_answer(status, *told)
    assert (failure.bucket, failure.reason, failure.trips) == (bucket, reason, "")


@pytest.mark.parametrize("reason", ["loop_detected", "budget_exceeded", "killed"])
def test_a_refusal_that_is_cut_off_is_permanent_all_the_same(reason):
    failure = classify_answer(429, {}, looptrap(reason)[:-9])
    assert (failure.bucket, failure.reason) == ("permanent", reason)


def test_a_loop_refusal_is_permanent_whatever_else_is_said():
    headers = {"X-Looptrap-Reason": "loop_detected", "x-should-retry": "true"}
    assert classify_answer(429, headers, b"").bucket == "permanent"


def test_a_failure_behind_a_mere_warning_is_the_providers():
    headers = {"X-Looptrap-Verdict": "warn", "X-Looptrap-Reason": "loop_detected"}
    failure = classify_answer(503, headers, b"")
    assert (failure.bucket, failure.trips) == ("server", "provider")


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        pytest.param({"Retry-After": "7"}, b"", 7.0, id="header"),
        pytest.param({}, google("RESOURCE_EXHAUSTED", "", retry_info("34.5s")), 34.5, id="Google"),
        pytest.param(
            {"Retry-After": "3"},
            google("RESOURCE_EXHAUSTED", "", retry_info("34s")),
            34.0,
            id="the later of two",
        ),
        pytest.param(
            {}, openai("x", "tokens", "Please try again in 1.898s."), 1.898, id="OpenAI's words"
        ),
        pytest.param({}, openai("x", "x", "Please try again in 6m0s."), 360.0, id="in minutes"),
        pytest.param({}, openai("x", "x", "Please try again in 20ms."), 0.02, id="in milliseconds"),
        pytest.param({}, openai("x", "x", "Please try again in a while."), None, id="no time"),
        pytest.param({}, google("RESOURCE_EXHAUSTED", "", retry_info("soon")), None, id="nonsense"),
    ],
)
def test_when_to_come_again(headers, body, expected):
    assert classify_answer(429, headers, body).retry_after == expected


def test_a_conflict_with_a_time_is_a_lock():
    failure = classify_answer(409, {"retry-after": "1"}, b"")
    assert (failure.bucket, failure.retry_after, failure.trips) == ("server", 1.0, "")


def test_messages_are_kept_short():
    assert len(classify_answer(500, {}, openai(message="x" * 10_000)).message) == 300
