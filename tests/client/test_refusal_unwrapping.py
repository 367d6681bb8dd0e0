"""Refusals are told from what frameworks raise, whatever they put around them."""

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors as google
from langchain_openai.chat_models.base import OpenAIRateLimitError
from pydantic_ai import ModelHTTPError

from looptrap import BudgetExceededError, KilledError, LoopDetectedError, RateLimitedError
from looptrap.client.refusal import unwrap_refusal

DETAIL = {
    "error": "recursive_loop_detected",
    "message": "Blocked: enough.",
    "fingerprint": "1-a",
    "hit_count": 5,
    "cooldown_seconds": 30,
    "rule": "no-progress",
    "evidence": [],
}
ERROR = {"message": "Blocked: enough.", "code": "recursive_loop_detected"}
REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")


def answer(body, status=429, **headers):
    return httpx2.Response(status, json=body, headers=headers, request=REQUEST)


def of_openai(detail=DETAIL, kind=openai.RateLimitError, **headers):
    body = {"error": ERROR, "detail": detail}
    return kind("refused", response=answer(body, **headers), body=ERROR)


def of_anthropic():
    body = {"type": "error", "error": {"message": "Blocked: enough."}, "detail": DETAIL}
    return anthropic.RateLimitError("refused", response=answer(body), body=body)


def of_google():
    return google.ClientError(429, {"error": {"message": "Blocked: enough."}, "detail": DETAIL})


def around(outer, cause):
    outer.__cause__ = cause
    return outer


def own():
    return LoopDetectedError(
        "Blocked: enough.",
        hit_count=5,
        cooldown_seconds=30,
        fingerprint="1-a",
        rule="no-progress",
    )


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(own(), id="our own"),
        pytest.param(of_openai(), id="OpenAI's"),
        pytest.param(of_anthropic(), id="Anthropic's"),
        pytest.param(of_google(), id="Google's"),
        pytest.param(of_openai(kind=OpenAIRateLimitError), id="LangChain's"),
        pytest.param(
            around(ModelHTTPError(429, "gpt-5.4-mini", ERROR | {"code": None}), of_openai()),
            id="Pydantic AI's, around OpenAI's",
        ),
        pytest.param(
            around(RuntimeError(), around(ValueError(), own())), id="around one around our own"
        ),
    ],
)
def test_a_refusal_is_found(error):
    found = unwrap_refusal(error)
    assert isinstance(found, LoopDetectedError)
    assert (found.message, found.rule, found.hit_count) == ("Blocked: enough.", "no-progress", 5)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("budget_exceeded", BudgetExceededError),
        ("rate_limited", RateLimitedError),
        ("killed", KilledError),
    ],
)
def test_it_is_of_the_class_that_says_why(code, kind):
    found = unwrap_refusal(of_openai({**DETAIL, "error": code}, **{"Retry-After": "7"}))
    assert type(found) is kind
    assert getattr(found, "retry_after", 7) == 7


def test_amid_a_stream_the_code_is_enough():
    found = unwrap_refusal(openai.APIError("refused", request=REQUEST, body=ERROR))
    assert isinstance(found, LoopDetectedError)
    assert found.message == "Blocked: enough."


def unread():
    response = httpx2.Response(429, stream=httpx2.ByteStream(b"{}"), request=REQUEST)
    return openai.RateLimitError("slow down", response=response, body=None)


def after_a_refusal():
    error = KeyError("lost")
    error.__context__ = own()
    return error


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            openai.RateLimitError(
                "slow down",
                response=answer({"error": {"code": "rate_limit_exceeded"}}),
                body={"code": "rate_limit_exceeded", "message": "slow down"},
            ),
            id="a provider's own 429",
        ),
        pytest.param(
            openai.InternalServerError(
                "?", response=httpx2.Response(502, text="<html>", request=REQUEST), body="<html>"
            ),
            id="no JSON",
        ),
        pytest.param(unread(), id="an answer that was not read"),
        pytest.param(openai.APIConnectionError(request=REQUEST), id="no answer at all"),
        pytest.param(after_a_refusal(), id="what failed after a refusal"),
        pytest.param(KeyError("response"), id="anything else"),
    ],
)
def test_anything_else_is_none(error):
    assert unwrap_refusal(error) is None


def test_an_exception_that_is_its_own_cause_does_not_go_in_circles():
    error = KeyError()
    error.__cause__ = around(ValueError(), error)
    assert unwrap_refusal(error) is None
