"""`looptrap.guard`: a client of OpenAI or Anthropic that is judged in its own process."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from looptrap.client import http
from looptrap.client.enforcer import Enforcer
from looptrap.client.guard_factory import guard_from_config
from looptrap.client.history import LocalHistory
from looptrap.client.session import validate_session_name
from looptrap.config import load
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
    """Return a copy of a client whose calls are judged before they leave, as a gateway would.

    Works with OpenAI's and Anthropic's clients, sync and async. Rules come from `guard`, which
    several clients may share; else from `config`, a file as the gateway reads it; else from
    `preset`. With `history`, incidents are kept in that file. The client itself stays as it is.
    """
    vendor = _vendor_module(client)
    if guard is not None and (preset is not None or config is not None):
        raise TypeError("guard: has its rules already, so neither preset nor config can be given")
    settings = load(config, env=os.environ, flags={"preset": preset})
    enforcer = Enforcer(
        guard or guard_from_config(settings),
        caller=caller,
        block_status=block_status or settings.block_status,
        incident_history=LocalHistory.open(history, settings.incidents) if history else None,
    )
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
    """Return what knows the vendor of a client; TypeError for what nobody knows."""
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
    """Return a client as one of a class of its kind that raises our exceptions, as copies do."""
    kind = vendor.with_session_mixin(type(copied))
    known = kind.__new__(kind)
    vars(known).update(vars(copied))
    # It knows all that a copy needs; only what is made by its class knows itself as well.
    return known.copy()
