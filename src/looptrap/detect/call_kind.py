"""What a tool call does, by its name, arguments and result: change, add, poll or step."""

from __future__ import annotations

import re
from functools import lru_cache

from looptrap.dialect.model import ToolCall

MAX_ARGUMENT_CHARS = 2_000
"""Characters of the arguments that are searched: what a call does stands at their beginning."""

MAX_NAME_CHARS = 100
"""Characters of a name that are read."""

_LOOKS = frozenset(
    "get list search retrieve recall read find view show fetch check count describe lookup look"
    " grep glob browse screenshot snapshot think".split()
)
_NOTES = frozenset("think thought todo todos".split())
"""Tools in which an agent writes to itself: they change nothing."""
_ALTERS = frozenset(
    "edit write create insert replace patch update append delete remove rename move save commit"
    " apply install upload submit put set add send book cancel modify exchange transfer post undo"
    " change enable disable toggle reset pay refund schedule publish notify assign reserve"
    " allocate register approve reject grant revoke attach detach claim close merge deploy".split()
)
_ADDS = frozenset("create insert append add book".split())
_SENDS = frozenset(
    "send reply post upload create publish submit notify update set put save schedule"
    " register assign reserve book pay refund apply".split()
)
"""What leaves the agent, or is set: the same again is a repeat, whatever receipt comes back."""
_HANDS_OVER = frozenset("transfer handoff handover escalate route".split())
_ASKS = _HANDS_OVER | frozenset(
    "task agent subagent delegate ask question coworker consult".split()
)
_SEARCHES = frozenset("search find lookup grep retrieve recall".split())
_ACTS = frozenset("click type fill press keypress tap swipe drag select navigate goto".split())
"""Actions on a page or a screen."""
_VERBS = _LOOKS | _ALTERS | _ACTS
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_ACTION = re.compile(
    r'"(?:action|action_?type|command|sub_?command|operation|method)":"([A-Za-z_-]{2,24})"'
    r'|"type":"((?:double_)?click|drag|keypress|move|screenshot|scroll|type|wait)"'
)
"""The argument that selects what a tool with several functions does: a part of its name. OpenAI's
computer calls have it as `type`."""

_COMMANDS = re.compile(
    # where a command begins: with the argument, after another one, or in quotes after -c
    r"""(?:^|[:\[]"|,"(?!\w+":)|[;&|(`{]|\\n|\b(?:sudo|then|do|else)\s|-\w*c\s+(?:'|\\"))\s*(?:"""
    r"cd\s[^;&|\\\"]*(?:$|\")|(?:edit|create|insert|sed\s+(?:-\w+\s+)*-\w*i|perl\s+-\w*i|tee"
    r"|touch|mkdir|rm|mv|cp|chmod|ln|export|source|kill|patch|apply_patch"
    r"|git\s+(?:apply|bisect|checkout|switch|restore|commit|stash|reset|add|merge|rebase|pull|clone|mv|rm)"
    r"|(?:pip3?|npm|pnpm|apt|apt-get|yarn|cargo|mvn|gradle|conda|uv|go|brew)\s+(?:-\w+\s+)*"
    r"(?:install|add|build|update|upgrade|get|ci)"
    r"|terraform\s+(?:apply|destroy|import|workspace\s+(?:select|new))|kubectl\s+config\s+use-context"
    r"|(?:conda|nvm|pyenv|mamba)\s+(?:activate|use|shell)"
    r"|(?:docker|kubectl|systemctl|service)\s+(?:\S+\s+)?(?:run|build|start|stop|restart|apply|rm)"
    r"|(?i:insert\s+into|delete\s+from|update\s+\S+\s+set|(?:create|alter|drop|truncate)\s+\w))\b)"
    # into a file
    r"|\s>{1,2}\s*(?!/dev/null)[\w~$-]*[./]\w|<<-?\s*\\{0,2}['\"]?[A-Z]{2}"
    # something to be written, whatever the tool is called
    r'|"(?:contents?|file_text|new_(?:str|string|text|content)|replacement|diff)":'
    r"|\bwrite_text\(|\.to_(?:csv|json|excel)\("
)
"""Commands, in the arguments of any tool, that change files, tables or the working directory.

A `cd` before another command changes nothing: where it matters, it stands alone.
"""


def changes_something(name: str, arguments: str) -> bool:
    """Return whether a call changes something, by its tool's name or its command."""
    verb = _verb_of(name, arguments)
    if verb:
        return verb not in _LOOKS
    return _COMMANDS.search(arguments[:MAX_ARGUMENT_CHARS]) is not None


_LOOKING = re.compile(
    r"""(?:^|["'])\s*(?:cd\s[^;&|"]+(?:&&|;)\s*)?(?:ls|cat|head|tail|grep|rg|find|wc|pwd|tree|stat|file"""
    r"|sed\s+-n|git\s+(?:status|diff|log|show|branch|blame))\b"
)
"""Commands that only look at files."""
_SEARCHING = re.compile(r"""(?:^|["'&;|(])\s*(?:git\s+)?(?:grep|rg|ag|ack|find|locate)\s""")


