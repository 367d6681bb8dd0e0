"""What of a request goes to another provider than the caller's own: nothing that says who calls.

Names that are known to be harmless go on, all others stay behind: credentials, cookies, accounts,
and whatever else one vendor's clients tell only that vendor.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from looptrap.call.model import Dialect
from looptrap.retry.turn.header import TURN

CARRIED = frozenset(
    (
        b"accept",
        b"accept-encoding",
        b"baggage",
        b"content-encoding",
        b"content-type",
        b"traceparent",
        b"tracestate",
        b"user-agent",
        TURN.lower().encode(),
        b"x-request-id",
    )
)
"""Headers that go to any provider."""

OF_DIALECT: dict[Dialect, frozenset[bytes]] = {
    "anthropic": frozenset((b"anthropic-version", b"anthropic-beta")),
}
"""Headers without which a dialect is not the same."""

PARAMETERS = frozenset((b"alt", b"beta"))
"""Parameters of the query that choose the form of an answer."""


def carried_fields(fields: bytes, dialect: Dialect) -> bytes:
    """Return the lines of a header block that go abroad."""
    kept = CARRIED | OF_DIALECT.get(dialect, frozenset())
    lines = fields.split(b"\r\n")
    return b"".join([line + b"\r\n" for line in lines if line.partition(b":")[0].lower() in kept])


def carried_target(target: bytes) -> bytes:
    """Return the target with those parameters that go abroad."""
    path, _, query = target.partition(b"?")
    kept = [
        parameter
        for parameter in query.split(b"&")
        if unquote_to_bytes(parameter.partition(b"=")[0]) in PARAMETERS
    ]
    return path + b"?" + b"&".join(kept) if kept else path


def without_field(fields: bytes, name: bytes) -> bytes:
    """Return a header block without one (lower-case) name."""
    lines = fields.split(b"\r\n")[:-1]
    kept = [line for line in lines if line.partition(b":")[0].lower() != name]
    return b"".join([line + b"\r\n" for line in kept])
