"""WebhookClient: one HTTP delivery to a checked address, bounded, without redirects."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress

import aiohttp

from looptrap import __version__
from looptrap.incident.alert.address import (
    DeliveryError,
    HostLookup,
    PinnedResolver,
    WebhookTarget,
    resolve_host,
)
from looptrap.wire.header_fields import parse_retry_after

POST_TIMEOUT_S = 10.0
"""Seconds from the name look-up to the response."""
MAX_READ_BYTES = 65_536
"""Bytes of a response that are read before the connection is closed."""
MAX_RETRY_AFTER_S = 3_600.0
"""The longest Retry-After of a receiver that is honoured."""

_HEADERS = {"content-type": "application/json", "user-agent": f"Looptrap/{__version__}"}
_WORD = re.compile(rb"[a-z_]{1,60}")


class WebhookClient:
    """Posts bodies to one target."""

    def __init__(
        self,
        target: WebhookTarget,
        *,
        clock: Callable[[], float],
        lookup: HostLookup = resolve_host,
        tls: ssl.SSLContext | None = None,
        timeout: float = POST_TIMEOUT_S,
    ) -> None:
        self.target = target
        self._clock = clock
        self._lookup = lookup
        self._tls = tls
        self._timeout = aiohttp.ClientTimeout(total=timeout)

    async def send(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Post a body; raise DeliveryError if it was not accepted."""
        try:
            async with self._session() as session:
                await self._send(session, body, headers)
        except TimeoutError:
            raise DeliveryError(f"{self.target}: no answer in {self._timeout.total:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise DeliveryError(f"{self.target}: {_describe_error(error)}") from None

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=PinnedResolver(self.target, self._lookup),
            use_dns_cache=False,
            force_close=True,
            ssl=self._tls or True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            auto_decompress=False,  # the body is not used, and may be a decompression bomb
            trust_env=False,  # a proxy would resolve the host again, unchecked
        )

    async def _send(
        self, session: aiohttp.ClientSession, body: bytes, headers: Mapping[str, str]
    ) -> None:
        async with session.post(
            self.target.url, data=body, headers={**_HEADERS, **headers}, allow_redirects=False
        ) as response:
            start = b""
            # The status decides; an error in the rest of the response does not matter.
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                start = await _read_start(response.content)
            if not 200 <= response.status < 300:
                raise self._refusal(response, start)

    def _refusal(self, response: aiohttp.ClientResponse, start: bytes) -> DeliveryError:
        status = response.status
        reason = f"{self.target} answered {status}"
        if 300 <= status < 400:
            reason += ", a redirect, which is not followed: set the URL to where it leads"
        elif word := _WORD.fullmatch(start.strip()):
            # Slack names its error in one word. A longer text might repeat the URL.
            reason += f" {word[0].decode()}"
        retry_after = None
        if status in (429, 503):
            retry_after = parse_retry_after(response.headers.get("retry-after", ""), self._clock())
        return DeliveryError(
            reason,
            retry_after=None if retry_after is None else min(retry_after, MAX_RETRY_AFTER_S),
            is_final=status == 410,
        )


async def _read_start(content: aiohttp.StreamReader) -> bytes:
    """Read up to the limit, and return the first bytes."""
    start, left = b"", MAX_READ_BYTES
    while left > 0 and (piece := await content.read(left)):
        start = start or piece[:100]
        left -= len(piece)
    return start


def _describe_error(error: Exception) -> str:
    """Describe an error without parts of the URL."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            cause = error.certificate_error
            reason = getattr(cause, "verify_message", "") or type(cause).__name__
            return f"certificate not accepted: {reason}"
        case aiohttp.ServerDisconnectedError():
            return "closed the connection without an answer"
        case aiohttp.ClientConnectorSSLError():
            return "TLS failed"
        case OSError() if error.errno:
            return os.strerror(error.errno)
        case aiohttp.ClientConnectionError() | OSError():
            return "the connection failed"
        case _:
            return f"no proper answer ({type(error).__name__})"
