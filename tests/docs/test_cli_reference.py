"""The page on the command line is what the commands say of themselves.

`LOOPTRAP_WRITE_TABLES=1` writes the page anew instead of comparing it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from looptrap.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "cli.md"

INTRODUCTION = """# Command line

What each command says of itself with `--help`. `make serve` runs `looptrap serve`.

The first minute: `looptrap init` writes a configuration from three answers, `looptrap doctor` finds
what is wrong with it and around it, `looptrap check` says what it means, `looptrap serve` runs it.

## Shell completion

Commands, options and their values are completed by the Tab key, once the shell is prepared for it:

| shell | line | where |
|---|---|---|
| bash 4.4 or newer | `eval "$(_LOOPTRAP_COMPLETE=bash_source looptrap)"` | `~/.bashrc` |
| zsh | `eval "$(_LOOPTRAP_COMPLETE=zsh_source looptrap)"` | `~/.zshrc` |
| fish | `_LOOPTRAP_COMPLETE=fish_source looptrap \\| source` | `~/.config/fish/config.fish` |

In place of the `eval`, the output can be kept in a file that the shell reads: a new shell then
starts sooner.
"""


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all under it, with their whole names."""
    yield name, command
    if isinstance(command, click.Group):
        for word, one in sorted(command.commands.items()):
            yield from commands(one, f"{name} {word}")


def described(name: str, command: click.Command) -> str:
    width = {"terminal_width": 78, "max_content_width": 78}
    with click.Context(command, info_name=name, **width, **main.context_settings) as context:
        return f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"


def whole() -> str:
    return "\n".join([INTRODUCTION, *(described(*one) for one in commands(main, "looptrap"))])


def test_the_page_is_what_the_commands_say_of_themselves():
    # In a process of its own: commands remember how they were first asked for help.
    asked = [sys.executable, "-c", f"from {__name__} import whole; print(whole(), end='')"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT)
    page = done.stdout
    if os.environ.get("LOOPTRAP_WRITE_TABLES"):
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page


def test_every_command_and_option_says_what_it_is_for():
    for name, command in commands(main, "looptrap"):
        assert command.help, name
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts}"
