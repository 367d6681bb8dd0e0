"""`looptrap check` and `looptrap presets`: configurations and presets, in words and in full."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from looptrap.cli.init import DEFAULT_FILE
from looptrap.cli.output import default_place, print_warnings
from looptrap.schema.wording import shown

if TYPE_CHECKING:
    from looptrap.cli.start_check import StartCheck
    from looptrap.config import Config

config_option = click.option(
    "--config", "file", metavar="FILE", type=click.Path(), help="TOML, or a Fairvisor bundle."
)
preset_option = click.option("--preset", metavar="NAME", help="Start from this preset.")


@click.command(short_help="Check a configuration and say what will happen under it.")
@click.argument("file", required=False, type=click.Path())
@click.option("--effective", is_flag=True, help="Print every value and where it came from.")
@click.option(
    "--file-only", is_flag=True, help="Leave out variables, files and folders of this machine."
)
@preset_option
def check(file: str | None, effective: bool, file_only: bool, preset: str | None) -> None:
    """Check FILE (TOML, or a Fairvisor bundle in JSON) and say what will happen under it.

    Without FILE, check the environment and the built-in defaults. Whatever would prevent a start of
    `looptrap serve` here is a mistake. Mistakes go to standard error, one a line, with exit
    status 2.
    """
    from looptrap.cli.start_check import StartCheck, check_start
    from looptrap.config import load

    with default_place(file):
        config = load(file, env=os.environ, flags={"preset": preset})
        start = StartCheck() if file_only else check_start(config, os.environ)
        start.raise_problems()
    if effective:
        _print_effective(config)
    else:
        _print_summary(config, None if file_only else start)
    unread = [] if file_only else unread_file_warnings(file)
    print_warnings([*unread, *config.warnings, *start.warnings])


@click.command(short_help="List the presets, or print one.")
@click.argument("name", required=False)
def presets(name: str | None) -> None:
    """List the presets; with NAME, print its TOML, to be used or changed in a file."""
    from looptrap.policy import preset

    if name is not None:
        with default_place("NAME"):
            click.echo(preset.text(name), nl=False)
        return
    width = max(map(len, preset.names()))
    for each in preset.names():
        click.echo(f"{click.style(each.ljust(width), bold=True)}  {preset.summary(each)}")


def unread_file_warnings(file: str | None) -> list[str]:
    """Return a warning where no file is named, and this folder has the one of `looptrap init`."""
    if file is not None or not Path(DEFAULT_FILE).is_file():
        return []
    return [f"{DEFAULT_FILE}: is in this folder and is not read unless it is named"]


def load_config(file: str | None, preset: str | None) -> Config:
    """Return the configuration in effect, and print its warnings."""
    from looptrap.config import load

    with default_place(file):
        config = load(file, env=os.environ, flags={"preset": preset})
    print_warnings(config.warnings)
    return config


def policy_source(config: Config, file: str | None) -> str:
    """Return the name of the preset, or of the file, that the policies are from."""
    return f"preset {config.preset}" if config.preset else str(file)


def _print_effective(config: Config) -> None:
    lines = [(f"{place} = {shown(value)}", origin) for place, value, origin in config.effective()]
    width = min(max(len(line) for line, _ in lines), 72)
    for line, origin in lines:
        click.echo(f"{line.ljust(width)}  # {origin}")


def _print_summary(config: Config, start: StartCheck | None) -> None:
    from looptrap.cli.start_check import has_route_for_all, used_providers
    from looptrap.config import description

    env = None if start is None else os.environ
    providers = [description.of_provider(one, env) for one in used_providers(config).values()]
    if config.gateway.upstream is not None and not has_route_for_all(config):
        providers.append(f"All other calls go to {config.gateway.upstream}.")
    number = None if start is None else len(start.keys)

    rules = []
    for policy in config.policies:
        rules.append(description.of_policy(policy))
        rules += [f"  {description.of_rule(rule)}" for rule in policy.rules]
        rules += [f"  {description.of_rate(rate)}" for rate in policy.rates]
    if not any(rule.enabled for policy in config.policies for rule in policy.rules):
        rules.append("No rule is in effect: nothing is detected.")
    for heading, sentences in (
        (f"Policies of preset {config.preset}" if config.preset else "Policies", rules),
        ("Projects", map(description.of_project, config.projects)),
        ("Tools", [description.of_tool(*item) for item in config.tools.items()]),
        ("Budgets", map(description.of_budget, config.budgets)),
        ("Kill switches", map(description.of_kill_switch, config.kill_switches)),
        ("Providers", providers),
        ("Routes", map(description.of_route, config.routes)),
        ("Channels", map(description.of_channel, config.channels)),
        ("Store and keys", [description.of_store(config), description.of_keys(config, number)]),
        ("Otherwise", description.of_rest(config)),
    ):
        if lines := [f"  {sentence}" for sentence in sentences]:
            click.echo("\n".join([click.style(heading, bold=True), *lines]))
