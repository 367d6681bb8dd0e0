"""Guarded HTTP clients that wait."""

from __future__ import annotations

import time
from functools import cache
from importlib import import_module
from typing import Any

from looptrap.client.http.guarded import A_MOMENT, PATIENCE, Guarded, options
from looptrap.client.keeper import Keeper
from looptrap.client.passage import Passage


@cache
def kind_of(name: str) -> Any:
    """Return the class for HTTP clients of a module."""
    module = import_module(name)

    class Passing(module.SyncByteStream):  # type: ignore[misc, name-defined]
        """The body of an answer, attended while it passes."""

        def __init__(self, stream: Any, passage: Passage) -> None:
            self._stream, self._passage = stream, passage

        def __iter__(self) -> Any:
            passage = self._passage
            try:
                for chunk in self._stream:
                    if told := passage.take(chunk):
                        yield told
                    if passage.is_over:
                        break
            except BaseException:
                passage.give_up()
                raise
            passage.end()

        def close(self) -> None:
            self._passage.give_up()  # unless it has ended
            self._stream.close()

        @property
        def elapsed(self) -> Any:
            return self._stream.elapsed

    class Client(Guarded, module.Client):  # type: ignore[misc, name-defined]
        _module = module

        def __init__(self, own: Any, keeper: Keeper) -> None:
            super().__init__(**options(own, module.BaseTransport()))
            self._own, self._keeper = own, keeper

        def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
            passage = self._judge(request)
            if passage is None:
                return self._own.send(request, stream=stream, **how)
            if passage.answer is not None:
                return self._answered(request, passage.answer)
            if passage.delay:
                try:
                    time.sleep(passage.delay)
                except BaseException:
                    passage.refused()  # it never left
                    raise
            try:
                response = self._own.send(self._outgoing(request, passage), stream=True, **how)
            except BaseException as error:
                passage.give_up(is_awaited=self._is_awaited(error))
                raise
            if self._begun(response, passage):
                response.stream = Passing(response.stream, passage)
                if not stream:
                    self._read(response)
                    self._ended(response, passage)
            return response

        def _read(self, response: Any) -> None:
            try:
                response.read()
            except BaseException:
                response.close()
                raise

        def close(self) -> None:
            self._own.close()
            end = time.monotonic() + PATIENCE
            while not self._is_written() and time.monotonic() < end:
                time.sleep(A_MOMENT)

    return Client
