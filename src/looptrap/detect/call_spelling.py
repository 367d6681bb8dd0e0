"""The spelling of a call: its arguments without differences that do not make another call.

Flags in another order, other quotes, a longer pause before it, a search with its words in another
order, letters that only look the same. Operands keep their order: `mv a b` is not `mv b a`. Whether
two such calls are the same is decided by their results too.
"""

from __future__ import annotations

import re
from functools import lru_cache

from looptrap.detect.canonical import plain_letters
from looptrap.dialect.content import canonical, decode_or_none

MAX_SPELLED_CHARS = 400
"""Longer arguments are scripts or documents: they are compared as they are."""

_COMMANDS = ("command", "cmd")
_QUERIES = ("query", "q", "search_query", "search_term")
"""Arguments that hold a shell command, and words to search for."""

_EXPLAINED = ('"command":', '"cmd":', '"code":', '"old_string":', '"old_str":')
"""Arguments that run or change something."""
_EXPLANATION = re.compile(
    r'"(?:description|explanation|instruction|justification|rationale|purpose|thought)":'
    r'"(?:[^"\\]|\\.)*",?'
)
"""What a model writes beside them about it: the text differs each time, and changes nothing."""
_RATED_SUMMARY = re.compile(r'"(?:security_risk|summary)":"(?:[^"\\]|\\.)*",?')
"""What OpenHands asks for with every call: its risk, and a summary of it."""

_PLAIN_COMMAND = re.compile(r'"(?:command|cmd)":"([^"]*)"')
_find_quoting = re.compile(r"""['"\\`()<]""").search
_PARTS = re.compile(
    r"""(?P<space> [ \t]+ )
      | (?P<quoted> '[^']*' | "[^"$`\\!]*" )
      | (?P<operator> (?<![^\s;|&()]) \d (?: >&\d | [<>]{1,2} ) (?![<>&]) | (?!<<) [;|&()<>]+ )
      | (?P<word> [^\s'"`\\;|&()<>]+ )
    """,
    re.VERBOSE,
)
_PAUSE = re.compile(r"\Asleep\s+[\d.]+[smh]?\s*(?:;|&&)\s*")
"""A pause before a look at something: however long it is, it is the same look."""
_BARE_COMMAND = re.compile(r"[\w./-]{1,80} ")
"""How a command begins that is all of a call's arguments."""
_NEEDS_NO_QUOTES = re.compile(r"[\w./:=,@%+-]+")
_FLAG = re.compile(r"-[A-Za-z]{1,3}|--[a-z][a-z-]{0,30}(?:=[\w./:,@%+-]*)?")
_ORDERED = frozenset(
    "find rsync ffmpeg convert magick gcc g++ cc clang ld test [ [[ iptables".split()
)
"""Commands for which the order of flags means something."""

_WORDS = re.compile(r"\w+(?: \w+)+", re.ASCII)
_OPERATORS = frozenset("AND OR NOT NEAR".split())
_LANGUAGE_VERBS = frozenset("select insert update delete with show explain match".split())
_LANGUAGE_WORDS = frozenset("from into set where values as return join tables".split())
"""Words that make a query of a language, in which the order means something: a verb at its
beginning, and another one after it."""


def without_explanation(arguments: str) -> str:
    """Return arguments without what says why a command is run, or an edit made."""
    if '"security_risk":' in arguments:
        arguments = _RATED_SUMMARY.sub("", arguments)
    # Most tools take no such argument; plain tests are faster than a pattern.
    if (
        '"description":' not in arguments
        and '"explanation":' not in arguments
        and '"instruction":' not in arguments
        and '"justification":' not in arguments
        and '"rationale":' not in arguments
        and '"purpose":' not in arguments
        and '"thought":' not in arguments
    ) or not any(name in arguments for name in _EXPLAINED):
        return arguments
    return _EXPLANATION.sub("", arguments)


def spelling(arguments: str) -> str:
    """Return the arguments of a call in one spelling, for those that mean the same."""
    arguments = without_explanation(arguments)
    if not arguments.isascii():
        arguments = plain_letters(arguments)
    if len(arguments) > MAX_SPELLED_CHARS:
        return arguments
    if arguments[:1] != "{":
        return _spelled_command(arguments) if _BARE_COMMAND.match(arguments) else arguments
    # Most calls run no command, or one without anything that could be spelt in another way.
    if '"command":' in arguments or '"cmd":' in arguments:
        return _spelled(arguments) if _may_differ(arguments) else arguments
    return _spelled(arguments) if holds_query(arguments) else arguments


def holds_query(arguments: str) -> bool:
    """Return whether arguments hold words to search for."""
    return 'query":"' in arguments or '"q":"' in arguments or 'search_term":"' in arguments


