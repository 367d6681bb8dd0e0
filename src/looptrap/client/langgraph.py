"""Graphs of LangGraph that end where a call of theirs is refused, instead of failing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, cast

from looptrap.client.refusal import unwrap_refusal

try:
    from looptrap.client.final_message import final_ai_message
except ModuleNotFoundError as error:
    if error.name != "langchain_core":
        raise
    raise ImportError(
        "looptrap.langgraph needs the package langgraph: pip install langgraph", name="langgraph"
    ) from error

P = ParamSpec("P")
T = TypeVar("T")


def ending(node: Callable[P, T], *, messages_key: str = "messages") -> Callable[P, T]:
    """Return the node of a graph with a refusal of its calls as the last word of its model.

    That is a message without tool calls, on which the graphs of agents end by themselves.
    """
    if isgeneratorfunction(node) or isasyncgenfunction(node) or not callable(node):
        raise TypeError(f"ending: {node!r} is no function that returns an update of the state")
    if iscoroutinefunction(node) or iscoroutinefunction(type(node).__call__):

        @wraps(node)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return await cast(Any, node)(*args, **kwargs)
            except Exception as error:
                if (refusal := unwrap_refusal(error)) is None:
                    raise
                return {messages_key: [final_ai_message(refusal)]}

        return cast(Callable[P, T], awaited)

    @wraps(node)
    def called(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return node(*args, **kwargs)
        except Exception as error:
            if (refusal := unwrap_refusal(error)) is None:
                raise
            return {messages_key: [final_ai_message(refusal)]}

    return called
