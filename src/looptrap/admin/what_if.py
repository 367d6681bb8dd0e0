"""What if, for operators: other settings, tried on captured traffic before they are saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, cast

from looptrap.admin.api import ApiError, ApiRequest, Instant, IsoTime, iso_time
from looptrap.admin.operation import Api, post, table_body
from looptrap.admin.subprocess_job import SubprocessJob
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.policy import preset
from looptrap.policy.policy import PROJECT, Project
from looptrap.replay.capture import capture_files
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.what_if import (
    DEFAULT_CALLS,
    MAX_CALLS,
    RulesetCounts,
    RunOutcome,
    WhatIfRequest,
)
from looptrap.schema import Field, Number, Table, Text

ALL_CALLS_PROJECT = "everyone"
"""The name of the project whose settings are tried on all calls."""

NO_CAPTURE_MESSAGE = (
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
            doc="settings of a project; without its name, of all calls",
        ),
    ],
)
WHAT_IF_FIELDS: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(name="settings", kind=_SETTINGS, required=True, doc="the other settings"),
        Field(name="since", kind=Instant(), default=0.0, doc="calls since then only"),
        Field(
            name="limit",
            kind=Number(low=1, high=MAX_CALLS, whole=True),
            default=DEFAULT_CALLS,
            doc="the largest number of calls, the latest first",
        ),
    ],
)


# A class cannot have a field called `from`.
CapturedTraffic = TypedDict(
    "CapturedTraffic",
    {"calls": int, "runs": int, "skipped": int, "from": IsoTime, "until": IsoTime},
)


class ChangedRunView(TypedDict):
    """A run with another outcome under the other rules."""

    run: str
    began: IsoTime
    model: str
    project: str
    calls: int
    now: RunOutcome
    then: RunOutcome


class WhatIfResult(TypedDict):
    """What the current rules and the others say of the same captured calls."""

    captured: CapturedTraffic
    now: RulesetCounts
    then: RulesetCounts
    changed_runs: int
    changed: list[ChangedRunView]
    limits: list[str]
    config: str
    command: str | None


class WhatIfApi(Api):
    """Answers at `/api/v1/what-if`."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._job = SubprocessJob("what-if")

    @post(
        "/api/v1/what-if",
        "other settings, tried on captured calls",
        body=table_body(WHAT_IF_FIELDS),
        errors=(409, 422, 429),
        read_only=True,
    )
    async def _compare(self, request: ApiRequest) -> WhatIfResult:
        question = self._question(**request.body)
        # Most gateways capture nothing: no process is needed to say so.
        has_files = question.folder and capture_files(Path(question.folder))
        compared = await self._job.run(request.http, question) if has_files else None
        if compared is None:
            raise ApiError(409, "no_capture", NO_CAPTURE_MESSAGE)
        return _result(compared)

    def _question(self, settings: Mapping[str, Any], since: float, limit: int) -> WhatIfRequest:
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
        return WhatIfRequest(
            folder=self._app.config.gateway.capture_dir or "",
            now=now.plain(),
            then=then.plain(),
            project=name,
            settings=PROJECT.plain(project) if project is not None else None,
            since=since,
            limit=limit,
        )

    def _project(self, settings: Mapping[str, Any]) -> Project:
        """Return a project with these settings on top of the file's."""
        name = settings.get("name", ALL_CALLS_PROJECT)
        of_file = [one for one in self._app.config.projects if one.name == settings.get("name")]
        below = of_file[0] if of_file else Project(name=name)
        return replace(below, **settings)


def _check(then: Ruleset, project: Project | None) -> None:
    """Raise ConfigError where projects do not fit the policies."""
    asked = [project] if project is not None else []
    problems = [
        Problem("settings", f"project {one.name}: {misfit}")
        for one in dict.fromkeys((*then.projects, *asked))
        for misfit in one.misfits(then.policies)
    ]
    if problems:
        raise ConfigError(problems)


def _result(compared: dict[str, Any]) -> WhatIfResult:
    captured = {
        "calls": compared.pop("calls"),
        "runs": compared.pop("runs"),
        "skipped": compared.pop("skipped"),
        "from": iso_time(compared.pop("began")),
        "until": iso_time(compared.pop("ended")),
    }
    for one in compared["changed"]:
        one["began"] = iso_time(one["began"])
    return cast(WhatIfResult, {"captured": captured, **compared})
