"""Harness texts: what a program says in the user's place, known by its form the first time.

It stands wholly inside tags such as `<system-reminder>`; or it tells the agent to go on, without a
word about what; or it is about the form of the agent's answer, such as a missing tool call. What a
person says has a subject of its own.
"""

from __future__ import annotations

import re

from msgspec import Raw

from looptrap.detect.summary import is_summary

MAX_HARNESS_CHARS = 6_000
"""Longest text that is read: some harnesses add their rules for tools."""

MAX_GO_ON_CHARS = 400
MAX_SENTENCE_CHARS = 240

SUMMARY_CHARS = 160
"""Characters in which a text in tags says that it stands for earlier messages: that is no nag."""

MAX_START = 80
"""Characters of a text by which most are known not to be a harness's."""

MAX_RAW_START = 160
"""Bytes of a message in which these stand."""

# Tags

_OPENING_TAG = re.compile(
    r"\s*<([\w-]{0,24}(?:system|reminder|environment)[\w-]{0,24})>", re.IGNORECASE
)
_TAG_IN_LINE = re.compile(
    r"^<([\w-]{0,24}(?:system|reminder|environment)[\w-]{0,24})>", re.IGNORECASE | re.MULTILINE
)
_PERSON_INSIDE = re.compile(r"\buser (?:sent|said|wrote|asked|says|replied)\b", re.IGNORECASE)
"""Some harnesses pass on in a reminder what a person typed."""


def _is_tagged(text: str) -> bool:
    """Return whether a text stands wholly inside such tags."""
    at = 0
    while (tag := _OPENING_TAG.match(text, at)) is not None:
        end = f"</{tag[1]}>"
        closed = text.find(end, tag.end())
        if closed < 0:
            return False
        at = closed + len(end)
    return at > 0 and not text[at:].strip() and _PERSON_INSIDE.search(text) is None


MAX_TAGGED = 4
"""Texts in tags that are taken out of one text."""


def without_tagged(text: str) -> str:
    """Return a text without what a harness adds to it inside such tags."""
    for _ in range(MAX_TAGGED):
        tag = _TAG_IN_LINE.search(text)
        end = f"</{tag[1]}>" if tag is not None else ""
        closed = text.find(end, tag.end()) if tag is not None else -1
        if tag is None or closed < 0:
            break
        text = text[: tag.start()] + text[closed + len(end) :]
    return text


# "Please proceed to the next step using your best judgement."

