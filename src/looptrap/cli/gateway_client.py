"""The client of a running gateway's admin address."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from looptrap.errors import ConfigError, Problem

if TYPE_CHECKING:
    from looptrap.config.kind import Address

ADMIN_TIMEOUT_S = 10.0

DEFAULT_ADDRESS = "127.0.0.1:4101"

DEFAULT_GATEWAY = "http://127.0.0.1:4100"
"""Where `looptrap serve` listens for clients."""

PAGE_SIZE = 500
"""Most entries of a list in one answer."""

POLL_INTERVAL_S = 1.0


def gateway_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags for the gateway's address and token; the command gets a `gateway`."""

    @click.option(
        "--admin",
        metavar="ADDRESS",
        envvar="LOOPTRAP_ADMIN",
        default=DEFAULT_ADDRESS,
        help=f"The admin address of the gateway.  [default: {DEFAULT_ADDRESS}]",
    )
    @click.option(
        "--token-env",
        metavar="NAME",
        envvar="LOOPTRAP_ADMIN_TOKEN_ENV",
        help="The variable with the admin token, as admin_token_env names it.",
    )
    @wraps(command)
    def with_gateway(*, admin: str, token_env: str | None, **options: Any) -> None:
        command(gateway=GatewayClient(admin, token_env), **options)

    return with_gateway


class GatewayClient:
    """Sends requests to the admin address; every failure is a ConfigError."""

    def __init__(self, admin: str, token_env: str | None) -> None:
        self._admin = admin
        self._token_env = token_env

    def get(self, path: str, **query: object) -> Any:
        """Return what is at a path."""
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def read_list(
        self, path: str, name: str, limit: int, query: dict[str, Any]
    ) -> tuple[list[Any], Any]:
        """Return up to `limit` entries of a list, and the last answer that had some of them."""
        found: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            number = min(limit - len(found), PAGE_SIZE)
            answer = self.get(path, limit=number, **query, **cursor)
            found += answer[name]
            if answer["next"] is None or len(found) >= limit:
                return found, answer
            cursor = {"cursor": answer["next"]}

    def ask(self, method: str, path: str, content: object = None) -> Any:
        """Send a request with that content as JSON, and return the answer."""
        return _decode(self.read_text(path, method, content))

    def read_text(self, path: str, method: str = "GET", content: object = None) -> str:
        """Send a request with that content as JSON, and return the text of the answer."""
        address = _parse_address(self._admin)
        headers = {"Content-Type": "application/json"} | _authorisation(self._token_env)
        # First without the token: a wrong address, such as a provider's, must not get it.
        if not is_gateway(address):
            message = "is not the admin address of a gateway"
            raise ConfigError([Problem(str(address), message)])
        status, text = _exchange(address, method, path, headers, content)
        if status < 400:
            return text
        if status == 401:
            message = "needs its token: name the variable that has it with --token-env"
            raise ConfigError([Problem(str(address), message)])
        error = _decode(text)["error"]
        problems = error.get("problems") or [{"place": "", "message": error["message"]}]
        raise ConfigError([Problem(problem["place"], problem["message"]) for problem in problems])


def poll(ask: Callable[[], Any]) -> Iterator[Any]:
    """Yield what a function returns, every second; a gateway that does not answer may return."""
    is_away = False
    while True:
        time.sleep(POLL_INTERVAL_S)
        try:
            answer = ask()
        except ConfigError as error:
            if not is_away:
                click.echo(f"{error} Retrying every second.", err=True)
            is_away = True
            continue
        if is_away:
            click.echo("It answers again.", err=True)
        is_away = False
        yield answer


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End the block at Ctrl-C or SIGTERM, which is no mistake."""
    # A background process of a script never gets Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


def is_gateway(address: Address, timeout: float = ADMIN_TIMEOUT_S) -> bool:
    """Return whether an address is that of a gateway; raise ConfigError if nothing answers."""
    status, text = _exchange(address, "GET", "/livez", {}, None, timeout)
    return (status, _decode(text)) == (200, {"status": "alive"})


def _exchange(
    address: Address,
    method: str,
    path: str,
    headers: dict[str, str],
    content: object,
    timeout: float = ADMIN_TIMEOUT_S,
) -> tuple[int, str]:
    """Return status and text of an answer."""
    body = json.dumps(content) if content is not None else None
    connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        message = f"does not answer ({why.lower()}): is `looptrap serve` running there?"
        raise ConfigError([Problem(str(address), message)]) from None
    finally:
        connection.close()


def _decode(text: str) -> Any:
    """Return JSON, None for what is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _parse_address(text: str) -> Address:
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
        message = f"the variable {token_env} is not set, or empty"
        raise ConfigError([Problem("--token-env", message)])
    return {"Authorization": f"Bearer {token}"}
