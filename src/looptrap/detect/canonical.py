"""One spelling for what counts as the same: texts normalised, joined unambiguously, and masked.

Masking replaces tokens that change from one attempt to the next without meaning anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from unicodedata import normalize

SEPARATOR = b"\xff"
"""Separates texts. UTF-8 never contains it, so no client text can forge one."""

LONG_TEXT = 65_536
"""Longer texts are compared exactly: a loop sends them again unchanged."""

_ASCII_SPACE = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
_NUL_TO_SEPARATOR = bytes([SEPARATOR[0], *range(1, 256)])
_NORMAL = bytes(
    0x20 if byte in _ASCII_SPACE else byte | 0x20 if 0x41 <= byte <= 0x5A else byte
    for byte in _NUL_TO_SEPARATOR
)

_ALMOST_INVISIBLE = "\ufe0e\ufe0f\u034f\u115f\u1160"
"""Invisible characters that Unicode counts as printable."""
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)
_LOOK_ALIKES = "аеорсухіјѕһԁԛԝАВЕКМНОРСТУХІЈЅοανικρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
_LATIN = str.maketrans(_LOOK_ALIKES, "aeopcyxijshdqwABEKMHOPCTYXIJSoavikptuxABEZHIKMNOPTYX")
"""Cyrillic and Greek letters that look like Latin ones."""


def join(texts: Sequence[str]) -> bytes:
    """Join texts so that no two lists of as many texts ever give the same bytes."""
    joined = "\0".join(texts)
    if joined.isascii() and "\0" not in "".join(texts):  # faster than to count them
        return joined.encode().translate(_NUL_TO_SEPARATOR)
    return SEPARATOR.join([_encoded(text) for text in texts])


def normalise(texts: Sequence[str]) -> bytes:
    """Join texts with case folded, every run of white space made one space, and nothing invisible.

    ASCII, which most prompts are, is joined and cleaned in one pass, without an object per text,
    or per word unless there are runs of spaces.
    """
    joined = "\0".join(map(str.strip, texts))
    if joined.isascii() and len(joined) <= LONG_TEXT and "\0" not in "".join(texts):
        cleaned = joined.encode().translate(_NORMAL)
        # Python searches for few bytes three times as fast from the end as from the beginning.
        return b" ".join(cleaned.split()) if cleaned.rfind(b"  ") >= 0 else cleaned
    return SEPARATOR.join([_normal(text) for text in texts])


def stands_twice(piece: bytes, text: bytes) -> bool:
    """Return whether a short piece stands in a text at least twice.

    Searching from the end takes a third of the time that counting takes.
    """
    last = text.rfind(piece)
    return last >= 0 and text.rfind(piece, 0, last) >= 0


def _normal(text: str) -> bytes:
    if len(text) > LONG_TEXT:
        return blake2b(_encoded(text)).hexdigest().encode()
    text = " ".join(text.split())
    return _encoded((text if text.isascii() else _plain(text)).casefold())


def _plain(text: str) -> str:
    """Return a text without invisible characters, with letters of other forms made Latin."""
    folded = normalize("NFKC", text)
    if folded is not text:
        text = " ".join(folded.split())
    return plain_letters(text)


def plain_letters(text: str) -> str:
    """Return a text without invisible characters, with look-alike letters made Latin."""
    if not text.isprintable() or any(char in text for char in _ALMOST_INVISIBLE):
        text = _INVISIBLE.sub("", text)
    # In text that is mostly Cyrillic or Greek these letters are what they look like.
    if any(char in text for char in _LOOK_ALIKES) and len(_encoded(text)) <= 1.6 * len(text):
        text = text.translate(_LATIN)
    return text


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_UNITS = (
    "nanoseconds?|microseconds?|milliseconds?|seconds?|minutes?|hours?|days?"
    "|secs?|mins?|hrs?|ns|us|µs|ms|(?-i:[smhd])"  # "10M" is a size
)
_ATTEMPTS = "attempt|retry|try"
_IDS = (
    "chunk|call|message|event|request|req|trace|span|session|correlation|transaction|process|thread"
    "|job|build|run|task|agent"
)
_POSITIONS = "line|ln|column|col|char|offset"
_COUNTERS = (
    "iteration|iter|step|round|turn|process|thread|build|job|seq|counter"
    "|request|req|trace|span|session|correlation|transaction"
)
_NUMBER = r"""\.? ["']? [\ _]? [:=\#(\[]{0,2} \ ? ["']? \d+"""

_LABELLED = r"""["']? \ ? [:=] \ ? ["']? (?= [a-z_-]{0,12} \d )
              [0-9a-z][0-9a-z_-]{3,63} (?: : \d [0-9a-z_-]{0,31} ){0,4}"""

_TIMERS = (
    "duration|elapsed|latency|took(?=[_\"'])|(?:wall|execution|response|processing)[\\ _-]?time"
)
"""What is called so has a duration, with the unit in its name or none."""

_FRACTIONS = "ms|µs|us|ns|millis(?:econds)?"
_STATES = "lag|delay|remaining|left|eta|offset|backlog|behind|progress"
"""What a field measures whose value is a state: it moves while something goes on."""

_MOMENTS = (
    "date|time|ts|now|timestamp|server_?time"
    "|(?:created|updated|checked|fetched|generated|sent|received|modified|expires)(?:_?at|_?on)?"
)
"""What is called so is a moment, even if it is a number of seconds or milliseconds."""

# Each pattern is linear: bounded look-aheads, no repetition inside a repetition. The order is
# that of the alternatives: a uuid is not hex, a time stamp is not a duration, and the digest that
# stands for an image is neither: another image is another content.
_ALWAYS = rf"""
      (?P<part> \[ \w{{1,40}} \  [0-9a-f]{{16}} \] )
    | (?P<uuid> \b [0-9a-f]{{8}} (?: -[0-9a-f]{{4}} ){{3}} -[0-9a-f]{{12}} \b )
    | (?P<hex>  \b 0x[0-9a-f]+ \b
              | \b (?= \d{{0,64}} [a-f] ) [0-9a-f]{{8,}} \b )
    | (?P<time> \b \d{{4}} [-/] \d\d [-/] \d\d
                (?: [t\ ] \d\d:\d\d (?: :\d\d (?: [.,]\d+ )? )? )?
                (?: z | [+-]\d\d:?\d\d )? \b
              | \b \d\d? : \d\d (?: : \d\d (?: [.,]\d+ )? )? (?: \ ?[ap]m )? \b )
    | (?P<duration> \b \d+ (?: \.\d+ )? \ ? (?: {_UNITS} ) \b )
    | (?P<attempt> \b (?: {_ATTEMPTS} ) s? (?: [\ _-]? (?: number|no|count ) \b )?
                   {_NUMBER} (?: \ ? (?: /|of|- ) \ ? \d+ )? \b )
    | (?P<panic> '\ \( \d{{1,20}} \)\ panicked )
    | (?P<id> \b (?: (?: {_IDS} ) [\ _-]? id | p?pid | pgid | tid | port | nonce ) \b
              (?: {_NUMBER} | {_LABELLED} ) \b )
"""
_ARGUMENTS = re.compile(_ALWAYS, re.VERBOSE | re.IGNORECASE)
_RESULT = re.compile(
    rf"""
    {_ALWAYS}
    | (?P<timer> \b (?: {_TIMERS} ) (?: [\ _-]? (?: {_UNITS} ) )? ["']? \ ? [:=] \ ? ["']?
                 \d+ (?: \.\d+ )? (?: \ ? (?: {_UNITS} ) )? \b (?! [:.]\d ) )
    | (?P<unit> "(?! [a-z_]{{0,30}} (?: {_STATES} ) ) (?: \w{{1,30}}_ )? (?: {_FRACTIONS} )"
                \ ? : \ ? \d+ (?: \.\d+ )? \b )
    | (?P<took> " (?: t|rt|took|elapsed|dur|runtime|time_taken )" \ ? : \ ?
                \d{{1,4}}\.\d{{2,9}} \b )
    | (?P<load> \b load\ averages?: (?: ,?\ {{1,2}} \d+\.\d+ ){{1,3}}
              | \b up\ \d{{1,5}}\ days?, (?: \ {{1,2}} \d\d?:\d\d,? )? )
    | (?P<receipt> \b (?: receipt (?: [\ _-]? (?: id|no|number ) )? | pids ) \b
                   ["']? \ ? [:=\#] [\ \#\[]{{0,2}} ["']? [a-z-]{{0,12}} \d [0-9a-z-]{{0,63}}
                   (?: ,\ ? \d+ ){{0,16}} )
    | (?P<cell> \A \[ \d{{1,6}} \] (?=[\ \n]) | \b (?: in|out|cell ) \ ? \[ \d{{1,6}} \]
              | "execution_?count" \ ? : \ ? \d{{1,9}} )
    | (?P<trace> "(?: trace|served_by|etag|nonce|(?:access_|session_)?token
                 |uptime(?:_\w{{1,12}})? )" \ ? : \ ? (?: "[\w.:-]{{1,80}}" | \d+ (?: \.\d+ )? ) )
    | (?P<epoch> " (?: {_MOMENTS} ) " \ ? : \ ? "? 1\d{{9}} (?: \d{{3}} | \.\d{{1,9}} )? \b )
    | (?P<stamp> \s? ^ \W{{0,3}} (?: last\ )? (?: refreshed|updated|checked|fetched|retrieved
                 |generated|as\ of ) (?: \ (?: at|on ) )? :? \ \d{{4}}-\d\d-\d\d [t\ ]
                 [\d:.,]{{5,15}} (?: z|\ ?utc )? \W{{0,2}} $ )
    | (?P<file> \b full\ output\ (?: (?: has\ been|was|is )\  )?
                (?: saved|stored|written|available|see ) (?: \ (?: to|at|in ) )? :? \  \S+
              | \b (?: complete|full )\ log (?: \ of\ this\ run )? \ (?: is|can\ be\ found )
                \ (?: at|in ) :? \  \S*/\S+ )
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_VOLATILE = re.compile(
    rf"""
    {_ALWAYS}
    | (?P<counter> \b (?: {_POSITIONS}|{_COUNTERS} ) s? (?: [\ _-]? (?: number|no ) \b )?
                   {_NUMBER} (?: - \d+ )? \b (?! \ ? (?: % | / | of\b ) ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)

_GOAL = re.compile(r"\s?(?:/\s?\d|%|of \d|left\b|remain|to go\b|until\b)", re.IGNORECASE)
_COUNTDOWN = re.compile(r"(?:remaining|left|eta|countdown)\W{1,4}\Z", re.IGNORECASE)
_PLACEHOLDERS = re.compile(
    r"<(?:uuid|hex|time|duration|attempt|id|counter|timer|unit|took|load|receipt|file|cell|trace|epoch)>"
)
_FRAME = re.compile(
    r"\[(?:The )?command [\w ]{4,24}(?:code|status) -?\d{1,5}\.?\]"
    r"|<returncode>-?\d{1,5}</returncode>|</?(?:output|stdout|stderr|result)>"
    r"|\b(?:return ?code|exit(?:ed)?[ _]?(?:with )?(?:code|status)?)\W{0,4}-?\d{1,5}\b"
    r"|\b(?:output|stdout|result|observation):",
    re.IGNORECASE,
)
"""What harnesses put around the output of a command."""


def mask(text: str) -> str:
    """Replace volatile tokens in a prompt or an error message with their kind.

    Ids, hex, times, durations and named counters are volatile (`attempt 3`, `line 12`, `pid 77`);
    plain numbers are not: "pump 5" and "pump 6" are different questions. Neither is a counter that
    says how far something is: `step 3 of 9`, `build: 40%`.
    """
    return _VOLATILE.sub(_kind, text)


def mask_result(text: str) -> str:
    """Replace volatile tokens in what a tool returned with their kind.

    Only ids, hex, times, durations, attempts, receipts and where an output was saved are volatile
    here. Any other number may be progress: `step 3`, `offset 4096`, `build 40% done`,
    `20 seconds remaining`.
    """
    return _RESULT.sub(_kind_in_result, text)


def mask_arguments(text: str) -> str:
    """Replace volatile tokens in what a tool was asked: ids, hex, times, durations, attempts."""
    return _ARGUMENTS.sub(_kind_in_result, text)


def without_frame(text: str) -> str:
    """Return the output of a command without what harnesses put around it."""
    return _FRAME.sub(" ", text)


def is_all_volatile(text: str) -> bool:
    """Return whether masking would leave no letter or digit of a result, its frame aside."""
    masked = mask_result(without_frame(text))
    return not any(map(str.isalnum, _PLACEHOLDERS.sub("", masked)))


def _kind(match: re.Match[str]) -> str:
    if match.lastgroup == "stamp":
        return ""
    return match[0] if match.lastgroup == "part" else f"<{match.lastgroup}>"


def _kind_in_result(match: re.Match[str]) -> str:
    if match.lastgroup in ("time", "duration", "timer", "unit"):
        text, start, end = match.string, match.start(), match.end()
        if _GOAL.match(text, end) or _COUNTDOWN.search(text[max(0, start - 20) : start]):
            return match[0]
    return _kind(match)


_NUMBERED = re.compile(r"(?<![\w-])(?=[\w-]{0,64}\d)[\w.:-]+")


def without_numbers(text: str) -> str:
    """Return a text without numbers, and without words that contain one: ids, times, versions."""
    return _NUMBERED.sub("#", text)
