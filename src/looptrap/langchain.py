"""Agents of LangChain that end cleanly where a call is refused. Needs `langchain`."""

from looptrap.client.langchain import LooptrapMiddleware

__all__ = ["LooptrapMiddleware"]
