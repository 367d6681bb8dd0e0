"""One delivery over HTTP: to an address that was looked at, bounded, without redirects."""

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
"""Seconds for all of it, from the host's name to the answer."""
MAX_READ_BYTES = 65_536
"""Bytes of an answer that are read, for the receiver's sake; nobody needs them."""
MAX_RETRY_AFTER_S = 3_600.0
"""Seconds that a receiver may ask us to stay away, however many it says."""

_HEADERS = {"content-type": "application/json", "user-agent": f"Looptrap/{__version__}"}
_WORD = re.compile(rb"[a-z_]{1,60}")


class WebhookClient:
    """Brings bodies to one target."""

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
        """Post a body; a DeliveryError says why it did not get through."""
        try:
            async with self._session() as session:
                await self._send(session, body, headers)
        except TimeoutError:
            raise DeliveryError(f"{self.target}: no answer in {self._timeout.total:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise DeliveryError(f"{self.target}: {_why(error)}") from None

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
            auto_decompress=False,  # nobody reads it, and a few bytes may stand for very many
            trust_env=False,  # a proxy would resolve the host once more, by itself
        )

    async def _send(
        self, session: aiohttp.ClientSession, body: bytes, headers: Mapping[str, str]
    ) -> None:
        async with session.post(
            self.target.url, data=body, headers={**_HEADERS, **headers}, allow_redirects=False
        ) as answer:
            start = b""
            # Whether it got through is known by now, whatever becomes of the rest.
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                start = await _start(answer.content)
            if not 200 <= answer.status < 300:
                raise self._refused(answer, start)

    def _refused(self, answer: aiohttp.ClientResponse, start: bytes) -> DeliveryError:
        status = answer.status
        reason = f"{self.target} answered {status}"
        if 300 <= status < 400:
            reason += ", a redirect, which is not followed: set the URL to where it leads"
        elif word := _WORD.fullmatch(start.strip()):
            # Slack's way to say what is wrong. Anything longer might repeat the URL.
            reason += f" {word[0].decode()}"
        wish = None
        if status in (429, 503):
            wish = parse_retry_after(answer.headers.get("retry-after", ""), self._clock())
        return DeliveryError(
            reason,
            retry_after=None if wish is None else min(wish, MAX_RETRY_AFTER_S),
            is_final=status == 410,
        )


async def _start(content: aiohttp.StreamReader) -> bytes:
    """Read what fits into the limit, and keep its first part."""
    start, left = b"", MAX_READ_BYTES
    while left > 0 and (piece := await content.read(left)):
        start = start or piece[:100]
        left -= len(piece)
    return start


def _why(error: Exception) -> str:
    """Say what failed without what the URL holds."""
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
