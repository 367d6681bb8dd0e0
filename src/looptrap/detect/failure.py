"""Failures: does a tool's result say that the call failed, or that there was nothing?"""

from __future__ import annotations

import re
from itertools import pairwise

from looptrap.detect.canonical import mask

HEAD_CHARS, TAIL_CHARS = 800, 400
"""Parts of a result that are searched: errors stand at its beginning or its end."""

SHORT_RESULT_CHARS = 600
"""In a result up to this long every line may be the error; in a longer one it must stand out."""

MAX_LINE_CHARS = 300
"""Longer lines are content, whatever words they contain."""

_FAILURE = re.compile(
    # words of their own: not in the name of a file, a folder or a function
    r"(?<![\w./\\-])(?:errors?|exception|fail(?:ed|ure|s)?|fatal|denied|refused|invalid|undefined"
    r"|missing|panic|forbidden|unauthori[sz]ed|err!)(?![\w/\\-]|\.\w|\s?=)"
    r"|[a-z](?:error|exception)(?=:|$|\s)|error(?=:)|exception(?=:)|traceback"
    r"|unrecogni[sz]ed|not found|no such|\bcannot\b|can't|could not|couldn't"
    r"|temporarily unavailable|unable to|timed out|time-?out"
    r"|unexpected|mismatch|aborted|no module named"
    r"|non-?zero (?:exit|status)"
    r"|not (?:an? )?(?:defined|allowed|authori[sz]ed|permitted|supported|valid|recogni[sz]ed|exist"
    r"|available|unique|been read)"
    r"|does not|doesn't|don't exist|did not (?:appear|match|contain|exist|find)"
    r"|must be|no replacement|no changes (?:to|were) ma"
    r"|</?[a-z_-]{0,24}error[a-z_-]{0,24}>"
    r"|[\"'](?:success|ok|succeeded)[\"']: ?false|\bsuccess ?= ?false|is_?error[\"']?: ?true"
    r"|http[/\d. ]{1,6}[45]\d\d\b|status(?: code)?\W{1,3}[45]\d\d\b"
    r"|\b(?:fehler|erreur|errore|fallo)\b|nicht gefunden|introuvable|no se (?:pudo|encontr)"
    r"|ошибка|错误|失败|エラー|오류"
)
"""Matched against lower case: twice as fast as a pattern that ignores case."""
_STEMS = tuple(
    "err|exception|unavailable|fail|fatal|denied|refused|invalid|undefined|missing|panic|forbidden|unauthori"
    "|traceback|unrecogni|not |could not|does not|no such|cannot|can't|couldn't|doesn't|don't exist"
    "|unable to|timed out|timeout|time-out|unexpected|mismatch|aborted|no module|zero exit"
    "|zero status|must be|no replacement|no changes|: false|:false|=false|= false|http|status"
    "|fehler|fallo|nicht gefunden|introuvable|no se |ошибка|错误|失败|エラー|오류".split("|")
)
"""Every failure names one of these: finding none of them takes a tenth of the pattern's time."""
_DENIES = re.compile(
    r"\b(?:no|0|without(?: any)?) (?:\w+ )?(?:errors?|failures?|failed|exceptions?)\b"
    r"|\b(?:errors?|failures?|failed|exception)\"?\s?[:=]\s?(?:null|none|false|0|\[\]|\{\}|\"\")"
    r"(?=\s*(?:[,;.)}\]]|$))"
)
"""Phrases that deny an error."""
_SOURCE = re.compile(
    r"\s*(?:(?:[\w./-]{1,200}:)?\d+[:\t|]\s*)?(?:class|def|import|from|raise|return|except|catch"
    r"|throw|public|private|protected|static|const|let|var|func|fn|struct|enum|//|#|/?\*|<!--|@)"
    r"|\s*\d+(?:\t|→| ?\|)"
)
"""How a line of source or of a listing begins: the errors in it are no failure."""
_HIT = re.compile(
    r"\s*[\w./\\-]{1,200}\.\w{1,8}:\d{1,7}(?>(?::\d{1,5})?)[:-]\s?"
    r"(?!\s*(?:\w+ )?(?:error|warning|exception|fail|fatal|note|undefined|cannot|expected"
    r"|[a-z]\d{2,4}\b))"
)
"""A line that a search found in a file; what a compiler says about a line begins otherwise.

An atomic group, because Python 3.11.2 matches a possessive one wrongly.
"""

