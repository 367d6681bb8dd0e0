"""Notices for operators: each says what is wrong, what it means for calls, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict

from looptrap.config.description import of_kill_switch
from looptrap.config.kind import MEMORY, Address, StorePlace
from looptrap.config.setting import Config
from looptrap.gateway.app import App
from looptrap.incident.history import HistoryWriter
from looptrap.money.budget_meter import Account
from looptrap.money.price import dollars_in_words
from looptrap.schema.wording import escaped, listed
from looptrap.store.model import Balance

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


class HealthNotice(TypedDict):
    """One thing that is wrong."""

    level: NoticeLevel
    code: str
    message: str


def health_notices(app: App, balances: Sequence[tuple[Account, Balance]]) -> list[HealthNotice]:
    """Return all notices, the worst first."""
    config = app.gateway.runtime.config
    found = [
        *_of_process(app),
        *_of_history(app.desk.writer, config.history, app.desk.stats.lost),
        *_of_deliveries(app),
        *_of_providers(app),
        *_of_budgets(balances),
        *_of_rules(config),
        *_of_indicators(app),
        *_of_money(app),
        *_of_traffic(app),
    ]
    return sorted(found, key=lambda one: one["level"] != "bad")


def make_notice(level: NoticeLevel, code: str, message: str) -> HealthNotice:
    """Return a notice."""
    return {"level": level, "code": code, "message": message}


def _of_process(app: App) -> Iterator[HealthNotice]:
    config = app.config
    if app.server.draining:
        message = "The gateway is stopping: it finishes what is in flight and takes no more calls."
        yield make_notice("bad", "stopping", message)
    if config.store != MEMORY and app.gateway.judge.is_degraded:
        place = StorePlace().plain(config.store)
        fate = (
            "Calls are refused with status 503 until it is back (on_store_error is block)."
            if config.on_store_error == "block"
            else "Calls pass and this process counts alone: a loop that is spread over several"
            " instances may be seen late."
        )
        yield make_notice(
            "bad",
            "store_away",
            f"The store at {escaped(place)} cannot be reached. {fate} Look whether it runs and can"
            " be reached from here; counting is shared again by itself.",
        )


def _of_history(writer: HistoryWriter, path: str, lost: int) -> Iterator[HealthNotice]:
    if writer.is_failing:
        yield make_notice(
            "bad",
            "history_stuck",
            f"The history {escaped(path)} cannot be written. Calls are guarded as before, but new"
            " incidents and spending wait in memory and alerts are late. Look for a full disk or"
            " missing permissions; the log has the reason.",
        )
    if lost:
        yield make_notice(
            "warn",
            "history_lost",
            f"{lost:,} incidents, alerts or sums of spending could not be kept since the start, so"
            " numbers here are too low. Calls were guarded all the same.",
        )


def _of_deliveries(app: App) -> Iterator[HealthNotice]:
    dead = app.desk.stats.outbox.get("dead", 0)
    if dead:
        what = "1 alert was" if dead == 1 else f"{dead:,} alerts were"
        yield make_notice(
            "bad",
            "dead_letters",
            f"{what} given up: people may not have heard of a loop. See which channel fails,"
            " repair it, try it, and send them again.",
        )


def _of_providers(app: App) -> Iterator[HealthNotice]:
    opened = [key for key, state in app.attempts.states() if state == "open"]
    places = [escaped(key.provider) for key in opened if key.credential is None]
    credentials = [
        escaped(f"{key.provider} for {key.credential}")
        for key in opened
        if key.credential is not None
    ]
    if places:
        yield make_notice(
            "bad",
            "breaker_open",
            f"{_names(places)} failed several times in a row and {_is(places)} left alone for up to"
            " a minute. Calls go to the next provider of their route; where there is none they get"
            " status 503. It is tried again by itself.",
        )
    if credentials:
        yield make_notice(
            "warn",
            "breaker_open_for_credential",
            f"{_names(credentials)} met a limit or was refused, and waits. Calls with"
            " other credentials pass. Raise the limit, or look at the key.",
        )


def _of_budgets(balances: Sequence[tuple[Account, Balance]]) -> Iterator[HealthNotice]:
    exceeded = [pair for pair in balances if pair[0].is_exceeded(pair[1].used)]
    if exceeded:
        yield make_notice(
            "warn",
            "budget_exceeded",
            f"{'A budget is' if len(exceeded) == 1 else f'{len(exceeded)} budgets are'} used up:"
            f" {_names([_exceeded(*pair) for pair in exceeded])}. Calls that need more are refused"
            " with status 402 until the period ends. Reset the account or raise the limit to let"
            " them pass.",
        )


def _of_rules(config: Config) -> Iterator[HealthNotice]:
    policies = [one for one in config.policies if one.rules or one.rates]
    shadow = [f"policy {escaped(one.name)}" for one in policies if one.mode == "shadow"]
    shadow += [
        f"project {escaped(one.name)}" for one in config.projects if one.detection == "shadow"
    ]
    off = [f"project {escaped(one.name)}" for one in config.projects if one.detection == "off"]
    if shadow:
        yield make_notice(
            "warn",
            "shadow_mode",
            f"Only watching: {_names(shadow)} {_is(shadow)} in shadow mode, so loops there are"
            " reported and none is refused. Set the mode to enforce when the reports look right.",
        )
    if off:
        yield make_notice(
            "warn",
            "detection_off",
            f"Detection is off for {_names(off)}: loops there are not seen at all.",
        )
    if not any(rule.enabled for one in policies for rule in one.rules):
        yield make_notice("warn", "no_rules", "No rule is in effect: no loop is detected.")
    switches = [of_kill_switch(one) for one in config.kill_switches]
    if switches:
        more = f" And {len(switches) - MAX_NAMED} more." if len(switches) > MAX_NAMED else ""
        yield make_notice(
            "warn",
            "kill_switch",
            f"{'A kill switch is' if len(switches) == 1 else f'{len(switches)} kill switches are'}"
            f" set. {' '.join(switches[:MAX_NAMED])}{more} End what is no longer needed.",
        )


def _of_indicators(app: App) -> Iterator[HealthNotice]:
    for name, (value, is_firing) in app.desk.stats.indicators.items():
        if is_firing:
            threshold = app.desk.indicators.thresholds[name]
            yield make_notice(
                "warn",
                "indicator_firing",
                f"{escaped(name)} is at {value:.3g} (threshold {threshold:.3g}):"
                f" {INDICATOR_TEXTS[name]}. Nothing is refused for it; look for who it is before it"
                " becomes an incident.",
            )


def _of_money(app: App) -> Iterator[HealthNotice]:
    models = dict.fromkeys(
        escaped(model) for (_, model), used in list(app.tally.used.items()) if used.unpriced
    )
    if models:
        yield make_notice(
            "warn",
            "unpriced_models",
            f"There is no price for {_names(list(models))}: what these calls cost is not known, and"
            " budgets in dollars do not count them. Add a price under [prices].",
        )


def _of_traffic(app: App) -> Iterator[HealthNotice]:
    if not app.tally.requests and app.listening:
        scheme = "https" if app.config.gateway.tls_cert else "http"
        yield make_notice(
            "warn",
            "no_calls",
            "No call has come since the start: nothing is guarded yet. Point a client at"
            f" {scheme}://{Address(*app.listening[0][:2])}.",
        )


def _exceeded(account: Account, balance: Balance) -> str:
    used, limit = (
        dollars_in_words(amount) if account.unit == "usd" else f"{amount:,} tokens"
        for amount in (balance.used, account.limit)
    )
    owner = listed([f"{name} {escaped(value)}" for name, value in account.by if value], "and")
    return f"{escaped(account.budget)}{f' of {owner}' if owner else ''} ({used} of {limit})"


def _names(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return listed([*names[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])], "and")


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
