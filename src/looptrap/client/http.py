"""The HTTP client that stands between an SDK and its own: what it sends is judged first.

guarded    Guarded: what both kinds have in common
waiting    the kind that waits; awaited: the kind that is awaited

Each is made anew for every module that SDKs get their HTTP clients from.
"""

from __future__ import annotations

import time
from datetime import timedelta
from functools import cache
from importlib import import_module
from typing import Any

from looptrap.client.enforcer import Enforcer, GuardedCall, is_looptrap_header
from looptrap.dialect.answer import Answer

PROVIDER_BY_HOST = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
"""How providers are called; others go by the name of their host."""

FLUSH_TIMEOUT_S = 2.0
"""Seconds that whoever closes a client waits for what is kept of incidents."""

FLUSH_POLL_S = 0.02

MAX_LENGTH_DIGITS = 18
"""Digits of a Content-Length that is believed."""


class GuardedHttpClient:
    """What both kinds of guarded HTTP clients have in common."""

    _module: Any
    _own: Any
    """The SDK's own client, which does the work."""
    _enforcer: Enforcer

    def build_request(self, *args: Any, **options: Any) -> Any:
        """Make a request as the SDK's own client would, with its headers and cookies."""
        return self._own.build_request(*args, **options)

    @property
    def is_closed(self) -> bool:
        """Whether the SDK's own client is closed."""
        closed: bool = self._own.is_closed
        return closed

    def _judge(self, request: Any) -> GuardedCall | None:
        """Judge a request, and take from it what is for us alone."""
        try:
            body = request.content
        except RuntimeError:  # a file on its way, which is read as it goes
            body = None
        fields = [(name.lower(), value) for name, value in request.headers.raw]
        for name in {name for name, _ in fields if is_looptrap_header(name)}:
            del request.headers[name.decode("latin-1")]
        host = request.url.host
        return self._enforcer.judge(
            request.method, request.url.raw_path, fields, body, PROVIDER_BY_HOST.get(host, host)
        )

    def _outgoing(self, request: Any, guarded_call: GuardedCall) -> Any:
        """Return the request as it leaves: one whose answer can be read, nudged if need be."""
        headers = request.headers
        if guarded_call.is_charged:
            headers["accept-encoding"] = "identity"
        if guarded_call.body is None:
            return request
        del headers["content-length"]
        return self._module.Request(
            request.method,
            request.url,
            headers=headers,
            content=guarded_call.body,
            extensions=request.extensions,
        )

    def _answered(self, request: Any, answer: Answer) -> Any:
        """Return an answer of ours as a response."""
        response = self._module.Response(
            answer.status, headers=answer.headers, content=answer.body, request=request
        )
        response.elapsed = timedelta(0)
        return response

    def _begun(self, response: Any, guarded_call: GuardedCall) -> bool:
        """Put the verdict among the headers; say whether the answer is still to come."""
        headers = response.headers
        length = headers.get("content-length", "")
        guarded_call.on_head(
            response.status_code,
            int(length) if length.isdecimal() and len(length) <= MAX_LENGTH_DIGITS else None,
            is_encoded="content-encoding" in headers,
        )
        for name, value in guarded_call.headers:
            headers[name.decode("latin-1")] = value.decode("latin-1")
        if not response.is_closed:
            return True
        guarded_call.on_chunk(response.content)  # a hook of the application's has read it already
        guarded_call.finish()
        return False

    def _is_awaited(self, error: BaseException) -> bool:
        """Say whether an error is the provider's, and not that nobody waits for it any more."""
        return isinstance(error, Exception) and not isinstance(error, self._module.ReadTimeout)

    def _ended(self, response: Any, guarded_call: GuardedCall) -> None:
        """Say what a complete answer cost."""
        if (cost := guarded_call.cost_header(self._enforcer.clock())) is not None:
            name, value = cost
            response.headers[name.decode("latin-1")] = value.decode("latin-1")

    def _is_written(self) -> bool:
        incident_history = self._enforcer.incident_history
        return incident_history is None or incident_history.is_written


def client_options(own: Any, transport: Any) -> dict[str, Any]:
    """Return what an HTTP client is made of that never opens a connection itself."""
    return {
        "transport": transport,
        "trust_env": False,
        "timeout": own.timeout,
        "follow_redirects": own.follow_redirects,
    }


__all__ = ["GuardedHttpClient", "guarded_http_client"]

HTTPX_MODULES = ("httpx2", "httpx")


def guarded_http_client(own: Any, enforcer: Enforcer) -> Any:
    """Return an HTTP client that judges what it is given, and has `own` do the rest.

    Raises TypeError for what is no client of httpx or httpx2.
    """
    for kind in type(own).__mro__:
        module = kind.__module__.partition(".")[0]
        if module in HTTPX_MODULES and kind.__name__ in ("Client", "AsyncClient"):
            client_class = sync_client_class if kind.__name__ == "Client" else async_client_class
            return client_class(module)(own, enforcer)
    raise TypeError(
        f"its HTTP client is {type(own).__name__}, must be one of {' or '.join(HTTPX_MODULES)}"
    )


