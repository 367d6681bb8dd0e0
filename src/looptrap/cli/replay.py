"""`looptrap replay`: judge recorded runs by policies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from looptrap.cli.check import load_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from looptrap.config import Config
    from looptrap.replay.replay import Replay, ReplayStep

MAX_NAMED_LINES = 20
"""Lines of a file that are reported as not runs; others are only counted."""


@click.command(short_help="Try policies on recorded runs.")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False),
)
@click.option("--config", metavar="FILE", type=click.Path(), help="TOML, or a bundle.")
@click.option("--preset", metavar="NAME", help="Start from this preset.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a run, nothing else.")
@click.option(
    "--html",
    metavar="OUT",
    type=click.File("w", encoding="utf-8", lazy=False),
    help="Write a page with plots.",
)
def replay(
    files: tuple[str, ...],
    config: str | None,
    preset: str | None,
    as_json: bool,
    html: IO[str] | None,
) -> None:
    """Judge the runs or captured calls in FILE (JSONL, plain or gzip) as the gateway would have.

    Exit status 1 when no run could be read, or a file only in part.
    """
    from looptrap.replay.replay import Replay
    from looptrap.replay.report import render_html, render_text

    found = load_config(config, preset)
    replaying = Replay(
        found.policies,
        tools=found.tools,
        projects=found.projects,
        sweeps=not as_json or html is not None,
    )
    _replay_all(replaying, [Path(name) for name in files], as_json)
    summary = replaying.summary
    if html is not None:
        html.write(render_html(summary, _source(found, config)))
    if not as_json:
        click.echo(render_text(summary))
    if summary.unfinished or not summary.runs:
        raise click.exceptions.Exit(1)


def _source(config: Config, file: str | None) -> str:
    return f"preset {config.preset}" if config.preset else f"the policies of {file}"


def _replay_all(replaying: Replay, paths: list[Path], as_json: bool) -> None:
    import msgspec
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    # Lines of JSON and a progress bar would overwrite each other on one screen.
    is_shown = console.is_terminal and not (as_json and sys.stdout.isatty())
    with Progress(console=console, disable=not is_shown, transient=True) as progress:
        for path in paths:
            task = progress.add_task(path.name, total=path.stat().st_size)
            for step in _steps(replaying, path, console):
                if as_json and step.result is not None:
                    click.echo(msgspec.json.encode(step.result))
                progress.update(task, completed=step.position)
        for result in replaying.finish():
            if as_json:
                click.echo(msgspec.json.encode(result))


def _steps(replaying: Replay, path: Path, console: Console) -> Iterator[ReplayStep]:
    """Yield the steps of a file, and report which of its lines are not runs."""
    unnamed = 0
    for step in replaying.file(path):
        if step.number is None:
            _say(console, f"{path}: cannot be read further: {step.problem}")
        elif step.problem:
            unnamed += 1
            if unnamed <= MAX_NAMED_LINES:
                _say(console, f"{path}:{step.number}: is not a run: {step.problem}")
        yield step
    if unnamed > MAX_NAMED_LINES:
        _say(console, f"{path}: {unnamed - MAX_NAMED_LINES} more lines are not runs")


def _say(console: Console, line: str) -> None:
    """Print a line on standard error, above the progress bar if there is one."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
