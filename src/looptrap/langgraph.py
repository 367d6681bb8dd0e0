"""Graphs of LangGraph that end cleanly where a call is refused. Needs `langgraph`."""

from looptrap.client.langgraph import ending

__all__ = ["ending"]
