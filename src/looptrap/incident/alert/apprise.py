"""Discord, Teams, PagerDuty, e-mail and others, through the library Apprise.

Apprise makes its own connections: it resolves hosts itself and uses the proxies of the environment.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

from looptrap.incident.alert.message import NotifyType
from looptrap.incident.alert.webhook import NOT_PUBLIC, DeliveryError, is_ip_address, is_public

APPRISE_TIMEOUT_S = 15.0
"""Seconds for one message: mail servers are slow."""
MAX_THREADS = 2
"""A thread cannot be cancelled: one that hangs is left alone, so their number is bounded."""

MISSING_MESSAGE = 'needs Apprise: pip install "looptrap[apprise]"'


class AppriseNotifier:
    """Sends texts through one Apprise URL."""

    def __init__(self, service: Any, timeout: float = APPRISE_TIMEOUT_S) -> None:
        self._service = service
        self._timeout = timeout
        self._running = 0

    @classmethod
    def of(
        cls, url: str, *, allow_http: bool = False, allow_private: bool = False
    ) -> AppriseNotifier:
        """Parse a URL; the text of a ValueError holds no part that may be secret."""
        try:
            import apprise
        except ImportError:
            raise ValueError(MISSING_MESSAGE) from None
        # Their log lines repeat ours, and show more of a URL than a log should.
        for name in ("apprise", "urllib3"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with warnings.catch_warnings(action="ignore"):  # raised while it loads its plugins
            plugin: Any = apprise.Apprise.instantiate(url, suppress_exceptions=True)
        if plugin is None:
            raise ValueError("is not a URL that Apprise understands, such as discord://…")
        plugin.redirects = False
        # URLs of some services hold a host, those of others tokens in its place.
        if any("{host}" in template for template in plugin.templates):
            _check_host(plugin, allow_http=allow_http, allow_private=allow_private)
        service = apprise.Apprise()
        service.add(plugin)
        return cls(partial(service.notify, body_format=apprise.NotifyFormat.TEXT))

    async def notify(self, title: str, body: str, notify_type: NotifyType) -> None:
        """Send a text in a thread; raise DeliveryError if it was not delivered."""
        if self._running >= MAX_THREADS:
            raise DeliveryError("Apprise is still busy with earlier messages")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()

        def finish(is_sent: bool) -> None:
            self._running -= 1
            if not done.done():
                done.set_result(is_sent)

        def run() -> None:
            is_sent = False
            with suppress(Exception):  # an error in a plugin is a failed delivery
                is_sent = bool(self._service(title=title, body=body, notify_type=notify_type))
            with suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(finish, is_sent)

        self._running += 1
        Thread(target=run, name="looptrap-apprise", daemon=True).start()
        try:
            async with asyncio.timeout(self._timeout):
                is_sent = await done
        except TimeoutError:
            raise DeliveryError(f"Apprise took more than {self._timeout:g} s") from None
        if not is_sent:
            raise DeliveryError("Apprise could not deliver it")


def _check_host(plugin: Any, *, allow_http: bool, allow_private: bool) -> None:
    """Raise ValueError if the service is not public or not encrypted, but could be."""
    for host in (getattr(plugin, "host", None), getattr(plugin, "smtp_host", None)):
        if allow_private or not isinstance(host, str) or not host:
            continue
        name = host.strip("[]").rstrip(".").lower()
        is_local = name == "localhost" or name.endswith((".localhost", ".local", ".internal"))
        if (is_ip_address(name) and not is_public(name)) or is_local:
            raise ValueError(f"leads to {name}, {NOT_PUBLIC}")
    secure = plugin.secure_protocol  # one scheme, several, or none
    scheme = secure if isinstance(secure, str) else next(iter(secure or ()), "")
    if scheme and not plugin.secure and not allow_http:
        raise ValueError(f"is not encrypted, must be {scheme}:// (allow_http = true lets it be)")
