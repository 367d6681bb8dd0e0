"""Settings of the gateway: where it listens, where it forwards to, what it accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Literal

from looptrap.config.kind import Address, BaseUrl, Listen, Network, WebOrigin
from looptrap.errors import Problem
from looptrap.policy.kind import TOKEN
from looptrap.schema import (
    ANY_NAME,
    VARIABLE,
    Choice,
    Listing,
    Number,
    Size,
    Table,
    Text,
    inline,
    seconds,
    setting,
    settings,
)
from looptrap.wire.limits import SERVER_LIMITS, UPSTREAM_LIMITS, ServerLimits, UpstreamLimits

LISTEN = Address("127.0.0.1", 4100)
ADMIN = Address("127.0.0.1", 4101)

AccessLogForm = Literal["off", "text", "json"]
"""How lines of a log are written, if at all."""

JwtTrust = Literal["off", "verified", "unverified"]
"""Which claims are believed: none, those of a token that a key verifies, all."""

Unreadable = Literal["charge", "refuse"]
"""What is done about calls whose bodies cannot be read."""

Role = Literal["write", "read"]
"""What an operator may do: everything, or see everything and change nothing."""

OPERATOR_NAME = r"[^\s,\x00-\x1f\x7f](?:[^,\x00-\x1f\x7f]{0,126}[^\s,\x00-\x1f\x7f])?"
"""`ada`, or `accounts.google.com:ada@example.com`. No comma: with it, proxies join headers."""


@settings
class OperatorSettings:
    """Somebody who uses the admin address under a name of their own."""

    name: str = setting(
        "what the audit calls them; without a token, as `user_header` names them",
        Text(form="a name without commas, at most 128 characters", pattern=OPERATOR_NAME),
    )
    token_env: str | None = setting(
        "the variable with their token; without it, a user whom `user_header` names",
        VARIABLE,
        default=None,
    )
    role: Role = setting("`read` sees everything and changes nothing", default="write")


OPERATOR = Table.of(OperatorSettings)

FILE = Text(form="the path of a file")
FOLDER = Text(form="the path of a folder")


@settings
class GatewaySettings:
    """Where the gateway listens, where it forwards to, what it accepts."""

    listen: Address = setting("where clients connect", Listen(), default=LISTEN, restart=True)
    admin: Address = setting(
        "where health, metrics and releases are served", Listen(), default=ADMIN, restart=True
    )
    upstream: str | None = setting(
        "base URL that all calls go to, whatever their path", BaseUrl(), default=None
    )
    allow_anonymous: bool = setting(
        "serve callers without a gateway key beyond loopback", default=False, restart=True
    )
    allowed_origins: tuple[str, ...] = setting(
        "web pages that may use the gateway from a browser",
        Listing(WebOrigin(), "origins"),
        default=(),
    )
    state: str = setting(
        "the file with the digest secret and the gateway keys",
        FILE,
        default="looptrap.state",
        restart=True,
    )
    tls_cert: str | None = setting(
        "the certificate chain to listen with, PEM", FILE, default=None, restart=True
    )
    tls_key: str | None = setting("its private key, PEM", FILE, default=None, restart=True)
    upstream_ca: str | None = setting(
        "further authorities to trust upstream, PEM", FILE, default=None, restart=True
    )
    relay_compressed: bool = setting(
        "let providers compress: usage is then not read", default=False
    )
    unreadable: Unreadable = setting(
        "what is done about a call of a model whose body cannot be read: `charge` judges it by its"
        " bytes and charges it by its size, `refuse` answers 400",
        default="charge",
    )
    access_log: AccessLogForm = setting(
        "log one line per request to stdout", default="off", restart=True
    )
    decision_log: AccessLogForm = setting(
        "log one line per decision other than `allow` to stderr", default="text", restart=True
    )
    capture_dir: str | None = setting(
        "where judged calls are captured to be replayed", FOLDER, default=None, restart=True
    )
    capture_limit: int = setting(
        "size of all captures together; beyond it, the oldest are deleted",
        Size(1 << 20, 1 << 40),
        default=1 << 30,
        restart=True,
    )
    decision_status: int | None = setting(
        "the status of refusals under /looptrap/decision, for proxies that know few",
        Choice([401, 403]),
        default=None,
    )
    decision_token_env: str | None = setting(
        "the variable with the token decisions need", VARIABLE, default=None
    )
    admin_token_env: str | None = setting(
        "the variable with the token the admin address needs", VARIABLE, default=None, restart=True
    )
    read_token_env: str | None = setting(
        "the variable with a second token there, which can read everything and change nothing",
        VARIABLE,
        default=None,
        restart=True,
    )
    operators: tuple[OperatorSettings, ...] = setting(
        "people with names in the audit: each with a token, or named by `user_header`",
        Listing(OPERATOR, "tables", unique="name"),
        default=(),
        restart=True,
    )
    user_header: str | None = setting(
        "the header in which an authenticating proxy names its user to the admin address; believed"
        " from `trusted_proxies` only",
        Text(form="the name of a header", pattern=TOKEN),
        default=None,
        restart=True,
    )
    user_role: Role = setting(
        "what users of that header may do who are not among `operators`",
        default="read",
        restart=True,
    )
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = setting(
        "addresses of that proxy",
        Listing(Network(), "addresses or networks"),
        default=(),
        restart=True,
    )
    jwt: JwtTrust = setting(
        "which claims count: none, those that `jwt_keys` verify, or all", default="off"
    )
    jwt_keys: str | None = setting(
        "public keys (PEM or JWKS), or a shared secret, to verify with", FILE, default=None
    )
    jwt_header: str = setting(
        "where the JWT is",
        Text(form="the name of a header", pattern=TOKEN),
        default="Authorization",
    )
    jwt_issuer: str | None = setting(
        "the only issuer (`iss`) that is believed", Text(), default=None
    )
    jwt_audience: str | None = setting(
        "the audience (`aud`) that it must be meant for", Text(), default=None
    )
    workers: int = setting(
        "processes that serve together; more than one needs a store that they share",
        Number(low=1, high=256, whole=True),
        default=1,
        restart=True,
    )
    server_limits: ServerLimits = inline(SERVER_LIMITS, default=ServerLimits(), restart=True)
    max_unpacked: int = setting(
        "decompressed bytes of request bodies held for all connections together",
        Size(1 << 20, 1 << 40),
        default=256 << 20,
    )
    upstream_limits: UpstreamLimits = inline(
        UPSTREAM_LIMITS, default=UpstreamLimits(), restart=True
    )
    grace: float = setting(
        "for calls in flight to finish when the gateway stops", seconds(3_600), default=30.0
    )
    stop_delay: float = setting(
        "after SIGTERM for load balancers to notice: `/readyz` fails, calls are still accepted",
        Number(low=0, high=600, unit="seconds"),
        default=0.0,
    )


def _mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    for one, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if given.get(one) and not given.get(other):
            yield Problem("", f"has {one} without {other}, needs both")


GATEWAY = Table.of(GatewaySettings, check=_mistakes)


@settings
class TraceSettings:
    """Where spans go; without an endpoint none are made."""

    endpoint: str | None = setting(
        "where spans go: a collector that speaks OTLP over HTTP; without it none are made",
        BaseUrl(),
        default=None,
    )
    service: str = setting("the name of this service in traces", ANY_NAME, default="looptrap")
    sample: float = setting(
        "the share of traces begun here that is kept; a client's own are kept as it says",
        Number(low=0, high=1),
        default=1.0,
    )


TRACES = Table.of(TraceSettings)
