"""What a client is told when a provider does not answer."""

from __future__ import annotations

from looptrap.wire.upstream_exchange import UpstreamError

_STATUS = {
    "connect_timeout": 504,
    "first_byte_timeout": 504,
    "idle_timeout": 504,
    "busy": 503,
}
"""502 for everything else."""


CLIENT_CLOSED_STATUS = 499
"""The status of a call whose client did not wait for an answer."""


def status_and_code(error: UpstreamError) -> tuple[int, str]:
    """Return the status and the code that tell why."""
    return _STATUS.get(error.kind, 502), f"upstream_{error.kind}"
