"""Put the layers of the configuration on top of each other."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from looptrap.config.check import find_problems, find_warnings
from looptrap.config.gateway import GATEWAY
from looptrap.config.setting import CONFIG, GATEWAY_SCALARS, SCALARS, Config, flag, variable
from looptrap.detect.window import HIT_LIMIT
from looptrap.errors import ConfigError, Problem
from looptrap.incident.setting import name_channels
from looptrap.policy import fairvisor, preset
from looptrap.policy.action import Action, Ladder, milder
from looptrap.policy.kind import COOLDOWN, WINDOW
from looptrap.policy.policy import change_rules, rule_places
from looptrap.policy.refusal import DEFAULT_STATUS
from looptrap.policy.rule import Rule
from looptrap.schema import INVALID, Field, Kind, Number, from_text, leaves, read
from looptrap.schema.wording import escaped, found, inside, quoted, suggestion

RULE = "identical-conversation"
WINDOW_SECONDS = "LOOP_GUARD_WINDOW_SECONDS"
MAX_HITS = "LOOP_GUARD_MAX_HITS"
COOLDOWN_SECONDS = "LOOP_GUARD_COOLDOWN_SECONDS"

VARIABLES: Mapping[str, Kind] = {
    WINDOW_SECONDS: WINDOW,
    MAX_HITS: Number(low=0, high=HIT_LIMIT - 1, whole=True),
    COOLDOWN_SECONDS: COOLDOWN,
}
"""Variables that change the rule `identical-conversation`; 0 hits switch all detection off."""

_SETTINGS = {WINDOW_SECONDS: "window", MAX_HITS: "thresholds", COOLDOWN_SECONDS: "cooldown"}

_SCALARS = (*SCALARS, *GATEWAY_SCALARS)


def is_bundle(path: Path) -> bool:
    """Return whether the file is read as a Fairvisor bundle."""
    return path.suffix.lower() == ".json"


def table(path: Path) -> dict[str, Any]:
    """Return the content of the file; raise ConfigError if it cannot be read."""
    try:
        # Windows editors put a byte order mark first, which no parser accepts.
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise _problem(path, "does not exist") from None
    except IsADirectoryError:
        raise _problem(path, "is a directory, must be a file") from None
    except OSError as error:
        raise _problem(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise _problem(path, f"is not UTF-8 text: byte {error.start + 1} is wrong") from None
    except ValueError:
        raise _problem(path, "is not the name of a file") from None
    language = "JSON" if is_bundle(path) else "TOML"
    try:
        content = json.loads(text) if is_bundle(path) else tomllib.loads(text)
    except RecursionError:
        raise _problem(path, f"is not usable {language}: nested too deeply") from None
    except ValueError as error:
        raise _problem(path, f"is not valid {language}: {error}") from None
    if not isinstance(content, dict):
        raise _problem(path, f"is {found(content)}, must be a table")
    return content


def _problem(path: Path, message: str) -> ConfigError:
    return ConfigError([Problem(escaped(str(path)), escaped(message))])


def load(
    path: str | Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    now: datetime | None = None,
) -> Config:
    """Return the configuration in effect; raise ConfigError with every mistake in all layers.

    `flags` are settings by name, as the command line gives them; None if it is absent.
    """
    env, flags, now = env or {}, flags or {}, now or datetime.now(UTC)
    problems: list[Problem] = []
    config, has_rules = Config(), False
    try:
        config, has_rules = _from_file(Path(path) if path is not None else None, now)
    except ConfigError as error:
        problems += error.problems
    overrides = _layer(env, variable, problems)
    overrides |= _layer({flag(one): flags.get(one.name) for one in _SCALARS}, flag, problems)
    guarded = _values(VARIABLES, env, problems)
    if problems:
        raise ConfigError(problems)
    config = _with_verified_claims(_with_capture(_with_overrides(config, overrides)))
    config = _without_preset(config, overrides) if has_rules else _with_preset(config, problems)
    config = _with_loop_guard(_with_changed_rules(config, problems), guarded)
    config = _with_shadow(with_on_loop(config))
    if problems := [*problems, *find_problems(config)]:
        raise ConfigError(problems)
    warnings = (*config.warnings, *_unknown_variables(env), *find_warnings(config, now))
    return replace(config, channels=name_channels(config.channels), warnings=warnings)


def _from_file(path: Path | None, now: datetime) -> tuple[Config, bool]:
    """Return the configuration in the file, and whether its rules replace those of the preset."""
    if path is None:
        return read(CONFIG, {}), False
    content = table(path)
    if not is_bundle(path):
        config = read(CONFIG, content)
        places = _places(content)
    else:
        policies, kill_switches, warnings = fairvisor.load(content, now)
        config = replace(
            read(CONFIG, {}),
            policies=policies,
            kill_switches=kill_switches,
            block_status=DEFAULT_STATUS,  # for every client, as Fairvisor does
            warnings=warnings,
        )
        places = _places(CONFIG.plain(config), "policies[", "kill_switches[", "block_status")
    has_rules = is_bundle(path) or any(policy.rules for policy in config.policies)
    has_rules = has_rules or ("policies" in content and not config.policies)  # none at all
    return replace(config, origins=dict.fromkeys(places, escaped(path.name))), has_rules


def _places(content: Mapping[str, Any], *beginnings: str) -> Iterator[str]:
    """Yield the places of the settings in a plain table, with their effective names."""
    for place, _ in leaves(CONFIG, content):
        if not beginnings or place.startswith(beginnings):
            yield _effective_place(place)


def _effective_place(place: str) -> str:
    """Return the effective name of a setting of a policy that has two names."""
    table, _, name = place.rpartition(".")
    other = {"threshold": "thresholds", "action": "thresholds", "tokens_per_second": "rps"}.get(
        name
    )
    return f"{table}.{other}" if other and place.startswith("policies[") else place


def _values(
    kinds: Mapping[str, Kind], texts: Mapping[str, object], problems: list[Problem]
) -> dict[str, Any]:
    """Return the typed values of the texts that are set; an empty one is not."""
    values = {}
    for name, kind in kinds.items():
        text = texts.get(name)
        if text is None or text == "":
            continue
        plain = from_text(kind, text) if isinstance(text, str) else text
        value = kind.read(plain, name, problems)
        if value is not INVALID:
            values[name] = value
    return values


def _layer(
    texts: Mapping[str, object], name_of: Callable[[Field], str], problems: list[Problem]
) -> dict[str, tuple[Any, str]]:
    """Return the typed values of settings by name, each with what the layer calls the setting."""
    named = {name_of(one): one for one in _SCALARS}
    values = _values({name: one.kind for name, one in named.items()}, texts, problems)
    return {named[name].name: (value, name) for name, value in values.items()}


def _changed(config: Config, origins: Mapping[str, str], **values: Any) -> Config:
    """Return the configuration with other values, and where these came from."""
    return replace(config, **values, origins={**config.origins, **origins})


def _with_overrides(config: Config, overrides: Mapping[str, tuple[Any, str]]) -> Config:
    """Return the configuration with the values of the layers above the file."""
    of_gateway = {one.name for one in GATEWAY_SCALARS} & set(overrides)
    own = {name: value for name, (value, _) in overrides.items() if name not in of_gateway}
    gateway = GATEWAY.override(config.gateway, {name: overrides[name][0] for name in of_gateway})
    origins = {
        f"gateway.{name}" if name in of_gateway else name: origin
        for name, (_, origin) in overrides.items()
    }
    return _changed(config, origins, **own, gateway=gateway)


def _with_capture(config: Config) -> Config:
    """Return the configuration with captures on where a folder is set and `capture` is not.

    A folder that a flag sets also overrides an `off` in the file.
    """
    if config.capture != "off" or config.gateway.capture_dir is None:
        return config
    where = config.origins["gateway.capture_dir"]
    if "capture" in config.origins and not where.startswith("--"):
        return config
    return _changed(config, {"capture": where}, capture="digests")


def _with_verified_claims(config: Config) -> Config:
    """Return the configuration with `jwt` as `verified` where only keys are set."""
    if config.gateway.jwt_keys is None or "gateway.jwt" in config.origins:
        return config
    origins = {"gateway.jwt": config.origins["gateway.jwt_keys"]}
    return _changed(config, origins, gateway=replace(config.gateway, jwt="verified"))


def _with_preset(config: Config, problems: list[Problem]) -> Config:
    """Return the configuration with the policies of its preset after its own, which have rates."""
    name = config.preset or preset.DEFAULT
    table = preset.table(name)
    policies, block_status = preset.read_preset(name)
    taken = [policy.name for policy in policies]
    for i, policy in enumerate(config.policies):
        if policy.name in taken:
            message = f"is {quoted(policy.name)}, the name of a policy of preset {name}"
            problems.append(Problem(f"policies[{i}].name", message))
    # An empty table for each of its own, so that those of the preset have the places after them.
    shifted = {**table, "policies": [*[{}] * len(config.policies), *table["policies"]]}
    origins = dict.fromkeys(_places(shifted), f"preset {name}")
    if "block_status" in config.origins:
        block_status = config.block_status
    return replace(
        config,
        preset=name,
        policies=(*config.policies, *policies),
        block_status=block_status,
        origins={**origins, **config.origins},
    )


def _without_preset(config: Config, overrides: Mapping[str, tuple[Any, str]]) -> Config:
    warnings = config.warnings
    if "preset" in overrides:
        name, origin = overrides["preset"]
        warnings += (f"{origin}: {name} has no effect, the file has policies of its own",)
    return replace(config, preset=None, warnings=warnings)


def _with_changed_rules(config: Config, problems: list[Problem]) -> Config:
    """Return the configuration with the changes to single rules; report those of no rule."""
    origins: dict[str, str] = {}
    policies = config.policies
    for name, change in config.rules.items():
        place = inside("rules", name)
        policies = change_rules(policies, name, change, place, problems)
        for i, j in rule_places(policies, name):
            for setting in change:
                at = _effective_place(f"policies[{i}].rules[{j}].{setting}")
                origins[at] = config.origins[inside(place, setting)]
    return _changed(config, origins, policies=policies)


def _with_loop_guard(config: Config, values: Mapping[str, Any]) -> Config:
    """Return the configuration with the `LOOP_GUARD` variables in place of a rule's own values."""
    if not values:
        return config
    is_off = values.get(MAX_HITS) == 0
    names = {MAX_HITS: "enabled"} if is_off else {name: _SETTINGS[name] for name in values}
    warnings = [f"{MAX_HITS}: is 0, so all detection is off"] if is_off else []
    origins: dict[str, str] = {}
    policies = []
    for i, policy in enumerate(config.policies):
        rules = list(policy.rules)
        for j, rule in enumerate(rules):
            if is_off or rule.name == RULE:
                rules[j] = replace(rule, enabled=False) if is_off else _override(rule, values)
                origins |= {f"policies[{i}].rules[{j}].{names[one]}": one for one in names}
        policies.append(replace(policy, rules=tuple(rules)))
    if not origins and not is_off:
        warnings = [f"{name}: has no effect, there is no rule {RULE}" for name in values]
    warnings = [*config.warnings, *warnings]
    return _changed(config, origins, policies=tuple(policies), warnings=tuple(warnings))


