"""Graphs of LangGraph that end where a call of theirs is refused, instead of failing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, cast

from looptrap.client.refusal import refusal_in
from looptrap.errors import (
    BudgetExceededError,
    KilledError,
    LoopDetectedError,
    RateLimitedError,
    RefusedError,
)

try:
    from langchain_core.messages import AIMessage
except ModuleNotFoundError as error:
    if error.name != "langchain_core":
        raise
    raise ImportError(
        "looptrap.langgraph needs the package langgraph: pip install langgraph", name="langgraph"
    ) from error

P = ParamSpec("P")
T = TypeVar("T")

METADATA_KEY = "looptrap"
"""Under this key, the metadata of a final message say why it is one."""

REASON_BY_ERROR: dict[type[RefusedError], str] = {
    LoopDetectedError: "loop_detected",
    BudgetExceededError: "budget_exceeded",
    RateLimitedError: "rate_limited",
    KilledError: "killed",
}

REFUSAL_FIELDS = (
    "rule", "budget", "rate", "hit_count", "percent", "cooldown_seconds", "retry_after",
    "fingerprint",
)  # fmt: skip
"""Fields of refusals that any checkpointer can keep."""


def final_ai_message(error: Exception) -> AIMessage:
    """Return a refusal as the final message of a model: without tool calls, so that agents end.

    Any other exception is raised again.
    """
    refusal = refusal_in(error)
    fields = {name: getattr(refusal, name) for name in REFUSAL_FIELDS if hasattr(refusal, name)}
    reason = next(reason for kind, reason in REASON_BY_ERROR.items() if isinstance(refusal, kind))
    metadata = {METADATA_KEY: {"reason": reason, **fields}}
    return AIMessage(refusal.message, response_metadata=metadata)


def ending(node: Callable[P, T], *, messages_key: str = "messages") -> Callable[P, T]:
    """Return the node of a graph, with a refusal of its calls as its model's final message.

    That message has no tool calls, so the graphs of agents end by themselves.
    """
    if isgeneratorfunction(node) or isasyncgenfunction(node) or not callable(node):
        raise TypeError(f"ending: {node!r} is no function that returns an update of the state")
    if iscoroutinefunction(node) or iscoroutinefunction(type(node).__call__):

        @wraps(node)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return await cast(Any, node)(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - raised again unless it is a refusal
                return {messages_key: [final_ai_message(error)]}

        return cast(Callable[P, T], awaited)

    @wraps(node)
    def called(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return node(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again unless it is a refusal
            return {messages_key: [final_ai_message(error)]}

    return called