def only_looks(name: str, arguments: str) -> bool:
    """Return whether a call looks at something, and neither runs nor changes anything."""
    verb = _verb_of(name, arguments)
    if verb:
        return verb in _LOOKS
    text = arguments[:MAX_ARGUMENT_CHARS]
    return _LOOKING.search(text) is not None and _COMMANDS.search(text) is None


def sends_something(name: str, arguments: str) -> bool:
    """Return whether a call sends something out into the world."""
    return _verb_of(name, arguments) in _SENDS or _SENDING.search(arguments[:200]) is not None


_SENDING = re.compile(
    r"""(?:^|["'&;|(])\s*(?:(?:gh|glab|hub)\s+(?:pr|mr|issue|release|discussion)\s+"""
    r"(?:comment|note|create|review|close|reopen)|(?:mail|mailx|mutt|sendmail|sendemail)\s+-"
    r"|aws\s+(?:sns\s+publish|ses\s+send))\b"
)
"""Commands that send something."""
_SWITCHES = re.compile(
    r"\bgit\s+(?:bisect|checkout|switch|worktree)\b|\bterraform\s+workspace\b"
    r"|\bkubectl\s+config\s+use-context\b|\b(?:conda|nvm|pyenv)\s+(?:activate|use|shell)\b"
)


def switches_subject(arguments: str) -> bool:
    """Return whether a command turns to another revision, workspace or environment."""
    return _SWITCHES.search(arguments[:MAX_ARGUMENT_CHARS]) is not None


def searches(name: str, arguments: str) -> bool:
    """Return whether a call searches for something, by its tool's name or its command."""
    return _verb_of(name, arguments) in _SEARCHES or _SEARCHING.search(arguments[:200]) is not None


def name_with_action(name: str, arguments: str) -> str:
    """Return a tool's name, with what a tool with several functions is told to do."""
    action = _ACTION.search(arguments[:MAX_ARGUMENT_CHARS])
    return name if action is None else f"{name} {action[1] or action[2]}"


_COMMAND_WORD = re.compile(r'(?:\A|\{"(?:command|cmd)":"|,"(?:command|cmd)":")([\w./-]+)')


def kind_of_call(call: ToolCall) -> str:
    """Return the tool that is called and, of a command, the program that it runs first."""
    program = _COMMAND_WORD.search(call.arguments[:MAX_ARGUMENT_CHARS])
    return call.name if program is None else f"{call.name} {program[1]}"


def hands_over(name: str) -> bool:
    """Return whether a tool hands the conversation over to another agent."""
    return not _HANDS_OVER.isdisjoint(words_of(name))


def asks_in_words(name: str, arguments: str) -> bool:
    """Return whether a call asks a search or another agent for something, in words."""
    verb = _verb_of(name, arguments)
    return verb in _SEARCHES or (verb not in _LOOKS and not _ASKS.isdisjoint(words_of(name)))


def adds_something(name: str, arguments: str) -> bool:
    """Return whether a call creates something: the same call twice creates two of it."""
    return _verb_of(name, arguments) in _ADDS


def _verb_of(name: str, arguments: str) -> str:
    action = _ACTION.search(arguments[:MAX_ARGUMENT_CHARS])
    verb = _verb((action[1] or action[2]).lower()) if action is not None else ""
    return verb or _verb(name[:MAX_NAME_CHARS])


_PLANS = _NOTES | frozenset("plan plans planning reflect reasoning memo".split())


def is_note(name: str) -> bool:
    """Return whether a tool only takes down what an agent thinks or plans to do."""
    return "todo" in name[:MAX_NAME_CHARS].lower() or not _PLANS.isdisjoint(words_of(name))


def words_of(name: str) -> tuple[str, ...]:
    """Return the words that a tool's name is made of, in lower case."""
    return _words(name[:MAX_NAME_CHARS])


# The bounds keep clients that invent names, or long ones, from filling the memory.
@lru_cache(maxsize=1024)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.findall(name))


@lru_cache(maxsize=1024)
def _verb(name: str) -> str:
    """Return the first verb in a name that says what the tool does; empty if it has none."""
    words = _words(name)
    verbs = [word for word in words if word in _VERBS]
    if "and" in words and len(verbs) > 1:  # find and replace
        return verbs[1]
    if "todo" in name.lower() or not _NOTES.isdisjoint(words):
        return "think"
    return verbs[0] if verbs else ""


