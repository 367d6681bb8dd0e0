"""Agents of LangChain that end where a call of theirs is refused, instead of failing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from looptrap.client.refusal import unwrap_refusal
from looptrap.client.sdk_mixin import missing_package_error
from looptrap.errors import RefusedError

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.types import Command

    from looptrap.client.final_message import final_ai_message
except ModuleNotFoundError as error:
    raise missing_package_error("langchain", error) from error

ModelHandler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
ToolCallResult = ToolMessage | Command[Any]


class LooptrapMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Ends a run when a call of its model is refused; a tool that is refused tells the model.

    The refusal's words are the last message, and its `response_metadata["looptrap"]` says why. On a
    message without tool calls agents end, those too that still owe a structured answer.
    """

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> ModelResponse[Any] | AIMessage:
        """Have a refusal be what the model says."""
        try:
            return handler(request)
        except Exception as error:
            if (refusal := unwrap_refusal(error)) is None:
                raise
            return final_ai_message(refusal)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncModelHandler
    ) -> ModelResponse[Any] | AIMessage:
        """Have a refusal be what the model says."""
        try:
            return await handler(request)
        except Exception as error:
            if (refusal := unwrap_refusal(error)) is None:
                raise
            return final_ai_message(refusal)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolCallResult]
    ) -> ToolCallResult:
        """Have a refusal be the tool's result, so that the model can change its approach."""
        try:
            return handler(request)
        except Exception as error:
            if (refusal := unwrap_refusal(error)) is None:
                raise
            return _result(request, refusal)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolCallResult]],
    ) -> ToolCallResult:
        """Have a refusal be the tool's result, so that the model can change its approach."""
        try:
            return await handler(request)
        except Exception as error:
            if (refusal := unwrap_refusal(error)) is None:
                raise
            return _result(request, refusal)


def _result(request: ToolCallRequest, refusal: RefusedError) -> ToolMessage:
    """Return what the model hears of a tool that was refused."""
    call = request.tool_call
    return ToolMessage(
        refusal.message, tool_call_id=call["id"] or "", name=call["name"], status="error"
    )
