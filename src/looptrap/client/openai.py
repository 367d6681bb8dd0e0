"""OpenAI's clients, and its exceptions with ours in them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from typing import Any, Generic, TypeVar, get_args

from looptrap import errors
from looptrap.client.sdk_mixin import (
    AsyncClientMixin,
    ClientMixin,
    GatewayMixin,
    RefusalMixin,
    SyncClientMixin,
    missing_package_error,
    sdk_refusal,
)

try:
    import openai
except ModuleNotFoundError as error:
    raise missing_package_error("openai", error) from error

T = TypeVar("T")


class _RefusalMixin(RefusalMixin):
    _sdk_error = openai.APIStatusError


class LoopDetectedError(_RefusalMixin, errors.LoopDetectedError, openai.RateLimitError):
    """The agent is going in circles; the operator chooses the status."""


class BudgetExceededError(_RefusalMixin, errors.BudgetExceededError, openai.APIStatusError):
    """The call might cost more than is left of a budget."""


class RateLimitedError(_RefusalMixin, errors.RateLimitedError, openai.RateLimitError):
    """The rate of calls is above its limit."""


class KilledError(_RefusalMixin, errors.KilledError, openai.PermissionDeniedError):
    """An operator has switched off what the call belongs to."""


_REFUSALS = (LoopDetectedError, BudgetExceededError, RateLimitedError, KilledError)


def _raise_refusal(data: str, response: Any) -> None:
    """Raise the exception for an event in a stream that is a refusal."""
    if '"detail":{' not in data:
        return
    try:
        body = json.loads(data)
    except ValueError:
        return
    error = body.get("error") if isinstance(body, Mapping) else None
    if (refusal := sdk_refusal(_REFUSALS, body, response, error)) is not None:
        raise refusal


class OpenAIStream(openai.Stream[T], Generic[T]):
    """A stream that raises our exceptions for refusals."""

    def _iter_events(self) -> Iterator[Any]:
        for event in super()._iter_events():
            _raise_refusal(event.data, self.response)
            yield event


class AsyncOpenAIStream(openai.AsyncStream[T], Generic[T]):
    """A stream that raises our exceptions for refusals."""

    async def _iter_events(self) -> AsyncIterator[Any]:
        async for event in super()._iter_events():
            _raise_refusal(event.data, self.response)
            yield event


class _ClientMixin(ClientMixin):
    _refusals = _REFUSALS
    _url_variable, _url_path = "OPENAI_BASE_URL", "/v1"

    def request(self, cast_to: Any, options: Any, *args: Any, **named: Any) -> Any:
        """Send a request whose stream raises our exceptions too."""
        if (stream := named.get("stream_cls")) is not None:
            named["stream_cls"] = _stream_class(stream)
        return super().request(cast_to, options, *args, **named)  # type: ignore[misc]


def _stream_class(stream: Any) -> Any:
    match getattr(stream, "__origin__", None):
        case openai.Stream:
            return OpenAIStream[get_args(stream)[0]]  # type: ignore[misc]
        case openai.AsyncStream:
            return AsyncOpenAIStream[get_args(stream)[0]]  # type: ignore[misc]
    return stream


class SyncOpenAIMixin(SyncClientMixin, _ClientMixin):
    """What OpenAI's blocking clients get from us."""


class AsyncOpenAIMixin(AsyncClientMixin, _ClientMixin):
    """What OpenAI's asynchronous clients get from us."""


GUARDABLE_CLIENTS = (openai.OpenAI, openai.AsyncOpenAI)
"""Clients that can be guarded in their own process; Azure's are of these classes too."""


@cache
def with_session_mixin(kind: type) -> type:
    """Return a class of clients with what it gets from us."""
    mixin = AsyncOpenAIMixin if issubclass(kind, openai.AsyncOpenAI) else SyncOpenAIMixin
    return kind if issubclass(kind, mixin) else type(kind.__name__, (mixin, kind), {})


class OpenAI(GatewayMixin, SyncOpenAIMixin, openai.OpenAI):
    """OpenAI's client of a Looptrap gateway.

    `session` names the run of all its calls; every other argument is OpenAI's own.
    """


class AsyncOpenAI(GatewayMixin, AsyncOpenAIMixin, openai.AsyncOpenAI):
    """OpenAI's asynchronous client of a Looptrap gateway; its arguments are those of `OpenAI`."""
