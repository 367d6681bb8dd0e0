"""`looptrap replay`: judge recorded runs by policies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from looptrap.cli.config import config_option, load_config, policy_source, preset_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from looptrap.replay.judge import RunResult
    from looptrap.replay.replay import Replay, ReplayStep

MAX_NAMED_LINES = 20
"""Lines of a file that are reported as not runs; others are only counted."""


@click.command(short_help="Try policies on recorded runs.")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@config_option
@preset_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a run, nothing else.")
@click.option(
    "--html",
    metavar="OUT",
    type=click.File("w", encoding="utf-8", lazy=False),
    help="Write a page with plots.",
)
def replay(
    files: tuple[Path, ...],
    file: str | None,
    preset: str | None,
    as_json: bool,
    html: IO[str] | None,
) -> None:
    """Judge the runs or captured calls in FILE (JSONL, plain or gzip) as the gateway would have.

    If no run could be read, or a file only in part, the exit status is 1.
    """
    from looptrap.replay.replay import Replay
    from looptrap.replay.report import render_html, render_text
    from looptrap.replay.ruleset import Ruleset

    config = load_config(file, preset)
    replay = Replay(Ruleset.of(config), sweeps=not as_json or html is not None)
    _replay_files(replay, files, as_json)
    summary = replay.summary
    if html is not None:
        html.write(render_html(summary, policy_source(config, file)))
    if not as_json:
        click.echo(render_text(summary))
    if summary.unfinished_files or not summary.runs:
        raise click.exceptions.Exit(1)


def _replay_files(replay: Replay, paths: tuple[Path, ...], as_json: bool) -> None:
    import msgspec
    from rich.console import Console
    from rich.progress import Progress

    def print_result(result: RunResult | None) -> None:
        if as_json and result is not None:
            click.echo(msgspec.json.encode(result))

    console = Console(stderr=True, markup=False, highlight=False)
    # Lines of JSON and a progress bar would overwrite each other on one screen.
    is_shown = console.is_terminal and not (as_json and sys.stdout.isatty())
    with Progress(console=console, disable=not is_shown, transient=True) as progress:
        for path in paths:
            task = progress.add_task(path.name, total=path.stat().st_size)
            for step in _steps(replay, path, console):
                print_result(step.result)
                progress.update(task, completed=step.position)
        for result in replay.finish():
            print_result(result)


def _steps(replay: Replay, path: Path, console: Console) -> Iterator[ReplayStep]:
    """Yield the steps of a file, and report which of its lines are not runs."""

    def report(line: str) -> None:
        console.print(line, soft_wrap=True)  # above the progress bar if there is one

    skipped = 0
    for step in replay.play_file(path):
        if step.number is None:
            report(f"{path}: cannot be read further: {step.problem}")
        elif step.problem:
            skipped += 1
            if skipped <= MAX_NAMED_LINES:
                report(f"{path}:{step.number}: is not a run: {step.problem}")
        yield step
    if skipped > MAX_NAMED_LINES:
        report(f"{path}: {skipped - MAX_NAMED_LINES} more lines are not runs")
