"""Guarded HTTP clients that are awaited."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from looptrap.client.http.guarded import A_MOMENT, PATIENCE, Guarded, options
from looptrap.client.keeper import Keeper
from looptrap.client.passage import Passage


@cache
def kind_of(name: str) -> Any:
    """Return the class for HTTP clients of a module."""
    import anyio  # SDKs that are awaited have it, and run on any loop that it knows

    module = import_module(name)

    class Passing(module.AsyncByteStream):  # type: ignore[misc, name-defined]
        """The body of an answer, attended while it passes."""

        def __init__(self, stream: Any, passage: Passage) -> None:
            self._stream, self._passage = stream, passage

        async def __aiter__(self) -> Any:
            passage = self._passage
            try:
                async for chunk in self._stream:
                    if told := passage.take(chunk):
                        yield told
                    if passage.is_over:
                        break
            except BaseException:
                passage.give_up()
                raise
            passage.end()

        async def aclose(self) -> None:
            self._passage.give_up()  # unless it has ended
            await self._stream.aclose()

        @property
        def elapsed(self) -> Any:
            return self._stream.elapsed

    class Client(Guarded, module.AsyncClient):  # type: ignore[misc, name-defined]
        _module = module

        def __init__(self, own: Any, keeper: Keeper) -> None:
            super().__init__(**options(own, module.AsyncBaseTransport()))
            self._own, self._keeper = own, keeper

        async def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
            passage = self._judge(request)
            if passage is None:
                return await self._own.send(request, stream=stream, **how)
            if passage.answer is not None:
                return self._answered(request, passage.answer)
            if passage.delay:
                try:
                    await anyio.sleep(passage.delay)
                except BaseException:
                    passage.refused()  # it never left
                    raise
            try:
                response = await self._own.send(
                    self._outgoing(request, passage), stream=True, **how
                )
            except BaseException as error:
                passage.give_up(is_awaited=self._is_awaited(error))
                raise
            if self._begun(response, passage):
                response.stream = Passing(response.stream, passage)
                if not stream:
                    await self._read(response)
                    self._ended(response, passage)
            return response

        async def _read(self, response: Any) -> None:
            try:
                await response.aread()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
                raise

        async def aclose(self) -> None:
            await self._own.aclose()
            with anyio.move_on_after(PATIENCE):
                while not self._is_written():
                    await anyio.sleep(A_MOMENT)

    return Client
