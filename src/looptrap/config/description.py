"""What a configuration means, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from looptrap.config.kind import MEMORY, StorePlace
from looptrap.config.provider import ProviderSettings, RouteSettings
from looptrap.config.setting import Config
from looptrap.database.place import shown_place
from looptrap.detect.window import WindowKind
from looptrap.dialect.agent import AUTO
from looptrap.incident.setting import DAY_S, ChannelSettings
from looptrap.money.meter import account_descriptors
from looptrap.money.price import dollars_in_words, nano
from looptrap.policy.action import Action
from looptrap.policy.budget import Budget
from looptrap.policy.policy import KillSwitch, Policy, Project, Selector
from looptrap.policy.rate import Rate, Values
from looptrap.policy.rule import ACROSS_FACTOR, ANSWERS, SCOPES, UNNAMED_FACTOR, Rule, ToolRule
from looptrap.schema.wording import escaped, listed, quoted, shown

WATCH_NOUNS = {
    "conversation": "equal conversation",
    "request": "equal request",
    "session": "call of a session",
    "tool": "equal tool call",
    "repeat": "equal round",
    "cycle": "equal block of rounds in a row",
    "same_error": "failure of the same kind",
    "failing": "failure in a row",
    "near_repeat": "failing or fruitless call of almost the same kind",
    "mutating_repeat": "equal call in a row with almost the same result",
    "noisy_repeat": "call made before whose result differs in a few figures at most",
    "stagnation": "result that had come before",
    "unknown_tool": "call in a row to a tool that is not there",
    "monologue": "equal text in a row",
    "idle": "turn in a row of talk in the same words",
    "same_words": "round announced in the same words",
    "turn_budget": "tool call of a turn",
    "compaction": "compaction in a row without anything new after it",
    "restart": "run in a row that ended at the same point",
    "chant": "repetition in a row within an answer",
}
"""What a rule counts, by what it watches."""

CALL_EFFECTS = {
    Action.WARN: "passes with a warning",
    Action.THROTTLE: "is delayed",
    Action.NUDGE: "passes with a nudge to the model",
    Action.STOP: "is answered with a final message",
    Action.BLOCK: "is blocked",
}
"""What happens to a call, by action."""

ANSWER_EFFECTS = {
    Action.WARN: "is noted",
    Action.STOP: "ends a streamed answer as if it were complete",
    Action.BLOCK: "ends a streamed answer with an error",
}
"""What happens to an answer, by action."""


def ordinal(count: int) -> str:
    """Return `1st`, `2nd`, `11th`, …"""
    if count % 100 in (11, 12, 13):
        return f"{count}th"
    return f"{count}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(count % 10, 'th') }"


def of_policy(policy: Policy) -> str:
    """Say which calls a policy binds, and whether it acts."""
    mode = " (shadow: reported, never acted on)" if policy.mode == "shadow" else ""
    rules = "" if policy.rules or policy.rates else ", has no rules"
    return f"{escaped(policy.name)}{mode}: binds {of_selector(policy.select)}{rules}"


def of_rule(rule: Rule) -> str:
    """Say what happens under a rule, at which count."""
    if not rule.enabled:
        return f"{rule.name}: is off"
    done = ANSWER_EFFECTS if rule.watch in ANSWERS else CALL_EFFECTS
    steps = [
        f"the {ordinal(count)}{f' {_watched(rule)}{_span(rule)}' if i == 0 else ''}"
        f" {done[action]}{_cooldown(rule) if action.refuses else ''}"
        for i, (action, count) in enumerate(rule.ladder.steps)
    ]
    return f"{rule.name}: {listed(steps, 'and')}{_counted(rule)}"


def of_project(project: Project) -> str:
    """Say what is different for a project."""
    own = [
        f"{name} {shown(value)}"
        for name in ("threshold", "window", "cooldown", "action")
        if (value := getattr(project, name)) is not None
    ]
    rules = f", with its own {listed(own, 'and')}" if own else ""
    keys = listed([escaped(key) for key in project.keys], "and")
    whose = f" (key{'s'[: len(project.keys) > 1]} {keys})" if keys else ""
    return f"{project.name}{whose}: detection is {project.detection}{rules}"


def of_kill_switch(switch: KillSwitch) -> str:
    """Say which calls a kill switch refuses, and until when."""
    match = listed([f"{escaped(name)} is {quoted(value)}" for name, value in switch.match], "and")
    path = _path(switch.path_exact, switch.path_prefix)
    until = f" until {switch.expires.isoformat()}" if switch.expires else ""
    reason = f" ({escaped(switch.reason)})" if switch.reason else ""
    return f"Every call{path} whose {match} is refused{until}{reason}."


def of_rest(config: Config) -> list[str]:
    """Say how calls are refused, what names a session, and how much is remembered."""
    headers = listed(list(config.session_headers), "or")
    named = (
        f"A session is named by {headers}, or by a known agent."
        if headers
        else "Sessions are not read."
    )
    status = f"HTTP status {config.block_status}"
    if config.block_status == AUTO:
        status = "the HTTP status that ends its agent, else with 429"
    return [
        f"A loop is refused with {status}.",
        named,
        f"At most {config.max_fingerprints:,} fingerprints are remembered.",
        _history(config),
        _call_log(config),
    ]


def of_provider(provider: ProviderSettings, env: Mapping[str, str] | None) -> str:
    """Say where a provider is and which key is sent there; `env` says whether it is set."""
    urls = listed([escaped(url) for url in provider.base_url], "and")
    if provider.auth == "none":
        key = "needs no key"
    elif not provider.api_key_env:
        key = "gets the caller's own key"
    else:
        names = [
            name if env is None else f"{name} ({'set' if env.get(name) else 'not set'})"
            for name in provider.api_key_env
        ]
        key = f"has its key in {listed(names, 'or')}"
    breaker = "" if provider.breaker else ", and is sent calls however often it fails"
    return f"{escaped(provider.name)} at {urls} {key}{breaker}"


def of_store(config: Config) -> str:
    """Say where calls are counted, and what happens while that cannot be reached."""
    if config.store == MEMORY:
        if config.gateway.workers > 1:
            return f"{config.gateway.workers} workers count together, in a Valkey of their own."
        return "Calls are counted in the process of the gateway."
    refused = "are refused" if config.on_store_error == "block" else "pass, counted by each alone"
    return (
        f"Calls are counted in {StorePlace().plain(config.store)}; while it cannot be reached,"
        f" they {refused}."
    )


def of_keys(config: Config, number: int | None) -> str:
    """Say whether callers need gateway keys; `number` are in the state file, None if not known."""
    if config.store != MEMORY:
        return "Gateway keys are in the store: once there is one, every caller needs one."
    place = escaped(config.gateway.state)
    if number is None:
        return f"Gateway keys are in {place}: once there is one, every caller needs one."
    if not number:
        return f"There are no gateway keys in {place}: callers use their own provider keys."
    keys = "is 1 gateway key" if number == 1 else f"are {number:,} gateway keys"
    return f"There {keys} in {place}: every caller needs one."


def of_route(route: RouteSettings) -> str:
    """Say where calls go, and what is tried when that fails."""
    attempts = f", each up to {route.attempts} times" if (route.attempts or 1) > 1 else ""
    deadline = f", within {shown(route.deadline)} s" if route.deadline is not None else ""
    links = ", then ".join(map(escaped, route.links))
    return f"{of_selector(route.select)} goes to {links}{attempts}{deadline}"


def of_channel(channel: ChannelSettings) -> str:
    """Say which events a channel gets; never its URL, which may be secret."""
    events = "everything" if "*" in channel.events else listed(list(channel.events), "and")
    projects = f" of {listed(list(channel.projects), 'and')}" if channel.projects else ""
    return f"{escaped(channel.name)} ({channel.kind}) gets {events}{escaped(projects)}"


def of_tool(name: str, tool: ToolRule) -> str:
    """Say what is different for a tool in histories."""
    if tool.exempt:
        return f"{escaped(name)}: its rounds are left out"
    if tool.ladder is None:
        return f"{escaped(name)}: as every other"
    steps = [f"the {ordinal(count)} {CALL_EFFECTS[action]}" for action, count in tool.ladder.steps]
    return f"{escaped(name)}: where a rule counts its calls, {listed(steps, 'and')}"


def _history(config: Config) -> str:
    if not config.history:
        return "Incidents are forgotten when the gateway ends."
    days = config.incidents.keep / DAY_S
    place = escaped(shown_place(config.history))
    return f"Incidents are kept in {place} for {shown(round(days, 2))} days."


def _call_log(config: Config) -> str:
    settings = config.call_log
    if not settings.enabled:
        return "Calls are not logged."
    if not config.history:
        return "Calls are logged, without their texts, until the gateway ends."
    days = shown(round(settings.keep / DAY_S, 2))
    return f"Calls are logged, without their texts, for {days} days, at most {settings.max_rows:,}."


def _watched(rule: Rule) -> str:
    if rule.similarity == "near":
        return f"{WATCH_NOUNS[rule.watch]} or the same prompt with words before it"
    return WATCH_NOUNS[rule.watch]


def _span(rule: Rule) -> str:
    if rule.watch not in SCOPES:
        return f" within the latest {rule.looks_at} rounds" if rule.looks_at else ""
    seconds = f"{shown(rule.window.seconds)} s"
    match rule.window.kind:
        case WindowKind.ROLLING:
            return f" within {seconds}"
        case WindowKind.FIXED:
            return f" within {seconds} of the first"
        case WindowKind.REFRESHED:
            return f" within {seconds} of the one before"
        case WindowKind.STREAK:
            return f" in a row, each within {seconds} of the answer before,"
        case WindowKind.SERIAL:
            return f" one after the other, each within {seconds} and half of the answer before,"


def _counted(rule: Rule) -> str:
    if rule.watch not in SCOPES:
        return ""
    by = f", counted by {listed([escaped(name) for name in rule.by], 'and')}"
    if rule.counts_across:
        many = f"{ACROSS_FACTOR} times as many"
        return f"{by}; under other sessions or users, {many}, one right after the other"
    if rule.watch != "session":
        return by
    return f"{by}; without a session id, {UNNAMED_FACTOR} times as many, counted by project"


def _cooldown(rule: Rule) -> str:
    if not rule.cooldown:
        return ""
    anew = ", extended by every attempt" if rule.extend else ""
    return f" for {shown(rule.cooldown)} s{anew}"


def of_selector(select: Selector) -> str:
    """Say which calls a selector binds."""
    methods = f"{listed(select.methods, 'or')} " if select.methods else ""
    path = _path(select.path_exact, select.path_prefix)
    hosts = f" to {listed(select.hosts, 'or')}" if select.hosts else ""
    models = f" for model {listed(select.models, 'or')}" if select.models else ""
    headers = [
        f"header {name}" if value == "*" else f"header {name} = {quoted(value)}"
        for name, value in select.headers
    ]
    having = f" with {listed(headers, 'and')}" if headers else ""
    return escaped(f"every {methods}call{path}{hosts}{models}{having}")


def _path(exact: str | None, prefix: str | None) -> str:
    if exact is not None:
        return f" on {escaped(exact)}"
    return f" under {escaped(prefix)}" if prefix is not None else ""


PERIODS = {
    "5m": "in 5 minutes",
    "1h": "an hour",
    "1d": "a day",
    "7d": "in 7 days",
    "30d": "in 30 days",
    "none": "in all",
}
"""In which time a budget may be used up, in words."""

OWNERS = ("caller", "project", "session", "turn")
"""Descriptors that are words of their own."""


def of_budget(budget: Budget) -> str:
    """Say whose a budget is, what it allows, and what is done from where on."""
    mode = " (shadow: reported, never acted on)" if budget.mode == "shadow" else ""
    limits = []
    if budget.limit_usd is not None:
        limits.append(f"cost {dollars_in_words(nano(budget.limit_usd))}")
    if budget.limit_tokens is not None:
        limits.append(f"use {budget.limit_tokens:,} tokens")
    allowed = f"{_owner(budget)} may {listed(limits, 'and')} {PERIODS[budget.period]}"
    counted = "" if budget.select == Selector() else f", with {of_selector(budget.select)}"
    return f"{budget.name}{mode}: {allowed}{counted}: {listed(list(_stages(budget)), 'and')}"


def of_rate(rate: Rate) -> str:
    """Say how fast calls or tokens may come, and for which callers."""
    if not rate.enabled:
        return f"{escaped(rate.name)}: is off"
    whose = listed([escaped(name) for name in account_descriptors(rate.by)], "and")
    pace = listed(list(_paces(rate)), "and")
    return f"{escaped(rate.name)}: {pace}, for each {whose}{_conditions(rate)}"


def _owner(budget: Budget) -> str:
    if budget.by == ("gateway",):
        return "all callers together"
    if len(budget.by) == 1 and budget.by[0] in OWNERS:
        return f"a {budget.by[0]}"
    return f"each {listed([escaped(name) for name in account_descriptors(budget.by)], 'and')}"


def _stages(budget: Budget) -> Iterator[str]:
    for action, percent in budget.stages.steps:
        match action:
            case Action.WARN:
                yield f"warned from {percent} %"
            case Action.THROTTLE:
                yield f"slowed by {shown(budget.delay)} s from {percent} %"
            case _:
                done = "refused" if action is Action.BLOCK else "answered with a final message"
                if budget.reserve == "typical":
                    yield f"{done} once {percent} % are used"
                else:
                    yield f"{done} above" if percent == 100 else f"{done} above {percent} %"


def _paces(rate: Rate) -> Iterator[str]:
    if rate.rps is not None:
        burst = f", up to {rate.burst:,} at once" if rate.burst is not None else ""
        yield f"{shown(rate.rps)} {'call' if rate.rps == 1 else 'calls'} a second{burst}"
    if rate.tokens_per_minute is not None:
        burst = f", up to {rate.burst_tokens:,} at once" if rate.burst_tokens is not None else ""
        yield f"{rate.tokens_per_minute:,} tokens a minute{burst}"
    if rate.tokens_per_day is not None:
        yield f"{rate.tokens_per_day:,} tokens a day"


def _conditions(rate: Rate) -> str:
    """Say which calls a rate counts, and for how many, where that is not all and one."""
    match = f", where {_having(rate.match)}" if rate.match else ""
    exceptions = listed([_having(one) for one in rate.unless], "or")
    unless = f", unless {exceptions}" if rate.unless else ""
    cost = ""
    if rate.cost is not None:
        cost = f"; a call counts for what {escaped(rate.cost)} says, else for {rate.default_cost}"
    elif rate.default_cost != 1:
        cost = f"; a call counts for {rate.default_cost}"
    return f"{match}{unless}{cost}"


def _having(values: Values) -> str:
    return listed([f"{escaped(name)} is {quoted(value)}" for name, value in values], "and")
