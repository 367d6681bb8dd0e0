"""Commands that list things: a group whose first word may be left out, and tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from looptrap.schema.wording import escaped

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 10_000
"""Columns of an output that is no terminal: there a row is one line."""


class ListingGroup(click.Group):
    """Commands of which `list` is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["list", *args])


def console() -> Console:
    """Return where tables go: standard output, with colours in a terminal only."""
    from rich.console import Console

    return Console(
        width=None if sys.stdout.isatty() else WIDE,
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings; numbers, whose headings begin with `#`, stand on the right.

    The first column is what a row is called, and stays whole, to be copied.
    """
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
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    # Cells are filled up to their column's width: nobody needs that at the end of a line.
    with out.capture() as captured:
        out.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
