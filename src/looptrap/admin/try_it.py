"""Try it, for operators: a pasted conversation and what every rule says of it, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web

from looptrap.admin.api import error_response, json_response, problems_response, read_json
from looptrap.admin.subprocess_job import SubprocessJob
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.policy import preset
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.try_it import TryItRequest
from looptrap.schema import Field, Table, Text, read

TRY_PATH = "/api/v1/try"

MAX_TEXT_BYTES = 5 << 20
"""Bytes of a text that is tried."""

MAX_TRY_BODY_BYTES = 2 * MAX_TEXT_BYTES + (1 << 20)
"""Bytes of a body that carries such a text: quotes and line ends take two each."""

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


class TryApi:
    """Answers at `/api/v1/try`; of what is sent nothing is kept, counted or logged."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._aside = SubprocessJob("try", MAX_CONCURRENT_TRIES)

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.post(TRY_PATH, self._try)]

    async def _try(self, request: web.Request) -> web.Response:
        try:
            wanted = read(TRY_FIELDS, await read_json(request))
            rules = self._rules(wanted)
        except ConfigError as found:
            return problems_response(found)
        if len(wanted["text"].encode()) > MAX_TEXT_BYTES:
            return error_response(
                413, "too_large", f"The text is larger than {MAX_TEXT_BYTES >> 20} MB."
            )
        question = TryItRequest(text=wanted["text"], rules=rules.plain())
        return json_response(await self._aside.ask(request, question))

    def _rules(self, wanted: Mapping[str, Any]) -> Ruleset:
        config = self._app.gateway.runtime.config
        rules, name = Ruleset.of(config), wanted["project"]
        if wanted["preset"] is not None:
            rules = replace(rules, policies=preset.load(wanted["preset"]))
        if name is not None:
            project = next((one for one in config.projects if one.name == name), None)
            if project is None:
                raise ConfigError([Problem("project", "there is no project of this name")])
            # What a project that only watches would see is what is asked.
            detection = "on" if project.detection == "shadow" else project.detection
            rules = rules.for_all(replace(project, detection=detection))
        return rules


def with_larger_body_limit(request: web.Request) -> web.Request:
    """Return a request with room for a text that is tried; any other as it is."""
    return (
        request.clone(client_max_size=MAX_TRY_BODY_BYTES) if request.path == TRY_PATH else request
    )
