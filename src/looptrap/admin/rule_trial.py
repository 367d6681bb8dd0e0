"""Trials of rules for operators: on captured calls before a change, and on a pasted conversation.

Each trial runs in a process of its own, while the client waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, cast

import msgspec
from aiohttp import web

from looptrap.admin.api import ApiError, ApiRequest, Instant, IsoTime, field, fields, iso_time
from looptrap.admin.incident import find_incident
from looptrap.admin.operation import Api, get, post, table_body
from looptrap.errors import CallError, ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.policy import preset
from looptrap.policy.policy import PROJECT, Project, change_rules
from looptrap.policy.rule import RULE_CHANGE
from looptrap.replay.capture import CapturedLoop, CapturedLoopRequest, capture_files
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.subprocess_worker import TaskName, run_in_subprocess
from looptrap.replay.try_it import TryItReport, TryItRequest
from looptrap.replay.what_if import (
    DEFAULT_CALLS,
    MAX_CALLS,
    RulesetCounts,
    RunOutcome,
    WhatIfRequest,
)
from looptrap.schema import Mapped, Number, Text
from looptrap.schema.wording import inside

JOB_TIMEOUT_S = 15.0
"""Twice the time in which calls are judged, as a busy machine needs it."""

DISCONNECT_POLL_S = 0.1
"""Seconds between two checks whether the client is still connected."""

MAX_TEXT_BYTES = 5 << 20
MAX_TRY_BODY_BYTES = 2 * MAX_TEXT_BYTES + (1 << 20)
"""A body with such a text: quotes and line ends take two bytes each."""

MAX_CONCURRENT_TRIES = 2

MAX_LOOP_ROUNDS = 24
"""Rounds of a loop in which distinct ones are looked for."""

ALL_CALLS_PROJECT = "everyone"
"""The name of the project whose settings are tried on all calls."""

NO_CAPTURE_MESSAGE = (
    "No call is captured that could be judged. Start the gateway with --capture DIR, or set"
    " gateway.capture_dir, and come back when calls have been made."
)

log = logging.getLogger("looptrap")


class SubprocessJob:
    """Answers one kind of question, `limit` of them at a time."""

    def __init__(self, task: TaskName, limit: int = 1) -> None:
        self._task = task
        self._limit = limit
        self._running = 0

    async def run(self, request: web.Request, question: msgspec.Struct) -> Any:
        """Return the answer; raise ApiError where there is none."""
        if self._running >= self._limit:
            raise ApiError(429, "busy", "Another such question is being answered. Ask again.")
        self._running += 1
        try:
            work = run_in_subprocess(self._task, question, JOB_TIMEOUT_S)
            return await self._while_connected(request, work)
        except CallError as error:
            raise ApiError(400, "unreadable", f"This cannot be read: {error}.") from None
        except TimeoutError:
            message = f"This would take more than {JOB_TIMEOUT_S:g} s. Ask for less."
            raise ApiError(422, "too_slow", message) from None
        except OSError as error:
            # The message contains nothing of the question.
            log.error("%s could not be answered: %s", self._task, error)
            raise ApiError(500, "failed", "This failed inside; the log says why.") from None
        finally:
            self._running -= 1

    async def _while_connected(self, request: web.Request, work: Any) -> Any:
        """Await some work; cancel it when the client disconnects."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=DISCONNECT_POLL_S)
                if request.transport is None or request.transport.is_closing():
                    break
            if not task.done():
                raise ApiError(400, "gone", "The client has disconnected.")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


PRESET_KIND = Text(form="the name of a preset", into=preset.known)

TRY_FIELDS = fields(
    field(
        "text",
        Text(),
        "a request in any dialect, a list of messages, or a run; JSON, or JSON lines",
        required=True,
    ),
    field("preset", PRESET_KIND, "by its policies, not by those in effect"),
    field("project", Text(), "as calls of this project"),
)


