"""AlertChannel: channels made from their settings, webhook signatures, and the test event."""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Protocol, get_args

from standardwebhooks import Webhook

from looptrap.errors import ConfigError, Problem
from looptrap.incident.alert.address import HostLookup, WebhookTarget, resolve_host
from looptrap.incident.alert.apprise import AppriseNotifier
from looptrap.incident.alert.message import plain_message, slack_body, webhook_body
from looptrap.incident.alert.webhook_client import WebhookClient
from looptrap.incident.model import AlertEvent, EventName
from looptrap.incident.setting import ChannelSettings

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


Clock = Callable[[], float]


class AlertSender(Protocol):
    """Sends one event; raises DeliveryError if it was not delivered."""

    max_in_flight: int
    """Events sent at the same time."""

    async def send(self, event: AlertEvent) -> None: ...


class WebhookSender:
    """Signed JSON."""

    max_in_flight = 4

    def __init__(self, client: WebhookClient, signer: WebhookSigner, clock: Clock) -> None:
        self._client = client
        self._signer = signer
        self._clock = clock

    async def send(self, event: AlertEvent) -> None:
        body = webhook_body(event)
        await self._client.send(body, self._signer.headers(event.id, self._clock(), body))


class SlackSender:
    """A Slack incoming webhook, which takes about one message a second."""

    max_in_flight = 1

    def __init__(self, client: WebhookClient) -> None:
        self._client = client

    async def send(self, event: AlertEvent) -> None:
        await self._client.send(slack_body(event), {})


class AppriseSender:
    """Services supported by Apprise."""

    max_in_flight = 1

    def __init__(self, notifier: AppriseNotifier) -> None:
        self._notifier = notifier

    async def send(self, event: AlertEvent) -> None:
        await self._notifier.notify(*plain_message(event))


class AlertChannel:
    """One configured channel."""

    def __init__(self, settings: ChannelSettings, sender: AlertSender) -> None:
        self.name = settings.name
        self.settings = settings
        self.send = sender.send
        self.max_in_flight = sender.max_in_flight
        patterns = (re.escape(one).replace(r"\*", ".*") for one in settings.events)
        self._matches = re.compile("|".join(patterns)).fullmatch

    def wants(self, event: AlertEvent) -> bool:
        """Return whether this channel subscribes to an event."""
        projects = self.settings.projects
        return self._matches(event.name) is not None and (not projects or event.project in projects)


def make_channels(
    settings: Sequence[ChannelSettings],
    env: Mapping[str, str],
    *,
    clock: Clock = time.time,
    lookup: HostLookup = resolve_host,
) -> list[AlertChannel]:
    """Make all channels; raise one ConfigError with every problem in them."""
    channels, problems = [], []
    for i, one in enumerate(settings):
        try:
            channels.append(AlertChannel(one, _sender(one, env, clock, lookup)))
        except ConfigError as error:
            place = f"channels[{i}]"
            problems += [Problem(f"{place}.{p.place}", p.message) for p in error.problems]
    if problems:
        raise ConfigError(problems)
    return channels


def channel_problems(
    settings: Sequence[ChannelSettings], env: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield what `make_channels` would refuse; variables that are not set are not checked."""
    for i, one in enumerate(settings):
        problems: list[Problem] = []
        if one.secret_env is None or env.get(one.secret_env, "").strip():
            _signer(one, env, problems)
        if one.url_env is None or env.get(one.url_env, "").strip():
            _destination(one, env, problems)
        yield from (Problem(f"channels[{i}].{p.place}", p.message) for p in problems)


def _sender(
    settings: ChannelSettings, env: Mapping[str, str], clock: Clock, lookup: HostLookup
) -> AlertSender:
    problems: list[Problem] = []
    signer = _signer(settings, env, problems)
    target = _destination(settings, env, problems)
    if problems:
        raise ConfigError(problems)
    match target:
        case AppriseNotifier():
            return AppriseSender(target)
        case WebhookTarget():
            client = WebhookClient(target, clock=clock, lookup=lookup)
            return (
                SlackSender(client)
                if settings.kind == "slack"
                else WebhookSender(client, signer, clock)
            )
    raise AssertionError("a channel without problems has a target")


def _signer(
    settings: ChannelSettings, env: Mapping[str, str], problems: list[Problem]
) -> WebhookSigner:
    if settings.secret_env is None:
        return WebhookSigner([])
    try:
        return WebhookSigner.of(_variable(settings.secret_env, env))
    except ValueError as error:
        problems.append(Problem("secret_env", str(error)))
        return WebhookSigner([])


def _destination(
    settings: ChannelSettings, env: Mapping[str, str], problems: list[Problem]
) -> WebhookTarget | AppriseNotifier | None:
    """Return where a channel's events go; problems are appended."""
    place = "url" if settings.url_env is None else "url_env"
    allowed = {"allow_http": settings.allow_http, "allow_private": settings.allow_private}
    try:
        url = settings.url if settings.url_env is None else _variable(settings.url_env, env)
        if settings.kind == "apprise":
            return AppriseNotifier.of(url or "", **allowed)
        return WebhookTarget.of(url or "", **allowed)
    except ValueError as error:
        problems.append(Problem(place, str(error)))
        return None


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
    events = [
        AlertEvent(
            id=id,
            name=name,
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
        for name in get_args(EventName)
    ]
    return next(filter(channel.wants, events))
