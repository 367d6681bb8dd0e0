"""`looptrap check` and `looptrap presets`: configurations and presets, in words and in full."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from looptrap.cli.output import default_place, print_warnings
from looptrap.errors import ConfigError
from looptrap.schema.wording import shown

if TYPE_CHECKING:
    from looptrap.config import Config

TOKEN_SETTINGS = ("admin_token_env", "read_token_env", "decision_token_env")

config_option = click.option(
    "--config", "file", metavar="FILE", type=click.Path(), help="TOML, or a Fairvisor bundle."
)
preset_option = click.option("--preset", metavar="NAME", help="Start from this preset.")


@click.command(short_help="Check a configuration and say what will happen under it.")
@click.argument("file", required=False, type=click.Path())
@click.option("--effective", is_flag=True, help="Print every value and where it came from.")
@preset_option
def check(file: str | None, effective: bool, preset: str | None) -> None:
    """Check FILE (TOML, or a Fairvisor bundle in JSON) and say what will happen under it.

    Without FILE, check the environment and the built-in defaults. Mistakes go to standard
    error, one a line, with exit status 2.
    """
    from looptrap.config import load

    with default_place(file):
        config = load(file, env=os.environ, flags={"preset": preset})
        unset = _check_start(config)
    if effective:
        _print_effective(config)
    else:
        _print_summary(config)
    print_warnings([*config.warnings, *unset])


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


def _check_start(config: Config) -> list[str]:
    """Raise what `serve` would refuse at its start; return warnings of variables that are unset."""
    from looptrap.admin.auth import AdminAuth
    from looptrap.admin.operator import configured_access
    from looptrap.gateway.auth import check_token
    from looptrap.incident.alert.channel import channel_problems

    gateway, env = config.gateway, os.environ
    problems = list(channel_problems(config.channels, env))
    variables = {f"gateway.{name}": getattr(gateway, name) for name in TOKEN_SETTINGS}
    for i, operator in enumerate(gateway.operators):
        variables[f"gateway.operators[{i}].token_env"] = operator.token_env
    for i, channel in enumerate(config.channels):
        variables[f"channels[{i}].url_env"] = channel.url_env
        variables[f"channels[{i}].secret_env"] = channel.secret_env
    unset = {place: name for place, name in variables.items() if name and not env.get(name)}
    try:
        # Tokens that are set where the gateway runs are taken for good ones.
        others = {name: f"not set here: {place}" for place, name in unset.items()}
        AdminAuth(gateway.admin.host, configured_access(config, {**env, **others}))
        decision = env.get(gateway.decision_token_env or "", "")
        check_token("gateway.decision_token_env", decision, gateway.listen.host)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return [
        f"{place}: the variable {name} is not set here, and serve needs it"
        for place, name in unset.items()
    ]


def _print_effective(config: Config) -> None:
    lines = [(f"{place} = {shown(value)}", origin) for place, value, origin in config.effective()]
    width = min(max(len(line) for line, _ in lines), 72)
    for line, origin in lines:
        click.echo(f"{line.ljust(width)}  # {origin}")


def _print_summary(config: Config) -> None:
    from looptrap.config import description

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
        ("Routes", map(description.of_route, config.routes)),
        ("Channels", map(description.of_channel, config.channels)),
        ("Otherwise", description.of_rest(config)),
    ):
        if lines := [f"  {sentence}" for sentence in sentences]:
            click.echo("\n".join([click.style(heading, bold=True), *lines]))