_EXIT = re.compile(
    r"(?:return ?code|exit(?:ed)?[ _]?(?:with )?(?:status )?(?:code|status)?)\W{0,4}(-?\d{1,5})\b"
)
_HTTP_ERROR = re.compile(
    r'\\?"status(?:_?code)?\\?": ?[45]\d\d\b|^http/[\d.]{1,3} [45]\d\d\b', re.MULTILINE
)
"""What a server answers to a program that then exits well, such as curl."""
_NAMED = re.compile(r"\s*[\w.]*(?:error|exception)\b")
_NOTHING = re.compile(
    r"did not produce any output|without (?:any )?output"
    r"|\bno (?:output|results?|match(?:es|ing)?|hits|rows|data|files?|documents?|records?|items?)\b"
    r"|\b0 (?:results?|matches|hits|rows|files)\b|\bnothing (?:found|to)\b|not find any"
    r'|^\{"\w+": ?\[\]',
    re.IGNORECASE,
)
_MARKUP = re.compile(r"<[^<>]{0,40}>|[\W\d_]+")
_FRAME = re.compile(
    r"<?(?:Error: )?(?:[Rr]eturn ?code|[Ee]xit(?:ed)?[ _]?(?:with )?(?:code|status)?)"
    r"\W{0,4}-?\d{1,5}"
    r"|<[^<>\n]{0,40}>|\[[A-Z][^\[\]\n]*\]"
)
"""What harnesses put around an output."""
_TALLY = re.compile(
    r"\b\d+(?: ?(?:/|of|out of) ?\d+)? (?:(?:test|check|spec|suite|example|file|job|target)s? )?"
    r"(?:failed|fail|failures?|failing|errors?|passed|passing|problems?|warnings?)\b"
    r"|\b(?:failures|errors|failed|passed|tests run)[:=] {0,8}\d+"
    r"|\bcoverage\b[^\n\d]{0,20}\d+(?:\.\d+)? ?%"
)
"""What a test run or a checker counts."""
_SUCCESS = re.compile(
    r"\b(?:pass(?:ed|es)?|success(?:ful|fully)?|succeeded|ok|clean|up[ -]to[ -]date|no issues"
    r"|(?:no|0) (?:\w+ )?(?:errors?|problems?|warnings?|failures?))\b"
)
_CHECKS = re.compile(
    r"test|lint|check|build|compil|valid|format|\b(?:tsc|mypy|ruff|vet|make|javac|gcc)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"({_TALLY.pattern})|\d+")
FIELD_MARK = "@"
"""What stands before the name of a field in the description of a failure."""
_FIELD = re.compile(r"\s*[\w.\[\]-]{1,60}:?\s*")
_FRAME_OF_STATUS = re.compile(
    rf"<[^<>\n]{{0,40}}>|(?:error: ?)?{_EXIT.pattern}"
    r"|^\[[a-z][^\[\]\n]{0,80}\][ \t]{0,8}$|\"\w{1,40}\"(?= ?:)",
    re.MULTILINE,
)
"""What harnesses put around an output to say how a command exited: a line in brackets, JSON."""
MAX_STATUS_LETTERS = 5
"""Letters beside the exit status up to which there is no message."""


def failure_of(text: str, is_error: bool = False) -> str | None:
    """Return a normalised description of the failure; None if the call did not fail.

    An exit status decides where there is one. Volatile tokens and numbers are left out, except
    numbers that count failures: fewer failures are another failure.
    """
    lowered = _ends(text)
    # Finding two words is cheap, from the end even more so; the pattern is not.
    has_status = lowered.rfind("exit") >= 0 or lowered.rfind("return") >= 0
    status = _EXIT.search(lowered) if has_status else None
    if status is not None:
        if status[1] == "0" and (len(text) > SHORT_RESULT_CHARS or not _HTTP_ERROR.search(lowered)):
            return None
        # Searches that find nothing exit with 1 and print nothing.
        message = _FRAME_OF_STATUS.sub("", lowered) if status[1] == "1" else lowered
        is_error = status[1] != "1" or len(_MARKUP.sub("", message)) > MAX_STATUS_LETTERS
        if not is_error:
            lowered = message
    lines = [line for line in lowered.splitlines() if line.strip()]
    if not lines:
        return "failed" if is_error else None
    is_short = len(text) <= SHORT_RESULT_CHARS
    outer = lines if is_short else [*lines[:3], *lines[-3:]]
    error_lines = _lines_of_failure(outer)
    if not is_error and not (
        error_lines
        and (is_short or error_lines[0] in lines[:3] or _NAMED.match(lines[-1]) is not None)
    ):
        return None
    first = (error_lines or [line[:MAX_LINE_CHARS] for line in lines[-2:]])[:3]
    if is_short and error_lines:
        # A name on a line after one of an error belongs to it: the field that is missing.
        first += [
            FIELD_MARK + after.strip()
            for line, after in pairwise(lines)
            if line in first and _FIELD.fullmatch(after) is not None
        ][:2]
    # A run that fails less often than before is progress, wherever it says so.
    tally = next((line for line in reversed(lines) if _TALLY.search(line[:MAX_LINE_CHARS])), "")
    summary = " ".join(first if tally in first else [tally[:MAX_LINE_CHARS], *first])
    return _NUMBER.sub(lambda number: number[1] or "#", " ".join(mask(summary).split()))[:300]


def failure_lines(text: str) -> list[str]:
    """Return all lines at either end that name a failure, with their figures: one that moves is
    progress."""
    return [mask(line) for line in _ends(text).splitlines() if _may_fail(line)]


def fields_of(failure: str) -> list[str]:
    """Return the fields that the description of a failure names."""
    return [word for word in failure.split() if word.startswith(FIELD_MARK)]


def is_echo(result: str, arguments: str) -> bool:
    """Return whether all that sounds like a failure stands in the call too, as in what a search
    for `error` finds."""
    arguments, ends = arguments.lower(), _ends(result)
    status = _EXIT.search(ends)
    if status is not None and status[1] != "0":
        return False
    lines = _lines_of_failure(ends.splitlines())
    words = [found[0] for line in lines for found in _FAILURE.finditer(line)]
    return bool(words) and all(word in arguments for word in words)


def _lines_of_failure(lines: list[str]) -> list[str]:
    """Return the lines that report a failure; in most results none does."""
    short = [line for line in lines if len(line) <= MAX_LINE_CHARS]
    return list(filter(_reports_failure, short)) if short and _may_fail("\n".join(short)) else []


def _may_fail(text: str) -> bool:
    for stem in _STEMS:  # noqa: SIM110 - a generator costs more than the search
        if text.rfind(stem) >= 0:  # faster than from the beginning
            return True
    return False


def _reports_failure(line: str) -> bool:
    if not _FAILURE.search(line) or _SOURCE.match(line):
        return False
    if _HIT.match(line) is not None:
        return False
    without = _DENIES.sub("", line)
    return len(without) == len(line) or _FAILURE.search(without) is not None


def is_test_report(failure: str) -> bool:
    """Return whether a failure is the report of a test run, with counts."""
    return _TALLY.search(failure) is not None


def is_empty_result(text: str) -> bool:
    """Return whether a result that is no failure contains nothing."""
    bare = text.strip()
    if len(bare) < 3 and not bare.isalnum():  # "ok" is an answer, "[]" is none
        return True
    if len(bare) > SHORT_RESULT_CHARS:
        return False
    if _NOTHING.search(bare[:160]) is not None:
        return True
    may_have_frame = "<" in bare or "[" in bare or "xit" in bare or "eturn" in bare
    return not any(map(str.isalnum, _FRAME.sub("", bare) if may_have_frame else bare))


def is_success_report(text: str) -> bool:
    """Return whether a result that is no failure reports a successful check or build."""
    return _SUCCESS.search(_ends(text)) is not None


_TAKEN = re.compile(
    r"\btaken\b|\boccupied\b|\bconflict|\bsold out\b|\bfully booked\b|\bno (?:free|open) \w+"
)
_ABSENT = re.compile(
    r"\bno such\b|\bnot (?:be )?found\b|n.t exist|\bnot exist|\bunknown \w+\b"
    r"|\b(?:is|was|been|already) (?:gone|withdrawn|deleted|removed|retired|archived|expired)\b"
)


def denies_item(failure: str) -> bool:
    """Return whether a failure is an answer about what was asked for: there is no such file, the
    hour is taken. Another one may do."""
    if is_taken(failure):
        return True
    return _ABSENT.search(failure) is not None and "command not found" not in failure


def is_taken(failure: str) -> bool:
    """Return whether a failure says that what was asked for is taken."""
    return _TAKEN.search(failure) is not None


_NOT_ONE = re.compile(r"\b(?:no|0|zero) (?:[\w-]+ ){0,2}(?:[a-z]+s|left|found|remaining)\b")


def finds_nothing(text: str) -> bool:
    """Return whether what a check says is that it found none: `0 broken links`."""
    return len(text) <= SHORT_RESULT_CHARS and _NOT_ONE.search(text.lower()) is not None


def is_check(request: str) -> bool:
    """Return whether a call runs a check, which prints nothing when it succeeds."""
    return _CHECKS.search(request[:MAX_LINE_CHARS]) is not None


def _ends(text: str) -> str:
    """Return the beginning and the end of a text, in lower case."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    return text.lower()
