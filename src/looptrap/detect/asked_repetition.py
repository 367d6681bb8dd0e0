"""Asked repetition: did the person ask for the same thing several times, or again and again?"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_READ_CHARS = 4_000
"""First characters of what a person asked that are searched."""

MAX_TIMES = 50
"""Most repetitions that a request in words excuses."""

RECURRING_PER_REPEAT = 4
"""Repetitions that count as one where the person asked to go on and on."""

_NUMBERS = dict(
    zip("two three four five six seven eight nine ten".split(), range(2, 11), strict=True)
) | {"twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "fifty": 50}

_TIMES = re.compile(
    rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)})(?:x\b|[ -]?(?:times|runs|repetitions|iterations|mal|fois"
    r"|veces|vezes|volte)\b)"
)
_UNIT = (
    r"(?:s|secs?|seconds?|mins?|minutes?|hours?|sekunden?|minuten?|stunden?|secondes?|heures?"
    r"|segundos?|minutos?|horas?)\b"
)
_RECURRING = re.compile(
    rf"\b(?:every|each|jede|alle|toutes les|chaque|cada|ogni) (?:\w+ ){{0,2}}{_UNIT}"
    rf"|\b(?:every|each) \d{{1,3}} ?{_UNIT}|\bonce (?:a|per|every) (?:second|minute|hour)\b"
    r"|\b(?:hourly|continuously|continually|indefinitely|non-?stop|around the clock)\b"
    r"|\bkeep (?:on )?(?:watching|monitoring|polling|checking|pinging|an eye)\b"
    r"|\buntil (?:(?:i|we|someone) (?:say|tell|stop|ask|cancel|call)|told|stopped|further notice)"
)


class AskedRepetition(NamedTuple):
    """What a person asked for."""

    times: int = 0
    """So often, where a number was named."""
    is_recurring: bool = False
    """Whether it was to be done again and again."""

    def excuse(self, count: int) -> int:
        """Return what is left of a count of repetitions."""
        if self.is_recurring:
            count //= RECURRING_PER_REPEAT
        return max(count - self.times, 0)


NOT_ASKED = AskedRepetition()


def asked_repetition(text: str) -> AskedRepetition:
    """Return how often a person asked for the same thing."""
    text = text[:MAX_READ_CHARS].lower()
    found = (_NUMBERS.get(one) or int(one) for one in _TIMES.findall(text))
    times = max(found, default=0)
    return AskedRepetition(min(times, MAX_TIMES), _RECURRING.search(text) is not None)
