"""`looptrap.guard`: a client of OpenAI or Anthropic that is judged in its own process.

The SDK's HTTP client is replaced by one that judges what it sends. Its two classes, one that blocks
and one for asyncio, are made for each module that SDKs get HTTP clients from: httpx or httpx2.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from looptrap.client.enforcer import Enforcer, GuardedCall, is_looptrap_header
from looptrap.client.session import validate_session_name
from looptrap.dialect.agent import BlockStatus
from looptrap.dialect.answer import Answer
from looptrap.dialect.model import Request
from looptrap.engine import Guard

C = TypeVar("C")

VENDORS = ("openai", "anthropic")

PROVIDER_BY_HOST = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
"""Names of providers; others are named by their host."""

FLUSH_TIMEOUT_S = 2.0
"""Seconds that closing a client waits until its incidents are written."""

FLUSH_POLL_S = 0.02

MAX_LENGTH_DIGITS = 18
"""Digits of a Content-Length that is believed."""

HTTPX_MODULES = ("httpx2", "httpx")


def guard(
    client: C,
    guard: Guard | None = None,
    *,
    preset: str | None = None,
    config: str | Path | None = None,
    caller: str = "",
    session: str = "",
    history: str | Path = "",
    block_status: BlockStatus | None = None,
) -> C:
    """Return a copy of a client whose calls are judged before they are sent, as by a gateway.

    Works with OpenAI's and Anthropic's clients, sync and async. Rules come from `guard`, which
    several clients may share; else from `config`, a file as the gateway reads it; else from
    `preset`. With `history`, incidents are kept in that file. The client itself is not changed.
    """
    vendor = _vendor_module(client)
    enforcer = Enforcer.from_options(guard, preset, config, history, block_status, caller=caller)
    own: Any = client
    if isinstance(own._client, GuardedHttpClient):
        raise TypeError("guard: this client is guarded already")
    copied = _with_session_mixin(
        own.copy(http_client=guarded_http_client(own._client, enforcer)), vendor
    )
    copied._strict_response_validation = own._strict_response_validation
    if session:
        copied._looptrap_session = validate_session_name(session)
    guarded: C = copied
    return guarded


def _vendor_module(client: object) -> ModuleType:
    """Return our module for the vendor of a client; raise TypeError where there is none."""
    for kind in type(client).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in VENDORS:
            vendor = import_module(f"looptrap.client.{name}")
            if isinstance(client, vendor.GUARDABLE_CLIENTS):
                return vendor
    raise TypeError(
        "guard: takes a client of OpenAI (OpenAI, AsyncOpenAI, and Azure's) or of Anthropic"
        f" (Anthropic, AsyncAnthropic, and Vertex's), not {type(client).__name__}. Point other"
        " clients at a gateway, or ask Guard.check before every call"
    )


def _with_session_mixin(copied: Any, vendor: ModuleType) -> Any:
    """Return a client of the class that raises our exceptions, as its copies will."""
    kind = vendor.with_session_mixin(type(copied))
    bare = kind.__new__(kind)
    vars(bare).update(vars(copied))
    # It has all that a copy needs, but its resources refer to the old client: the copy's do not.
    return bare.copy()


class GuardedHttpClient:
    """What both kinds of guarded HTTP clients have in common."""

    _module: Any
    _own: Any
    """The SDK's own client, which does the work."""
    _enforcer: Enforcer

    def __init__(self, own: Any, enforcer: Enforcer, transport: Any) -> None:
        # It never opens a connection itself.
        super().__init__(  # type: ignore[call-arg]
            transport=transport,
            trust_env=False,
            timeout=own.timeout,
            follow_redirects=own.follow_redirects,
        )
        self._own, self._enforcer = own, enforcer

    def build_request(self, *args: Any, **options: Any) -> Any:
        """Make a request as the SDK's own client would, with its headers and cookies."""
        return self._own.build_request(*args, **options)

    @property
    def is_closed(self) -> bool:
        """Whether the SDK's own client is closed."""
        closed: bool = self._own.is_closed
        return closed

    def _judge(self, request: Any) -> GuardedCall | None:
        """Judge a request, and remove the headers that are for us alone."""
        try:
            body = request.content
        except RuntimeError:  # a file, which is read while it is sent
            body = None
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        for name in {name for name, _ in headers if is_looptrap_header(name)}:
            del request.headers[name.decode("latin-1")]
        path, _, query = request.url.raw_path.decode("latin-1").partition("?")
        host, caller = request.url.host, self._enforcer.caller
        judged = Request(request.method, path, query, headers, body or b"", caller)
        judged.lacks_body = body is None
        return self._enforcer.judge_request(judged, PROVIDER_BY_HOST.get(host, host))

    def _outgoing(self, request: Any, guarded_call: GuardedCall) -> Any:
        """Return the request to send: one whose answer can be read, with a nudge if one is due."""
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

    @contextmanager
    def _sending(self, guarded_call: GuardedCall) -> Iterator[None]:
        """Settle a call if it gets no answer."""
        try:
            yield
        except BaseException as error:
            is_interrupted = not isinstance(error, Exception)
            is_awaited = not is_interrupted and not isinstance(error, self._module.ReadTimeout)
            guarded_call.abort(is_awaited=is_awaited)
            raise

    def _to_response(self, request: Any, answer: Answer) -> Any:
        response = self._module.Response(
            answer.status, headers=answer.headers, content=answer.body, request=request
        )
        response.elapsed = timedelta(0)
        return response

    def _on_head(self, response: Any, guarded_call: GuardedCall) -> bool:
        """Add the verdict to the headers; return whether the body is still to be read."""
        headers = response.headers
        length = headers.get("content-length", "")
        guarded_call.on_head(
            response.status_code,
            int(length) if length.isdecimal() and len(length) <= MAX_LENGTH_DIGITS else None,
            is_encoded="content-encoding" in headers,
        )
        for field in guarded_call.headers:
            _set_header(response, *field)
        if not response.is_closed:
            return True
        guarded_call.on_chunk(response.content)  # a hook of the application has read it already
        guarded_call.finish()
        return False

    def _add_cost(self, response: Any, guarded_call: GuardedCall) -> None:
        if (field := guarded_call.cost_header(self._enforcer.clock())) is not None:
            _set_header(response, *field)

    def _is_written(self) -> bool:
        incident_history = self._enforcer.incident_history
        return incident_history is None or incident_history.is_written


