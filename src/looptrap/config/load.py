"""Put the layers of the configuration on top of each other, and check the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from looptrap.config import file, loop_guard
from looptrap.config.claim import believing, contradictions, doubts
from looptrap.config.incident import named, same_names
from looptrap.config.route import misrouted
from looptrap.config.setting import CONFIG, GATEWAY_SCALARS, SCALARS, Config, flag, variable
from looptrap.errors import ConfigError, Problem
from looptrap.policy import fairvisor, preset
from looptrap.policy.setting.budget import same_names as same_budgets
from looptrap.schema import INVALID, Kind, from_text, leaves, read
from looptrap.schema.wording import escaped, quoted, suggestion


def load(
    path: str | Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    now: datetime | None = None,
) -> Config:
    """Return the configuration in effect; raise ConfigError with every mistake in all layers.

    `flags` are settings by name, as the command line gives them; None stands for not given.
    """
    env, now = env or {}, now or datetime.now(UTC)
    problems: list[Problem] = []
    config, has_policies = Config(), False
    try:
        config, has_policies = _from_file(Path(path) if path is not None else None, now)
    except ConfigError as error:
        problems += error.problems
    above = _from_environment(env, problems) | _from_flags(flags or {}, problems)
    guarded = _values(loop_guard.VARIABLES, env, problems)
    if problems:
        raise ConfigError(problems)
    config = believing(_capturing(_overlaid(config, above)))
    config = _without_preset(config, above) if has_policies else _with_preset(config)
    config = _shadowed(_guard(config, guarded))
    if mismatches := list(_mismatches(config)):
        raise ConfigError(mismatches)
    return replace(
        config,
        channels=named(config.channels),
        warnings=(
            *config.warnings,
            *_misspelt(env),
            *doubts(config),
            *_undetected(config),
            *_expired(config, now),
        ),
    )


def _from_file(path: Path | None, now: datetime) -> tuple[Config, bool]:
    """Return what the file says, and whether it has policies of its own."""
    if path is None:
        return read(CONFIG, {}), False
    content = file.table(path)
    if not file.is_bundle(path):
        config = read(CONFIG, content)
        given = _given(content)
    else:
        policies, kill_switches, warnings = fairvisor.load(content, now)
        config = replace(
            read(CONFIG, {}), policies=policies, kill_switches=kill_switches, warnings=warnings
        )
        given = _given(CONFIG.plain(config), "policies[", "kill_switches[")
    own = file.is_bundle(path) or "policies" in content
    return replace(config, origins=dict.fromkeys(given, escaped(path.name))), own


def _given(content: Mapping[str, Any], *beginnings: str) -> Iterator[str]:
    """Yield the places a plain table gives, as they are called in the effective configuration."""
    for place, _ in leaves(CONFIG, content):
        if not beginnings or place.startswith(beginnings):
            yield _called(place)


def _called(place: str) -> str:
    """Return what a setting of a policy that has two names is called in the end."""
    table, _, name = place.rpartition(".")
    other = {"threshold": "thresholds", "tokens_per_second": "rps"}.get(name)
    return f"{table}.{other}" if other and place.startswith("policies[") else place


def _values(
    kinds: Mapping[str, Kind], texts: Mapping[str, object], problems: list[Problem]
) -> dict[str, Any]:
    """Return the typed values of the texts that are given; an empty one is not."""
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


def _from_environment(
    env: Mapping[str, str], problems: list[Problem]
) -> dict[str, tuple[Any, str]]:
    every = [*SCALARS, *GATEWAY_SCALARS]
    values = _values({variable(one): one.kind for one in every}, env, problems)
    named = {variable(one): one.name for one in every}
    return {named[name]: (value, name) for name, value in values.items()}


def _from_flags(flags: Mapping[str, object], problems: list[Problem]) -> dict[str, tuple[Any, str]]:
    every = [*SCALARS, *GATEWAY_SCALARS]
    written = {flag(one): flags.get(one.name) for one in every}
    values = _values({flag(one): one.kind for one in every}, written, problems)
    named = {flag(one): one.name for one in every}
    return {named[name]: (value, name) for name, value in values.items()}


def _overlaid(config: Config, above: Mapping[str, tuple[Any, str]]) -> Config:
    """Return the configuration with the values of the layers above the file."""
    of_gateway = {one.name for one in GATEWAY_SCALARS} & set(above)
    own = {name: value for name, (value, _) in above.items() if name not in of_gateway}
    gateway = replace(config.gateway, **{name: above[name][0] for name in of_gateway})
    places = {name: f"gateway.{name}" if name in of_gateway else name for name in above}
    origins = {places[name]: origin for name, (_, origin) in above.items()}
    return replace(config, **own, gateway=gateway, origins={**config.origins, **origins})


def _capturing(config: Config) -> Config:
    """Return the configuration with captures where they have a place; an `off` in words stays.

    A flag is a word too, and a later one.
    """
    if config.capture != "off" or config.gateway.capture_dir is None:
        return config
    where = config.origins["gateway.capture_dir"]
    if "capture" in config.origins and not where.startswith("--"):
        return config
    return replace(config, capture="digests", origins={**config.origins, "capture": where})


def _with_preset(config: Config) -> Config:
    name = config.preset or preset.DEFAULT
    given = dict.fromkeys(_given(preset.table(name)), f"preset {name}")
    return replace(
        config, preset=name, policies=preset.load(name), origins={**given, **config.origins}
    )


def _without_preset(config: Config, above: Mapping[str, tuple[Any, str]]) -> Config:
    warnings = config.warnings
    if "preset" in above:
        name, origin = above["preset"]
        warnings += (f"{origin}: {name} has no effect, the file has policies of its own",)
    return replace(config, preset=None, warnings=warnings)


def _guard(config: Config, values: Mapping[str, Any]) -> Config:
    edited = loop_guard.edit(config.policies, values)
    return replace(
        config,
        policies=edited.policies,
        origins={**config.origins, **edited.origins},
        warnings=(*config.warnings, *edited.warnings),
    )


def _shadowed(config: Config) -> Config:
    """Return the configuration with all that may be in shadow mode in it, where that is asked."""
    if config.mode == "enforce":
        return config
    count, where = len(config.policies), config.origins.get("mode", "default")
    modes = {f"policies[{place}].mode": where for place in range(count)}
    modes |= {f"budgets[{place}].mode": where for place in range(len(config.budgets))}
    return replace(
        config,
        policies=tuple(replace(one, mode="shadow") for one in config.policies),
        budgets=tuple(replace(one, mode="shadow") for one in config.budgets),
        origins={**config.origins, **modes},
    )


def _mismatches(config: Config) -> Iterator[Problem]:
    """Find settings that are right by themselves and do not go together."""
    if config.capture != "off" and config.gateway.capture_dir is None:
        yield Problem(
            "capture",
            f"is {quoted(config.capture)} and has no folder to write to: set gateway.capture_dir"
            " (LOOPTRAP_CAPTURE_DIR, or --capture of serve)",
        )
    if config.gateway.read_token_env is not None and config.gateway.admin_token_env is None:
        yield Problem(
            "gateway.read_token_env",
            "is a second token: name a variable with the first in admin_token_env",
        )
    yield from contradictions(config.gateway)
    yield from misrouted(config)
    yield from same_names(config.channels)
    yield from same_budgets(config.budgets)
    for i, project in enumerate(config.projects):
        for misfit in project.misfits(config.policies):
            yield Problem(f"projects[{i}]", misfit)


def _misspelt(env: Mapping[str, str]) -> Iterator[str]:
    scalars = [*SCALARS, *GATEWAY_SCALARS]
    known = [*(variable(one) for one in scalars), *loop_guard.VARIABLES, "LOOPTRAP_SECRET"]
    for name in env:
        if name.startswith(("LOOPTRAP_", "LOOP_GUARD_")) and name not in known:
            hint = suggestion(name, known, cutoff=0.85)
            if hint:
                yield f"{escaped(name)}: is not a variable{hint}"


def _undetected(config: Config) -> Iterator[str]:
    policies = config.policies
    if any(one.rates for one in policies) and not any(one.rules for one in policies):
        yield "policies: have rates and no rules, so no loops are detected"


def _expired(config: Config, now: datetime) -> Iterator[str]:
    for i, switch in enumerate(config.kill_switches):
        if switch.expires is not None and switch.expires <= now:
            yield f"kill_switches[{i}]: expired at {switch.expires.isoformat()}, refuses nothing"
