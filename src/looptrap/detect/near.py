"""Near: prompts that repeat an earlier prompt with a few words added around it.

`"That wasn't valid JSON. Try again: " + prompt` changes every time, so no exact fingerprint sees
this classic loop. A prompt is *contained* in a later one when the later one ends with all of it.
Both share their end, so the store is asked which prompts had that end: it remembers a mark for
each, its length and its fingerprint, which is enough to decide exactly.

One template with different data is not contained, however much of it is equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from looptrap.detect.canonical import SEPARATOR, mask, without_numbers

PROMPT_END_BYTES = 32
"""Equal last bytes from which two prompts are compared; shorter ends are equal by chance."""

MAX_ADDED_BYTES = 400
"""More than this before a prompt is content, not a request to try again."""

LENGTH_BYTES = 4

_PROMPTS = (b"user" + SEPARATOR, SEPARATOR + SEPARATOR)
"""What precedes the last text of a content when it is a user's prompt."""

MAX_ENVELOPE_CHARS = 160
"""Characters at either end of a prompt that are searched for an envelope."""

MAX_LABEL_CHARS = 24
"""Most characters of an envelope before the first name in it."""

MAX_VALUE_CHARS = 16
"""An envelope at the end has a digit among this many last characters."""

MAX_ENVELOPES = 3
"""Envelopes before a prompt that are taken off."""

MAX_REPORT_CHARS, MAX_REASON_CHARS = 6_000, 300
"""Characters at a prompt's end that are searched for reports of failed attempts, and the
characters of a line that say why."""

SHORT_PROMPT_CHARS = 600
"""A prompt up to this long may be about the thing that its envelope names."""

MAX_INSTRUCTION_CHARS = 200
"""A paragraph up to this long may ask for something; in a longer one is what it is asked about."""

_DATE = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?[ap]m)?(?:\ ?(?:z|utc|[+-]\d\d:?\d\d))?"
_STAMP = rf"{_DATE}[t\ ]{_CLOCK}"
_ITEM = rf"""
    (?: (?:attempt|retry|try)s?(?:\ (?:count|no\.?|number))?[\ :=\#.]{{1,3}}
        \d{{1,9}}(?:\ ?(?:/|of)\ ?\d{{1,9}})?
      | (?:x-)?(?:request|correlation|trace|message)[\ _-]?id[\ :=\#]{{1,3}}
        (?=[0-9-]{{0,64}}[a-z])(?=[a-z-]{{0,64}}\d)[0-9a-z-]{{8,64}}
      | (?:job|run|task|batch|request|trace|correlation)(?:\ id)?[\ :=\#]{{1,3}}
        (?=[0-9-]{{0,64}}[a-z])(?=[a-z-]{{0,64}}\d)[0-9a-z-]{{6,64}}
      | nonce[\ :=\#]{{1,3}}[0-9a-z-]{{1,64}}
      | (?:the\ )?(?:current|local|present)\ (?:date(?:\ and\ time|time)?|time)(?:\ is)?
        [\ :=]{{1,3}}(?:{_STAMP}|{_DATE}|{_CLOCK})
      | timestamp[\ :=]{{1,3}}(?:{_STAMP}|{_CLOCK}|\d{{10,16}})
      | sent\ (?:at|on)[\ :]{{1,2}}(?:{_STAMP}|{_DATE}|{_CLOCK})
    )"""
_ITEMS = rf"{_ITEM}(?:(?:,|;|\ at|\ on|\ -|\ \|)?\ (?:{_ITEM}|{_STAMP}|{_CLOCK})){{0,3}}"
_ID = r"""(?:req|request|trace|correlation)[-_]
    (?=[0-9-]{0,64}[a-z])(?=[a-z-]{0,64}\d)[0-9a-z-]{4,64}"""
_MACHINE = r"""(?:request|run|job|task|batch|message|delivery|call|trace|span|correlation|attempt
    |retry|try|turn|event|execution|invocation|queued|enqueued|scheduled|sent|received|created|generated|at
    |time|timestamp|session|nonce)(?:\ (?:id|no\.?|number|at))?"""
_TOKEN = r"""(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[0-9]{0,40}[a-f])[0-9a-f]{12,40})"""
_COUNTER = r"\d{1,6}(?:\ ?(?:/|of)\ ?\d{1,6})?"
_PART = rf"(?:{_MACHINE}[\ :=\#]{{1,3}})?(?:{_STAMP}|{_TOKEN}|{_COUNTER})"
_PARTS = rf"""(?={_MACHINE}[\ :=\#])(?=[^\])>\n]{{0,100}}?(?:{_STAMP}|{_TOKEN}))
    {_PART}(?:(?:,|;|\ at|\ on|\ -|\ \|)?\ {_PART}){{0,4}}"""
