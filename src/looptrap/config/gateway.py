"""Settings of the gateway: where it listens, where it forwards to, what it accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from looptrap.config.claim import JwtTrust
from looptrap.config.kind import VARIABLE, Address, BaseUrl, Listen, Size, WebOrigin, seconds
from looptrap.errors import Problem
from looptrap.policy.setting.rule import TOKEN
from looptrap.schema import Choice, Field, Flag, Listing, Number, Table, Text
from looptrap.wire.limits import ServerLimits
from looptrap.wire.upstream_exchange import UpstreamLimits

_IN, _OUT = ServerLimits(), UpstreamLimits()

LISTEN = Address("127.0.0.1", 4100)
ADMIN = Address("127.0.0.1", 4101)

AccessLogForm = Literal["off", "text", "json"]
"""How lines of a log are written, if at all."""

Unreadable = Literal["charge", "refuse"]
"""What is done about calls whose bodies cannot be read."""

FILE = Text(form="the path of a file")
FOLDER = Text(form="the path of a folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Where the gateway listens, where it forwards to, what it accepts."""

    listen: Address = LISTEN
    admin: Address = ADMIN
    upstream: str | None = None
    allow_anonymous: bool = False
    allowed_origins: tuple[str, ...] = ()
    state: str = "looptrap.state"
    tls_cert: str | None = None
    tls_key: str | None = None
    upstream_ca: str | None = None
    relay_compressed: bool = False
    unreadable: Unreadable = "charge"
    access_log: AccessLogForm = "off"
    decision_log: AccessLogForm = "text"
    capture_dir: str | None = None
    capture_limit: int = 1 << 30
    decision_status: int | None = None
    decision_token_env: str | None = None
    admin_token_env: str | None = None
    read_token_env: str | None = None
    jwt: JwtTrust = "off"
    jwt_keys: str | None = None
    jwt_header: str = "Authorization"
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    workers: int = 1
    max_body: int = _IN.max_body
    max_buffered: int = _IN.max_buffered
    max_unpacked: int = 256 << 20
    max_head: int = _IN.max_head
    max_headers: int = _IN.max_headers
    max_target: int = _IN.max_target
    max_connections: int = _IN.max_connections
    head_timeout: float = _IN.head_timeout
    body_timeout: float = _IN.body_timeout
    keepalive_timeout: float = _IN.keepalive_timeout
    write_timeout: float = _IN.write_timeout
    connect_timeout: float = _OUT.connect_timeout
    first_byte_timeout: float = _OUT.first_byte_timeout
    idle_timeout: float = _OUT.idle_timeout
    grace: float = 30.0


_DEFAULTS = {one.name: one.default for one in fields(GatewaySettings)}


def _field(name: str, kind: Any, doc: str) -> Field:
    return Field(name=name, kind=kind, doc=doc, default=_DEFAULTS[name])


def _mistakes(given: Mapping[str, Any]) -> Iterator[Problem]:
    for one, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if given.get(one) and not given.get(other):
            yield Problem("", f"has {one} without {other}, needs both")


GATEWAY: Table[GatewaySettings] = Table(
    build=GatewaySettings,
    check=_mistakes,
    fields=[
        _field("listen", Listen(), "where clients connect"),
        _field("admin", Listen(), "where health, metrics and releases are served"),
        _field("upstream", BaseUrl(), "one place for everything, whatever the path"),
        _field("allow_anonymous", Flag(), "serve callers without a gateway key beyond loopback"),
        _field(
            "allowed_origins",
            Listing(WebOrigin(), "origins"),
            "web pages that may use the gateway from a browser",
        ),
        _field("state", FILE, "the file with the digest secret and the gateway keys"),
        _field("tls_cert", FILE, "the certificate chain to listen with, PEM"),
        _field("tls_key", FILE, "its private key, PEM"),
        _field("upstream_ca", FILE, "further authorities to trust upstream, PEM"),
        _field("relay_compressed", Flag(), "let providers compress: usage is then not read"),
        _field(
            "unreadable",
            Choice(get_args(Unreadable)),
            "what is done about a call of a model whose body cannot be read: `charge` judges it by"
            " its bytes and charges it by its size, `refuse` answers 400",
        ),
        _field("access_log", Choice(get_args(AccessLogForm)), "one line a request on stdout"),
        _field(
            "decision_log",
            Choice(get_args(AccessLogForm)),
            "one line a decision that is not `allow`, on stderr",
        ),
        _field("capture_dir", FOLDER, "where judged calls are captured to be replayed"),
        _field(
            "capture_limit",
            Size(1 << 20, 1 << 40),
            "what all captures there may take; beyond it, the oldest go",
        ),
        _field(
            "decision_status",
            Choice([401, 403]),
            "the status of refusals under /looptrap/decision, where a proxy knows few",
        ),
        _field("decision_token_env", VARIABLE, "the variable with the token decisions need"),
        _field("admin_token_env", VARIABLE, "the variable with the token the admin address needs"),
        _field(
            "read_token_env",
            VARIABLE,
            "the variable with a second token there, for those who may see all and change nothing",
        ),
        _field("jwt", Choice(get_args(JwtTrust)), "whose claims count; `verified` with `jwt_keys`"),
        _field("jwt_keys", FILE, "public keys (PEM or JWKS), or a shared secret, to verify with"),
        _field("jwt_header", Text(form="the name of a header", pattern=TOKEN), "where the JWT is"),
        _field("jwt_issuer", Text(), "the only issuer (`iss`) that is believed"),
        _field("jwt_audience", Text(), "the audience (`aud`) that it must be meant for"),
        _field(
            "workers",
            Number(low=1, high=256, whole=True),
            "processes that serve together; more than one needs a store that they share",
        ),
        _field("max_body", Size(1 << 10, 1 << 30), "the largest request body"),
        _field("max_buffered", Size(1 << 20, 1 << 40), "request bytes held for all together"),
        _field(
            "max_unpacked",
            Size(1 << 20, 1 << 40),
            "bytes of packed request bodies, unpacked for judging, held for all together",
        ),
        _field("max_head", Size(1 << 10, 1 << 20), "the largest request head"),
        _field("max_headers", Number(low=8, high=10_000, whole=True), "the most headers"),
        _field("max_target", Size(256, 1 << 20), "the longest URL"),
        _field(
            "max_connections",
            Number(low=1, high=1_000_000, whole=True),
            "clients connected at once",
        ),
        _field("head_timeout", seconds(), "for a request's head to arrive"),
        _field("body_timeout", seconds(), "between two pieces of a request's body"),
        _field("keepalive_timeout", seconds(), "for the next request of a connection"),
        _field("write_timeout", seconds(), "for a client to read on"),
        _field("connect_timeout", seconds(), "for a connection to a provider"),
        _field("first_byte_timeout", seconds(), "for a provider's answer to begin"),
        _field("idle_timeout", seconds(), "between two pieces of a provider's answer"),
        _field("grace", seconds(3_600), "for calls in flight when the gateway is told to stop"),
    ],
)
