"""Changes: does a call alter something, so that asking again is not going in circles?"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_ARGUMENT_CHARS = 2_000
"""So much of the arguments is looked at: what a call does stands at their beginning."""

MAX_NAME_CHARS = 100
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


def changes_something(name: str, arguments: str) -> bool:
    """Say whether a call is one that changes something, by its tool's name or its command."""
    verb = _verb_of(name, arguments)
    return (
        verb not in _LOOKS if verb else _COMMANDS.search(arguments[:MAX_ARGUMENT_CHARS]) is not None
    )


def adds_something(name: str, arguments: str) -> bool:
    """Say whether a call adds something that was not there: twice the same call, two of it."""
    return _verb_of(name, arguments) in _ADDS


def _verb_of(name: str, arguments: str) -> str:
    action = _ACTION.search(arguments[:MAX_ARGUMENT_CHARS])
    verb = _verb(action[1][:MAX_NAME_CHARS]) if action is not None else ""
    return verb or _verb(name[:MAX_NAME_CHARS])


def words_of(name: str) -> tuple[str, ...]:
    """Return the words that a tool's name is made of, in lower case."""
    return _words(name[:MAX_NAME_CHARS])


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


_POLL_NAMES = re.compile(
    r"poll|wait|sleep|status|progress|heartbeat|health|(?:^|[_.-])(?:check|get|fetch|read|tail)"
    r"[_.-]?(?:job|task|run|build|deploy|logs?|output|state|queue|process|todos?)"
    r"|todo_?(?:read|list)",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(
    r"\b(?:running|pending|queued|in[ _-]?progress|processing|not (?:yet )?(?:ready|done|finished"
    r"|complete)|starting|waiting|scheduled|no new (?:output|messages|events|data)|still)\b",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:too many requests|rate[ _-]?limit(?:ed)?|overloaded|(?:temporarily|service) unavailable"
    r"|try again (?:later|in \d+)|retry[ _-]after)\b",
    re.IGNORECASE,
)
_WAITS = re.compile(
    r"\bsleep\s+\d|\bwait\b|\b(?:kubectl (?:get|rollout|describe)|docker (?:ps|logs|inspect)"
    r"|gh run|systemctl status|squeue|qstat|nvidia-smi|ps aux)\b"
    r'|"(?:chars|input|keys|keystrokes|command)":""'
)
"""In what a shell is given: waiting, and asking how something that runs by itself gets on.

Nothing at all is typed to see whether there is more to read.
"""

_STEPS = frozenset(
    "click press key tap scroll swipe step next back forward turn walk move go".split()
)

MAX_STATE_CHARS = 400
"""Only what a short result says about itself is taken as a state."""

MAX_ACKNOWLEDGEMENT_CHARS = 100
"""A result up to this long may be a mere "done"."""

_DIGEST = re.compile(r"\[\w+ [0-9a-f]{16}\]")
"""What stands for an image, or another part that is no text."""

UNCHANGED_POLLS_PER_REPEAT = 4
"""So many unchanged polls weigh as much as one repeat of anything else."""


def is_poll(names: frozenset[str], arguments: str, result: str) -> bool:
    """Say whether a call asks for the state of something that goes on by itself, or waits."""
    read = [name[:MAX_NAME_CHARS] for name in names]
    if any(map(_POLL_NAMES.search, read)) or _WAITS.search(arguments[:2_000]):
        return True
    return len(result) <= MAX_STATE_CHARS and _UNDER_WAY.search(result) is not None


def is_put_off(result: str) -> bool:
    """Say whether a result tells to come again later."""
    return len(result) <= MAX_STATE_CHARS and _LATER.search(result) is not None


def is_step(names: frozenset[str], result: str) -> bool:
    """Say whether a call makes one more step, and its result does not say where that led.

    Ten times "page down" are ten steps; an unchanged page that comes back is not such a result.
    """
    return (
        len(result) <= MAX_ACKNOWLEDGEMENT_CHARS
        and all(not _STEPS.isdisjoint(words_of(name)) for name in names)
        and _DIGEST.search(result) is None
    )
