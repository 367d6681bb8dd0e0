"""`looptrap serve`: run the gateway until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from looptrap.cli.output import fail
from looptrap.errors import ConfigError

if TYPE_CHECKING:
    from looptrap.config import Config

log = logging.getLogger("looptrap")


@click.command(short_help="Run the gateway.")
@click.option("--config", "file", metavar="FILE", type=click.Path(), help="TOML, or a bundle.")
@click.option("--listen", metavar="ADDRESS", help="Where clients connect.  [127.0.0.1:4100]")
@click.option("--admin", metavar="ADDRESS", help="Health and metrics.  [127.0.0.1:4101]")
@click.option("--upstream", metavar="URL", help="Send everything to this URL.")
@click.option("--store", metavar="STORE", help="Where calls are counted.  [memory]")
@click.option("--preset", metavar="NAME", help="Start from this preset.")
@click.option("--state", metavar="FILE", help="Digest secret and keys.  [looptrap.state]")
@click.option("--history", metavar="FILE", help="Incidents and alerts.  [looptrap.db]")
@click.option("--access-log", metavar="FORM", help="off, text or json.  [off]")
@click.option(
    "--capture",
    "capture_dir",
    metavar="DIR",
    help="Write judged calls there, for replay: digests, unless capture says content.",
)
@click.option("--mode", metavar="MODE", help="shadow only reports.  [enforce]")
@click.option("--workers", metavar="N", help="Processes that serve together.  [1]")
@click.option("--allow-anonymous", is_flag=True, default=None, help="Serve others without keys.")
def serve(file: str | None, **flags: Any) -> None:
    """Run the gateway until SIGTERM or Ctrl-C; SIGHUP reads the configuration again."""
    from looptrap.config import load

    def read() -> Config:
        return load(file, env=os.environ, flags=flags)

    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
    try:
        config = read()
        for warning in config.warnings:
            click.echo(f"warning: {warning}", err=True)
        import uvloop

        serve = _serve_alone if config.gateway.workers == 1 else _serve_together
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(config, read))
    except ConfigError as error:
        fail(error, place=file or "")


async def _serve_together(config: Config, read: Callable[[], Config]) -> None:
    from looptrap.cli.serve_workers import serve_workers

    await serve_workers(config, read)


async def _serve_alone(config: Config, read: Callable[[], Config]) -> None:
    from looptrap.admin.server import AdminServer
    from looptrap.cli.lifecycle import SignalHandler, banner, log_reload, reload_config
    from looptrap.gateway.app import App, tune_gc
    from looptrap.gateway.runtime import token_from_env

    token = token_from_env(config.gateway.admin_token_env, "admin", os.environ)
    read_token = token_from_env(config.gateway.read_token_env, "read", os.environ)
    app = App(config, os.environ)
    admin = AdminServer(app, config.gateway.admin, token, read_token)

    def reload() -> None:
        waiting = reload_config(app, read)
        if waiting is not None:
            log_reload(waiting)

    listening = await app.start()
    try:
        admin_at = await admin.start()
        tune_gc()
        signals = SignalHandler(on_reload=reload)
        # Last: signals may be sent once it was printed.
        click.echo(banner(config, listening, admin_at, app.ring.has_keys), err=True)
        await signals.stopped.wait()
        log.info("stopping: calls in flight have %g s to finish", app.config.gateway.grace)
    finally:
        await app.stop()
        await admin.stop()
