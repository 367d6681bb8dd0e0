"""The client of a running gateway's admin address."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from looptrap.errors import ConfigError, Problem

if TYPE_CHECKING:
    from looptrap.config.kind import Address

ADMIN_TIMEOUT_S = 10.0

DEFAULT_ADDRESS = "127.0.0.1:4101"


def gateway_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags for the gateway's address and token."""
    command = click.option(
        "--token-env",
        metavar="NAME",
        envvar="LOOPTRAP_ADMIN_TOKEN_ENV",
        help="The variable with the admin token, as admin_token_env names it.",
    )(command)
    return click.option(
        "--admin",
        metavar="ADDRESS",
        envvar="LOOPTRAP_ADMIN",
        default=DEFAULT_ADDRESS,
        help=f"The admin address of the gateway.  [default: {DEFAULT_ADDRESS}]",
    )(command)


def ask_gateway(
    admin: str, token_env: str | None, method: str, path: str, sent: object = None
) -> Any:
    """Send a request to the gateway and return its answer; a ConfigError says why there is none."""
    address = _address(admin)
    headers = {"Content-Type": "application/json"} | _authorisation(token_env)
    # First without the token: a wrong address, such as a provider's, must not get it.
    if _exchange(address, "GET", "/livez", {}, None) != (200, {"status": "alive"}):
        message = "is not the admin address of a gateway"
        raise ConfigError([Problem(str(address), message)])
    status, answer = _exchange(address, method, path, headers, sent)
    if status < 400:
        return answer
    if status == 401:
        message = "needs its token: name the variable that has it with --token-env"
        raise ConfigError([Problem(str(address), message)])
    error = answer["error"]
    problems = error.get("problems") or [{"place": "", "message": error["message"]}]
    raise ConfigError([Problem(problem["place"], problem["message"]) for problem in problems])


def _exchange(
    address: Address, method: str, path: str, headers: dict[str, str], sent: object
) -> tuple[int, Any]:
    """Return status and JSON of an answer, None for what is not JSON."""
    body = json.dumps(sent) if sent is not None else None
    connection = http.client.HTTPConnection(address.host, address.port, timeout=ADMIN_TIMEOUT_S)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except ValueError:
        return response.status, None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        message = f"does not answer ({why.lower()}): is `looptrap serve` running there?"
        raise ConfigError([Problem(str(address), message)]) from None
    finally:
        connection.close()


def _address(text: str) -> Address:
    from looptrap.config.kind import Listen

    problems: list[Problem] = []
    address: Address = Listen().read(text, "--admin", problems)
    if problems:
        raise ConfigError(problems)
    return address


def _authorisation(token_env: str | None) -> dict[str, str]:
    if not token_env:
        return {}
    token = os.environ.get(token_env, "")
    if not token:
        raise ConfigError(
            [Problem("--token-env", f"the variable {token_env} is not set, or empty")]
        )
    return {"Authorization": f"Bearer {token}"}
