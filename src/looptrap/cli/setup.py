"""`looptrap setup`: point a program at a gateway for good."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from looptrap.cli.gateway_client import DEFAULT_GATEWAY
from looptrap.errors import ConfigError, Problem
from looptrap.schema.wording import escaped

if TYPE_CHECKING:
    from looptrap.cli.client_program import BaseUrls, ClientProgram, UserFiles
    from looptrap.cli.settings_file import Values

PROGRAM_NAMES = (
    "aider", "claude", "cline", "codex", "cursor", "gemini", "opencode", "qwen", "vscode",
)  # fmt: skip


@click.command(short_help="Point a program at a gateway for good.")
@click.argument("name", metavar="PROGRAM", type=click.Choice(PROGRAM_NAMES))
@click.option(
    "--gateway", metavar="URL", default=DEFAULT_GATEWAY, show_default=True, help="Its address."
)
@click.option("--write", is_flag=True, help="Write it, and keep a copy of the earlier file.")
def setup(name: str, gateway: str, write: bool) -> None:
    """Print the lines that point PROGRAM at a gateway, and the file that they belong to.

    PROGRAM is aider, claude, cline, codex, cursor, gemini, opencode, qwen or vscode. With --write
    the lines are merged into the file; everything else in it stays.

    \b
    Example: looptrap setup claude --write
    """
    from looptrap.cli.client_program import ANTHROPIC, OPENAI, BaseUrls, UserFiles, gateway_url
    from looptrap.cli.client_table import program_named

    program, user = program_named(name), UserFiles(os.environ, Path.home())
    urls = BaseUrls(gateway_url(gateway, "--gateway"), program.upstream(user))
    if not program.steps:
        _set_up(program, user, urls, is_written=write)
        return
    if write:
        message = f"does not apply to {name}: `looptrap setup {name}` prints what to do instead"
        raise ConfigError([Problem("--write", message)])
    click.echo(program.steps.format(openai=urls.of(OPENAI), anthropic=urls.of(ANTHROPIC)))


def _set_up(program: ClientProgram, user: UserFiles, urls: BaseUrls, *, is_written: bool) -> None:
    """Print the lines of each file; write them if asked to."""
    from looptrap.cli.settings_file import merge_file, new_text, replace_file

    earlier = program.configured(user)
    files: dict[str, Values] = {program.file: program.values(user, urls), **program.missing(user)}
    # All are merged before one is written: a mistake in one must not leave half of it done.
    merged = [(user.path(name), values, *merge_file(user.path(name), values))
              for name, values in files.items()] if is_written else []  # fmt: skip
    for name, values in files.items():
        click.echo(f"{escaped(str(user.path(name)))}:\n\n{new_text(user.path(name), values)}")
    for path, _, before, after in merged:
        if before == after:
            click.echo(f"{escaped(str(path))} has these lines already.")
            continue
        backup = replace_file(path, after, datetime.now())
        kept = f", the earlier file is {backup.name}" if backup is not None else ""
        click.echo(f"{escaped(str(path))} is written{kept}.")
    for known in earlier.values():
        if known.url != urls.of(known.form):
            click.echo(
                f"note: {known.place} names {escaped(known.url)}: the gateway must send these calls"
                f" there, as `looptrap serve --upstream {escaped(known.url)}` does",
                err=True,
            )
    for warning in program.warnings(user, ()):
        click.echo(f"note: {program.name}: {warning}", err=True)
