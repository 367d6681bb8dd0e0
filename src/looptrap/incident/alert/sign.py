"""The headers of Standard Webhooks: which event it is, when it is sent, and that it is ours."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime

from standardwebhooks import Webhook

PREFIX = "whsec_"
LEAST, MOST = 24, 64
"""Bytes of a secret, by the specification."""

FORM = f"{PREFIX} and {LEAST} to {MOST} random bytes in base64"


class Signer:
    """Signs with every secret in force, so that receivers can change from one to another."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._webhooks = [Webhook(secret) for secret in secrets]

    @classmethod
    def of(cls, text: str) -> Signer:
        """Read one secret, or several with spaces between; no message repeats a secret."""
        secrets = [_secret(one) for one in text.split()]
        if not secrets:
            raise ValueError(f"is empty, must be {FORM}")
        return cls(secrets)

    def headers(self, event_id: str, now: float, body: bytes) -> dict[str, str]:
        """Return the headers of one attempt; without a secret there is no signature."""
        at = datetime.fromtimestamp(int(now), UTC)
        headers = {"webhook-id": event_id, "webhook-timestamp": str(int(now))}
        if self._webhooks:
            text = body.decode()
            signatures = [one.sign(event_id, at, text) for one in self._webhooks]
            headers["webhook-signature"] = " ".join(signatures)
        return headers


def _secret(text: str) -> bytes:
    if not text.startswith(PREFIX):
        raise ValueError(f"does not begin with {PREFIX}, must be {FORM}")
    encoded = text.removeprefix(PREFIX)
    try:
        secret = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"is not in base64, must be {FORM}") from None
    if not LEAST <= len(secret) <= MOST:
        raise ValueError(f"has {len(secret)} bytes, must be {FORM}")
    return secret
