"""Asks providers for their models, over the connections and with the keys of the gateway."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime

from looptrap.cli.doctor import Finding
from looptrap.cli.start_check import has_route_for_all, used_providers
from looptrap.config import Config
from looptrap.dialect.model import DialectName
from looptrap.gateway.provider import Provider
from looptrap.gateway.router import build_providers
from looptrap.gateway.tls import upstream_ca_file
from looptrap.wire.exchange import UpstreamError
from looptrap.wire.pool import Pools

PROBE_TIMEOUT_S = 5.0

_is_versioned = re.compile(r"/v\d[a-z0-9]*(/|\Z)").search

_REMEDIES = {
    "dns": "check the name in its base_url, and the DNS of this machine",
    "connect": "check its base_url, whether it runs, and whether a firewall or proxy is between",
    "connect_timeout": "check its base_url, and whether a firewall or proxy is between",
    "tls": "check its base_url; if its certificate is of an authority of your own, name that in"
    " gateway.upstream_ca",
    "first_byte_timeout": "try again later, or look at the provider's status page",
}


@dataclass
class ProbeAnswer:
    """What came of one request."""

    status: int = 0
    error: UpstreamError | None = None
    seconds: float = 0.0
    skew: float | None = None
    """By how many seconds this machine's clock is ahead of the provider's."""


class _Sink:
    """Takes the head of an answer, and ignores its body."""

    def __init__(self) -> None:
        self.done: asyncio.Future[ProbeAnswer] = asyncio.get_running_loop().create_future()
        self._began = time.monotonic()

    def on_head(
        self,
        status: int,
        reason: bytes,  # noqa: ARG002
        headers: list[tuple[bytes, bytes]],
        length: int | None,  # noqa: ARG002
        has_body: bool,  # noqa: ARG002
    ) -> None:
        answer = ProbeAnswer(status, seconds=time.monotonic() - self._began)
        for name, value in headers:
            if name.lower() == b"date":
                answer.skew = _skew(value.decode("latin-1"), time.time())
        self._resolve(answer)

    def on_data(self, chunk: bytes) -> None: ...

    def flush(self) -> None: ...

    def on_end(self) -> None: ...

    def on_error(self, error: UpstreamError) -> None:
        self._resolve(ProbeAnswer(error=error))

    def _resolve(self, answer: ProbeAnswer) -> None:
        if not self.done.done():
            self.done.set_result(answer)


async def probe_providers(
    config: Config, env: Mapping[str, str]
) -> tuple[list[Finding], list[float]]:
    """Ask every provider that calls may go to; return findings, and how far clocks differ."""
    providers = [
        one for used in used_providers(config).values() for one in build_providers(used, env)
    ]
    if config.gateway.upstream is not None and not has_route_for_all(config):
        providers.append(Provider("upstream", config.gateway.upstream))
    limits = replace(
        config.gateway.upstream_limits,
        connect_timeout=PROBE_TIMEOUT_S,
        first_byte_timeout=PROBE_TIMEOUT_S,
    )
    pools = Pools(limits, environ=env, ca_file=upstream_ca_file(config.gateway))
    try:
        answers = await asyncio.gather(*(_ask(pools, provider) for provider in providers))
    finally:
        await pools.close()
    findings = [_judge(*pair) for pair in zip(providers, answers, strict=True)]
    if named := _named_providers(config):
        # Those that calls go to only because nothing else is said may not be wanted.
        findings = [
            one._replace(status="warning")
            if one.status == "problem" and not provider.key_name and provider.name not in named
            else one
            for provider, one in zip(providers, findings, strict=True)
        ]
    return findings, [answer.skew for answer in answers if answer.skew is not None]


def _named_providers(config: Config) -> set[str]:
    """Return the providers that the settings name."""
    links = (link for route in config.routes for link in route.links)
    return {link.partition("/")[0] for link in links} | {one.name for one in config.providers}


async def _ask(pools: Pools, provider: Provider) -> ProbeAnswer:
    sink = _Sink()
    fields = b"accept: application/json\r\nuser-agent: looptrap-doctor\r\n"
    fields += provider.key_field(_dialect_of(provider)) or b""
    if "anthropic" in provider.speaks:
        fields += b"anthropic-version: 2023-06-01\r\n"
    target = models_path(provider.base_url, provider.speaks).encode()
    exchange = provider.pool(pools).send(b"GET", target, fields, b"", sink)
    try:
        async with asyncio.timeout(2 * PROBE_TIMEOUT_S):
            return await sink.done
    except TimeoutError:
        return ProbeAnswer(
            error=UpstreamError("first_byte_timeout", f"{provider.origin}: no answer")
        )
    finally:
        exchange.cancel()


def models_path(base_url: str, speaks: Iterable[DialectName]) -> str:
    """Return the path at which a provider lists its models."""
    base = "/" + base_url.split("/", 3)[3] if base_url.count("/") > 2 else ""
    if "gemini" in speaks:
        return f"{base}/v1beta/models"
    return f"{base}/models" if _is_versioned(base) else f"{base}/v1/models"


def _dialect_of(provider: Provider) -> DialectName:
    return next((one for one in ("anthropic", "gemini") if one in provider.speaks), "openai_chat")


def _judge(provider: Provider, answer: ProbeAnswer) -> Finding:
    what = f"provider {provider.circuit}"
    key = provider.key_name
    if answer.error is not None:
        error = answer.error
        kind = "dns" if "no address found" in str(error) else error.kind
        return Finding(what, "problem", f"does not answer: {error}", _REMEDIES.get(kind, ""))
    milliseconds = f"{answer.seconds * 1000:.0f} ms"
    if answer.status in (401, 403) and key:
        message = f"refuses the key in {key} (status {answer.status})"
        return Finding(what, "problem", message, f"put a valid key into {key}")
    if answer.status >= 500 or answer.status == 429:
        message = f"answers with status {answer.status} in {milliseconds}"
        return Finding(what, "warning", message, "try again later, or look at its status page")
    if answer.status < 300 and key:
        return Finding(what, "ok", f"answers in {milliseconds}, and accepts the key in {key}")
    if key:
        message = f"answers in {milliseconds} with status {answer.status}: the key is not tested"
        return Finding(what, "ok", message)
    whose = "" if not provider.needs_key else "; callers send keys of their own"
    return Finding(what, "ok", f"answers in {milliseconds}{whose}")


def _skew(date: str, now: float) -> float | None:
    try:
        return now - parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return None
