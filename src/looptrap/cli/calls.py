"""`looptrap calls`: list logged calls, or follow them as they come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import click

from looptrap.cli.gateway_client import (
    PAGE_SIZE,
    GatewayClient,
    gateway_options,
    poll,
    until_interrupted,
)
from looptrap.cli.output import (
    DASH,
    format_time,
    json_option,
    line_width,
    parse_since,
    print_lines,
)
from looptrap.money.price import format_usd
from looptrap.policy.action import Action

CallView = dict[str, Any]

CALLS_PATH = "/api/v1/calls"

VERDICTS = (*(action.value for action in Action), "refused", "shadow")


@click.command(short_help="List logged calls, or follow them.")
@click.option("--caller", metavar="CALLER", help="Only of this caller: key:ci, cred:…, addr:….")
@click.option("--project", metavar="NAME", help="Only of this project.")
@click.option("--session", metavar="NAME", help="Only of this session.")
@click.option("--agent", metavar="NAME", help="Only of this agent: 'Claude Code'.")
@click.option("--model", metavar="NAME", help="Only for this model.")
@click.option("--provider", metavar="NAME", help="Only sent to this provider.")
@click.option("--verdict", type=click.Choice(VERDICTS), metavar="VERDICT",
              help="Only with this action; or refused, or shadow.")  # fmt: skip
@click.option("--rule", metavar="NAME", help="Only those on which this rule acted.")
@click.option("--status", metavar="STATUS", help="Only with this status: 429, 5xx.")
@click.option("--since", metavar="SPAN", help="Only since then: 30m, 24h, 7d, or a time.")
@click.option("--until", metavar="SPAN", help="Only up to then.")
@click.option("--min-cost", "min_cost_usd", metavar="USD", type=float,
              help="Only those that cost at least this much.")  # fmt: skip
@click.option("--min-latency", metavar="SECONDS", type=float,
              help="Only those that took at least this long.")  # fmt: skip
@click.option("--limit", metavar="N", type=int, default=50, help="At most N.  [50]")
@click.option("--follow", is_flag=True, help="Then print calls as they come, until Ctrl-C.")
@json_option
@gateway_options
def calls(
    gateway: GatewayClient,
    since: str | None,
    until: str | None,
    limit: int,
    follow: bool,
    as_json: bool,
    **filters: str | float | None,
) -> None:
    """List logged calls, the latest first; with --follow, as they come.

    The log has names, counts and times of calls, never their texts. With --follow, --json prints a
    line of JSON a call.

    \b
    Example: looptrap calls --caller key:ci --verdict refused --since 1h
    """
    now = datetime.now(UTC)
    query = {name: value for name, value in filters.items() if value is not None}
    for name, span in (("since", since), ("until", until)):
        if span is not None:
            query[name] = parse_since(span, f"--{name}", now)
    found, last = gateway.read_list(CALLS_PATH, "calls", limit, query)
    if not last["is_logging"]:
        click.echo("This gateway logs no calls: call_log.enabled is false.", err=True)
    if follow:
        _follow(gateway, query, found, as_json)
        return
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found:
        print_calls(found)
    else:
        click.echo(f"There are no logged calls{' of that kind' if query else ''}.")
    if last["next"] is not None:
        click.echo(f"There are more than these {limit}: see --limit.", err=True)


def _follow(
    gateway: GatewayClient, query: dict[str, Any], found: list[CallView], as_json: bool
) -> None:
    """Print calls, the oldest first, and then those that come; until Ctrl-C or SIGTERM."""
    last = 0

    def ask() -> Any:
        return gateway.get(CALLS_PATH, limit=PAGE_SIZE, after=last, **query)

    def print_further(calls: list[CallView]) -> None:
        nonlocal last
        if as_json:
            for call in reversed(calls):
                click.echo(json.dumps(call))
        else:
            print_calls(reversed(calls))
        last = max([last, *(call["id"] for call in calls)])

    with until_interrupted():
        print_further(found)
        for answer in poll(ask):
            if answer["next"] is not None:
                click.echo(f"Only the latest {PAGE_SIZE} of the last second are shown.", err=True)
            print_further(answer["calls"])


def print_calls(calls: Iterable[CallView]) -> None:
    """Print calls, a line each; two where a terminal is too narrow for that."""
    width = line_width()
    for call in calls:
        when, names, facts = _parts(call)
        line = f"{when}  {names}: {facts}"
        print_lines([line] if len(line) <= width else [f"{when}  {facts}", f"  {names}"])


def _parts(call: CallView) -> tuple[str, str, str]:
    """Return when a call was made and what was done with it, whose it is, and the rest."""
    verdict = f"{call['verdict']} (would {call['shadow']})" if call["shadow"] else call["verdict"]
    names = " ".join(call[name] for name in ("caller", "session", "agent", "model") if call[name])
    when, status = format_time(call["time"]), call["status"] or DASH
    return f"{when}  {verdict} {status}", names or DASH, ", ".join(_facts(call))


def _facts(call: CallView) -> Iterator[str]:
    if call["weight"] > 1:
        yield f"one of {call['weight']}"
    if call["rule"]:
        yield f"by {call['rule']}"
    if call["input_tokens"] or call["output_tokens"]:
        yield f"{call['input_tokens']:,} tokens in"
        yield f"{call['output_tokens']:,} out"
        yield format_usd(call["cost_usd"])
    latency = call["latency"]
    yield f"{latency:.1f} s" if latency >= 1 else f"{latency * 1000:.0f} ms"
