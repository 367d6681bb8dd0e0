"""Streams as providers send them, in every dialect, for tests of what is heard and cut."""

from looptrap.answer.hearing import hearing_of
from looptrap.testing import (
    anthropic,
    gemini,
    openai_chat,
    openai_completions,
    openai_responses,
)
from looptrap.testing.model_answer import FakeToolCall, ModelAnswer, Tokens, encode_json, event

CALL = FakeToolCall("search", {"q": "weather " * 40})
FORMS = {
    "chat": ("openai_chat", lambda said: openai_chat.stream(said, {}), openai_chat.full_body),
    "completions": (
        "openai_completions",
        lambda said: openai_completions.stream(said, {}),
        openai_completions.full_body,
    ),
    "responses": (
        "openai_responses",
        lambda said: openai_responses.stream(said, {}),
        lambda said: openai_responses.full_body(said, {}),
    ),
    "anthropic": ("anthropic", anthropic.stream, anthropic.full_body),
    "gemini": ("gemini", gemini.stream, gemini.full_body),
    "gemini array": ("gemini", gemini.stream_array, gemini.full_body),
}
"""Dialect, stream and whole answer of each form."""


def said(text, calls=()):
    return ModelAnswer(1, "m", text, tuple(calls), Tokens(12, 34))


def events(form, text, calls=()):
    """Return the events of a stream."""
    return list(FORMS[form][1](said(text, calls)))


def whole(form, text):
    """Return an answer in one piece."""
    return encode_json(FORMS[form][2](said(text)))


def hear(form, chunks, *, stream=True):
    """Return a hearing of chunks that has read everything, and the texts it had looked at."""
    hearing = hearing_of(FORMS[form][0], stream)
    looked = []
    for chunk in chunks:
        if hearing.feed(chunk):
            looked += hearing.read()
    return hearing, looked


def texts_of(hearing):
    """Return what was heard by the end of an answer, by the name of each text."""
    hearing.read()
    hearing.finish()
    return {key: text._latest for key, text in hearing.ear.texts.items()}


__all__ = ["CALL", "FORMS", "event", "events", "hear", "said", "texts_of", "whole"]