"""Labels of what a queue or a harness counts, with at least one time or long id among them."""
_LEADING = re.compile(
    rf"""\s{{0,4}} (?: [\[(<] \s? {_PARTS} \s? [\])>] [\s:.,;-]{{0,4}}
                    | {_PARTS} \s{{0,2}} \n \s{{0,4}}
                    | [\[(<] \s? (?:{_ITEMS}|{_STAMP}) \s? [\])>] [\s:.,;-]{{0,4}}
                    | {_ITEMS} (?: \s?[:.;|\n] | ,\s | \s[-–—]{{1,2}}\s ) \s{{0,4}}
                    | {_STAMP} [\s:,-]{{1,4}} )""",
    re.IGNORECASE | re.VERBOSE,
)
_TRAILING = re.compile(
    rf"""(?: \s? [\[(<] \s? (?: {_ITEMS} | (?P<id> {_ID} ) ) \s? [\])>]
           | (?: (?<=[.!?;:,|]) \s | \n | \s[-–—|]{{1,2}}\s
               | \s (?= (?-i:[A-Z]) [\w\ -]{{2,30}} [:=\#] ) )  # such a label begins a clause
             \s{{0,4}} {_ITEMS} )
        \s? [.!]? \s{{0,4}} \Z""",
    re.IGNORECASE | re.VERBOSE,
)
_REPORT = re.compile(
    r"""\n\s{0,8} (?: (?:your|the|my) \ (?:last|previous|prior|first) \ (?:answer|response|output
        |reply|attempt|completion|result)\b
      | (?:attempt|try|retry)\W{0,3}\d{1,4}\ (?:failed|was\ rejected) )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How a report of a failed attempt begins, on a line of its own."""
_UNREADABLE = re.compile(
    r"""\n [^\n]{0,160} (?: \b(?:in|not\ )valid\ (?:json|xml|yaml)\b
      | \b(?:could\ not|cannot|can't|couldn't|failed\ to|unable\ to)
        \ (?:be\ )?(?:parsed?|decoded?)\b
      | \b(?:json|xml|yaml|pars(?:e|er|ing)|decod(?:e|ing))[\ -]?error\b
      | \bmalformed\ (?:json|xml|yaml)\b ) [^\n]{0,300} \Z""",
    re.IGNORECASE | re.VERBOSE,
)
"""A last line that says that an answer could not be read; where a parser stopped is no news."""
_REJECTION = re.compile(
    r"\b(?:reject|invalid|fail|error|could not|cannot|not (?:valid|parse|match)|missing|required)",
    re.IGNORECASE,
)
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")
_COUNTED = re.compile(r"\b(attempt|retry|try)([ #:.no]{1,6})\d{1,9}\b", re.IGNORECASE)
_find_digit = re.compile(r"\d").search
_NAMES = ("attempt", "retry", "try", "id", "nonce", "time", "date", "sent")
_NAMES_IN_BRACKETS = (*_NAMES, "req", "trace", "correlation")
"""What every envelope at the end names, without and with brackets."""
_find_bracket = re.compile(r"[\])>]").search
_RETRY_WORDS = ("attempt", "retry", "try")
_NUMBERED = re.compile(
    rf"\b({'|'.join(_RETRY_WORDS)}|run|iteration|execution|cycle)(?:\s(?:count|number|no\.?))?"
    r"[\s:=#.]{1,3}(\d{1,6})\b(?=\s?(?:[\])>.,;:!|/\n-]|of\b|\Z))"
)
"""A number that counts how often a prompt was sent."""
_ABOUT_RETRIES = re.compile(r"\b(?:attempts?|retries)\b(?! to\b)")

MAX_RETRY_CHARS = 600
"""Characters at either end of a prompt in which such a number stands."""

_WHOLE = re.compile(
    r"(?: \b(?:the|an?|my|our|your)\s+[\w-]+ | [.!?)\"'] ) \s*\Z", re.IGNORECASE | re.VERBOSE
)
"""How a prompt ends that says what it is about: an id after it need not be that."""
_POINTS_TO_ID = frozenset(
    "of for in on to at from with about into by up account user customer booking record refund"
    " payment change access approval return quote claim transaction application reservation"
    " document question task item entry row purchase invoice message".split()
)
"""Last words before an id that names what the prompt is about."""
_SUBJECTS = [
    (re.compile(name, re.IGNORECASE), re.compile(subject, re.IGNORECASE))
    for name, subject in (
        ("attempt|retry", r"\b(?:attempts?|retries)\b(?!\ to\b)"),
        (
            r"id|\b(?:request|trace|correlation)\b",
            r"(?<!\bon )\brequests?\b|\b(?:ids?|traces?|messages?)\b",
        ),
        ("job|run|task|batch", r"\b(?:jobs?|runs?|tasks?|batch(?:es)?|logs?|its?|this|that)\b"),
        ("time", r"\b(?:times?|clock|hours?|now|today|when)\b"),
        (r"date(?!.*time)", r"\b(?:dates?|days?|weeks?|today|when)\b"),
        (
            "sent",
            r"\b(?:e?-?mails?|messages?|letters?|notes?|posts?|texts?|repl(?:y|ies)|reports?|files?"
            r"|invoices?|orders?|parcels?|packages?|attachments?|transcripts?|it|when|times?)\b",
        ),
        (
            r"(?:req|request|trace|correlation)[-_](?!id)",
            r"\b(?:tickets?|cases?|incidents?|issues?|orders?|calls?|logs?|runs?|jobs?|threads?"
            r"|requests?|traces?|ids?|conversations?|it|this|that|them)\b",
        ),
    )
]
"""What an envelope names, and the words of a prompt that asks about it."""


def without_envelope(text: str) -> str:
    """Return a prompt without what a retry adds around it automatically.

    That is a bracket or a separate clause at either end with nothing but attempt counters, request
    ids or the time. A number inside the question belongs to the question, and so does one that the
    rest of a short prompt refers to.
    """
    if "\n" in text:
        text = without_report(text)
    start = 0
    for _ in range(MAX_ENVELOPES):
        found = _LEADING.match(text, start, start + MAX_ENVELOPE_CHARS)
        if found is None or found.end() == len(text):
            break
        start = found.end()
    if not start:
        return without_trailer(text)
    # An envelope at one end may name what the other one does: what is inside decides.
    inner = without_trailer(text[start:])
    return without_trailer(text) if _is_subject(text[:start], inner) else inner


def retry_number(text: str) -> int:
    """Return how often a prompt says, at either end, that it was sent; 0 if it does not.

    The number of a run counts only where the prompt reports a failure: questions are numbered, too.
    """
    ends = (text if len(text) <= 2 * MAX_RETRY_CHARS else _ends(text)).lower()
    is_failure = ends.rfind("fail") >= 0 or ends.rfind("error") >= 0
    # Most prompts name none of these: a search for each is faster than the pattern.
    if not is_failure and ends.rfind("attempt") < 0 and ends.rfind("try") < 0:
        return 0
    numbered = _NUMBERED.findall(ends)
    if not numbered:
        return 0
    if len(text) <= SHORT_PROMPT_CHARS and _ABOUT_RETRIES.search(_NUMBERED.sub("", ends)):
        return 0
    numbers = (number for word, number in numbered if is_failure or word in _RETRY_WORDS)
    return int(next(numbers, 0))


def without_retry_number(text: str) -> str:
    """Return a prompt without such numbers, and without times and ids."""
    return _NUMBERED.sub(r"\1 #", mask(text).lower())


def _ends(text: str) -> str:
    return f"{text[:MAX_RETRY_CHARS]}\n{text[-MAX_RETRY_CHARS:]}"


def without_report(text: str) -> str:
    """Return a prompt without reports of failed attempts at its end.

    What was answered goes; why it was rejected stays, once: feedback that differs is news.
    """
    tail = text[-MAX_REPORT_CHARS:]
    found = _REPORT.search(tail)
    if found is None:
        last_line = tail[tail.rstrip().rfind("\n") :]
        if _UNREADABLE.match(last_line) is None:
            return text
        return f"{text[: len(text) - len(last_line)]}\n{without_numbers(last_line).lower()}"
    report = tail[found.start() :]
    reasons = [line for line in report.splitlines() if _REJECTION.search(line[:MAX_REASON_CHARS])]
    if not reasons:
        return text
    masked = dict.fromkeys(without_numbers(line[:MAX_REASON_CHARS]).lower() for line in reasons)
    if len(masked) > 1:
        return text
    return f"{text[: len(text) - len(report)]}\n{next(iter(masked))}"


def without_trailer(text: str) -> str:
    """Return a prompt without such an envelope at its end."""
    end = text[-MAX_VALUE_CHARS:]
    if _find_digit(end) is None:
        return text
    if "\n" in text:
        text = _without_counted_lines(text)
    tail = text[-MAX_ENVELOPE_CHARS:]
    lowered = tail.lower()
    names = _NAMES if _find_bracket(end) is None else _NAMES_IN_BRACKETS
    named = [at for name in names if (at := lowered.find(name)) >= 0]
    found = _TRAILING.search(tail, max(min(named) - MAX_LABEL_CHARS, 0)) if named else None
    if found is None:
        return text
    rest = text[: len(text) - len(tail) + found.start()]
    if not rest or _is_subject(found[0], rest) or (found["id"] and not _is_whole(rest)):
        return text
    return rest


def _without_counted_lines(text: str) -> str:
    """Return a text that ends in lines with the numbers of attempts, and is the same in each
    otherwise, with only the first of these.

    `Try again, attempt 2.` is added to a prompt, then `Try again, attempt 3.`, and so on.
    """
    tail = text[-MAX_REPORT_CHARS:].rstrip()
    known, cut, end = "", 0, len(tail)
    while end > 0:
        start = tail.rfind("\n", 0, end) + 1
        line = _COUNTED.sub(r"\1\2#", tail[start:end])
        if line.strip():
            if line == tail[start:end] or (known and line != known):
                break
            known, cut = line, len(tail) - end
        end = start - 1
    return text.rstrip()[:-cut] if cut else text


def _is_subject(envelope: str, prompt: str) -> bool:
    """Return whether a short prompt asks for something about what its envelope names."""
    if len(prompt) > SHORT_PROMPT_CHARS:
        return False
    paragraphs = _PARAGRAPH_END.split(prompt)
    if len(paragraphs) > 1:
        asked = [one for one in paragraphs if len(one) <= MAX_INSTRUCTION_CHARS]
        prompt = "\n".join(asked) or prompt
    return any(name.search(envelope) and subject.search(prompt) for name, subject in _SUBJECTS)


def _is_whole(prompt: str) -> bool:
    """Return whether a prompt says by itself what it is about: `Close [req-7f3a]` does not."""
    end = prompt[-MAX_ENVELOPE_CHARS:]
    last = end.split()[-1].lower()
    return _WHOLE.search(end) is not None and _POINTS_TO_ID.isdisjoint((last, last.rstrip("s")))


SUFFIX_BYTES, MAX_DISTANCE_BYTES = 16, 2_048
"""A repetition at the end is found by its last bytes, this far back …"""

MIN_UNIT_BYTES = 10
"""… and is at least this long: shorter repetitions may be what the prompt is about."""


def without_repetition(content: bytes) -> bytes:
    """Return a normalised content with a repetition at the prompt's end reduced to one.

    Prompts that grow at their end in other ways are transcripts, or documents being written.
    """
    if not content.endswith(_PROMPTS, 0, content.rfind(SEPARATOR) + 1):
        return content
    length = len(content)
    while length >= 2 * SUFFIX_BYTES:
        suffix = content[length - SUFFIX_BYTES : length]
        at = content.rfind(suffix, max(length - MAX_DISTANCE_BYTES, 0), length - 1)
        unit = length - SUFFIX_BYTES - at
        if at < 0 or unit < MIN_UNIT_BYTES or 2 * unit > length:
            break
        if content[length - 2 * unit : length - unit] != content[length - unit : length]:
            break
        length -= unit
    return content[:length]


def prompt_start(content: bytes) -> int:
    """Return where the prompt begins, the last text of a content; -1 where none is long enough."""
    start = content.rfind(SEPARATOR) + 1
    if len(content) - start < PROMPT_END_BYTES or not content.endswith(_PROMPTS, 0, start):
        return -1
    return start


def prompt_end(content: bytes) -> bytes:
    """Return what all prompts with the same end share, in place of the prompt."""
    return b"\xfe" + content[-PROMPT_END_BYTES:]


def mark(length: int, key: bytes) -> bytes:
    """Return what the store remembers of a prompt: its length and its fingerprint."""
    return length.to_bytes(LENGTH_BYTES) + key


def contained(
    content: bytes, marks: Iterable[bytes], key_of: Callable[[bytes], bytes]
) -> bytes | None:
    """Return the mark of the shortest prompt that this one repeats."""
    start = content.rfind(SEPARATOR) + 1
    before, prompt = content[:start], content[start:]
    for mark_ in sorted(marks):
        added = len(prompt) - int.from_bytes(mark_[:LENGTH_BYTES])
        if added <= 0:
            break
        if len(_unit(prompt[:added])) <= MAX_ADDED_BYTES and key_of(
            before + prompt[added:]
        ) == key_in(mark_):
            return mark_
    return None


def key_in(mark_: bytes) -> bytes:
    """Return the fingerprint in a mark."""
    return mark_[LENGTH_BYTES:]


def _unit(text: bytes) -> bytes:
    """Return the shortest text of which this one is a repetition."""
    spaced = text.strip() + b" "
    period = (spaced + spaced).find(spaced, 1)
    return spaced[:period]
