"""What if, for operators: other settings, tried on captured traffic before they are saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from looptrap.admin.answer import answer, error, mistakes, sent
from looptrap.admin.aside import Aside
from looptrap.admin.history import Instant, moment
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.policy import preset
from looptrap.policy.policy import Project
from looptrap.policy.setting.policy import PROJECT
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.survey import captures
from looptrap.replay.what_if import CALLS, MOST_CALLS, Question
from looptrap.schema import Field, Number, Table, Text, read

PATH = "/api/v1/what-if"

EVERYONE = "everyone"
"""What a project is called whose settings are tried on all calls."""

NO_CAPTURE = (
    "No call is captured that could be judged. Start the gateway with --capture DIR, or set"
    " gateway.capture_dir, and come back when calls have been made."
)


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


_PROJECT: Table[dict[str, Any]] = Table(
    build=_given,
    fields=[
        replace(one, default=None, required=False) for one in PROJECT.fields if one.name != "keys"
    ],
)
_SETTINGS: Table[dict[str, Any]] = Table(
    build=_given,
    fields=[
        Field(
            name="preset",
            kind=Text(form="the name of a preset", into=preset.known),
            doc="its policies in place of those in effect",
        ),
        Field(name="scale", kind=Number(low=0.5, high=2), doc="every threshold times this"),
        Field(
            name="project",
            kind=_PROJECT,
            doc="what is set of a project; without its name, of all calls",
        ),
    ],
)
WHAT_IF: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(name="settings", kind=_SETTINGS, required=True, doc="what would be otherwise"),
        Field(name="since", kind=Instant(), default=0.0, doc="calls since then only"),
        Field(
            name="limit",
            kind=Number(low=1, high=MOST_CALLS, whole=True),
            default=CALLS,
            doc="so many of the latest calls at most",
        ),
    ],
)


class WhatIfApi:
    """Answers at `/api/v1/what-if`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._aside = Aside("what-if")

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.post(PATH, self._compare)]

    async def _compare(self, request: web.Request) -> web.Response:
        given = await sent(request)
        try:
            wanted = read(WHAT_IF, given)
            question = self._question(**wanted)
        except ConfigError as found:
            return mistakes(found)
        # Most gateways capture nothing: no process is needed to say so.
        if not question.folder or not captures(Path(question.folder)):
            return error(409, "no_capture", NO_CAPTURE)
        compared = await self._aside.ask(request, question)
        if compared is None:
            return error(409, "no_capture", NO_CAPTURE)
        return answer(_plain(compared))

    def _question(self, settings: Mapping[str, Any], since: float, limit: int) -> Question:
        now = Ruleset.of(self._app.gateway.runtime.config)
        then = now
        if "preset" in settings:
            then = replace(then, policies=preset.load(settings["preset"]))
        if "scale" in settings:
            then = then.scaled(settings["scale"])
        name, project = "", None
        if "project" in settings:
            name = settings["project"].get("name", "")
            project = self._project(settings["project"])
            others = [one for one in then.projects if one.name != name]
            then = replace(then, projects=(*others, project) if name else tuple(others))
        _check(then, project)
        return Question(
            folder=self._app.config.gateway.capture_dir or "",
            now=now.plain(),
            then=then.plain(),
            project=name,
            settings=PROJECT.plain(project) if project is not None else None,
            since=since,
            limit=limit,
        )

    def _project(self, settings: Mapping[str, Any]) -> Project:
        """Return a project as it would be when these settings were put: on top of the file's."""
        name = settings.get("name", EVERYONE)
        of_file = [one for one in self._app.config.projects if one.name == settings.get("name")]
        below = of_file[0] if of_file else Project(name=name)
        return replace(below, **settings)


def _check(then: Ruleset, project: Project | None) -> None:
    """Raise ConfigError where projects cannot be adapted to the policies."""
    asked = [project] if project is not None else []
    problems = [
        Problem("settings", f"project {one.name}: {misfit}")
        for one in dict.fromkeys((*then.projects, *asked))
        for misfit in one.misfits(then.policies)
    ]
    if problems:
        raise ConfigError(problems)


def _plain(compared: dict[str, Any]) -> dict[str, Any]:
    captured = {
        "calls": compared.pop("calls"),
        "runs": compared.pop("runs"),
        "skipped": compared.pop("skipped"),
        "from": moment(compared.pop("began")),
        "until": moment(compared.pop("ended")),
    }
    for one in compared["changed"]:
        one["began"] = moment(one["began"])
    return {"captured": captured, **compared}
