"""Try it, for operators: what every rule says of a pasted conversation, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from looptrap.admin.api import ApiError, ApiRequest
from looptrap.admin.operation import Api, post, table_body
from looptrap.admin.subprocess_job import SubprocessJob
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.policy import preset
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.try_it import TryItReport, TryItRequest
from looptrap.schema import Field, Table, Text

MAX_TEXT_BYTES = 5 << 20
MAX_TRY_BODY_BYTES = 2 * MAX_TEXT_BYTES + (1 << 20)
"""A body with such a text: quotes and line ends take two bytes each."""

MAX_CONCURRENT_TRIES = 2

TRY_FIELDS: Table[dict[str, Any]] = Table(
    build=dict,
    fields=[
        Field(
            name="text",
            kind=Text(),
            required=True,
            doc="a request in any dialect, a list of messages, or a run; JSON, or JSON lines",
        ),
        Field(
            name="preset",
            kind=Text(form="the name of a preset", into=preset.known),
            doc="by its policies, not by those in effect",
        ),
        Field(name="project", kind=Text(), doc="as calls of this project"),
    ],
)


class TryApi(Api):
    """Answers at `/api/v1/try`; the text is not kept, counted or logged."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._job = SubprocessJob("try", MAX_CONCURRENT_TRIES)

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
        report: TryItReport = await self._job.run(request.http, question)
        return report

    def _rules(self, wanted: Mapping[str, Any]) -> Ruleset:
        config = self._app.gateway.runtime.config
        rules, name = Ruleset.of(config), wanted["project"]
        if wanted["preset"] is not None:
            rules = replace(rules, policies=preset.load(wanted["preset"]))
        if name is not None:
            project = next((one for one in config.projects if one.name == name), None)
            if project is None:
                raise ConfigError([Problem("project", "there is no project of this name")])
            # A project in shadow mode is tried as if it enforced.
            detection = "on" if project.detection == "shadow" else project.detection
            rules = rules.for_all(replace(project, detection=detection))
        return rules
