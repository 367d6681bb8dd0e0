"""`looptrap check`: validate a configuration and summarise it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from looptrap.cli.output import fail
from looptrap.errors import ConfigError

if TYPE_CHECKING:
    from looptrap.config import Config


@click.command(short_help="Check a configuration and say what will happen under it.")
@click.argument("file", required=False, type=click.Path())
@click.option("--effective", is_flag=True, help="Print every value and where it came from.")
@click.option("--preset", metavar="NAME", help="Start from this preset.")
def check(file: str | None, effective: bool, preset: str | None) -> None:
    """Check FILE (TOML, or a Fairvisor bundle in JSON) and say what will happen under it.

    Without FILE, check the environment and the built-in defaults. Mistakes go to standard
    error, one a line, with exit status 2.
    """
    from looptrap.config import load

    try:
        config = load(file, env=os.environ, flags={"preset": preset})
        unset = _check_start(config)
    except ConfigError as error:
        fail(error, place=file or "")
    if effective:
        _print_effective(config)
    else:
        _print_summary(config)
    for warning in (*config.warnings, *unset):
        click.echo(f"warning: {warning}", err=True)


def _check_start(config: Config) -> list[str]:
    """Raise what `serve` would refuse at its start; return the variables that are not set here."""
    from looptrap.admin.auth import AdminAuth
    from looptrap.gateway.auth import check_token
    from looptrap.incident.alert.channel import channel_problems

    gateway, env = config.gateway, os.environ
    problems = list(channel_problems(config.channels, env))
    variables = {
        f"gateway.{name}": getattr(gateway, name)
        for name in ("admin_token_env", "read_token_env", "decision_token_env")
    }
    for i, channel in enumerate(config.channels):
        variables[f"channels[{i}].url_env"] = channel.url_env
        variables[f"channels[{i}].secret_env"] = channel.secret_env
    unset = {place: name for place, name in variables.items() if name and not env.get(name)}
    admin, reader, decision = (
        env.get(getattr(gateway, name) or "", "")
        for name in ("admin_token_env", "read_token_env", "decision_token_env")
    )
    try:
        if "gateway.admin_token_env" not in unset:
            AdminAuth(gateway.admin.host, admin, reader)
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
    from looptrap.schema.wording import shown

    lines = [(f"{place} = {shown(value)}", origin) for place, value, origin in config.effective()]
    width = max(len(line) for line, _ in lines)
    for line, origin in lines:
        click.echo(f"{line.ljust(min(width, 72))}  # {origin}")


def _print_summary(config: Config) -> None:
    from looptrap.config import description

    source = f" of preset {config.preset}" if config.preset else ""
    click.echo(click.style(f"Policies{source}", bold=True))
    for policy in config.policies:
        click.echo(f"  {description.of_policy(policy)}")
        for rule in policy.rules:
            click.echo(f"    {description.of_rule(rule)}")
        for rate in policy.rates:
            click.echo(f"    {description.of_rate(rate)}")
    if not any(rule.enabled for policy in config.policies for rule in policy.rules):
        click.echo("  No rule is in effect: nothing is detected.")
    for heading, sentences in (
        ("Projects", [description.of_project(project) for project in config.projects]),
        ("Tools", [description.of_tool(*one) for one in config.tools.items()]),
        ("Budgets", [description.of_budget(one) for one in config.budgets]),
        ("Kill switches", [description.of_kill_switch(one) for one in config.kill_switches]),
        ("Routes", [description.of_route(one) for one in config.routes]),
        ("Channels", [description.of_channel(one) for one in config.channels]),
        ("Otherwise", description.of_rest(config)),
    ):
        if sentences:
            click.echo(click.style(heading, bold=True))
        for each in sentences:
            click.echo(f"  {each}")


def load_config(config: str | None, preset: str | None) -> Config:
    """Return the configuration in effect; end the command where it has mistakes."""
    from looptrap.config import load

    try:
        found = load(config, env=os.environ, flags={"preset": preset})
    except ConfigError as error:
        fail(error, place=config or "")
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    return found
