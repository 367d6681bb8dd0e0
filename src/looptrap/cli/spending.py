"""`looptrap spending`: what calls cost, by caller, project, session, model or provider."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from looptrap.cli.gateway_client import GatewayClient, gateway_options
from looptrap.cli.output import DASH, json_option, parse_since, print_table
from looptrap.money.price import format_usd

HEADINGS = ("#CALLS", "#REFUSED", "#TOKENS", "#COST", "#SAVED")
SESSION_HEADINGS = (
    "SESSION", "CALLER", "MODEL", "#CALLS", "#REFUSED", "#TOKENS", "#TOKENS/MIN", "#COST",
)  # fmt: skip


@click.command(short_help="Show what calls cost, by caller or model.")
@click.option(
    "--by",
    type=click.Choice(["caller", "project", "session", "model", "provider"]),
    default="caller",
    help="What to group by.  [caller]",
)
@click.option("--since", metavar="SPAN", default="24h", help="Calls since then: 30m, 7d.  [24h]")
@click.option(
    "--order",
    type=click.Choice(["cost", "refused", "calls", "tokens", "burn"]),
    default="cost",
    help="What to sort by, descending.  [cost]",
)
@click.option("--limit", metavar="N", type=int, default=20, help="At most N.  [20]")
@json_option
@gateway_options
def spending(
    gateway: GatewayClient, by: str, since: str, order: str, limit: int, as_json: bool
) -> None:
    """Show calls, their tokens and cost, and what refusals saved.

    A session is shown with all its calls, if it had one since then.

    \b
    Example: looptrap spending --by session --since 1h --order tokens
    """
    then = parse_since(since, "--since", datetime.now(UTC))
    found = gateway.get("/api/v1/spending", by=by, since=then, order=order, limit=limit)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if rows := found["rows"]:
        if by == "session":
            print_table(SESSION_HEADINGS, [_session_row(row) for row in rows])
        else:
            print_table((by.upper(), *HEADINGS), [_row(row) for row in rows])
    click.echo(_total(found["totals"], since))


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = (f"{row[name]:,}" for name in ("calls", "refused", "tokens"))
    # 0 may also mean savings without a price.
    saved = format_usd(row["saved_usd"]) if row["saved_usd"] else DASH
    return (row["name"] or DASH, *numbers, _cost(row), saved)


def _session_row(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = (f"{row[name]:,}" for name in ("calls", "refused", "tokens", "burn"))
    return (row["name"], row["caller"] or DASH, row["model"] or DASH, *numbers, _cost(row))


def _cost(row: dict[str, Any]) -> str:
    """Return the cost, marked where some calls have no price."""
    is_part = row["unpriced"] and row["cost_usd"] is not None
    return format_usd(row["cost_usd"]) + (" + unpriced" if is_part else "")


def _total(totals: dict[str, Any], since: str) -> str:
    """Return the totals as a sentence."""
    ago = " ago" if since[0].isdigit() and since[-1].isalpha() else ""
    text = f"Since {since}{ago}: {totals['calls']:,} calls, {_cost(totals)}"
    if totals["estimated"]:
        text += f" ({totals['estimated']:,} of them estimated)"
    if totals["refused"]:
        text += f"; {totals['refused']:,} refused"
    if totals["saved_usd"]:
        text += f", {format_usd(totals['saved_usd'])} saved"
    return f"{text}."
