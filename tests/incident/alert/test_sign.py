"""Signatures, checked by the reference library."""

import base64
import os
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from looptrap.incident.alert.channel import WebhookSigner


def secret(size: int = 32) -> str:
    return "whsec_" + base64.b64encode(os.urandom(size)).decode()


BODY = '{"event":"loop.detected","data":{"model":"größer"}}'.encode()


@pytest.mark.parametrize("size", [24, 25, 32, 64], ids=lambda size: f"{size} bytes")
def test_the_reference_library_accepts_what_is_signed(size):
    given = secret(size)
    headers = WebhookSigner.of(given).headers("evt_1", time.time(), BODY)
    assert Webhook(given).verify(BODY, headers)["event"] == "loop.detected"
    with pytest.raises(WebhookVerificationError):
        Webhook(secret()).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(given).verify(BODY + b" ", headers)


def test_while_secrets_change_both_are_good():
    old, new = secret(), secret()
    headers = WebhookSigner.of(f"{new} {old}").headers("evt_1", time.time(), BODY)
    for one in (old, new):
        Webhook(one).verify(BODY, headers)
    assert headers["webhook-signature"].count("v1,") == 2


def test_a_secret_may_lack_its_padding():
    given = secret(25)
    headers = WebhookSigner.of(given.rstrip("=")).headers("evt_1", time.time(), BODY)
    Webhook(given).verify(BODY, headers)


def test_the_headers_name_the_event_and_the_time_of_the_attempt():
    headers = WebhookSigner([]).headers("evt_1", 1_794_000_000.9, BODY)
    assert headers == {"webhook-id": "evt_1", "webhook-timestamp": "1794000000"}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        pytest.param("", "is empty", id="none"),
        pytest.param("hunter2-hunter2-hunter2", "does not begin with whsec_", id="plain text"),
        pytest.param("whsk_" + "A" * 44, "does not begin with whsec_", id="an asymmetric key"),
        pytest.param("whsec_hunter2!hunter2!hunter2", "is not in base64", id="not base64"),
        pytest.param("whsec_aHVudGVyMg==", "has 7 bytes", id="too short"),
        pytest.param(secret(65), "has 65 bytes", id="too long"),
        pytest.param(secret() + " whsec_hunter2!", "is not in base64", id="the second of two"),
    ],
)
def test_refuses_a_secret_and_does_not_repeat_it(given, wrong):
    with pytest.raises(ValueError, match=wrong) as refused:
        WebhookSigner.of(given)
    assert "hunter2" not in str(refused.value)
