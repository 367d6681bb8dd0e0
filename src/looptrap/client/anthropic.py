"""Anthropic's clients, and its exceptions with ours in them."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

from looptrap import errors
from looptrap.client.refusal import parse_refusal
from looptrap.client.sdk_mixin import (
    AsyncSessionMixin,
    SessionMixin,
    SyncSessionMixin,
    gateway_url,
    missing_package_error,
)
from looptrap.client.session import validate_session_name

try:
    import anthropic
except ModuleNotFoundError as error:
    raise missing_package_error("anthropic", error) from error

CREDENTIAL_OPTIONS = ("api_key", "auth_token", "credentials", "config", "profile")
"""The arguments by which a client gets another credential than it has."""


class _RefusalMixin:
    """A refusal that is Anthropic's exception too, with the fields of both."""

    def __init__(self, why: errors.RefusedError, *, response: Any, body: object) -> None:
        # Ours come first among the bases: so Anthropic's own initialisation ends at Exception.
        anthropic.APIStatusError.__init__(self, why.message, response=response, body=body)  # type: ignore[arg-type]
        vars(self).update(vars(why))


class LoopDetectedError(_RefusalMixin, errors.LoopDetectedError, anthropic.RateLimitError):
    """The agent is going in circles; whatever status the operator chose for that."""


class BudgetExceededError(_RefusalMixin, errors.BudgetExceededError, anthropic.APIStatusError):
    """The call might cost more than is left of a budget."""


class RateLimitedError(_RefusalMixin, errors.RateLimitedError, anthropic.RateLimitError):
    """Too many calls came at once, and kept coming."""


class KilledError(_RefusalMixin, errors.KilledError, anthropic.PermissionDeniedError):
    """An operator has switched off what the call belongs to."""


_ERROR_CLASSES: dict[type[errors.RefusedError], type[Any]] = {
    errors.LoopDetectedError: LoopDetectedError,
    errors.BudgetExceededError: BudgetExceededError,
    errors.RateLimitedError: RateLimitedError,
    errors.KilledError: KilledError,
}


class _RaisingMixin(SessionMixin):
    """Raises our exceptions for refusals, amid streams too, Anthropic's own for all else."""

    def _make_status_error(
        self, err_msg: str, *, body: object, response: Any
    ) -> anthropic.APIStatusError:
        plain: anthropic.APIStatusError = super()._make_status_error(  # type: ignore[misc]
            err_msg, body=body, response=response
        )
        why = parse_refusal(body, response.headers)
        if why is None:
            return plain
        ours: anthropic.APIStatusError = _ERROR_CLASSES[type(why)](
            why, response=response, body=plain.body
        )
        return ours

    def copy(self, **options: Any) -> Self:
        """Return another client with the same options but for these; `session` too is one."""
        credentials = getattr(self, "credentials", None)
        if credentials is None or any(options.get(name) is not None for name in CREDENTIAL_OPTIONS):
            return super().copy(**options)
        # Those of a profile, which the SDK hands on to copies of its own classes only.
        if options.get("base_url") is None:
            options["base_url"] = self.base_url  # type: ignore[attr-defined]
            cache = {"_token_cache": self._token_cache}  # type: ignore[attr-defined]
            options["_extra_kwargs"] = cache | dict(options.get("_extra_kwargs", {}))
        copied = super().copy(**options | {"credentials": credentials})
        if "_credential_headers" in vars(self):  # not in every version
            copied._credential_headers = self._credential_headers  # type: ignore[attr-defined]
        return copied

    with_options = copy


class SyncAnthropicMixin(SyncSessionMixin, _RaisingMixin):
    """What Anthropic's clients that wait get of ours."""


class AsyncAnthropicMixin(AsyncSessionMixin, _RaisingMixin):
    """What Anthropic's clients that are awaited get of ours."""


GUARDABLE_CLIENTS = (
    anthropic.Anthropic,
    anthropic.AsyncAnthropic,
    anthropic.AnthropicVertex,
    anthropic.AsyncAnthropicVertex,
)
"""Clients that can be guarded in their own process."""


@cache
def with_session_mixin(kind: type) -> type:
    """Return a class of clients with what it gets of ours."""
    is_async = issubclass(kind, anthropic.AsyncAnthropic | anthropic.AsyncAnthropicVertex)
    mixin = AsyncAnthropicMixin if is_async else SyncAnthropicMixin
    return kind if issubclass(kind, mixin) else type(kind.__name__, (mixin, kind), {})


# What makes its errors is marked as final, which only says that it may change; tests with the real
# SDK tell when it does.


class Anthropic(SyncAnthropicMixin, anthropic.Anthropic):  # type: ignore[misc]
    """Anthropic's client of a Looptrap gateway.

    `session` names the run of all its calls; every other argument is Anthropic's own.
    """

    def __init__(self, *, base_url: Any = None, session: str = "", **options: Any) -> None:
        self._looptrap_session = validate_session_name(session)
        super().__init__(base_url=base_url or gateway_url("ANTHROPIC_BASE_URL"), **options)


class AsyncAnthropic(AsyncAnthropicMixin, anthropic.AsyncAnthropic):  # type: ignore[misc]
    """Anthropic's asynchronous client of a Looptrap gateway.

    `session` names the run of all its calls; every other argument is Anthropic's own.
    """

    def __init__(self, *, base_url: Any = None, session: str = "", **options: Any) -> None:
        self._looptrap_session = validate_session_name(session)
        super().__init__(base_url=base_url or gateway_url("ANTHROPIC_BASE_URL"), **options)
