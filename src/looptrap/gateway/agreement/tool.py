"""What is known of tools, set at run time: in place of what the file says, with a version each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from looptrap.config import Config
from looptrap.errors import ConfigError, Problem
from looptrap.gateway.agreement.layer import Layer, Layers
from looptrap.policy.setting.policy import TOOL
from looptrap.policy.tool import ToolRule
from looptrap.schema import Text, read

KIND = "tool"

NAME = Text(form="the name of a tool, at most 200 characters", pattern=r"(?s).{1,200}")


class Tools(Layers):
    """What all instances were told of tools at run time."""

    kind = KIND

    def over(self, config: Config) -> dict[str, ToolRule]:
        """Return the tools of a configuration with what was set in their place.

        What cannot be read as such is ignored.
        """
        tools = dict(config.tools)
        for name, layer in self.layers().items():
            try:
                tools[name] = read(TOOL, layer.settings)
            except ConfigError:
                self.ignore(name)
        return tools

    async def put(
        self, _config: Config, name: str, settings: Mapping[str, Any], version: int | None
    ) -> Layer | None:
        """Set all that is set of a tool and return it; a ConfigError lists every mistake.

        With a `version` only if that is there now, else None is returned. An OSError says that the
        store is away.
        """
        problems: list[Problem] = []
        NAME.read(name, "name", problems)
        TOOL.read(settings, "", problems)
        if problems:
            raise ConfigError(problems)
        return await self.change(name, settings, version)
