"""Exceptions of tools, of parsers, of Looptrap itself, and bugs."""

import asyncio
import json
import subprocess

import msgspec
import pydantic
import pytest

from looptrap.errors import (
    AllProvidersFailed,
    CallError,
    ConfigError,
    GiveUp,
    IdempotencyError,
    LoopDetectedError,
)
from looptrap.retry.classify import classify
from looptrap.wire.exchange import UpstreamError


class Reply(pydantic.BaseModel):
    answer: int


def raised_by(act):
    try:
        act()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is asked about
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("error", "bucket", "reason", "trips"),
    [
        # tools
        pytest.param(subprocess.CalledProcessError(2, "make"), "tool", "exit_2", "", id="exit 2"),
        pytest.param(subprocess.TimeoutExpired("make", 3), "tool", "timeout", "", id="tool late"),
        # what models write
        pytest.param(
            raised_by(lambda: json.loads("{")), "permanent", "bad_output", "", id="no JSON"
        ),
        pytest.param(
            raised_by(lambda: msgspec.json.decode(b"{")),
            "permanent",
            "bad_output",
            "",
            id="msgspec",
        ),
        pytest.param(
            raised_by(lambda: msgspec.convert("x", int)), "permanent", "bad_output", "", id="typed"
        ),
        pytest.param(
            raised_by(lambda: Reply.model_validate_json('{"answer": "x"}')),
            "permanent",
            "bad_output",
            "",
            id="pydantic",
        ),
        # Looptrap's own
        pytest.param(
            LoopDetectedError("no", hit_count=6, cooldown_seconds=30, fingerprint="f", rule="r"),
            "permanent",
            "loop_detected",
            "",
            id="a loop",
        ),
        pytest.param(GiveUp({}), "permanent", "give_up", "", id="a turn that gave up"),
        pytest.param(
            AllProvidersFailed([("a", "b")]), "permanent", "all_providers_failed", "", id="all"
        ),
        pytest.param(IdempotencyError("no"), "permanent", "idempotency", "", id="no key"),
        pytest.param(CallError("no"), "permanent", "bad_request", "", id="unreadable"),
        pytest.param(ConfigError("no"), "permanent", "bad_request", "", id="configuration"),
        # bugs and ends
        *(
            pytest.param(error, "permanent", "unknown", "", id=type(error).__name__)
            for error in [
                ValueError("no"),
                KeyError("x"),
                AttributeError(),
                RuntimeError(),
                FileNotFoundError(2, "no"),
                PermissionError(13, "no"),
                NotImplementedError(),
                Exception(),
            ]
        ),
        pytest.param(asyncio.CancelledError(), "permanent", "cancelled", "", id="cancelled"),
        pytest.param(KeyboardInterrupt(), "permanent", "cancelled", "", id="interrupted"),
    ],
)
def test_an_exception(error, bucket, reason, trips):
    failure = classify(error)
    assert (failure.bucket, failure.reason, failure.trips) == (bucket, reason, trips)
    assert failure.is_timeout is (reason == "timeout")


@pytest.mark.parametrize(
    ("kind", "bucket", "reason", "trips"),
    [
        ("connect", "server", "connection", "provider"),
        ("connect_timeout", "server", "timeout", "provider"),
        ("tls", "server", "tls", "provider"),
        ("first_byte_timeout", "server", "timeout", "provider"),
        ("idle_timeout", "server", "timeout", "provider"),
        ("reset", "server", "dropped", "provider"),
        ("protocol", "server", "protocol", "provider"),
        ("busy", "server", "busy", ""),
    ],
)
def test_an_upstream_that_failed_on_the_wire(kind, bucket, reason, trips):
    failure = classify(UpstreamError(kind, "h: no", started=True))
    assert (failure.bucket, failure.reason, failure.trips) == (bucket, reason, trips)
    assert failure.is_timeout is (reason == "timeout")


def test_of_several_at_once_the_one_that_helps_least_decides():
    late, wrong = TimeoutError(), ValueError("no")
    assert classify(ExceptionGroup("both", [late, wrong])).reason == "unknown"
    assert classify(ExceptionGroup("late", [late, late])).reason == "timeout"


def test_the_exception_says_it_in_its_words():
    assert classify(ConnectionResetError("peer said no")).message == "peer said no"
    assert classify(ValueError("x" * 5000)).message == "x" * 300
