"""`looptrap init`: write a first configuration from three answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from looptrap.errors import ConfigError, Problem

DEFAULT_FILE = "looptrap.toml"

STRICTNESS = {
    "block": "it is refused with an error",
    "stop": "it gets a final message, for agents that handle no errors",
    "notify": "it passes with a warning, and is reported",
    "shadow": "it passes, and is reported: nothing is refused, not even by budgets",
}
"""What happens to a loop, by answer."""

ALERTS = ("none", "slack", "webhook", "apprise")


class ProviderNames(click.ParamType[tuple[str, ...]]):
    """Names of well-known providers; these are imported only when they are needed."""

    name = "provider"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = read_names(value)
        if not names:
            self.fail("is empty", param, ctx)
        for name in names:
            if name not in provider_names():
                self.fail(f"{name!r} is none of {', '.join(provider_names())}", param, ctx)
        return names

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(one) for one in provider_names() if one.startswith(incomplete)]


def read_names(text: str) -> tuple[str, ...]:
    """Return the names in a text, each once, with commas or spaces between them."""
    return tuple(dict.fromkeys(text.lower().replace(",", " ").split()))


def provider_names() -> tuple[str, ...]:
    """Return the names of well-known providers."""
    from looptrap.config.provider import KINDS

    return tuple(KINDS)


@click.command(short_help="Write a first configuration.")
@click.option(
    "--provider",
    "providers",
    metavar="NAME",
    type=ProviderNames(),
    multiple=True,
    help="A provider that calls go to: openai, azure, vllm, …; may be repeated.",
)
@click.option(
    "--strictness",
    type=click.Choice([*STRICTNESS], case_sensitive=False),
    help="What happens to a loop: an error, a final message, a warning, or only a report.",
)
@click.option("--alert", type=click.Choice(ALERTS, case_sensitive=False), help="Who gets alerts.")
@click.option("--yes", is_flag=True, help="Ask nothing: defaults for what no flag says.")
@click.option(
    "--output", metavar="FILE", default=DEFAULT_FILE, help="The file to write.  [looptrap.toml]"
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def init(
    providers: Sequence[tuple[str, ...]],
    strictness: str | None,
    alert: str | None,
    yes: bool,
    output: str,
    force: bool,
) -> None:
    """Write a commented looptrap.toml, and say what to do next.

    Asks which providers calls go to, how strict the gateway is, and who gets alerts. Flags answer
    without a question; where there is no terminal, nothing is asked.

    \b
    Examples: looptrap init
              looptrap init --provider openai --provider anthropic --alert slack
              looptrap init --yes --strictness shadow --output /etc/looptrap/looptrap.toml
    """
    from looptrap.cli.starter_file import Answers, next_steps, toml_of

    path = Path(output)
    if not output or path.is_dir():
        raise ConfigError([Problem("--output", f"is {output!r}, must be the path of a file")])
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if path.exists() and not force:
        if not asks:
            raise ConfigError([Problem(output, "exists: --force replaces it")])
        click.confirm(f"{output} exists. Replace it?", abort=True)
    answers = Answers(
        tuple(dict.fromkeys(name for names in providers for name in names))
        or (_ask_providers() if asks else ("openai", "anthropic")),
        strictness or (_ask_strictness() if asks else "block"),
        alert or (_ask_alert() if asks else "none"),
    )
    try:
        path.write_text(toml_of(answers), "utf-8")
    except OSError as error:
        message = f"cannot write there: {(error.strerror or str(error)).lower()}"
        raise ConfigError([Problem(output, message)]) from None
    click.echo(f"Wrote {output}.")
    for number, step in enumerate(next_steps(answers, output), 1):
        click.echo(f"\n{number}. {step}")


def _ask_providers() -> tuple[str, ...]:
    click.echo("Which providers do calls go to? One or more of")
    names = ", ".join(provider_names())
    click.echo(click.wrap_text(names, initial_indent="  ", subsequent_indent="  "))
    click.echo("(google is Gemini in the dialect of OpenAI)")

    def read(text: str) -> tuple[str, ...]:
        names = read_names(text)
        unknown = [name for name in names if name not in provider_names()]
        if unknown or not names:
            raise click.UsageError(f"not in the list: {', '.join(unknown) or 'nothing'}")
        return names

    chosen: tuple[str, ...] = click.prompt("Providers", default="openai anthropic", value_proc=read)
    return chosen


def _ask_strictness() -> str:
    click.echo("How strict? What happens to a loop:")
    for name, meaning in STRICTNESS.items():
        click.echo(f"  {name.ljust(8)}{meaning}")
    chosen: str = click.prompt(
        "Strictness",
        default="block",
        type=click.Choice([*STRICTNESS], case_sensitive=False),
        show_choices=False,
    )
    return chosen


def _ask_alert() -> str:
    kind = click.Choice(ALERTS, case_sensitive=False)
    chosen: str = click.prompt("Who gets alerts?", default="none", type=kind)
    return chosen
