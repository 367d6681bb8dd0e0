"""Finding: one line of `looptrap doctor`."""

from __future__ import annotations

from typing import Literal, NamedTuple

Status = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """What was looked at, how it is, and what to do about it."""

    what: str
    status: Status
    message: str
    remedy: str = ""
