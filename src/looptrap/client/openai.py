"""OpenAI's clients, and its exceptions with ours in them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from typing import Any, Generic, TypeVar, get_args

from looptrap import errors
from looptrap.client.refusal import parse_refusal
from looptrap.client.sdk_mixin import (
    AsyncSessionMixin,
    SyncSessionMixin,
    gateway_url,
    missing_package_error,
)
from looptrap.client.session import validate_session_name

try:
    import openai
except ModuleNotFoundError as error:
    raise missing_package_error("openai", error) from error

T = TypeVar("T")


class _RefusalMixin:
    """A refusal that is OpenAI's exception too, with the fields of both."""

    def __init__(self, why: errors.RefusedError, *, response: Any, body: object) -> None:
        # Ours come first among the bases: so OpenAI's own initialisation ends at Exception.
        openai.APIStatusError.__init__(self, why.message, response=response, body=body)  # type: ignore[arg-type]
        vars(self).update(vars(why))


class LoopDetectedError(_RefusalMixin, errors.LoopDetectedError, openai.RateLimitError):
    """The agent is going in circles; whatever status the operator chose for that."""


class BudgetExceededError(_RefusalMixin, errors.BudgetExceededError, openai.APIStatusError):
    """The call might cost more than is left of a budget."""


class RateLimitedError(_RefusalMixin, errors.RateLimitedError, openai.RateLimitError):
    """Too many calls came at once, and kept coming."""


class KilledError(_RefusalMixin, errors.KilledError, openai.PermissionDeniedError):
    """An operator has switched off what the call belongs to."""


_ERROR_CLASSES: dict[type[errors.RefusedError], type[Any]] = {
    errors.LoopDetectedError: LoopDetectedError,
    errors.BudgetExceededError: BudgetExceededError,
    errors.RateLimitedError: RateLimitedError,
    errors.KilledError: KilledError,
}


def refusal_error(body: object, response: Any, data: object) -> openai.APIStatusError | None:
    """Return what to raise for an answer that is a refusal; `data` is what OpenAI shows of it."""
    why = parse_refusal(body, response.headers)
    ours: openai.APIStatusError | None = None
    if why is not None:
        ours = _ERROR_CLASSES[type(why)](why, response=response, body=data)
    return ours


def _refusal_in_event(data: str, response: Any) -> openai.APIStatusError | None:
    """Return what to raise for an event in a stream that is a refusal."""
    if '"detail":{' not in data:
        return None
    try:
        body = json.loads(data)
    except ValueError:
        return None
    return refusal_error(body, response, body.get("error") if isinstance(body, Mapping) else None)


class OpenAIStream(openai.Stream[T], Generic[T]):
    """A stream whose errors are ours where the refusal is."""

    def _iter_events(self) -> Iterator[Any]:
        for event in super()._iter_events():
            if (error := _refusal_in_event(event.data, self.response)) is not None:
                raise error
            yield event


class AsyncOpenAIStream(openai.AsyncStream[T], Generic[T]):
    """A stream whose errors are ours where the refusal is."""

    async def _iter_events(self) -> AsyncIterator[Any]:
        async for event in super()._iter_events():
            if (error := _refusal_in_event(event.data, self.response)) is not None:
                raise error
            yield event


class _RaisingMixin:
    """Raises our exceptions for refusals, OpenAI's own for all else."""

    def _make_status_error(
        self, err_msg: str, *, body: object, response: Any
    ) -> openai.APIStatusError:
        plain: openai.APIStatusError = super()._make_status_error(  # type: ignore[misc]
            err_msg, body=body, response=response
        )
        return refusal_error(body, response, plain.body) or plain

    def request(self, cast_to: Any, options: Any, *args: Any, **named: Any) -> Any:
        """Send a request, and have its stream raise our exceptions too."""
        if (stream := named.get("stream_cls")) is not None:
            named["stream_cls"] = _stream_class(stream)
        return super().request(cast_to, options, *args, **named)  # type: ignore[misc]


def _stream_class(stream: Any) -> Any:
    """Return our class of a stream for one of OpenAI's."""
    match getattr(stream, "__origin__", None):
        case openai.Stream:
            return OpenAIStream[get_args(stream)[0]]  # type: ignore[misc]
        case openai.AsyncStream:
            return AsyncOpenAIStream[get_args(stream)[0]]  # type: ignore[misc]
    return stream


class SyncOpenAIMixin(SyncSessionMixin, _RaisingMixin):
    """What OpenAI's clients that wait get of ours."""


class AsyncOpenAIMixin(AsyncSessionMixin, _RaisingMixin):
    """What OpenAI's clients that are awaited get of ours."""


GUARDABLE_CLIENTS = (openai.OpenAI, openai.AsyncOpenAI)
"""Clients that can be guarded in their own process; Azure's are of these classes too."""


@cache
def with_session_mixin(kind: type) -> type:
    """Return a class of clients with what it gets of ours."""
    mixin = AsyncOpenAIMixin if issubclass(kind, openai.AsyncOpenAI) else SyncOpenAIMixin
    return kind if issubclass(kind, mixin) else type(kind.__name__, (mixin, kind), {})


class OpenAI(SyncOpenAIMixin, openai.OpenAI):
    """OpenAI's client of a Looptrap gateway.

    `session` names the run of all its calls; every other argument is OpenAI's own.
    """

    def __init__(self, *, base_url: Any = None, session: str = "", **options: Any) -> None:
        self._looptrap_session = validate_session_name(session)
        super().__init__(base_url=base_url or gateway_url("OPENAI_BASE_URL", "/v1"), **options)


class AsyncOpenAI(AsyncOpenAIMixin, openai.AsyncOpenAI):
    """OpenAI's asynchronous client of a Looptrap gateway.

    `session` names the run of all its calls; every other argument is OpenAI's own.
    """

    def __init__(self, *, base_url: Any = None, session: str = "", **options: Any) -> None:
        self._looptrap_session = validate_session_name(session)
        super().__init__(base_url=base_url or gateway_url("OPENAI_BASE_URL", "/v1"), **options)
