"""Answers to questions that are asked over and over, remembered within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class BoundedCache(dict[bytes, T]):
    """What a function says of bytes: asked when they are new, looked up (all in C) when not."""

    def __init__(self, ask: Callable[[bytes], T], *, most: int = 1024, longest: int = 4096) -> None:
        self._ask = ask
        self._most = most
        self._longest = longest

    def __missing__(self, question: bytes) -> T:
        answer = self._ask(question)
        if len(question) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[question] = answer
        return answer
