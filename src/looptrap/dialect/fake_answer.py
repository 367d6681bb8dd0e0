"""A model's turn and what it cost, before they take a dialect's form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from looptrap.dialect.content import encode
from looptrap.dialect.model import Call

CREATED_AT = 1_750_000_000
"""The second at which every answer was made: equal requests get equal answers."""
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a call used: `cached` is a part of `input`, `reasoning` of `output`."""

    input: int
    output: int
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class FakeToolCall:
    """A tool that the model wants to be used."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What the model says to one request: text, tool calls, or both."""

    number: int
    """Which answer of the provider this is, from 1; makes its ids."""
    model: str
    text: str
    calls: tuple[FakeToolCall, ...]
    tokens: Tokens

    def words(self) -> list[str]:
        """Return the text in the pieces in which it is streamed."""
        return re.findall(r"\S+\s*|\s+", self.text)


def estimate_tokens(body: bytes, text: str, calls: tuple[FakeToolCall, ...]) -> Tokens:
    """Return what a provider might count: a token for every four bytes."""
    size = len(text.encode()) + sum(len(encode(call)) for call in calls)
    return Tokens(max(1, len(body) // BYTES_PER_TOKEN), max(1, size // BYTES_PER_TOKEN))


def call_tokens(call: Call) -> Tokens:
    """Return what a provider might count of a call that no model answers."""
    return estimate_tokens(call.request.body, "", ())


def halves(text: str) -> tuple[str, str]:
    """Return a text in the two pieces in which arguments of a tool are streamed."""
    half = len(text) // 2
    return text[:half], text[half:]
