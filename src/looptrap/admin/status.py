"""The status for operators: what runs, and notices that say what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NotRequired, TypedDict

from looptrap import __version__
from looptrap.admin.api import ApiRequest, IsoTime, iso_time
from looptrap.admin.auth import OPERATOR
from looptrap.admin.budget import recent_balances
from looptrap.admin.operation import Api, get
from looptrap.build import BuildKind, build_kind
from looptrap.config import Config
from looptrap.config.check import rules_replaced
from looptrap.config.description import of_kill_switch
from looptrap.config.kind import MEMORY, Address, StorePlace
from looptrap.database.place import is_postgres, shown_place
from looptrap.gateway.app import App
from looptrap.incident.recorder import IncidentRecorder
from looptrap.money.budget_meter import Account
from looptrap.money.price import dollars_in_words
from looptrap.schema.wording import escaped, listed
from looptrap.store.model import Balance

STATUS_PATH = "/api/v1/status"

DetectionMode = Literal["enforce", "shadow", "mixed"]
NoticeLevel = Literal["warn", "bad"]

MAX_NAMED = 3
"""Names in one notice; of more, the number is given."""

INDICATOR_TEXTS = {
    "tool_errors": "a large share of tool calls fails",
    "tool_calls": "a session makes very many tool calls for one request of a person",
    "latency": "a provider takes much longer than usual to begin its answers",
    "tokens": "a session uses many times the tokens of an average one",
    "burn_rate": "a session uses many times the tokens a minute that it mostly did",
}


class StoreView(TypedDict):
    """The store that counts."""

    kind: Literal["memory", "redis"]
    is_degraded: bool
    address: NotRequired[str]


class HistoryView(TypedDict):
    """The history of incidents and spending, and whether it can be written."""

    kind: Literal["memory", "file", "postgresql"]
    path: str
    is_writing: bool
    failed: int
    lost: int
    waiting: int


class WorkersView(TypedDict):
    """Configured and serving workers."""

    size: int
    serving: int


class IndicatorView(TypedDict):
    """A leading indicator: its worst value."""

    name: str
    value: float
    threshold: float
    is_firing: bool


class HealthNotice(TypedDict):
    """One thing that is wrong."""

    level: NoticeLevel
    code: str
    message: str


class SharedStatus(TypedDict):
    """The part of the status that is the same for every operator."""

    version: str
    build: BuildKind
    started: IsoTime
    now: IsoTime
    mode: DetectionMode
    store: StoreView
    history: HistoryView
    draining: bool
    listen: str
    upstream: str | None
    notices: list[HealthNotice]
    indicators: list[IndicatorView]
    open_incidents: int
    capture: Literal["off", "digests", "content"]


class GatewayStatus(SharedStatus):
    """The status for one operator."""

    workers: WorkersView | None
    can_write: bool
    operator: str


class StatusApi(Api):
    """Answers at `/api/v1/status`."""

    @get(STATUS_PATH, "what runs, and what is not as it should be")
    async def _show(self, request: ApiRequest) -> GatewayStatus:
        status = await gateway_status(self._app)
        one = request.http[OPERATOR]
        return {**status, "workers": None, "can_write": one.may_write, "operator": one.name}


async def gateway_status(app: App) -> SharedStatus:
    """Return the status of a gateway that has been started."""
    config, recorder = app.gateway.runtime.config, app.recorder
    listen = app.listening[0][:2] if app.listening else None
    thresholds = app.recorder.indicators.thresholds
    return {
        "version": __version__,
        "build": build_kind(),
        "started": iso_time(app.started),
        "now": iso_time(app.gateway.clock()),
        "mode": detection_mode(config),
        "store": _store(app),
        "history": _history(app.config.history, recorder),
        "draining": app.server.draining,
        "listen": str(Address(*listen) if listen else config.gateway.listen),
        "upstream": config.gateway.upstream,
        "notices": health_notices(app, await recent_balances(app)),
        "indicators": [
            {"name": name, "value": value, "threshold": thresholds[name], "is_firing": is_firing}
            for name, (value, is_firing) in recorder.indicators.gauges.items()
        ],
        "open_incidents": recorder.tracker.open,
        "capture": config.capture,
    }


def detection_mode(config: Config) -> DetectionMode:
    """Say whether policies enforce, only watch, or some of each."""
    modes = {policy.mode for policy in config.policies if policy.rules or policy.rates}
    if any(project.detection == "shadow" for project in config.projects):
        modes.add("shadow")
    if len(modes) == 2:
        return "mixed"
    return "shadow" if modes == {"shadow"} else "enforce"


def _history(place: str, recorder: IncidentRecorder) -> HistoryView:
    spool = recorder.history.spool
    return {
        "kind": "postgresql" if is_postgres(place) else "file" if place else "memory",
        "path": shown_place(place),
        "is_writing": not recorder.writer.is_failing,
        "failed": recorder.writer.failed,
        "lost": recorder.lost,
        "waiting": spool.waiting if spool is not None else 0,
    }


def _store(app: App) -> StoreView:
    if app.config.store == MEMORY:
        return {"kind": "memory", "is_degraded": False}
    is_degraded, address = app.gateway.judge.is_degraded, StorePlace().plain(app.config.store)
    return {"kind": "redis", "is_degraded": is_degraded, "address": address}


def health_notices(app: App, balances: Sequence[tuple[Account, Balance]]) -> list[HealthNotice]:
    """Return all notices, the worst first."""
    found = [
        *_of_process(app),
        *_of_records(app),
        *_of_providers(app),
        *_of_budgets(balances),
        *_of_rules(app.gateway.runtime.config),
        *_of_traffic(app),
    ]
    notices = [HealthNotice(level=one[0], code=one[1], message=one[2]) for one in found]
    return sorted(notices, key=lambda one: one["level"] != "bad")


Notices = Iterator[tuple[NoticeLevel, str, str]]
"""Each with its level, its code and its message."""


def _of_process(app: App) -> Notices:
    config = app.config
    if app.server.draining:
        message = "The gateway is stopping: it finishes what is in flight and takes no more calls."
        yield "bad", "stopping", message
    if config.store != MEMORY and app.gateway.judge.is_degraded:
        place = StorePlace().plain(config.store)
        effect = (
            "Calls are refused with status 503 until it is back (on_store_error is block)."
            if config.on_store_error == "block"
            else "Calls pass and this process counts alone: a loop that is spread over several"
            " instances may be seen late."
        )
        message = (
            f"The store at {escaped(place)} cannot be reached. {effect} Check whether it runs and"
            " can be reached from here. Instances share counts again as soon as it is back."
        )
        yield "bad", "store_away", message


def _of_records(app: App) -> Notices:
    if app.recorder.writer.is_failing:
        path = escaped(shown_place(app.config.history))
        spool = app.recorder.history.spool
        message = (
            f"The history {path} cannot be written. Calls are guarded as before, but new"
            " incidents and spending wait in memory and alerts are late. Look for a full disk or"
            " missing permissions; the log has the reason."
        )
        if spool is not None:
            message = (
                f"The history {path} cannot be reached. Calls are guarded as before, but what is"
                f" here may be old, and alerts are late. {spool.waiting:,} batches wait in"
                f" {escaped(app.config.history_spool)} and follow by themselves. Look whether"
                " PostgreSQL runs and can be reached from here; the log has the reason."
            )
            if spool.is_full:
                message += (
                    " There is no more room: what comes now waits in memory, which is bounded."
                )
        yield "bad", "history_stuck", message
    if lost := app.recorder.lost:
        message = (
            f"{lost:,} incidents, alerts or sums of spending were lost since the start, so numbers"
            " here are too low. Calls were guarded all the same."
        )
        yield "warn", "history_lost", message
    if dead := app.recorder.outbox_counts.get("dead", 0):
        what = "1 alert was" if dead == 1 else f"{dead:,} alerts were"
        message = (
            f"{what} given up: people may not have heard of a loop. See which channel fails,"
            " repair it, try it, and send them again."
        )
        yield "bad", "dead_letters", message


def _of_providers(app: App) -> Notices:
    opened = [key for key, state in app.attempts.states() if state == "open"]
    places = [key.provider for key in opened if key.credential is None]
    credentials = [
        escaped(f"{key.provider} for {key.credential}")
        for key in opened
        if key.credential is not None
    ]
    health = app.attempts.health
    if places:
        reasons = [f"{one}: {reason}" for one in places if (reason := health.reason(one))]
        why = f" The latest failure: {escaped('; '.join(reasons[:MAX_NAMED]))}." if reasons else ""
        message = (
            f"{_names([*map(escaped, places)])} failed several times in a row and {_is(places)}"
            f" left alone for up to a minute.{why} Calls go to the next provider of their route;"
            " where there is none they get status 503. It is tried again by itself."
        )
        yield "bad", "breaker_open", message
    failing = [
        f"{escaped(name)} ({_calls(run.count)} since {iso_time(run.since)}: {escaped(run.reason)})"
        for name, run in health.failing()
        if name not in places
    ]
    if failing:
        message = (
            f"No call was answered of late by {_names(failing)}. `looptrap doctor` finds what is"
            " wrong."
        )
        yield "bad", "provider_failing", message
    if credentials:
        message = (
            f"{_names(credentials)} met a limit or was refused, and waits. Calls with other"
            " credentials pass. Raise the limit, or look at the key."
        )
        yield "warn", "breaker_open_for_credential", message


def _of_budgets(balances: Sequence[tuple[Account, Balance]]) -> Notices:
    exceeded = [pair for pair in balances if pair[0].is_exceeded(pair[1].used)]
    if exceeded:
        what = "A budget is" if len(exceeded) == 1 else f"{len(exceeded)} budgets are"
        message = (
            f"{what} used up: {_names([_exceeded(*pair) for pair in exceeded])}. Calls that need"
            " more are refused with status 402 until the period ends. Reset the account or raise"
            " the limit to let them pass."
        )
        yield "warn", "budget_exceeded", message


def _of_rules(config: Config) -> Notices:
    policies = [one for one in config.policies if one.rules or one.rates]
    shadow = [f"policy {escaped(one.name)}" for one in policies if one.mode == "shadow"]
    shadow += [
        f"project {escaped(one.name)}" for one in config.projects if one.detection == "shadow"
    ]
    off = [f"project {escaped(one.name)}" for one in config.projects if one.detection == "off"]
    if shadow:
        message = (
            f"Only watching: {_names(shadow)} {_is(shadow)} in shadow mode, so loops there are"
            " reported and none is refused. Set the mode to enforce when the reports look right."
        )
        yield "warn", "shadow_mode", message
    if off:
        message = f"Detection is off for {_names(off)}: loops there are not seen at all."
        yield "warn", "detection_off", message
    if not any(rule.enabled for one in policies for rule in one.rules):
        yield "warn", "no_rules", "No rule is in effect: no loop is detected."
    elif sentence := rules_replaced(config):
        yield "warn", "rules_replaced", f"Policies of the configuration {sentence}."
    if switches := [of_kill_switch(one) for one in config.kill_switches]:
        what = "A kill switch is" if len(switches) == 1 else f"{len(switches)} kill switches are"
        more = f" And {len(switches) - MAX_NAMED} more." if len(switches) > MAX_NAMED else ""
        sentences = " ".join(switches[:MAX_NAMED])
        message = f"{what} set. {sentences}{more} End what is no longer needed."
        yield "warn", "kill_switch", message


def _of_traffic(app: App) -> Notices:
    for name, (value, is_firing) in app.recorder.indicators.gauges.items():
        if is_firing:
            threshold = app.recorder.indicators.thresholds[name]
            message = (
                f"{escaped(name)} is at {value:.3g} (threshold {threshold:.3g}):"
                f" {INDICATOR_TEXTS[name]}. No call is refused for this. Look for the cause before"
                " it becomes an incident."
            )
            yield "warn", "indicator_firing", message
    unpriced = [model for (_, model), used in list(app.tally.used.items()) if used.unpriced]
    if unpriced:
        models = list(dict.fromkeys(map(escaped, unpriced)))
        message = (
            f"There is no price for {_names(models)}: what these calls cost is not known, and"
            " budgets in dollars do not count them. Add a price under [prices]."
        )
        yield "warn", "unpriced_models", message
    if not app.tally.requests and app.listening:
        scheme = "https" if app.config.gateway.tls_cert else "http"
        message = (
            "No call has come since the start: nothing is guarded yet. Point a client at"
            f" {scheme}://{Address(*app.listening[0][:2])}."
        )
        yield "warn", "no_calls", message


def _exceeded(account: Account, balance: Balance) -> str:
    used, limit = (
        dollars_in_words(amount) if account.unit == "usd" else f"{amount:,} tokens"
        for amount in (balance.used, account.limit)
    )
    owner = listed([f"{name} {escaped(value)}" for name, value in account.by if value], "and")
    return f"{escaped(account.budget)}{f' of {owner}' if owner else ''} ({used} of {limit})"


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def _names(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return listed([*names[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])], "and")


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
