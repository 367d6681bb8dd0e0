"""The end of a stream of legacy Completions."""

from __future__ import annotations

from looptrap.answer.cut.openai_chat import closing, failed
from looptrap.answer.hearing.openai_chat import ChatEar

__all__ = ["failed", "finished"]


def finished(ear: ChatEar) -> bytes:
    """Return the last chunk of every text that is open."""
    return closing(ear, {"text": ""})
