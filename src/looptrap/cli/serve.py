"""`looptrap serve`: run the gateway until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from looptrap.cli.config import config_option, preset_option, unread_file_warnings
from looptrap.cli.output import default_place, print_warnings

if TYPE_CHECKING:
    from looptrap.config import Config


def gateway_settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--config` and the flags that go before it; the command gets `file`, and `flags`."""

    @config_option
    @click.option("--listen", metavar="ADDRESS", help="Where clients connect.  [127.0.0.1:4100]")
    @click.option(
        "--admin", metavar="ADDRESS", help="Dashboard, API and metrics.  [127.0.0.1:4101]"
    )
    @click.option("--upstream", metavar="URL", help="Send everything to this URL.")
    @click.option("--store", metavar="STORE", help="Where calls are counted.  [memory]")
    @preset_option
    @click.option("--state", metavar="FILE", help="Digest secret and keys.  [looptrap.state]")
    @click.option(
        "--history", metavar="FILE", help="Incidents and alerts, or a PostgreSQL.  [looptrap.db]"
    )
    @click.option("--access-log", metavar="FORM", help="off, text or json.  [off]")
    @click.option(
        "--capture",
        "capture_dir",
        metavar="DIR",
        help="Write calls to this folder, for replay: as digests, unless capture is content.",
    )
    @click.option("--mode", metavar="MODE", help="enforce, or shadow to only report.  [enforce]")
    @click.option(
        "--on-loop", metavar="ACTION", help="block, stop (a final message) or notify.  [block]"
    )
    @click.option("--workers", metavar="N", help="How many processes serve.  [1]")
    @click.option(
        "--allow-anonymous", is_flag=True, default=None, help="Serve other machines without keys."
    )
    @wraps(command)
    def with_settings(**options: Any) -> None:
        names = [name for name in options if name in SETTING_NAMES]
        command(flags={name: options.pop(name) for name in names}, **options)

    return with_settings


SETTING_NAMES = frozenset(
    "listen admin upstream store preset state history access_log capture_dir mode on_loop workers"
    " allow_anonymous".split()
)
"""Flags that are settings, by the names of these."""


@click.command(short_help="Run the gateway.")
@gateway_settings_options
def serve(file: str | None, flags: dict[str, Any]) -> None:
    """Run the gateway until SIGTERM or Ctrl-C; SIGHUP reads the configuration again."""
    from looptrap.config import load

    def read() -> Config:
        return load(file, env=os.environ, flags=flags)

    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
    with default_place(file):
        config = read()
        from looptrap.cli.start_check import check_start

        start = check_start(config, os.environ)
        start.raise_problems()
        print_warnings([*unread_file_warnings(file), *config.warnings, *start.warnings])
        import uvloop

        from looptrap.cli.lifecycle import serve_alone, serve_workers

        serve = serve_alone if config.gateway.workers == 1 else serve_workers
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(config, read))
