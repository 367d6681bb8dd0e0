"""`looptrap doctor`: find what is wrong before users do."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from looptrap.cli.config import unread_file_warnings
from looptrap.cli.output import json_option
from looptrap.cli.serve import gateway_settings_options

if TYPE_CHECKING:
    from looptrap.config import Config

Status = Literal["ok", "warning", "problem"]

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


class Finding(NamedTuple):
    """What was looked at, how it is, and what to do about it."""

    what: str
    status: Status
    message: str
    remedy: str = ""


@click.command(short_help="Find what is wrong, and what to do about it.")
@gateway_settings_options
@click.option("--send", is_flag=True, help="Send a test alert through every channel.")
@json_option
def doctor(file: str | None, flags: dict[str, Any], send: bool, as_json: bool) -> None:
    """Look at everything that `looptrap serve` with the same flags needs.

    Settings and variables, providers and their keys, store, clock, files, ports, disk, versions,
    alerts and Python. Every provider is asked for its list of models, which costs nothing. A line
    each; below what is not as it should be, what to do. If there is a problem the exit status is 1.

    \b
    Examples: looptrap doctor
              looptrap doctor --config looptrap.toml --send
    """
    findings = _examine(file, flags, send)
    if as_json:
        click.echo(json.dumps([one._asdict() for one in findings], indent=2))
    else:
        _print(findings)
    if any(one.status == "problem" for one in findings):
        raise click.exceptions.Exit(1)


def _examine(file: str | None, flags: dict[str, Any], send: bool) -> list[Finding]:
    import asyncio

    from looptrap.cli import doctor_checks as checks
    from looptrap.cli.start_check import check_start
    from looptrap.config import load
    from looptrap.errors import ConfigError

    findings = [checks.interpreter_finding(), checks.versions_finding()]
    try:
        config = load(file, env=os.environ, flags=flags)
    except ConfigError as error:
        return [*findings, *checks.settings_findings(error.problems, ())]
    start = check_start(config, os.environ)
    warnings = [*unread_file_warnings(file), *config.warnings, *start.warnings]
    findings += checks.settings_findings(start.problems, warnings)
    findings += checks.state_findings(config, start)
    findings += checks.history_findings(config)
    findings += checks.port_findings(config)
    return [*findings, *asyncio.run(_ask_others(config, send))]


async def _ask_others(config: Config, send: bool) -> list[Finding]:
    """Ask providers, store and channels."""
    import asyncio

    from looptrap.cli.doctor_checks import channel_findings, clock_finding, store_findings
    from looptrap.cli.provider_probe import probe_providers

    (providers, skews), (store, more), channels = await asyncio.gather(
        probe_providers(config, os.environ),
        store_findings(config),
        channel_findings(config, os.environ, send),
    )
    return [*providers, *store, clock_finding([*skews, *more]), *channels]


def _print(findings: list[Finding]) -> None:
    for one in findings:
        mark = click.style(one.status.ljust(7), fg=COLOURS[one.status])
        click.echo(f"{mark}  {one.what}: {one.message}")
        if one.remedy:
            click.echo(f"         → {one.remedy}")
    numbers = Counter(one.status for one in findings)
    found = [_count(numbers[status], status) for status in ("problem", "warning")]
    click.echo(f"{', '.join(found).capitalize()}.")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
