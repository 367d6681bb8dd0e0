"""Changes: does a call alter something, so that asking again is not going in circles?"""

from __future__ import annotations

import re
from functools import lru_cache

READ = 2_000
"""So much of the arguments is looked at: what a call does stands at their beginning."""

LONGEST = 100
"""Characters of a name that are read."""

_LOOKS = frozenset(
    "get list search read find view show fetch check count describe lookup look grep glob browse"
    " screenshot snapshot think".split()
)
_NOTES = frozenset("think thought todo todos".split())
"""What an agent tells itself changes nothing."""
_ALTERS = frozenset(
    "edit write create insert replace patch update append delete remove rename move save commit"
    " apply install upload submit put set add send book cancel modify exchange transfer post undo"
    " change enable disable toggle reset pay refund schedule".split()
)
_ADDS = frozenset("create insert append add book".split())
_ACTS = frozenset("click type fill press tap swipe drag select navigate goto".split())
"""What moves a page or a screen on."""
_VERBS = _LOOKS | _ALTERS | _ACTS
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_ACTION = re.compile(r'"(?:action|command|operation)":"([a-z_]{3,24})"')
"""What a tool that can do several things is told to do, in one word."""

_COMMANDS = re.compile(
    # where a command begins: with the argument, after another one, or in quotes after -c
    r"""(?:^|[:\[]"|,"(?!\w+":)|[;&|(`{]|\\n|\b(?:sudo|then|do|else)\s|-\w*c\s+(?:'|\\"))\s*(?:"""
    r"cd\s[^;&|\\\"]*(?:$|\")|(?:edit|create|insert|sed\s+(?:-\w+\s+)*-\w*i|perl\s+-\w*i|tee"
    r"|touch|mkdir|rm|mv|cp|chmod|ln|export|source|kill|patch|apply_patch"
    r"|git\s+(?:apply|checkout|switch|restore|commit|stash|reset|add|merge|rebase|pull|clone|mv|rm)"
    r"|(?:pip3?|npm|pnpm|apt|apt-get|yarn|cargo|mvn|gradle|conda|uv|go|brew)\s+(?:-\w+\s+)*"
    r"(?:install|add|build|update|upgrade|get|ci)"
    r"|(?:docker|kubectl|systemctl|service)\s+(?:\S+\s+)?(?:run|build|start|stop|restart|apply|rm)"
    r"|(?i:insert\s+into|delete\s+from|update\s+\S+\s+set|(?:create|alter|drop|truncate)\s+\w))\b)"
    # into a file
    r"|\s>{1,2}\s*(?!/dev/null)[\w~$-]*[./]\w|<<-?\s*\\{0,2}['\"]?[A-Z]{2}"
    # something to be written, whatever the tool is called
    r'|"(?:contents?|file_text|new_(?:str|string|text|content)|replacement|diff)":'
    r"|\bwrite_text\(|\.to_(?:csv|json|excel)\("
)
"""In what a tool of any name is given: what changes files, tables or the place one stands in.

A `cd` before another command changes nothing: where it matters, it stands alone.
"""


def alters(name: str, arguments: str) -> bool:
    """Say whether a call is one that changes something, by its tool's name or its command."""
    verb = _verb_of(name, arguments)
    return verb not in _LOOKS if verb else _COMMANDS.search(arguments[:READ]) is not None


def adds(name: str, arguments: str) -> bool:
    """Say whether a call adds something that was not there: twice the same call, two of it."""
    return _verb_of(name, arguments) in _ADDS


def _verb_of(name: str, arguments: str) -> str:
    action = _ACTION.search(arguments[:READ])
    verb = _verb(action[1][:LONGEST]) if action is not None else ""
    return verb or _verb(name[:LONGEST])


def words_of(name: str) -> tuple[str, ...]:
    """Return the words that a tool's name is made of, in lower case."""
    return _words(name[:LONGEST])


# The bounds keep clients that make up names, or long ones, from filling the memory.
@lru_cache(maxsize=1024)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.findall(name))


@lru_cache(maxsize=1024)
def _verb(name: str) -> str:
    """Return the verb of a name that tells what it does, the first one; nothing if it has none."""
    words = _words(name)
    verbs = [word for word in words if word in _VERBS]
    if "and" in words and len(verbs) > 1:  # find and replace
        return verbs[1]
    return "think" if not _NOTES.isdisjoint(words) else verbs[0] if verbs else ""
