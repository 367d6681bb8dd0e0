"""Agents of LangChain that end where a call of theirs is refused, instead of failing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from looptrap.client.caught import refusal_of
from looptrap.client.door import lacking
from looptrap.errors import RefusedError

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.types import Command

    from looptrap.client.last_word import last_word
except ModuleNotFoundError as error:
    raise lacking("langchain", error) from error

Asked = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AskedAsync = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
Result = ToolMessage | Command[Any]


class LooptrapMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Ends a run when a call of its model is refused; a tool that is refused tells the model.

    The refusal's words are the last message, and its `response_metadata["looptrap"]` says why. On a
    message without tool calls agents end, those too that still owe a structured answer.
    """

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Asked
    ) -> ModelResponse[Any] | AIMessage:
        """Have a refusal be what the model says."""
        try:
            return handler(request)
        except Exception as error:
            if (refusal := refusal_of(error)) is None:
                raise
            return last_word(refusal)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AskedAsync
    ) -> ModelResponse[Any] | AIMessage:
        """Have a refusal be what the model says."""
        try:
            return await handler(request)
        except Exception as error:
            if (refusal := refusal_of(error)) is None:
                raise
            return last_word(refusal)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """Have a refusal be the tool's result, so that the model can change its approach."""
        try:
            return handler(request)
        except Exception as error:
            if (refusal := refusal_of(error)) is None:
                raise
            return _result(request, refusal)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Have a refusal be the tool's result, so that the model can change its approach."""
        try:
            return await handler(request)
        except Exception as error:
            if (refusal := refusal_of(error)) is None:
                raise
            return _result(request, refusal)


def _result(request: ToolCallRequest, refusal: RefusedError) -> ToolMessage:
    """Return what the model hears of a tool that was refused."""
    call = request.tool_call
    return ToolMessage(
        refusal.message, tool_call_id=call["id"] or "", name=call["name"], status="error"
    )
