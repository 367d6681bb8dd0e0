"""Agents of LangChain that end cleanly where a call is refused. Needs `langchain`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from looptrap.client.refusal import final_message_fields, refusal_in
from looptrap.client.sdk_mixin import missing_package_error

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.types import Command
except ModuleNotFoundError as error:
    raise missing_package_error("langchain", error) from error

__all__ = ["LooptrapMiddleware"]

ModelHandler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
ToolCallResult = ToolMessage | Command[Any]


class LooptrapMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Ends a run when a call of its model is refused; a refused tool call is its own result.

    The refusal's text is the last message, and its `response_metadata["looptrap"]` says why. Agents
    end on a message without tool calls, also those that still owe a structured answer.
    """

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> ModelResponse[Any] | AIMessage:
        """Return a refusal as the model's message."""
        try:
            return handler(request)
        except Exception as error:  # noqa: BLE001 - raised again unless it is a refusal
            return AIMessage(**final_message_fields(error))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncModelHandler
    ) -> ModelResponse[Any] | AIMessage:
        """Return a refusal as the model's message."""
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - raised again unless it is a refusal
            return AIMessage(**final_message_fields(error))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolCallResult]
    ) -> ToolCallResult:
        """Return a refusal as the tool's result, so that the model can change its approach."""
        try:
            return handler(request)
        except Exception as error:  # noqa: BLE001 - raised again unless it is a refusal
            return _tool_message(request, error)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolCallResult]],
    ) -> ToolCallResult:
        """Return a refusal as the tool's result, so that the model can change its approach."""
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - raised again unless it is a refusal
            return _tool_message(request, error)


def _tool_message(request: ToolCallRequest, error: Exception) -> ToolMessage:
    call, text = request.tool_call, refusal_in(error).message
    return ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error")
