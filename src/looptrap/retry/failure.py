"""Failures: what went wrong with one attempt, and what that means for the next."""

from __future__ import annotations

from typing import Literal

import msgspec

Bucket = Literal["rate_limit", "server", "tool", "permanent"]
"""What helps: waiting; a few retries; another plan of the model; nothing."""

Circuit = Literal["", "provider", "credential"]
"""The circuit that a failure counts against; "" for none."""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """Why an attempt failed, by a status, an event in a stream, or an exception."""

    bucket: Bucket
    reason: str
    """A short code, such as `http_503`, `overloaded` or `insufficient_quota`."""
    message: str = ""
    retry_after: float | None = None
    """The seconds that the provider asks to wait; None where it does not say."""
    is_timeout: bool = False
    """Whether the network or the provider did not answer in time."""
    trips: Circuit = ""

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may be sent again."""
        return self.bucket in ("rate_limit", "server")

    def __str__(self) -> str:
        return f"{self.reason} ({self.message})" if self.message else self.reason