def _without_none(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


_PROJECT_FIELDS = [
    replace(one, default=None, required=False) for one in PROJECT.fields if one.name != "keys"
]
_PROJECT = fields(*_PROJECT_FIELDS, build=_without_none)
_RULES = Mapped(Text(form="the name of a rule"), RULE_CHANGE, "rules and what is different")
_SETTINGS = fields(
    field("preset", PRESET_KIND, "its policies in place of those in effect"),
    field("scale", Number(low=0.5, high=2), "every threshold times this"),
    field("rules", _RULES, "what is different in single rules, by name"),
    field("project", _PROJECT, "settings of a project; without its name, of all calls"),
    build=_without_none,
)
_CALLS = Number(low=1, high=MAX_CALLS, whole=True)

WHAT_IF_FIELDS = fields(
    field("settings", _SETTINGS, "the other settings", required=True),
    field("since", Instant(), "calls since then only", 0.0),
    field("limit", _CALLS, "the largest number of calls, the latest first", DEFAULT_CALLS),
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


class RuleTrialApi(Api):
    """Answers at `/api/v1/what-if` and `/api/v1/try`, and what can be tried of an incident.

    No text is kept or logged.
    """

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._what_if_job = SubprocessJob("what-if")
        self._try_job = SubprocessJob("try", MAX_CONCURRENT_TRIES)
        self._loop_job = SubprocessJob("captured-loop", MAX_CONCURRENT_TRIES)

    @get(
        "/api/v1/incidents/{id}/captured",
        "what its client sent, where content is captured",
        errors=(404, 422, 429),
    )
    async def _captured(self, request: ApiRequest) -> CapturedLoop:
        incident = await find_incident(self._app, request.name)
        capture, folder = self._app.capture, self._app.config.gateway.capture_dir
        if capture is None or folder is None or self._config.capture != "content":
            return CapturedLoop()
        ago = incident.evidence[0].ago if incident.evidence else 0
        question = CapturedLoopRequest(
            folder=folder,
            session=incident.session,
            caller=capture.caller_name(incident.caller),
            secret=self._app.secret.hex(),
            until=incident.last + 1,
            rounds=min(ago + 1, MAX_LOOP_ROUNDS),
        )
        found = await self._loop_job.run(request.http, question)
        return msgspec.convert(found, CapturedLoop)

    @post(
        "/api/v1/try",
        "what every rule says of a conversation that is sent",
        body=table_body(TRY_FIELDS),
        max_body_bytes=MAX_TRY_BODY_BYTES,
        errors=(422, 429),
        read_only=True,
    )
    async def _try(self, request: ApiRequest) -> TryItReport:
        text, rules = request.body["text"], self._rules(request.body)
        if len(text.encode()) > MAX_TEXT_BYTES:
            message = f"The text is larger than {MAX_TEXT_BYTES >> 20} MB."
            raise ApiError(413, "too_large", message)
        question = TryItRequest(text=text, rules=rules.plain())
        report: TryItReport = await self._try_job.run(request.http, question)
        return report

    def _rules(self, options: Mapping[str, Any]) -> Ruleset:
        rules, name = Ruleset.of(self._config), options["project"]
        if options["preset"] is not None:
            rules = replace(rules, policies=preset.load(options["preset"]))
        if name is not None:
            project = next((one for one in self._config.projects if one.name == name), None)
            if project is None:
                raise ConfigError([Problem("project", "there is no project of this name")])
            # A project in shadow mode is tried as if it enforced.
            detection = "on" if project.detection == "shadow" else project.detection
            rules = rules.for_all(replace(project, detection=detection))
        return rules

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
        compared = await self._what_if_job.run(request.http, question) if has_files else None
        if compared is None:
            raise ApiError(409, "no_capture", NO_CAPTURE_MESSAGE)
        return _result(compared)

    def _question(self, settings: Mapping[str, Any], since: float, limit: int) -> WhatIfRequest:
        now = Ruleset.of(self._config)
        then = now
        if "preset" in settings:
            then = replace(then, policies=preset.load(settings["preset"]))
        if "scale" in settings:
            then = then.scaled(settings["scale"])
        problems: list[Problem] = []
        for name, change in settings.get("rules", {}).items():
            place = inside("settings.rules", name)
            policies = change_rules(then.policies, name, change, place, problems)
            then = replace(then, policies=policies)
        if problems:
            raise ConfigError(problems)
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
        of_file = {one.name: one for one in self._app.config.projects}
        name = settings.get("name", ALL_CALLS_PROJECT)
        below = of_file.get(settings.get("name", ""), Project(name=name))
        return replace(below, **settings)


def _check(then: Ruleset, project: Project | None) -> None:
    """Raise ConfigError where projects do not fit the policies."""
    others = [project] if project is not None else []
    problems = [
        Problem("settings", f"project {one.name}: {misfit}")
        for one in dict.fromkeys((*then.projects, *others))
        for misfit in one.misfits(then.policies)
    ]
    if problems:
        raise ConfigError(problems)


def _result(compared: dict[str, Any]) -> WhatIfResult:
    captured = {name: compared.pop(name) for name in ("calls", "runs", "skipped")}
    captured["from"] = iso_time(compared.pop("began"))
    captured["until"] = iso_time(compared.pop("ended"))
    for one in compared["changed"]:
        one["began"] = iso_time(one["began"])
    return cast(WhatIfResult, {"captured": captured, **compared})
