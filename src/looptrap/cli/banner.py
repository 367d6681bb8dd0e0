"""What `looptrap serve` says when it has started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from looptrap import __version__
from looptrap.config import Config, allowance, sentence
from looptrap.config.kind import MEMORY, Address, StorePlace


def banner(
    config: Config,
    listening: Sequence[tuple[str, int]],
    admin: tuple[str, int],
    asks_for_keys: bool,
) -> str:
    """Return what is protected, by what, and where to point clients."""
    scheme = "https" if config.gateway.tls_cert else "http"
    url = f"{scheme}://{Address(*listening[0])}"
    lines = [f"Looptrap {__version__} guards {url}", ""]
    lines += [
        f"  OpenAI clients     OPENAI_BASE_URL={url}/v1",
        f"  Anthropic clients  ANTHROPIC_BASE_URL={url}",
        f"  Gemini clients     http_options={{'base_url': '{url}'}}",
        f"  Dashboard          http://{Address(*admin)}/",
        "",
    ]
    where = config.gateway.upstream or "OpenAI, Anthropic and Gemini, by the path"
    lines.append(f"Forwards to {where}.")
    lines.append("Asks for gateway keys." if asks_for_keys else "Callers use their own keys.")
    lines += _counting(config)
    if config.capture != "off":
        lines.append(f"Capturing {config.capture} to {config.gateway.capture_dir}.")
    told = [sentence.of_channel(one) for one in config.channels]
    lines += [f"{one}." for one in told] or ["Nobody is told of loops: there are no channels."]
    lines.append(f"Policies{f' of preset {config.preset}' if config.preset else ''}:")
    for policy in config.policies:
        lines += [f"  {sentence.of_rule(rule)}" for rule in policy.rules]
        lines += [f"  {allowance.of_rate(rate)}" for rate in policy.rates]
    if config.budgets:
        lines.append("Budgets:")
        lines += [f"  {allowance.of_budget(budget)}" for budget in config.budgets]
    return "\n".join(lines)


def _counting(config: Config) -> Iterator[str]:
    """Yield who counts together, and where; a process that counts alone needs no line."""
    workers = config.gateway.workers
    if config.store != MEMORY:
        who = f"{workers} workers count" if workers > 1 else "Counts"
        place = StorePlace().plain(config.store)
        yield f"{who} in {place}, with all other instances that do."
    elif workers > 1:
        yield f"{workers} workers count together, in a Valkey that ends with them."