def _may_differ(text: str) -> bool:
    return (
        " -" in text
        or "'" in text
        or "\\" in text
        or ";" in text
        or "  " in text
        or "2>&1" in text
        or "cat" in text
        or "sleep" in text
    )


@lru_cache(maxsize=1024)
def _spelled(arguments: str) -> str:
    """Return JSON arguments with the command, or the words to search for, in one spelling."""
    found = _PLAIN_COMMAND.search(arguments) if "\\" not in arguments else None
    if found is not None:
        start, end = found.span(1)
        return f"{arguments[:start]}{_spelled_command(found[1])}{arguments[end:]}"
    values: object = decode_or_none(arguments)
    if not isinstance(values, dict):
        return arguments
    for name in _COMMANDS:
        command = values.get(name)
        if type(command) is str:
            values[name] = _spelled_command(command)
        elif isinstance(command, list) and _runs_shell(command):
            command[2] = _spelled_command(command[2])
    for name in _QUERIES:
        query = values.get(name)
        if type(query) is str:
            values[name] = _spelled_query(query)
    return canonical(values)


def _runs_shell(command: list[object]) -> bool:
    """Return whether a list is a shell with its command: `["bash", "-lc", "make -s"]`."""
    return len(command) == 3 and command[1] in ("-c", "-lc") and type(command[2]) is str


def _spelled_command(command: str) -> str:
    """Return a command of one line in one spelling; any other unchanged."""
    command = _PAUSE.sub("sleep; ", command.strip())
    if not command or "\n" in command:
        return command
    tokens = command.split() if _find_quoting(command) is None else _tokens(command)
    if not tokens:
        return command
    _drop_trailers(tokens)
    if tokens[0] == "cd" and len(tokens) > 2:
        _join_place(tokens)
    flags = [place for place, token in enumerate(tokens) if token[0] == "-"]
    if len(flags) > 1 and _ORDERED.isdisjoint(tokens):
        _sort_flags(tokens)
    return " ".join(tokens)


def _drop_trailers(tokens: list[str]) -> None:
    """Drop what at the end of a command changes nothing about what it does."""
    while len(tokens) > 1:
        last = tokens[-1]
        if last in (";", "|cat") or (last == "2>&1" and not any(">" in one for one in tokens[:-1])):
            del tokens[-1]
        elif last == "cat" and tokens[-2] == "|" and len(tokens) > 2:
            del tokens[-2:]
        elif last[-1] == ";" and last[-2] not in ";|&":
            tokens[-1] = last[:-1]
        else:
            return


def _join_place(tokens: list[str]) -> None:
    """Write a change of place before a command as `cd place && …`."""
    if tokens[2] == ";":
        tokens[2] = "&&"
    elif tokens[1][-1] == ";":
        tokens[1:2] = [tokens[1][:-1], "&&"]


def _sort_flags(tokens: list[str]) -> None:
    """Sort flags that stand side by side; those of the same name keep their order."""
    start = 0
    for end in range(len(tokens) + 1):
        if end < len(tokens) and _FLAG.fullmatch(tokens[end]) is not None:
            continue
        if end - start > 1:
            tokens[start:end] = sorted(tokens[start:end], key=_name_of_flag)
        start = end + 1


def _name_of_flag(flag: str) -> str:
    return flag.partition("=")[0]


def _tokens(command: str) -> list[str] | None:
    """Return the words and operators of a command; None where it is not as simple as that."""
    tokens: list[str] = []
    is_word = False
    read = 0
    for found in _PARTS.finditer(command):
        if found.start() != read:
            return None
        read = found.end()
        part, kind = found[0], found.lastgroup
        if kind in ("quoted", "word"):
            part = part if kind == "word" else _unquoted(part)
            if is_word:
                tokens[-1] += part
            else:
                tokens.append(part)
        elif kind == "operator":
            tokens.append(part)
        is_word = kind in ("quoted", "word")
    return tokens if read == len(command) else None


def _unquoted(part: str) -> str:
    """Return a quoted text without quotes where it needs none, otherwise in single ones."""
    text = part[1:-1]
    if _NEEDS_NO_QUOTES.fullmatch(text):
        return text
    return part if "'" in text else f"'{text}'"


def _spelled_query(query: str) -> str:
    """Return words to search for in one order; any other query unchanged."""
    text = " ".join(query.split())
    if _WORDS.fullmatch(text) is None:
        return text
    words = text.split()
    if not _OPERATORS.isdisjoint(words) or sum(map(str.isdigit, words)) > 1:
        return text
    lowered = text.lower().split()
    if lowered[0] in _LANGUAGE_VERBS and not _LANGUAGE_WORDS.isdisjoint(lowered):
        return text
    return " ".join(sorted(words))
