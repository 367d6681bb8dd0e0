"""Anthropic's clients, and its exceptions with ours in them."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

from looptrap import errors
from looptrap.client.sdk_mixin import (
    AsyncClientMixin,
    ClientMixin,
    GatewayMixin,
    RefusalMixin,
    SyncClientMixin,
    missing_package_error,
)

try:
    import anthropic
except ModuleNotFoundError as error:
    raise missing_package_error("anthropic", error) from error

CREDENTIAL_OPTIONS = ("api_key", "auth_token", "credentials", "config", "profile")
"""Arguments that give a copy another credential."""


class _RefusalMixin(RefusalMixin):
    _sdk_error = anthropic.APIStatusError


class LoopDetectedError(_RefusalMixin, errors.LoopDetectedError, anthropic.RateLimitError):
    """The agent is going in circles; the operator chooses the status."""


class BudgetExceededError(_RefusalMixin, errors.BudgetExceededError, anthropic.APIStatusError):
    """The call might cost more than is left of a budget."""


class RateLimitedError(_RefusalMixin, errors.RateLimitedError, anthropic.RateLimitError):
    """The rate of calls is above its limit."""


class KilledError(_RefusalMixin, errors.KilledError, anthropic.PermissionDeniedError):
    """An operator has switched off what the call belongs to."""


class _ClientMixin(ClientMixin):
    _refusals = (LoopDetectedError, BudgetExceededError, RateLimitedError, KilledError)
    _url_variable, _url_path = "ANTHROPIC_BASE_URL", ""

    def copy(self, **options: Any) -> Self:
        """Return another client with the same options but for these; `session` is one too."""
        credentials = getattr(self, "credentials", None)
        if credentials is None or any(options.get(name) is not None for name in CREDENTIAL_OPTIONS):
            return super().copy(**options)
        # Those of a profile, which the SDK passes on to copies of its own classes only.
        if options.get("base_url") is None:
            options["base_url"] = self.base_url  # type: ignore[attr-defined]
            cache = {"_token_cache": self._token_cache}  # type: ignore[attr-defined]
            options["_extra_kwargs"] = cache | dict(options.get("_extra_kwargs", {}))
        copied = super().copy(**options | {"credentials": credentials})
        if "_credential_headers" in vars(self):  # not in every version
            copied._credential_headers = self._credential_headers  # type: ignore[attr-defined]
        return copied

    with_options = copy


class SyncAnthropicMixin(SyncClientMixin, _ClientMixin):
    """What Anthropic's blocking clients get from us."""


class AsyncAnthropicMixin(AsyncClientMixin, _ClientMixin):
    """What Anthropic's asynchronous clients get from us."""


GUARDABLE_CLIENTS = (
    anthropic.Anthropic,
    anthropic.AsyncAnthropic,
    anthropic.AnthropicVertex,
    anthropic.AsyncAnthropicVertex,
)
"""Clients that can be guarded in their own process."""


@cache
def with_session_mixin(kind: type) -> type:
    """Return a class of clients with what it gets from us."""
    is_async = issubclass(kind, anthropic.AsyncAnthropic | anthropic.AsyncAnthropicVertex)
    mixin = AsyncAnthropicMixin if is_async else SyncAnthropicMixin
    return kind if issubclass(kind, mixin) else type(kind.__name__, (mixin, kind), {})


# The SDK marks `_make_status_error` as final, since it may change; tests with the real SDK show
# when it does.


class Anthropic(GatewayMixin, SyncAnthropicMixin, anthropic.Anthropic):  # type: ignore[misc]
    """Anthropic's client of a Looptrap gateway.

    `session` names the run of all its calls; every other argument is Anthropic's own.
    """


class AsyncAnthropic(  # type: ignore[misc]
    GatewayMixin, AsyncAnthropicMixin, anthropic.AsyncAnthropic
):
    """Anthropic's asynchronous client of a Looptrap gateway; arguments as those of `Anthropic`."""
