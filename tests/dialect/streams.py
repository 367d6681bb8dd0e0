"""Streams as providers send them, in every dialect, for tests that parse and end them."""

import json
import re

from looptrap.dialect.answer import answer_reader
from looptrap.dialect.content import encode
from looptrap.dialect.dialect import ModelAnswer
from looptrap.dialect.model import Call, Request, ToolCall, Usage
from looptrap.dialect.registry import DIALECTS
from looptrap.dialect.stream import sse_event as event

CALL = ToolCall("", "search", json.dumps({"q": "weather " * 40}))
FORMS = {
    "chat": ("openai_chat", ""),
    "completions": ("openai_completions", ""),
    "responses": ("openai_responses", ""),
    "anthropic": ("anthropic", ""),
    "gemini": ("gemini", "alt=sse"),
    "gemini array": ("gemini", ""),
    "interactions": ("gemini_interactions", ""),
}
"""Dialect and query of each form."""


def said(form, text, calls=()):
    """Return what writes answers in a form, and an answer."""
    dialect, query = FORMS[form]
    call = Call(Request(query=query, body=b"{}"), dialect, model="m")
    words = re.findall(r"\S+\s*|\s+", text)
    return DIALECTS[dialect].writer, ModelAnswer(
        call, {}, "fake-1", 1_750_000_000, words, calls, Usage(12, 34)
    )


def events(form, text, calls=()):
    """Return the events of a stream."""
    writer, answer = said(form, text, calls)
    return list(writer.stream(answer))


def whole(form, text, calls=()):
    """Return an answer in one piece."""
    writer, answer = said(form, text, calls)
    return encode(writer.body(answer))


def hear(form, chunks, *, stream=True):
    """Return a hearing of chunks that has read everything, and the texts it had looked at."""
    hearing = answer_reader(FORMS[form][0], stream)
    looked = []
    for chunk in chunks:
        if hearing.feed(chunk):
            looked += hearing.read()
    return hearing, looked


def texts_of(hearing):
    """Return what was heard by the end of an answer, by the name of each text."""
    hearing.read()
    hearing.finish()
    return {key: text._latest for key, text in hearing.parser.texts.items()}


__all__ = ["CALL", "FORMS", "event", "events", "hear", "said", "texts_of", "whole"]