@cache
def sync_client_class(name: str) -> Any:
    """Return the class for HTTP clients of a module."""
    module = import_module(name)

    class GuardedStream(module.SyncByteStream):  # type: ignore[misc, name-defined]
        """The body of an answer, attended while it passes."""

        def __init__(self, stream: Any, guarded_call: GuardedCall) -> None:
            self._stream, self._guarded_call = stream, guarded_call

        def __iter__(self) -> Any:
            guarded_call = self._guarded_call
            try:
                for chunk in self._stream:
                    if passing := guarded_call.on_chunk(chunk):
                        yield passing
                    if guarded_call.is_cut:
                        break
            except BaseException:
                guarded_call.abort()
                raise
            guarded_call.finish()

        def close(self) -> None:
            self._guarded_call.abort()  # unless it has ended
            self._stream.close()

        @property
        def elapsed(self) -> Any:
            return self._stream.elapsed

    class Client(GuardedHttpClient, module.Client):  # type: ignore[misc, name-defined]
        _module = module

        def __init__(self, own: Any, enforcer: Enforcer) -> None:
            super().__init__(**client_options(own, module.BaseTransport()))
            self._own, self._enforcer = own, enforcer

        def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
            guarded_call = self._judge(request)
            if guarded_call is None:
                return self._own.send(request, stream=stream, **how)
            if guarded_call.answer is not None:
                return self._answered(request, guarded_call.answer)
            if guarded_call.delay:
                try:
                    time.sleep(guarded_call.delay)
                except BaseException:
                    guarded_call.settle_unsent()
                    raise
            try:
                response = self._own.send(self._outgoing(request, guarded_call), stream=True, **how)
            except BaseException as error:
                guarded_call.abort(is_awaited=self._is_awaited(error))
                raise
            if self._begun(response, guarded_call):
                response.stream = GuardedStream(response.stream, guarded_call)
                if not stream:
                    self._read(response)
                    self._ended(response, guarded_call)
            return response

        def _read(self, response: Any) -> None:
            try:
                response.read()
            except BaseException:
                response.close()
                raise

        def close(self) -> None:
            self._own.close()
            end = time.monotonic() + FLUSH_TIMEOUT_S
            while not self._is_written() and time.monotonic() < end:
                time.sleep(FLUSH_POLL_S)

    return Client


@cache
def async_client_class(name: str) -> Any:
    """Return the class for HTTP clients of a module."""
    import anyio  # SDKs that are awaited have it, and run on any loop that it knows

    module = import_module(name)

    class GuardedStream(module.AsyncByteStream):  # type: ignore[misc, name-defined]
        """The body of an answer, attended while it passes."""

        def __init__(self, stream: Any, guarded_call: GuardedCall) -> None:
            self._stream, self._guarded_call = stream, guarded_call

        async def __aiter__(self) -> Any:
            guarded_call = self._guarded_call
            try:
                async for chunk in self._stream:
                    if passing := guarded_call.on_chunk(chunk):
                        yield passing
                    if guarded_call.is_cut:
                        break
            except BaseException:
                guarded_call.abort()
                raise
            guarded_call.finish()

        async def aclose(self) -> None:
            self._guarded_call.abort()  # unless it has ended
            await self._stream.aclose()

        @property
        def elapsed(self) -> Any:
            return self._stream.elapsed

    class Client(GuardedHttpClient, module.AsyncClient):  # type: ignore[misc, name-defined]
        _module = module

        def __init__(self, own: Any, enforcer: Enforcer) -> None:
            super().__init__(**client_options(own, module.AsyncBaseTransport()))
            self._own, self._enforcer = own, enforcer

        async def send(self, request: Any, *, stream: bool = False, **how: Any) -> Any:
            guarded_call = self._judge(request)
            if guarded_call is None:
                return await self._own.send(request, stream=stream, **how)
            if guarded_call.answer is not None:
                return self._answered(request, guarded_call.answer)
            if guarded_call.delay:
                try:
                    await anyio.sleep(guarded_call.delay)
                except BaseException:
                    guarded_call.settle_unsent()
                    raise
            try:
                response = await self._own.send(
                    self._outgoing(request, guarded_call), stream=True, **how
                )
            except BaseException as error:
                guarded_call.abort(is_awaited=self._is_awaited(error))
                raise
            if self._begun(response, guarded_call):
                response.stream = GuardedStream(response.stream, guarded_call)
                if not stream:
                    await self._read(response)
                    self._ended(response, guarded_call)
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
            with anyio.move_on_after(FLUSH_TIMEOUT_S):
                while not self._is_written():
                    await anyio.sleep(FLUSH_POLL_S)

    return Client
