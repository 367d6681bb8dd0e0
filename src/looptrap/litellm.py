"""Looptrap in LiteLLM's proxy: `callbacks: looptrap.litellm.hook`. Needs `litellm[proxy]`.

`hook` is made when first asked for: by the file that `LOOPTRAP_CONFIG` names, else by the
variables alone. For another one, write `hook = LooptrapHook(…)` into a module of your own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looptrap.client.litellm import ProxyEnforcer, ProxyRefusal
from looptrap.client.sdk_mixin import missing_package_error
from looptrap.dialect.agent import BlockStatus
from looptrap.engine import Guard

try:
    from litellm.integrations.custom_logger import (  # type: ignore[import-not-found,unused-ignore]
        CustomLogger,
    )
    from litellm.proxy._types import (  # type: ignore[import-not-found,unused-ignore]
        ProxyException,
    )
except ModuleNotFoundError as error:
    raise missing_package_error("litellm", error) from error

if TYPE_CHECKING:
    hook: LooptrapHook

__all__ = ["LooptrapHook", "hook"]


class ProxyRefusedError(ProxyException):  # type: ignore[misc,unused-ignore]
    """A refusal that LiteLLM's proxy sends as it is."""

    def __init__(self, refusal: ProxyRefusal) -> None:
        self._error = error = refusal.error
        super().__init__(
            message=error["message"],
            type=error["type"],
            param=None,
            code=refusal.status,
            openai_code=error["code"],
            headers=refusal.headers,
            provider_specific_fields={"detail": error["detail"]},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the body's `error`: the gateway's, with its detail inside."""
        return self._error


class LooptrapHook(CustomLogger):  # type: ignore[misc,unused-ignore]
    """Refuses what goes in circles before LiteLLM's proxy calls a model.

    Rules come from `guard`; else from `config`, a file as the gateway reads it; else from `preset`.
    With `history`, incidents are kept in that file.
    """

    def __init__(
        self,
        guard: Guard | None = None,
        *,
        preset: str | None = None,
        config: str | Path | None = None,
        history: str | Path = "",
        block_status: BlockStatus | None = None,
    ) -> None:
        super().__init__()
        self._enforcer = ProxyEnforcer.from_options(guard, preset, config, history, block_status)

    # LiteLLM passes arguments by name, and looks for the first method in this class itself.

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: Any,  # noqa: ARG002
        data: dict[str, Any],
        call_type: str,  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Let a request pass, delayed or changed where a rule says so, or raise its refusal."""
        decision = self._enforcer.judge(data, getattr(user_api_key_dict, "api_key", None) or "")
        if decision.refusal is not None:
            raise ProxyRefusedError(decision.refusal)
        if decision.delay:
            await asyncio.sleep(decision.delay)
        return data | decision.changed if decision.changed else None

    async def async_log_success_event(
        self,
        kwargs: Mapping[str, Any],
        response_obj: Any,  # noqa: ARG002
        start_time: Any,  # noqa: ARG002
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """Settle a call by its usage."""
        payload = kwargs.get("standard_logging_object") or {}
        self._enforcer.used(kwargs.get("litellm_call_id") or "", payload)

    async def async_post_call_failure_hook(
        self,
        request_data: Mapping[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,  # noqa: ARG002
        traceback_str: str | None = None,  # noqa: ARG002
    ) -> None:
        """Settle a call that no provider answered."""
        status = getattr(original_exception, "status_code", 0)
        self._enforcer.failed(
            request_data.get("litellm_call_id") or "", status if isinstance(status, int) else 0
        )


def __getattr__(name: str) -> Any:
    if name == "hook":
        return _hook()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _hook() -> LooptrapHook:
    return LooptrapHook(
        config=os.environ.get("LOOPTRAP_CONFIG"), history=os.environ.get("LOOPTRAP_HISTORY", "")
    )
