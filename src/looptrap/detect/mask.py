"""Volatile tokens: what changes from one try to the next without meaning anything."""

from __future__ import annotations

import re

_UNITS = (
    "nanoseconds?|microseconds?|milliseconds?|seconds?|minutes?|hours?|days?"
    "|secs?|mins?|hrs?|ns|us|µs|ms|s|m|h|d"
)
_COUNTERS = (
    "attempt|retry|try|iteration|iter|step|round|turn|line|ln|column|col|char|offset"
    "|pid|tid|process|thread|port|build|job|seq|nonce|counter"
    "|request|req|trace|span|session|correlation|transaction"
)

# Each pattern is linear: bounded look-aheads, no repetition inside a repetition. The order is
# that of the alternatives: a uuid is not hex, a time stamp is not a duration, and the digest that
# stands for an image is neither: another image is another content.
_VOLATILE = re.compile(
    rf"""
      (?P<part> \[ \w{{1,40}} \  [0-9a-f]{{16}} \] )
    | (?P<uuid> \b [0-9a-f]{{8}} (?: -[0-9a-f]{{4}} ){{3}} -[0-9a-f]{{12}} \b )
    | (?P<hex>  \b 0x[0-9a-f]+ \b
              | \b (?= \d{{0,64}} [a-f] ) [0-9a-f]{{8,}} \b )
    | (?P<time> \b \d{{4}} [-/] \d\d [-/] \d\d
                (?: [t\ ] \d\d:\d\d (?: :\d\d (?: [.,]\d+ )? )? )?
                (?: z | [+-]\d\d:?\d\d )? \b
              | \b \d\d? : \d\d (?: : \d\d (?: [.,]\d+ )? )? (?: \ ?[ap]m )? \b )
    | (?P<duration> \b \d+ (?: \.\d+ )? \ ? (?: {_UNITS} ) \b )
    | (?P<counter> \b (?: {_COUNTERS} ) s? (?: [\ _-]? (?: id|number|no ) \b )? \.?
                   ["']? [\ _]? [:=\#(\[]{{0,2}} \ ? ["']? \d+ (?: \ ? (?: /|of|- ) \ ? \d+ )? \b )
    """,
    re.VERBOSE | re.IGNORECASE,
)


def mask(text: str) -> str:
    """Return the text with volatile tokens replaced by their kind.

    Ids, hex, times, durations and named counters go (`attempt 3`, `line 12`, `pid 77`); plain
    numbers stay: "pump 5" and "pump 6" are different questions.
    """
    return _VOLATILE.sub(_kind, text)


def _kind(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup == "part" else f"<{match.lastgroup}>"
