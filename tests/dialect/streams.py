"""Streams as providers send them, in every dialect, for tests that parse and end them."""

from looptrap.dialect.answer import answer_reader
from looptrap.dialect.content import encode
from looptrap.dialect.fake_answer import FakeToolCall, ModelAnswer, Tokens
from looptrap.dialect.model import Call, Request
from looptrap.dialect.registry import DIALECTS
from looptrap.dialect.stream import sse_event as event

CALL = FakeToolCall("search", {"q": "weather " * 40})
FORMS = {
    "chat": ("openai_chat", ""),
    "completions": ("openai_completions", ""),
    "responses": ("openai_responses", ""),
    "anthropic": ("anthropic", ""),
    "gemini": ("gemini", "alt=sse"),
    "gemini array": ("gemini", ""),
}
"""Dialect and query of each form."""


def said(text, calls=()):
    return ModelAnswer(1, "m", text, tuple(calls), Tokens(12, 34))


def asked(form):
    dialect, query = FORMS[form]
    return DIALECTS[dialect].fake, Call(Request(query=query, body=b"{}"), dialect)


def events(form, text, calls=()):
    """Return the events of a stream."""
    fake, call = asked(form)
    return list(fake.stream(said(text, calls), call))


def whole(form, text):
    """Return an answer in one piece."""
    fake, call = asked(form)
    return encode(fake.body(said(text), call))


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
