"""The end of a stream of Chat Completions."""

from __future__ import annotations

from typing import Any

import msgspec

from looptrap.answer.answer import events
from looptrap.answer.hearing.openai_chat import ChatEar
from looptrap.answer.stop.openai_chat import DONE


def finished(ear: ChatEar) -> bytes:
    """Return the last chunk of every choice that is open."""
    return closing(ear, {"delta": {}})


def failed(_ear: ChatEar, body: bytes) -> bytes:
    """Return an error among the chunks."""
    return b"data: %b\n\n" % body + DONE


def closing(ear: ChatEar, said: dict[str, Any]) -> bytes:
    """Return chunks that name the answer as the ones before, and say that a choice has ended."""
    chunk = msgspec.json.decode(ear.latest)
    chunk.pop("obfuscation", None)
    ends = [
        {"index": index, **said, "logprobs": None, "finish_reason": "stop"}
        for index in sorted(ear.open)
    ]
    return events({**chunk, "choices": [end]} for end in ends) + DONE
