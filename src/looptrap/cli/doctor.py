"""`looptrap doctor`: find what is wrong before users do."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Literal, NamedTuple

import click

from looptrap.cli.output import json_option, plural
from looptrap.cli.serve import gateway_settings_options

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
    from looptrap.cli.doctor_checks import examine

    findings = examine(file, flags, send)
    if as_json:
        click.echo(json.dumps([one._asdict() for one in findings], indent=2))
    else:
        _print(findings)
    if any(one.status == "problem" for one in findings):
        raise click.exceptions.Exit(1)


def _print(findings: list[Finding]) -> None:
    for one in findings:
        mark = click.style(one.status.ljust(7), fg=COLOURS[one.status])
        click.echo(f"{mark}  {one.what}: {one.message}")
        if one.remedy:
            click.echo(f"         → {one.remedy}")
    numbers = Counter(one.status for one in findings)
    found = [
        plural(numbers[status], status) if numbers[status] else f"no {status}s"
        for status in ("problem", "warning")
    ]
    click.echo(f"{', '.join(found).capitalize()}.")
