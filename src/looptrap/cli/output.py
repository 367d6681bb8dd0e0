"""Output of commands: tables, JSON, times, and where a mistake is."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import click

from looptrap.errors import ConfigError, Problem
from looptrap.schema.wording import escaped

PIPE_WIDTH = 10_000
"""Columns where the output is no terminal: a row is one line."""

DASH = "–"
"""Shown for a value that is not known."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class ListingGroup(click.Group):
    """A group whose default command is `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["list", *args])


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings; columns with a heading of `#…` are numbers, on the right.

    The first column is never wrapped, so that it can be copied.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, heading in enumerate(headings):
        is_number = heading.startswith("#")
        table.add_column(
            heading.removeprefix("#"),
            justify="right" if is_number else "left",
            no_wrap=is_number or i == 0,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(escaped(cell)) for cell in row))
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.print(table)
        return
    # Remove the padding at the end of lines.
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def line_width() -> int:
    """Return the width of the terminal, or of a line in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, in a terminal each cut to its width."""
    width = line_width()
    for line in map(escaped, lines):
        click.echo(line if len(line) <= width else f"{line[: width - 1]}…")


def plural(number: float, noun: str) -> str:
    """Return a number of things."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(s|min|m|h|d)")


def format_duration(seconds: float) -> str:
    """Return a duration in a suitable unit."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    if whole < 86_400:
        hours, minutes = whole // 3_600, whole % 3_600 // 60
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days = whole // 86_400
    return f"{days} day{'s' if days > 1 else ''}"


def format_age(then: str, now: datetime) -> str:
    """Return how long ago a time in ISO 8601 is."""
    seconds = (now - datetime.fromisoformat(then)).total_seconds()
    return f"{format_duration(seconds)} ago" if seconds >= 1 else "just now"


def format_time(then: str) -> str:
    """Return a time in ISO 8601 as a date and time of UTC, to the second."""
    return f"{datetime.fromisoformat(then).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def parse_since(text: str, place: str, now: datetime) -> str:
    """Return the time of `24h` ago, or of a given time, in ISO 8601."""
    if match := _SPAN.fullmatch(text.strip()):
        try:
            return (now - timedelta(seconds=float(match[1]) * _UNITS[match[2]])).isoformat()
        except OverflowError:
            raise ConfigError([Problem(place, "is too long")]) from None
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        message = "must be a span such as 90s, 30m, 24h or 7d, or a time: 2026-11-16T09:00:00Z"
        raise ConfigError([Problem(place, message)]) from None
    # A time without an offset is local.
    return then.astimezone().isoformat()


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on standard error, a line each."""
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


@contextmanager
def default_place(place: str | None) -> Iterator[None]:
    """Give this place to the mistakes that have none."""
    try:
        yield
    except ConfigError as error:
        problems = [Problem(one.place or place or "", one.message) for one in error.problems]
        raise ConfigError(problems) from None
