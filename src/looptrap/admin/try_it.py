"""Try it, for operators: a pasted conversation and what every rule says of it, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web

from looptrap.admin.answer import answer, error, mistakes, sent
from looptrap.admin.aside import Aside
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.app import App
from looptrap.policy import preset
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.try_it import Question
from looptrap.schema import Field, Table, Text, read

PATH = "/api/v1/try"

LONGEST = 5 << 20
"""Bytes of a text that is tried."""

ROOM = 2 * LONGEST + (1 << 20)
"""Bytes of a body that carries such a text: quotes and line ends take two each."""

AT_ONCE = 2

TRIED: Table[dict[str, Any]] = Table(
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
        self._aside = Aside("try", AT_ONCE)

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered, and how."""
        return [web.post(PATH, self._try)]

    async def _try(self, request: web.Request) -> web.Response:
        try:
            wanted = read(TRIED, await sent(request))
            rules = self._rules(wanted)
        except ConfigError as found:
            return mistakes(found)
        if len(wanted["text"].encode()) > LONGEST:
            return error(413, "too_large", f"The text is larger than {LONGEST >> 20} MB.")
        question = Question(text=wanted["text"], rules=rules.plain())
        return answer(await self._aside.ask(request, question))

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


def roomy(request: web.Request) -> web.Request:
    """Return a request with room for a text that is tried; any other as it is."""
    return request.clone(client_max_size=ROOM) if request.path == PATH else request