_GO_ON = re.compile(
    r"\W*(?:please\s+)?(?:continue|proceed|go on|go ahead|keep (?:going|working)|carry on"
    r"|resume)\b",
    re.IGNORECASE,
)
_GO_ON_STARTS = (
    *("please", "contin", "procee", "go on", "go ahe", "keep g", "keep w", "carry", "resume"),
)
_NO_SUBJECT = frozenset(
    """a again ahead all an and answer any anything approach appropriate are as ask at be been
    believe best by call carry complete completed completely confirmation continue current do done
    don't everything final finish finished for from function further go goal goals going have help
    human i if important in input interaction is it judgement judgment keep left message must
    necessary need needed never next not now of off on once or otherwise own plan planned please
    proceed remaining reply request respond response resume should solved start step steps stop
    stopped submit suitable task tasks terminate that the then there think this to tool tools toward
    towards until use user using waiting was what whatever when where which will with without work
    working yet you your yourself""".split()
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def _tells_to_go_on(text: str) -> bool:
    """Return whether a text tells the agent to go on, and names no subject."""
    if len(text) > MAX_GO_ON_CHARS or _GO_ON.match(text) is None:
        return False
    return _NO_SUBJECT.issuperset(_WORD.findall(text.lower()))


# "No tool calls found in the response. Every response must include one."

_ADDRESS = frozenset(
    """you your no every each last previous latest assistant model parse parsing invalid incorrect
    malformed missing system: [system [system] [system:""".split()
)
"""One of these is among the first words of a complaint …"""
_FORM_WORDS = (
    *("tool", "function", "respon", "output", "format", "json", "pars", "loop", " left", " cut "),
    *("truncat", "interrupt"),
)
"""… and one of these stands in them."""

_PREFIX = re.compile(
    r"[\W_]*(?:(?P<system>system|harness|automated|automatic)|error|warning|notice|note|important"
    r"|reminder|format error)(?: (?:message|reminder|notice|note|error|warning))?[\]:*)]+[\W_]*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?:](?=\s|\Z)|\.(?=[A-Z])|\n")

_ANSWER = r"(?:response|message|output|answer|reply|turn|completion)s?"
_TOOL = (
    r"(?:(?:an?|any|one|at\ least\ one|exactly\ one)(?:\ (?:valid|single|available))?"
    r"\ (?:tool|function)s?|(?:tool|function)[ -](?:calls?|uses?)"
    r"|(?:one|any)\ of\ the\ (?:\w+\ )?tools)\b"
)
_ABOUT_FORM = re.compile(
    rf"""
      (?:\S{{1,24}}\ ){{0,4}}?
    (?: no\ (?:valid\ |parsable\ )?(?:tool|function)[ -](?:calls?|uses?)\b
    | (?:your|every|each|(?:last|previous|latest|assistant|model)(?:'s)?)
      \ (?:(?:last|previous|latest)\ )?{_ANSWER}
      \ (?:[\w'<>`-]+\ ){{0,6}}?
      (?: (?:did|does|was|is|could|can)(?:\ not|n't)|cannot|failed\ to|ha[sd]\ no
        | contain(?:s|ed)\ no|must|needs\ to|has\ to )
      \ (?:[\w'`-]+\ ){{0,6}}?
      (?: {_TOOL}|(?:valid\ )?(?:json|xml|yaml)\b|pars(?:ed?|able|ing)\b|well-formed
        | (?:correct|required|expected|right|proper|specified|valid)\ (?:\w+\ )?format )
    | (?:your|the)\ (?:(?:last|previous|latest)\ )?{_ANSWER}\ (?:was|is|got|has\ been)
      \ (?:cut\ (?:off|short)|truncated|interrupted)\b
    | you\ (?:(?:did|have)(?:\ not|n't)|must|need\ to|forgot\ to|failed\ to)
      \ (?:[\w'`-]+\ ){{1,5}}?{_TOOL}
    | (?:could\ not|couldn't|failed\ to|unable\ to|cannot|can't|error)\ pars(?:e|ing)
      \ (?:your|the\ (?:assistant|model|llm)|llm|model|tool\ call)\b
    )
    | (?:invalid|incorrect|malformed|missing)\ (?:(?:response|output|tool[ -]call)\ )?
      (?:format|json|tool[ -]call)\b
    | you\ (?:only\ )?have\ (?:only\ )?\w{{1,8}}\ (?:more\ )?
      (?:step|turn|iteration|attempt|round|tool\ call|action)s?\ (?:left|remaining)\b
    | tool\ (?:result|response|output)s?\ (?:(?:is|was|are)\ )?(?:missing|lost|interrupted)\b
    """,
    re.VERBOSE,
)
_ABOUT_RUN = re.compile(
    r"loop detected|tool (?:use|call)|your (?:\w+ )?(?:response|message|output|answer|actions?)\b"
    r"|\b\w{1,8} (?:steps|turns|iterations) (?:left|remaining)"
)
"""What is about the agent's run where a system says so."""
_ON_FORM = re.compile(
    r"tool|function|json|xml|format|respon|repl|output|answer|call|pars|retry|again|command|submit"
    r"|action|valid|complet|finish|continue|error|step|every"
)
"""What the next sentence is about, if there is one."""


def _is_about_form(text: str) -> bool:
    """Return whether a text is about the form of the agent's answer, and says nothing else.

    A comma leads a person on to what to do: "that is no valid JSON, take the second schema".
    """
    prefix = _PREFIX.match(text)
    start = prefix.end() if prefix is not None else 0
    lines = text[start : start + 2 * MAX_SENTENCE_CHARS].lower().replace("’", "'").lstrip()
    first, end, rest = _cut(lines)
    if prefix is not None and prefix["system"] and _ABOUT_RUN.search(lines) is not None:
        return True
    found = _ABOUT_FORM.match(first)
    if found is None or "," in first[found.end() :]:
        return False
    # After a colon comes what went wrong, in any words.
    following = rest if end == ":" else _cut(rest.lstrip())[0]
    return not following or _ON_FORM.search(following) is not None


def _cut(text: str) -> tuple[str, str, str]:
    """Return the first sentence, what ends it, and the rest."""
    end = _SENTENCE.search(text)
    if end is None:
        return text, "", ""
    return text[: end.start()], end[0], text[end.end() :]


def may_be_harness_text(text: str) -> bool:
    """Return, by its first words, whether a text may be a harness's; most are not."""
    start = text[:MAX_START].lower()
    if start[:1] == "<" or start.startswith(_GO_ON_STARTS):
        return True
    if _ADDRESS.isdisjoint(start.split()) and not start.startswith("tool"):
        return False
    return any(word in start for word in _FORM_WORDS)


_TEXT_BEGINS = re.compile(r'"(?:content|text)" ?: ?"')


def may_be_harness_message(raw: Raw) -> bool:
    """Return, without decoding a message, whether its text may be a harness's."""
    view = memoryview(raw)
    if view.nbytes > 2 * MAX_HARNESS_CHARS:
        return False
    start = str(view[:MAX_RAW_START], "latin-1")
    begin = _TEXT_BEGINS.search(start)
    if begin is None:
        return True
    return may_be_harness_text(start[begin.end() :].replace("\\n", " ").lstrip())


def is_harness_text(text: str) -> bool:
    """Return whether a user's message is a harness's, by its form alone."""
    if not may_be_harness_text(text) or len(text) > MAX_HARNESS_CHARS:
        return False
    if text.lstrip()[:1] == "<" and _is_tagged(text):
        return not is_summary(text, SUMMARY_CHARS)
    return _is_about_form(text) or _tells_to_go_on(text)
