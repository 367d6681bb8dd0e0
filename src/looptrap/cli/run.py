"""`looptrap run`: run a command with its calls guarded."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from looptrap.cli.config import config_option, preset_option
from looptrap.cli.gateway_client import DEFAULT_ADDRESS
from looptrap.cli.output import default_place
from looptrap.errors import ConfigError, Problem
from looptrap.schema import INVALID, Number, from_text

USD = Number(low=0.0001, high=1_000_000, unit="dollars")
HOURS = Number(low=0.0001, high=10_000, unit="hours")
STATUS = Number(low=1, high=255, whole=True)

EMBEDDED_ONLY = ("file", "preset", "upstream", "budget", "on_loop", "history")
"""Options of the embedded gateway, which mean nothing with `--gateway`."""


@click.command(
    short_help="Run a command with its calls guarded.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@config_option
@preset_option
@click.option("--gateway", metavar="URL", help="Use this running gateway; start none.")
@click.option("--upstream", metavar="URL", help="Send everything to this URL.")
@click.option("--budget", metavar="USD", help="Refuse calls beyond this cost of the whole run.")
@click.option("--max-hours", metavar="N", help="End the command after N hours.")
@click.option(
    "--on-loop", metavar="ACTION", help="block, stop (a final message) or notify.  [block]"
)
@click.option("--exit-code", metavar="N", help="The exit status if a call was refused as a loop.")
@click.option(
    "--admin",
    metavar="ADDRESS",
    help=f"Start the dashboard here; with --gateway, where it is.  [{DEFAULT_ADDRESS}]",
)
@click.option(
    "--history", metavar="FILE", help="Incidents and costs.  [~/.local/state/looptrap/runs.db]"
)
@click.option("--quiet", is_flag=True, help="Print nothing but mistakes.")
def run(command: tuple[str, ...], **options: Any) -> None:
    """Run COMMAND, such as `claude -p "Fix the tests"`, with a gateway in front of its model.

    The gateway listens on a free port of this machine and ends with the command. Its standard
    input, output and error are the command's; a line at the start and a report at the end go to
    standard error. The exit status is the command's.

    \b
    Examples: looptrap run -- claude -p "Fix the failing tests"
              looptrap run --budget 5 --max-hours 8 -- codex exec "Fix the failing tests"
    """
    if not command:
        message = 'names no command: looptrap run -- claude -p "Fix the failing tests"'
        raise ConfigError([Problem("COMMAND", message)])
    numbers = _read_numbers(options)
    from looptrap.cli.client_program import UserFiles
    from looptrap.cli.guarded_run import GuardedRun, embedded_run, remote_run

    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    user = UserFiles(os.environ, Path.home(), Path.cwd(), has_terminal)
    guarded: GuardedRun
    if options["gateway"]:
        token_env = os.environ.get("LOOPTRAP_ADMIN_TOKEN_ENV")
        admin = options["admin"] or os.environ.get("LOOPTRAP_ADMIN") or DEFAULT_ADDRESS
        guarded = remote_run(command, user, options["gateway"], admin, token_env)
    else:
        flags = {name: options[name] for name in ("preset", "upstream", "on_loop", "history")}
        with default_place(options["file"]):
            guarded = embedded_run(
                command, user, options["file"], flags, options["admin"], numbers["budget"]
            )
    hours, exit_code = numbers["max_hours"], numbers["exit_code"]
    status = guarded.run(hours * 3_600 if hours else None, is_quiet=options["quiet"])
    if exit_code is not None and guarded.has_refused:
        status = exit_code
    raise click.exceptions.Exit(status)


def _read_numbers(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the numeric options, None for those not given."""
    problems: list[Problem] = []
    numbers: dict[str, Any] = {}
    for name, kind in (("budget", USD), ("max_hours", HOURS), ("exit_code", STATUS)):
        text = options[name]
        value = None
        if text is not None:
            value = kind.read(from_text(kind, text), f"--{name.replace('_', '-')}", problems)
        numbers[name] = None if value is INVALID else value
    given = [name for name in EMBEDDED_ONLY if options["gateway"] and options[name] is not None]
    for name in given:
        flag = "config" if name == "file" else name.replace("_", "-")
        message = "means nothing with --gateway: that gateway has its own settings"
        problems.append(Problem(f"--{flag}", message))
    if problems:
        raise ConfigError(problems)
    return numbers
