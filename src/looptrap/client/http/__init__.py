"""The HTTP client that stands between an SDK and its own: what it sends is judged first.

guarded    Guarded: what both kinds have in common
waiting    the kind that waits; awaited: the kind that is awaited

Each is made anew for every module that SDKs get their HTTP clients from.
"""

from __future__ import annotations

from typing import Any

from looptrap.client.http import awaited, waiting
from looptrap.client.http.guarded import Guarded
from looptrap.client.keeper import Keeper

__all__ = ["Guarded", "attended"]

MODULES = ("httpx2", "httpx")


def attended(own: Any, keeper: Keeper) -> Any:
    """Return an HTTP client that judges what it is given, and has `own` do the rest.

    Raises TypeError for what is no client of httpx or httpx2.
    """
    for kind in type(own).__mro__:
        module = kind.__module__.partition(".")[0]
        if module in MODULES and kind.__name__ in ("Client", "AsyncClient"):
            made = waiting if kind.__name__ == "Client" else awaited
            return made.kind_of(module)(own, keeper)
    raise TypeError(
        f"its HTTP client is {type(own).__name__}, must be one of {' or '.join(MODULES)}"
    )
