"""`looptrap release`: let calls pass again that are refused as a loop."""

from __future__ import annotations

import json

import click

from looptrap.cli.gateway_client import ask_gateway, gateway_options
from looptrap.cli.output import fail
from looptrap.errors import ConfigError
from looptrap.schema.wording import escaped

PATH = "/api/v1/release"

USAGE_MESSAGE = "give a FINGERPRINT, or --caller, or --incident, or these two"


@click.command(short_help="Let calls pass again that are refused as a loop.")
@click.argument("fingerprint", required=False)
@click.option("--caller", metavar="CALLER", help="All that its open incidents are refused under.")
@click.option("--incident", metavar="ID", help="All that this incident was refused under lately.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@gateway_options
def release(as_json: bool, admin: str, token_env: str | None, **wanted: str | None) -> None:
    """Let the next call of FINGERPRINT pass.

    A refusal names its fingerprint, `looptrap incidents show` those of an incident.

    Counting begins anew: a loop that goes on is refused again. Where nothing was refused the exit
    status is 1.

    \b
    Examples: looptrap release 1-5f0c2a9be4d17786…
              looptrap release --caller key:ci
              looptrap release --incident inc_4be01c7d
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    try:
        if not given or ("fingerprint" in given and len(given) > 1):
            raise ConfigError(USAGE_MESSAGE)
        answer = ask_gateway(admin, token_env, "POST", PATH, given)
    except ConfigError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(answer))
    elif answer["released"]:
        for one in answer.get("fingerprints", [wanted["fingerprint"]]):
            click.echo(f"The next call of {escaped(one)} passes.")
    else:
        click.echo("Nothing was refused there, so nothing was released.", err=True)
    if not answer["released"]:
        raise click.exceptions.Exit(1)
