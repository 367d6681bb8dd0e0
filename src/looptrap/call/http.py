"""Any other HTTP request: a path and a body that nobody looks into."""

from __future__ import annotations

from looptrap.call.model import Call, Request


def read(request: Request) -> Call:
    """Return the plain view of a request."""
    return Call(request, "http")
