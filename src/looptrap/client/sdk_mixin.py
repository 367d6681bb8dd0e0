"""What the vendors' clients get of ours, whatever the vendor: sessions, and the gateway's address.

The SDKs of OpenAI and Anthropic are made by one generator, and have the same hooks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Protocol, Self

from looptrap.client.session import current_session, validate_session_name
from looptrap.dialect.header import SESSION_HEADERS

URL_ENV_VAR = "LOOPTRAP_URL"
"""The root of the gateway."""

DEFAULT_URL = "http://127.0.0.1:4100"


class OutgoingRequest(Protocol):
    """A request of httpx, or of httpx2, that is about to leave."""

    @property
    def headers(self) -> MutableMapping[str, str]:
        """What it carries; names in any case."""


class SessionMixin:
    """Names the session of every call, and hands on to copies what it knows."""

    _looptrap_session = ""

    def _name_session(self, request: OutgoingRequest) -> None:
        """Mark a request, unless the call itself has named its session.

        The block that it is made in comes before the client it is made with.
        """
        headers = request.headers
        given = [name for name in SESSION_HEADERS if name in headers]
        if given and not self._is_usual(headers, given):
            return
        name = current_session()
        if name:
            for one in given:
                del headers[one]
        elif not given:
            name = self._looptrap_session
        if name:
            headers[SESSION_HEADERS[0]] = name

    def _is_usual(self, headers: Mapping[str, str], names: Iterable[str]) -> bool:
        """Say whether headers are as this client has them for every call."""
        usual: Mapping[str, object] = self.default_headers  # type: ignore[attr-defined]
        known = {name.lower(): value for name, value in usual.items()}
        return all(headers[name] == known.get(name.lower()) for name in names)

    def copy(self, *, session: str | None = None, **options: Any) -> Self:
        """Return another client with the same options but for these; `session` too is one."""
        copied: Self = super().copy(**options)  # type: ignore[misc]
        copied._looptrap_session = (
            self._looptrap_session if session is None else validate_session_name(session)
        )
        return copied

    with_options = copy


class SyncSessionMixin(SessionMixin):
    """A door of clients that wait."""

    def _prepare_request(self, request: Any) -> None:
        super()._prepare_request(request)  # type: ignore[misc]
        self._name_session(request)


class AsyncSessionMixin(SessionMixin):
    """A door of clients that are awaited."""

    async def _prepare_request(self, request: Any) -> None:
        await super()._prepare_request(request)  # type: ignore[misc]
        self._name_session(request)


def gateway_url(variable: str, path: str = "") -> str:
    """Return where the gateway is, by LOOPTRAP_URL, else by the vendor's own variable.

    That one is as the SDK wants it; to the gateway's root, `path` is added.
    """
    root = os.environ.get(URL_ENV_VAR, "").rstrip("/").removesuffix("/v1")
    if not root and (given := os.environ.get(variable)):
        return given
    return (root or DEFAULT_URL) + path


def missing_package_error(package: str, error: ModuleNotFoundError) -> ImportError:
    """Return what to raise where a vendor's package is not there, or lacks something itself."""
    if error.name != package:
        return error
    return ImportError(
        f"looptrap.{package} needs the package {package}: pip install {package}", name=package
    )
