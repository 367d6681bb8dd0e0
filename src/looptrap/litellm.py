"""Looptrap in LiteLLM's proxy: `callbacks: looptrap.litellm.hook`. Needs `litellm[proxy]`.

`hook` is made when first asked for: by the file that `LOOPTRAP_CONFIG` names, else by the
variables alone. For another one, write `hook = LooptrapHook(…)` into a module of your own.
"""

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from looptrap.client.litellm_hook import LooptrapHook

if TYPE_CHECKING:
    hook: LooptrapHook

__all__ = ["LooptrapHook", "hook"]


def __getattr__(name: str) -> Any:
    if name == "hook":
        return _hook()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _hook() -> LooptrapHook:
    return LooptrapHook(
        config=os.environ.get("LOOPTRAP_CONFIG"), history=os.environ.get("LOOPTRAP_HISTORY", "")
    )
