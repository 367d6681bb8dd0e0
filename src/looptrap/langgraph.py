"""Graphs of LangGraph that end cleanly where a call is refused. Needs `langgraph`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, cast

from looptrap.client.refusal import final_message_fields
from looptrap.client.sdk_mixin import missing_package_error

try:
    from langchain_core.messages import AIMessage
except ModuleNotFoundError as error:
    raise missing_package_error("langgraph", error, imported="langchain_core") from error

__all__ = ["ending"]

P = ParamSpec("P")
T = TypeVar("T")


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
                return {messages_key: [AIMessage(**final_message_fields(error))]}

        return cast(Callable[P, T], awaited)

    @wraps(node)
    def called(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return node(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - raised again unless it is a refusal
            return {messages_key: [AIMessage(**final_message_fields(error))]}

    return called
