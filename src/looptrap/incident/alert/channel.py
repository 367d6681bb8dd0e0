"""AlertChannel: channels made from their settings, webhook signatures, and the test event.

Discord, Teams, PagerDuty, e-mail and others are reached through the library Apprise. It makes its
own connections: it resolves hosts itself and uses the proxies of the environment.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from threading import Thread
from typing import Any, get_args

from msgspec.structs import replace
from standardwebhooks import Webhook

from looptrap.errors import ConfigError, Problem
from looptrap.incident.alert.message import NotifyType, plain_message, slack_body, webhook_body
from looptrap.incident.alert.webhook import (
    NOT_PUBLIC,
    DeliveryError,
    WebhookClient,
    WebhookTarget,
    is_ip_address,
    is_public,
)
from looptrap.incident.model import AlertEvent, EventName
from looptrap.incident.setting import ChannelKind, ChannelSettings, event_matcher

SECRET_PREFIX = "whsec_"
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64
"""Size of a secret, by the Standard Webhooks specification."""

SECRET_FORM = f"{SECRET_PREFIX} and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} random bytes in base64"


class WebhookSigner:
    """Signs with every configured secret, so that receivers can rotate secrets."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._webhooks = [Webhook(secret) for secret in secrets]

    @classmethod
    def of(cls, text: str) -> WebhookSigner:
        """Parse one or more secrets separated by spaces; no error text holds a secret."""
        secrets = [_secret(one) for one in text.split()]
        if not secrets:
            raise ValueError(f"is empty, must be {SECRET_FORM}")
        return cls(secrets)

    def headers(self, event_id: str, now: float, body: bytes) -> dict[str, str]:
        """Return the headers of one attempt; without a secret there is no signature."""
        at = datetime.fromtimestamp(int(now), UTC)
        headers = {"webhook-id": event_id, "webhook-timestamp": str(int(now))}
        if self._webhooks:
            text = body.decode()
            signatures = [one.sign(event_id, at, text) for one in self._webhooks]
            headers["webhook-signature"] = " ".join(signatures)
        return headers


def _secret(text: str) -> bytes:
    if not text.startswith(SECRET_PREFIX):
        raise ValueError(f"does not begin with {SECRET_PREFIX}, must be {SECRET_FORM}")
    encoded = text.removeprefix(SECRET_PREFIX)
    try:
        secret = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"is not in base64, must be {SECRET_FORM}") from None
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise ValueError(f"has {len(secret)} bytes, must be {SECRET_FORM}")
    return secret


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


MAX_IN_FLIGHT: dict[ChannelKind, int] = {"webhook": 4, "slack": 1, "apprise": 1}
"""Events sent at the same time; Slack takes about one message a second."""


class AlertChannel:
    """One configured channel; `target` and `signer` are made from its settings."""

    def __init__(
        self,
        settings: ChannelSettings,
        target: WebhookClient | AppriseNotifier,
        signer: WebhookSigner,
        clock: Callable[[], float],
    ) -> None:
        self.name = settings.name
        self.settings = settings
        self.max_in_flight = MAX_IN_FLIGHT[settings.kind]
        self._target = target
        self._signer = signer
        self._clock = clock
        self._matches = event_matcher(settings.events)

    def wants(self, event: AlertEvent) -> bool:
        """Return whether this channel subscribes to an event."""
        projects = self.settings.projects
        return self._matches(event.name) is not None and (not projects or event.project in projects)

    async def send(self, event: AlertEvent) -> None:
        """Send an event; raise DeliveryError if it was not delivered."""
        if isinstance(self._target, AppriseNotifier):
            await self._target.notify(*plain_message(event))
        elif self.settings.kind == "slack":
            await self._target.send(slack_body(event), {})
        else:
            body = webhook_body(event)
            await self._target.send(body, self._signer.headers(event.id, self._clock(), body))


def make_channels(
    settings: Sequence[ChannelSettings],
    env: Mapping[str, str],
    *,
    clock: Callable[[], float] = time.time,
) -> list[AlertChannel]:
    """Make all channels; raise one ConfigError with every problem in them."""
    problems = list(channel_problems(settings, env))
    if problems:
        raise ConfigError(problems)
    channels = []
    for one in settings:
        target: WebhookTarget | WebhookClient | AppriseNotifier = _target(one, env)
        if isinstance(target, WebhookTarget):
            target = WebhookClient(target, clock=clock)
        channels.append(AlertChannel(one, target, _signer(one, env), clock))
    return channels


def channel_problems(
    settings: Sequence[ChannelSettings], env: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield every problem of channels, variables that are not set among them."""
    for i, one in enumerate(settings):
        url = "url" if one.url_env is None else "url_env"
        for place, read in (("secret_env", _signer), (url, _target)):
            try:
                read(one, env)
            except ValueError as error:
                yield Problem(f"channels[{i}].{place}", str(error))


def _signer(settings: ChannelSettings, env: Mapping[str, str]) -> WebhookSigner:
    if settings.secret_env is None:
        return WebhookSigner([])
    return WebhookSigner.of(_variable(settings.secret_env, env))


def _target(settings: ChannelSettings, env: Mapping[str, str]) -> WebhookTarget | AppriseNotifier:
    url = settings.url if settings.url_env is None else _variable(settings.url_env, env)
    kind = AppriseNotifier if settings.kind == "apprise" else WebhookTarget
    return kind.of(url or "", allow_http=settings.allow_http, allow_private=settings.allow_private)


def _variable(name: str, env: Mapping[str, str]) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise ValueError(f"names the variable {name}, which is not set")
    return value


def channel_test_event(channel: AlertChannel, now: float) -> AlertEvent:
    """Return an event that the channel subscribes to, marked as a test."""
    projects = channel.settings.projects
    project = projects[0] if projects else ""
    id = f"test_{blake2b(f'{channel.name} {now}'.encode(), digest_size=16).hexdigest()}"
    event = AlertEvent(
        id=id,
        name="loop.detected",
        time=now,
        project=project,
        stage="test",
        title="Test of an alert: nothing has happened",
        data={
            "test": True,
            "channel": channel.name,
            "message": "This is how Looptrap tells of loops, budgets and failing stores.",
        },
    )
    names: tuple[EventName, ...] = get_args(EventName)
    return next(filter(channel.wants, (replace(event, name=name) for name in names)))
