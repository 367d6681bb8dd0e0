"""`looptrap spending`: what calls cost, by caller, project, session, model or provider."""

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


@click.command(short_help="Show what calls cost, by caller or model.")
@click.option(
    "--by",
    type=click.Choice(["caller", "project", "session", "model", "provider"]),
    default="caller",
    help="What to group by.  [caller]",
)
@click.option("--since", metavar="SPAN", default="24h", help="From then on: 30m, 7d.  [24h]")
@click.option(
    "--order",
    type=click.Choice(["cost", "refused", "calls", "tokens", "burn"]),
    default="cost",
    help="What to sort by, descending.  [cost]",
)
@click.option("--limit", metavar="N", type=int, default=20, help="At most N.  [20]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@gateway_options
def spending(
    by: str, since: str, order: str, limit: int, as_json: bool, admin: str, token_env: str | None
) -> None:
    """Show calls, their tokens and cost, and what refusals saved.

    A session is shown with all its calls, if it had one since then.

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
        print_table(SESSION_HEADINGS, [_session_row(row) for row in rows])
    else:
        print_table((by.upper(), *HEADINGS), [_row(row) for row in rows])


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    from looptrap.usage.savings import format_usd

    numbers = (f"{row[name]:,}" for name in ("calls", "refused", "tokens"))
    # 0 may also mean savings without a price.
    saved = format_usd(row["saved_usd"]) if row["saved_usd"] else DASH
    return (row["name"] or DASH, *numbers, _cost(row), saved)


def _session_row(row: dict[str, Any]) -> tuple[str, ...]:
    names = ("calls", "refused", "tokens", "burn")
    numbers = (f"{row[name]:,}" for name in names)
    return (row["name"], row["caller"] or DASH, row["model"] or DASH, *numbers, _cost(row))


def _cost(row: dict[str, Any]) -> str:
    """Return the cost, marked where some calls have no price."""
    from looptrap.usage.savings import format_usd

    is_part = row["unpriced"] and row["cost_usd"] is not None
    return format_usd(row["cost_usd"]) + (" + unpriced" if is_part else "")


def _total(totals: dict[str, Any], since: str) -> str:
    """Return the totals as a sentence."""
    from looptrap.usage.savings import format_usd

    calls, refused = totals["calls"], totals["refused"]
    text = f"Since {since} ago" if since[0].isdigit() and since[-1].isalpha() else f"Since {since}"
    text = f"{text}: {calls:,} calls, {_cost(totals)}"
    if totals["estimated"]:
        text += f" ({totals['estimated']:,} of them estimated)"
    if refused:
        text += f"; {refused:,} refused"
    if totals["saved_usd"]:
        text += f", {format_usd(totals['saved_usd'])} saved"
    return f"{text}."
