"""What is known of tools, for operators: read, set and taken back while the gateway runs."""

from __future__ import annotations

from typing import Any, TypedDict

from looptrap.admin.layer import LayerApi, LayerShown
from looptrap.config import Config
from looptrap.gateway.app import App
from looptrap.policy.setting.policy import TOOL


class ToolsShown(TypedDict):
    """The tools of the file, and those set at run time."""

    tools: list[LayerShown]


class ToolApi(LayerApi):
    """Answers under `/api/v1/tools`."""

    def __init__(self, app: App) -> None:
        super().__init__(
            app,
            noun="tool",
            example='{"thresholds": {"warn": 20, "block": 60}} or {"exempt": true}',
            plain=_plain,
            layers=lambda: app.agreed.tools,
        )


def _plain(config: Config) -> dict[str, dict[str, Any]]:
    return {name: TOOL.plain(tool) for name, tool in config.tools.items()}