_POLL_NAMES = re.compile(
    r"poll|wait|sleep|status|progress|heartbeat|health|(?:^|[_.-])(?:check|get|fetch|read|tail)"
    r"[_.-]?(?:job|task|run|build|deploy|logs?|output|state|queue|process|todos?)"
    r"|todo_?(?:read|list)",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(
    r"\b(?:running|pending|queued|in[ _-]?progress|processing|not (?:yet )?(?:ready|done|finished"
    r"|complete)|starting|waiting|scheduled|no new (?:output|messages|events|data)"
    r"|still (?:\w+ing|in|not|no)"
    r"|läuft noch|wird (?:ausgeführt|verarbeitet)|en cours|en attente|en (?:ejecución|curso|cola)"
    r"|pendiente|em (?:execução|andamento|fila)|pendente|in (?:esecuzione|corso|attesa)"
    r"|выполняется|в (?:очереди|процессе))\b"
    r"|运行中|进行中|处理中|等待中|排队|実行中|処理中|待機中|진행 중|실행 중|대기 중",
    re.IGNORECASE,
)
_ENDED = re.compile(
    r"""["']?(?:state|status|phase|conclusion)["']?\s?[:=]\s?["']?(?:completed?|succeeded|finished"""
    r"|failed|failure|cancell?ed|aborted|terminated|expired|rejected|deleted)\b",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:too many requests|rate[ _-]?limit(?:ed)?|overloaded|(?:temporarily|service) unavailable"
    r"|try again (?:later|in \d+)|retry[ _-]after|(?:acquir\w+|get|obtain) (?:the )?(?:state )?lock"
    r"|lock is held|waiting for (?:\w+ )?lock)\b",
    re.IGNORECASE,
)
_WAITS = re.compile(
    r"\bsleep\s+\d|\bwait\b|\b(?:kubectl (?:get|rollout|describe)|docker (?:ps|logs|inspect)"
    r"|gh run|systemctl status|squeue|qstat|nvidia-smi|ps aux)\b"
    r'|"(?:chars|input|keys|keystrokes|command)":""'
)
"""Shell commands that wait, or ask for the progress of something that runs by itself.

An empty input reads the output again.
"""

_MEASURES = re.compile(
    r"bench(?:mark|es|\b|[-_:])|hyperfine|timeit|\bperf\b|latency|load[-_ ]?test", re.IGNORECASE
)
"""Calls that are made to measure something: the times in their results are what they say."""

_STEPS = frozenset(
    "click press key keypress tap scroll swipe step next back forward turn walk move go transfer"
    " handoff".split()
)

_SCREEN_ACTIONS = _ACTS | frozenset("key scroll hover".split())

MIN_SCREEN_CHARS = 200
"""Fewer characters do not show a page."""

MAX_STATE_CHARS = 400
"""Longer results are content, not a state."""

MAX_ACKNOWLEDGEMENT_CHARS = 100
"""A result up to this long may be a mere "done"."""

_DIGEST = re.compile(r"\[\w+ [0-9a-f]{16}\]")
"""Placeholder of an image or another part that is not text."""

UNCHANGED_POLLS_PER_REPEAT = 4
"""Unchanged polls that count as one repeat of anything else."""


def is_poll(names: frozenset[str], arguments: str, result: str) -> bool:
    """Return whether a call asks for the state of something that runs by itself, or waits.

    `names` are those of `name_with_action`.
    """
    read = [name[:MAX_NAME_CHARS] for name in names]
    if any(map(_POLL_NAMES.search, read)) or _WAITS.search(arguments[:2_000]):
        return not has_ended(result)
    return len(result) <= MAX_STATE_CHARS and _UNDER_WAY.search(result) is not None


def has_ended(result: str) -> bool:
    """Return whether a state is the last one: to ask for it again is no waiting."""
    if len(result) > MAX_STATE_CHARS or _ENDED.search(result) is None:
        return False
    return _UNDER_WAY.search(result) is None


def is_screen_action(names: frozenset[str], result: str) -> bool:
    """Return whether a call acts on a page or a screen, and its result shows that whole."""
    is_shown = len(result) >= MIN_SCREEN_CHARS or _DIGEST.search(result) is not None
    return is_shown and acts_on_screen(names)


def acts_on_screen(names: frozenset[str]) -> bool:
    """Return whether all calls act on a page or a screen."""
    return all(not _SCREEN_ACTIONS.isdisjoint(words_of(name)) for name in names)


def measures(name: str, arguments: str) -> bool:
    """Return whether a call measures how long something takes, or how much of it there is."""
    text = f"{name[:MAX_NAME_CHARS]} {arguments[:MAX_ARGUMENT_CHARS]}"
    return _MEASURES.search(text) is not None


def is_deferred(result: str) -> bool:
    """Return whether a result asks to try again later."""
    return len(result) <= MAX_STATE_CHARS and _LATER.search(result) is not None


def is_step(names: frozenset[str], result: str) -> bool:
    """Return whether a call makes one more step, and its result does not say where that led.

    Ten times "page down" are ten steps; a page that comes back unchanged is not such a result.
    """
    return (
        len(result) <= MAX_ACKNOWLEDGEMENT_CHARS
        and all(not _STEPS.isdisjoint(words_of(name)) for name in names)
        and _DIGEST.search(result) is None
    )
