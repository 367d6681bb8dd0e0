"""`looptrap.guard`: a client of OpenAI or Anthropic that is judged in its own process."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from looptrap.client import http
from looptrap.client.enforcer import Enforcer
from looptrap.client.session import validate_session_name
from looptrap.engine import Guard

C = TypeVar("C")

VENDORS = ("openai", "anthropic")


def guard(
    client: C,
    guard: Guard | None = None,
    *,
    preset: str | None = None,
    config: str | Path | None = None,
    caller: str = "",
    session: str = "",
    history: str | Path = "",
    block_status: int | None = None,
) -> C:
    """Return a copy of a client whose calls are judged before they are sent, as by a gateway.

    Works with OpenAI's and Anthropic's clients, sync and async. Rules come from `guard`, which
    several clients may share; else from `config`, a file as the gateway reads it; else from
    `preset`. With `history`, incidents are kept in that file. The client itself is not changed.
    """
    vendor = _vendor_module(client)
    enforcer = Enforcer.from_options(guard, preset, config, history, block_status, caller=caller)
    own: Any = client
    if isinstance(own._client, http.GuardedHttpClient):
        raise TypeError("guard: this client is guarded already")
    copied = _with_session_mixin(
        own.copy(http_client=http.guarded_http_client(own._client, enforcer)), vendor
    )
    copied._strict_response_validation = own._strict_response_validation
    if session:
        copied._looptrap_session = validate_session_name(session)
    guarded: C = copied
    return guarded


def _vendor_module(client: object) -> ModuleType:
    """Return our module for the vendor of a client; raise TypeError where there is none."""
    for kind in type(client).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in VENDORS:
            vendor = import_module(f"looptrap.client.{name}")
            if isinstance(client, vendor.GUARDABLE_CLIENTS):
                return vendor
    raise TypeError(
        "guard: takes a client of OpenAI (OpenAI, AsyncOpenAI, and Azure's) or of Anthropic"
        f" (Anthropic, AsyncAnthropic, and Vertex's), not {type(client).__name__}. Point other"
        " clients at a gateway, or ask Guard.check before every call"
    )


def _with_session_mixin(copied: Any, vendor: ModuleType) -> Any:
    """Return a client of the class that raises our exceptions, as its copies will."""
    kind = vendor.with_session_mixin(type(copied))
    bare = kind.__new__(kind)
    vars(bare).update(vars(copied))
    # It has all that a copy needs, but its resources refer to the old client: the copy's do not.
    return bare.copy()
