"""AlertChannel: channels made from their settings, webhook signatures, and the test event."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import get_args

from msgspec.structs import replace
from standardwebhooks import Webhook

from looptrap.errors import ConfigError, Problem
from looptrap.incident.alert.apprise import AppriseNotifier
from looptrap.incident.alert.message import plain_message, slack_body, webhook_body
from looptrap.incident.alert.webhook import (
    WebhookClient,
    WebhookTarget,
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
