"""What the clients of all SDKs get from us: sessions, our exceptions, and the gateway's address.

The SDKs of OpenAI and Anthropic are made by one generator, and have the same hooks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, ClassVar, Protocol, Self

from looptrap.client.refusal import parse_refusal
from looptrap.client.session import current_session, validate_session_name
from looptrap.dialect.descriptor import SESSION_HEADERS
from looptrap.errors import RefusedError

URL_ENV_VAR = "LOOPTRAP_URL"
"""The root of the gateway."""

DEFAULT_URL = "http://127.0.0.1:4100"


class OutgoingRequest(Protocol):
    """A request of httpx, or of httpx2, that is about to be sent."""

    @property
    def headers(self) -> MutableMapping[str, str]:
        """Its headers; names in any case."""


class ClientMixin:
    """Names the session of every call, and raises our exceptions for refusals.

    A client's session is passed on to its copies; for all else the SDK raises its own exceptions.
    """

    _looptrap_session = ""
    _refusals: ClassVar[tuple[type[Any], ...]]

    def _name_session(self, request: OutgoingRequest) -> None:
        """Add the session to a request, unless the call itself has named one.

        The session of the block comes before that of the client.
        """
        headers = request.headers
        present = [name for name in SESSION_HEADERS if name in headers]
        if present and not self._are_defaults(headers, present):
            return
        name = current_session()
        if name:
            for one in present:
                del headers[one]
        elif not present:
            name = self._looptrap_session
        if name:
            headers[SESSION_HEADERS[0]] = name

    def _are_defaults(self, headers: Mapping[str, str], names: Iterable[str]) -> bool:
        """Return whether headers are those that this client sends with every call."""
        sent: Mapping[str, object] = self.default_headers  # type: ignore[attr-defined]
        defaults = {name.lower(): value for name, value in sent.items()}
        return all(headers[name] == defaults.get(name.lower()) for name in names)

    def copy(self, *, session: str | None = None, **options: Any) -> Self:
        """Return another client with the same options but for these; `session` is one too."""
        copied: Self = super().copy(**options)  # type: ignore[misc]
        copied._looptrap_session = (
            self._looptrap_session if session is None else validate_session_name(session)
        )
        return copied

    with_options = copy

    def _make_status_error(self, err_msg: str, *, body: object, response: Any) -> Any:
        plain = super()._make_status_error(err_msg, body=body, response=response)  # type: ignore[misc]
        return sdk_refusal(self._refusals, body, response, plain.body) or plain


class SyncClientMixin(ClientMixin):
    """The same for clients that block."""

    def _prepare_request(self, request: Any) -> None:
        super()._prepare_request(request)  # type: ignore[misc]
        self._name_session(request)


class AsyncClientMixin(ClientMixin):
    """The same for asynchronous clients."""

    async def _prepare_request(self, request: Any) -> None:
        await super()._prepare_request(request)  # type: ignore[misc]
        self._name_session(request)


class RefusalMixin:
    """A refusal that is the SDK's exception too, with the fields of both."""

    _sdk_error: ClassVar[Any]

    def __init__(self, why: RefusedError, *, response: Any, body: object) -> None:
        # Ours come first among the bases: so the SDK's own initialisation ends at Exception.
        self._sdk_error.__init__(self, why.message, response=response, body=body)
        vars(self).update(vars(why))


def sdk_refusal(kinds: Iterable[type[Any]], body: object, response: Any, data: object) -> Any:
    """Return the exception, one of `kinds`, for an answer that is a refusal; None for any other.

    `data` is what the SDK shows of the body.
    """
    why = parse_refusal(body, response.headers)
    if why is None:
        return None
    kind: Any = next(kind for kind in kinds if issubclass(kind, type(why)))
    return kind(why, response=response, body=data)


class GatewayMixin:
    """The constructor of a gateway's clients."""

    _url_variable: str
    """The SDK's own variable for its base URL."""
    _url_path: str
    """What the SDK expects after the root of the gateway."""

    def __init__(self, *, base_url: Any = None, session: str = "", **options: Any) -> None:
        self._looptrap_session = validate_session_name(session)
        url = base_url or gateway_url(self._url_variable, self._url_path)
        super().__init__(base_url=url, **options)  # type: ignore[call-arg]


def gateway_url(variable: str, path: str = "") -> str:
    """Return the gateway's URL, by LOOPTRAP_URL, else by the SDK's own variable.

    The latter is as the SDK expects it; to the gateway's root, `path` is added.
    """
    root = os.environ.get(URL_ENV_VAR, "").rstrip("/").removesuffix("/v1")
    if not root and (url := os.environ.get(variable)):
        return url
    return (root or DEFAULT_URL) + path


def missing_package_error(
    package: str, error: ModuleNotFoundError, *, imported: str = ""
) -> ImportError:
    """Return the exception for a vendor's package that is missing, or that misses another one.

    `imported` is what was imported of it, if that has another name.
    """
    if error.name != (imported or package):
        return error
    return ImportError(
        f"looptrap.{package} needs the package {package}: pip install {package}", name=package
    )