def _override(rule: Rule, values: Mapping[str, Any]) -> Rule:
    hits = values.get(MAX_HITS)
    return rule.override(
        # As many as the variable says may pass; the next one trips.
        threshold=None if hits is None else hits + 1,
        window=values.get(WINDOW_SECONDS),
        cooldown=values.get(COOLDOWN_SECONDS),
    )


def with_on_loop(config: Config) -> Config:
    """Return the configuration without actions that are severer than `on_loop`."""
    if config.on_loop == "block":
        return config
    top = Action.STOP if config.on_loop == "stop" else Action.WARN
    where = config.origins.get("on_loop", "default")
    origins: dict[str, str] = {}

    def soften(ladder: Ladder, place: str) -> Ladder:
        softer = ladder.at_most(top)
        if softer != ladder:
            origins[f"{place}.thresholds"] = where
        return softer

    policies = tuple(
        replace(
            policy,
            rules=tuple(
                replace(rule, ladder=soften(rule.ladder, f"policies[{i}].rules[{j}]"))
                for j, rule in enumerate(policy.rules)
            ),
        )
        for i, policy in enumerate(config.policies)
    )
    tools = {
        name: tool
        if tool.ladder is None
        else replace(tool, ladder=soften(tool.ladder, f"tools.{name}"))
        for name, tool in config.tools.items()
    }
    projects = tuple(
        replace(one, action=milder(one.action, top)) if one.action else one
        for one in config.projects
    )
    return _changed(config, origins, policies=policies, tools=tools, projects=projects)


def _with_shadow(config: Config) -> Config:
    """Return the configuration with every policy and budget in shadow mode where `mode` says so."""
    if config.mode == "enforce":
        return config
    where = config.origins.get("mode", "default")
    origins = {f"policies[{place}].mode": where for place in range(len(config.policies))}
    origins |= {f"budgets[{place}].mode": where for place in range(len(config.budgets))}
    return _changed(
        config,
        origins,
        policies=tuple(replace(one, mode="shadow") for one in config.policies),
        budgets=tuple(replace(one, mode="shadow") for one in config.budgets),
    )


def _unknown_variables(env: Mapping[str, str]) -> Iterator[str]:
    known = [*map(variable, _SCALARS), *VARIABLES, "LOOPTRAP_SECRET"]
    for name in env:
        if name.startswith(("LOOPTRAP_", "LOOP_GUARD_")) and name not in known:
            hint = suggestion(name, known, cutoff=0.85)
            if hint:
                yield f"{escaped(name)}: is not a variable{hint}"