def _set_header(response: Any, name: bytes, value: bytes) -> None:
    response.headers[name.decode("latin-1")] = value.decode("latin-1")


def guarded_http_client(own: Any, enforcer: Enforcer) -> Any:
    """Return an HTTP client that judges what it is given, and lets `own` do the rest.

    Raises TypeError if `own` is no client of httpx or httpx2.
    """
    for kind in type(own).__mro__:
        module = kind.__module__.partition(".")[0]
        if module in HTTPX_MODULES and kind.__name__ in ("Client", "AsyncClient"):
            client_class = sync_client_class if kind.__name__ == "Client" else async_client_class
            return client_class(module)(own, enforcer)
    raise TypeError(
        f"its HTTP client is {type(own).__name__}, must be one of {' or '.join(HTTPX_MODULES)}"
    )


class _StreamState:
    """A body that is read for the guard while the SDK reads it."""

    def __init__(self, stream: Any, guarded_call: GuardedCall) -> None:
        self._stream, self._guarded_call = stream, guarded_call

    @property
    def elapsed(self) -> Any:
        return self._stream.elapsed


@cache
def sync_client_class(name: str) -> Any:
    """Return the class of clients that block, for a module."""
    module = import_module(name)

    class GuardedStream(_StreamState, module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            with self._guarded_call as guarded_call:
                for chunk in self._stream:
                    if passing := guarded_call.on_chunk(chunk):
                        yield passing
                    if guarded_call.is_cut:
                        break

        def close(self) -> None:
            self._guarded_call.abort()  # unless it has ended
            self._stream.close()

    class Client(GuardedHttpClient, module.Client):  # type: ignore[misc, name-defined]
        _module = module

        def __init__(self, own: Any, enforcer: Enforcer) -> None:
            super().__init__(own, enforcer, module.BaseTransport())

        def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            guarded_call = self._judge(request)
            if guarded_call is None:
                return self._own.send(request, stream=stream, **options)
            if guarded_call.answer is not None:
                return self._to_response(request, guarded_call.answer)
            if guarded_call.delay:
                with guarded_call.delaying():
                    time.sleep(guarded_call.delay)
            with self._sending(guarded_call):
                outgoing = self._outgoing(request, guarded_call)
                response = self._own.send(outgoing, stream=True, **options)
            if self._on_head(response, guarded_call):
                response.stream = GuardedStream(response.stream, guarded_call)
                if not stream:
                    self._read(response)
                    self._add_cost(response, guarded_call)
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
    """Return the class of asynchronous clients, for a module."""
    import anyio  # asynchronous SDKs have it, and run on any event loop that it supports

    module = import_module(name)

    class GuardedStream(_StreamState, module.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> Any:
            with self._guarded_call as guarded_call:
                async for chunk in self._stream:
                    if passing := guarded_call.on_chunk(chunk):
                        yield passing
                    if guarded_call.is_cut:
                        break

        async def aclose(self) -> None:
            self._guarded_call.abort()  # unless it has ended
            await self._stream.aclose()

    class Client(GuardedHttpClient, module.AsyncClient):  # type: ignore[misc, name-defined]
        _module = module

        def __init__(self, own: Any, enforcer: Enforcer) -> None:
            super().__init__(own, enforcer, module.AsyncBaseTransport())

        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            guarded_call = self._judge(request)
            if guarded_call is None:
                return await self._own.send(request, stream=stream, **options)
            if guarded_call.answer is not None:
                return self._to_response(request, guarded_call.answer)
            if guarded_call.delay:
                with guarded_call.delaying():
                    await anyio.sleep(guarded_call.delay)
            with self._sending(guarded_call):
                outgoing = self._outgoing(request, guarded_call)
                response = await self._own.send(outgoing, stream=True, **options)
            if self._on_head(response, guarded_call):
                response.stream = GuardedStream(response.stream, guarded_call)
                if not stream:
                    await self._read(response)
                    self._add_cost(response, guarded_call)
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
