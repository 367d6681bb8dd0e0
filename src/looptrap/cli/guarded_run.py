"""GuardedRun: a command in front of a gateway, from the line at the start to the report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import W_OK, access

import click

from looptrap.cli.client_program import (
    BaseUrls,
    ConfiguredUrls,
    UserFiles,
    gateway_url,
)
from looptrap.cli.client_table import find_program
from looptrap.cli.output import format_duration, plural
from looptrap.cli.run_gateway import EmbeddedGateway, RunningGateway, RunTotals, run_config
from looptrap.cli.run_process import (
    KILL_GRACE_S,
    NOT_EXECUTABLE_STATUS,
    NOT_FOUND_STATUS,
    RunProcess,
    signals_held,
)
from looptrap.config import load
from looptrap.database.place import shown_place
from looptrap.money.price import format_usd
from looptrap.schema.wording import escaped

RUNS_HISTORY = "~/.local/state/looptrap/runs.db"
"""Where the incidents and costs of a user's runs are kept: not among the files of a project."""


@dataclass(slots=True)
class GuardedRun:
    """One run of a command whose calls pass a gateway."""

    command: Sequence[str]
    user: UserFiles
    gateway: EmbeddedGateway | RunningGateway
    configured: ConfiguredUrls
    warnings: Sequence[str]
    where: str
    """Where more about the run can be seen."""
    has_refused: bool = False
    """Whether a call was refused as a loop."""

    def run(self, seconds: float | None, *, is_quiet: bool) -> int:
        """Run the command, at most so long; return its exit status."""
        with signals_held():
            self.gateway.start()
        began = time.monotonic()
        try:
            urls = BaseUrls(self.gateway.url, self.configured)
            program, position = find_program(self.command)
            words, env, notes = program.point(self.command, position, self.user, urls)
            if not is_quiet:
                _say(*notes, *self._opening(self.command[position]))
            status = _run_process(words, env, seconds)
        finally:
            totals = self.gateway.stop()
        self.has_refused = totals is not None and totals.refused > 0
        if not is_quiet:
            latest = self.gateway.latest_refusal.what
            why = [f"the latest refusal: {escaped(latest)}"] if latest else []
            where = [self.where] if totals is None or totals.calls else []
            _say(*report(totals, time.monotonic() - began), *why, *self.gateway.log.lines, *where)
        return status

    def _opening(self, name: str) -> Iterator[str]:
        for warning in self.warnings:
            yield f"warning: {warning}"
        dashboard = f"; dashboard: {self.gateway.dashboard}" if self.gateway.dashboard else ""
        yield f"guards {escaped(name)} at {self.gateway.url}{dashboard}"


def embedded_run(
    command: Sequence[str],
    user: UserFiles,
    file: str | None,
    flags: Mapping[str, object],
    admin: str | None,
    budget_usd: float | None,
) -> GuardedRun:
    """Return a run with a gateway that ends with the command."""
    program, _ = find_program(command)
    upstream = flags["upstream"] or user.env.get(program.common_variable) or None
    config = load(file, env=user.env, flags={**flags, "upstream": upstream, "admin": admin})
    warnings = [*config.warnings, *program.warnings(user, command)]
    if "history" not in config.origins:
        config = replace(config, history=_history_of_runs(user))
        if not config.history:
            warnings.append(f"{RUNS_HISTORY} cannot be written: nothing is kept of this run")
    configured = program.configured(user) if config.gateway.upstream is None else {}
    gateway = EmbeddedGateway(
        run_config(config, configured, budget_usd), config.gateway.admin if admin else None
    )
    if config.history:
        place = escaped(shown_place(config.history)).replace(f"{user.home}/", "~/", 1)
        where = f"more is in {place}: `looptrap serve --history {place}` shows it"
    else:
        where = "nothing is kept: there is no history"
    return GuardedRun(command, user, gateway, configured, warnings, where)


def _history_of_runs(user: UserFiles) -> str:
    """Return the file with the user's runs, in a folder that exists; "" if it cannot be written."""
    path = user.path(RUNS_HISTORY)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(path) if access(path if path.exists() else path.parent, W_OK) else ""


def remote_run(
    command: Sequence[str], user: UserFiles, url: str, admin: str, token_env: str | None
) -> GuardedRun:
    """Return a run with a gateway that runs already."""
    program, _ = find_program(command)
    url = gateway_url(url, "--gateway")
    warnings = [
        f"{known.place}: {escaped(known.url)} is not where calls go, the gateway at {url} decides"
        for known in program.configured(user).values()
        if not known.url.startswith(url)
    ]
    warnings += program.warnings(user, command)
    gateway = RunningGateway(url, admin, token_env)
    where = f"more is at {gateway.dashboard}"
    return GuardedRun(command, user, gateway, program.upstream(user), warnings, where)


def report(totals: RunTotals | None, seconds: float) -> Iterator[str]:
    """Yield what happened in a run."""
    duration = format_duration(seconds)
    if totals is None:
        yield f"ended after {duration}; the admin address of the gateway does not answer"
        return
    if not totals.calls:
        yield f"ended after {duration}; no call has passed the gateway"
        return
    used = f"{plural(totals.calls, 'call')}, {totals.tokens:,.0f} tokens, {_cost(totals)}"
    yield f"{used} in {duration}{'' if totals.refused or totals.warned else '; no loop'}"
    if totals.refused:
        saved = f", {format_usd(totals.saved_usd)} saved" if totals.saved_usd else ""
        caught = plural(max(totals.incidents, 1), "loop")
        yield f"{caught} caught: {plural(totals.refused, 'call')} refused{saved}"
    elif totals.warned:
        yield f"{plural(totals.warned, 'call')} in a loop: warned, not refused"
    if totals.over_limit:
        yield f"{plural(totals.over_limit, 'call')} refused by a budget or a rate"


def _cost(totals: RunTotals) -> str:
    if not totals.unpriced:
        return format_usd(totals.cost_usd)
    return f"{format_usd(totals.cost_usd)} + unpriced" if totals.cost_usd else "unpriced"


def _run_process(words: Sequence[str], env: Mapping[str, str], seconds: float | None) -> int:
    """Run a command to its end; return its status as a shell would."""
    try:
        process = RunProcess(words, env)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        _say(f"{escaped(words[0])}: {why}")
        is_missing = isinstance(error, FileNotFoundError)
        return NOT_FOUND_STATUS if is_missing else NOT_EXECUTABLE_STATUS
    status = process.wait(seconds)
    if process.is_out_of_time and seconds is not None:
        _say(
            f"the command was ended after {format_duration(seconds)} (--max-hours): SIGTERM, and"
            f" SIGKILL {KILL_GRACE_S:g} s later"
        )
    return status


def _say(*lines: str) -> None:
    for line in lines:
        click.echo(f"looptrap: {line}", err=True)
