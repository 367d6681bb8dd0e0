"""The configuration for operators: every value in effect, and where it came from. No secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

from aiohttp import web

from looptrap.admin.alert import described
from looptrap.admin.answer import Api, answer
from looptrap.admin.history import NOTHING, parameters
from looptrap.config import Config, allowance, sentence
from looptrap.schema.wording import inside

PATH = "/api/v1/config"

RUN_TIME = "set at run time"
"""Where values come from that are in no file."""


class Value(TypedDict):
    """One value, as a file would have it, and where it came from."""

    place: str
    value: Any
    origin: str


class Sentences(TypedDict):
    """What the configuration means."""

    policies: list[str]
    projects: list[str]
    tools: list[str]
    budgets: list[str]
    kill_switches: list[str]
    routes: list[str]
    channels: list[str]
    otherwise: list[str]


class Effective(TypedDict):
    """The configuration in effect."""

    values: list[Value]
    warnings: list[str]
    sentences: Sentences


class ConfigApi(Api):
    """Answers at `/api/v1/config`."""

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.get(PATH, self._tell)]

    async def _tell(self, request: web.Request) -> web.Response:
        parameters(request, NOTHING)
        config = self._app.gateway.runtime.config
        told: Effective = {
            "values": list(self._values(config)),
            "warnings": list(config.warnings),
            "sentences": _sentences(config),
        }
        return answer(told)

    def _values(self, config: Config) -> Iterator[Value]:
        secret = {f"channels[{i}].url": one for i, one in enumerate(config.channels)}
        for place, value, origin in config.effective():
            if place in secret:
                # A URL that a service gave out is a key to it.
                value = f"…{described(secret[place])['to']}…"
            yield {"place": place, "value": value, "origin": self._origin(config, place, origin)}

    def _origin(self, config: Config, place: str, origin: str) -> str:
        """Return where a value came from; what was set at run time is on top of all else."""
        table, _, name = place.partition(".")
        if table.startswith("kill_switches["):
            return origin if _index(table) < len(self._app.config.kill_switches) else RUN_TIME
        if table.startswith("projects["):
            layer = self._app.agreed.projects.layer(config.projects[_index(table)].name)
            is_new = _index(table) >= len(self._app.config.projects)
            return RUN_TIME if name in layer.settings or is_new else origin
        if table == "tools":
            # Their names are the user's own, and may have dots.
            for one, layer in self._app.agreed.tools.layers().items():
                if place.startswith(f"{inside('tools', one)}."):
                    return RUN_TIME if layer.settings else origin
        return origin


def _index(table: str) -> int:
    return int(table[table.index("[") + 1 : -1])


def _sentences(config: Config) -> Sentences:
    return {
        "policies": [line for one in config.policies for line in _of_policy(one)],
        "projects": [sentence.of_project(one) for one in config.projects],
        "tools": [sentence.of_tool(*one) for one in config.tools.items()],
        "budgets": [allowance.of_budget(one) for one in config.budgets],
        "kill_switches": [sentence.of_kill_switch(one) for one in config.kill_switches],
        "routes": [sentence.of_route(one) for one in config.routes],
        "channels": [sentence.of_channel(one) for one in config.channels],
        "otherwise": sentence.of_rest(config),
    }


def _of_policy(policy: Any) -> Iterator[str]:
    yield sentence.of_policy(policy)
    yield from (sentence.of_rule(rule) for rule in policy.rules)
    yield from (allowance.of_rate(rate) for rate in policy.rates)
