"""`looptrap spending`: what calls cost, and whose they were."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from looptrap.cli.gateway_client import ask_gateway, gateway_options
from looptrap.cli.output import fail
from looptrap.errors import ConfigError

PATH = "/api/v1/spending"

HEADINGS = ("#CALLS", "#REFUSED", "#TOKENS", "#COST", "#SAVED")
SESSION_HEADINGS = (
    "SESSION", "CALLER", "MODEL", "#CALLS", "#REFUSED", "#TOKENS", "#TOKENS/MIN", "#COST",
)  # fmt: skip

DASH = "–"


@click.command(short_help="Say what calls cost, and whose they were.")
@click.option(
    "--by",
    type=click.Choice(["caller", "project", "session", "model", "provider"]),
    default="caller",
    help="Whose shares to list.  [caller]",
)
@click.option("--since", metavar="SPAN", default="24h", help="From then on: 30m, 7d.  [24h]")
@click.option(
    "--order",
    type=click.Choice(["cost", "refused", "calls", "tokens", "burn"]),
    default="cost",
    help="What the first have most of.  [cost]",
)
@click.option("--limit", metavar="N", type=int, default=20, help="At most so many.  [20]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@gateway_options
def spending(
    by: str, since: str, order: str, limit: int, as_json: bool, admin: str, token_env: str | None
) -> None:
    """Say what calls came to: how many, their tokens, their cost, and what refusals saved.

    A session is told in all its time, if it had a call since then.

    \b
    Example: looptrap spending --by session --since 1h --order tokens
    """
    from urllib.parse import urlencode

    from looptrap.cli import output

    try:
        then = output.parse_since(since, "--since", datetime.now(UTC))
        wanted = {"by": by, "since": then, "order": order, "limit": limit}
        found = ask_gateway(admin, token_env, "GET", f"{PATH}?{urlencode(wanted)}")
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if found["rows"]:
        _print_table(found)
    click.echo(_total(found["totals"], since))


def _print_table(found: dict[str, Any]) -> None:
    from looptrap.cli.output import print_table

    by, rows = found["by"], found["rows"]
    if by == "session":
        print_table(SESSION_HEADINGS, [_session_row(one) for one in rows])
    else:
        print_table((by.upper(), *HEADINGS), [_row(one) for one in rows])


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    from looptrap.usage.savings import format_usd

    numbers = (f"{one[name]:,}" for name in ("calls", "refused", "tokens"))
    # Nothing saved may be something saved that has no price.
    saved = format_usd(one["saved_usd"]) if one["saved_usd"] else DASH
    return (one["name"] or DASH, *numbers, _cost(one), saved)


def _session_row(one: dict[str, Any]) -> tuple[str, ...]:
    names = ("calls", "refused", "tokens", "burn")
    numbers = (f"{one[name]:,}" for name in names)
    return (one["name"], one["caller"] or DASH, one["model"] or DASH, *numbers, _cost(one))


def _cost(one: dict[str, Any]) -> str:
    """Return what has a price, and that there is more where something has none."""
    from looptrap.usage.savings import format_usd

    is_part = one["unpriced"] and one["cost_usd"] is not None
    return format_usd(one["cost_usd"]) + (" + unpriced" if is_part else "")


def _total(totals: dict[str, Any], since: str) -> str:
    """Say in a sentence what all came to."""
    from looptrap.usage.savings import format_usd

    calls, refused = totals["calls"], totals["refused"]
    told = f"Since {since} ago" if since[0].isdigit() and since[-1].isalpha() else f"Since {since}"
    told = f"{told}: {calls:,} calls, {_cost(totals)}"
    if totals["estimated"]:
        told += f" ({totals['estimated']:,} of them estimated)"
    if refused:
        told += f"; {refused:,} refused"
    if totals["saved_usd"]:
        told += f", {format_usd(totals['saved_usd'])} saved"
    return f"{told}."
