"""Streams as providers send them, in every dialect, for tests of what is heard and cut."""

from looptrap.dialect import anthropic, gemini, openai_chat, openai_completions, openai_responses
from looptrap.dialect.answer import answer_reader
from looptrap.dialect.fake_answer import FakeToolCall, ModelAnswer, Tokens, encode_json, event

CALL = FakeToolCall("search", {"q": "weather " * 40})
FORMS = {
    "chat": ("openai_chat", lambda said: openai_chat.fake_stream(said, {}), openai_chat.fake_body),
    "completions": (
        "openai_completions",
        lambda said: openai_completions.fake_stream(said, {}),
        openai_completions.fake_body,
    ),
    "responses": (
        "openai_responses",
        lambda said: openai_responses.fake_stream(said, {}),
        lambda said: openai_responses.fake_body(said, {}),
    ),
    "anthropic": ("anthropic", anthropic.fake_stream, anthropic.fake_body),
    "gemini": ("gemini", gemini.fake_event_stream, gemini.fake_body),
    "gemini array": ("gemini", gemini.fake_array_stream, gemini.fake_body),
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
