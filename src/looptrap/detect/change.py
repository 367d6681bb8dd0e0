"""Changes: does a call alter something, so that asking again is not going in circles?"""

from __future__ import annotations

import re

_NAMES = re.compile(
    r"edit|write|create|insert|replace|patch|update|append|delete|remove|rename|move|save|commit"
    r"|apply|install|upload|submit|put_|set_|add_|send|book|cancel|modify",
    re.IGNORECASE,
)
_COMMANDS = re.compile(
    r"(?:^|[\"'\s;&|(])(?:cd|edit|create|insert|sed\s+-i|perl\s+-\w*i|tee|touch|mkdir|rm|mv|cp|chmod|ln"
    r"|export|source|git\s+(?:apply|checkout|commit|stash|reset|add|merge|pull)|patch"
    r"|(?:pip3?|npm|apt|apt-get|yarn|cargo|mvn|gradle)\s+(?:install|add|build|update|upgrade))\b"
    r"|(?<![0-9&>])>{1,2}\s*[\w./~$-]|<<\s*'?\\?\"?EOF"
)
"""In what a shell is given: what changes files, folders or the place one stands in."""


def alters(name: str, arguments: str) -> bool:
    """Say whether a call is one that changes something, by its tool's name or its command."""
    return _NAMES.search(name) is not None or _COMMANDS.search(arguments[:2_000]) is not None
