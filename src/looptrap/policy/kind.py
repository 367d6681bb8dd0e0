"""Kinds of values that settings of policies share: names, descriptors, actions and thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from looptrap.detect.window import HIT_LIMIT
from looptrap.dialect.descriptor import descriptor
from looptrap.errors import ConfigError
from looptrap.policy.action import Action, Ladder
from looptrap.schema import Choice, Kind, Mapped, Number, Text

DAY = 86_400.0

ACTIONS = Choice([action.value for action in Action if action is not Action.ALLOW], into=Action)
THRESHOLD = Number(
    low=2,
    high=HIT_LIMIT,
    whole=True,
    why_low="a first call is never a repeat",
    why_high="hits are counted exactly only up to there",
)
WINDOW = Number(low=0, above=True, high=30 * DAY, unit="seconds", why_high="30 days")
COOLDOWN = Number(low=0, high=DAY, unit="seconds", why_high="one day")
TOKENS = Number(low=1, high=1_000_000_000_000, whole=True)

NAME = Text(
    form="a name of letters, digits, '.', '_' and '-', at most 64",
    pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
)
PATH = Text(form="a path that begins with /", pattern=r"/[\x21-\x7e]*")
TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
"""What HTTP allows in names of headers and methods."""
HEADER = Text(form="the name of a header", pattern=TOKEN, into=str.lower)
PLAIN = Text(
    form="text without line breaks or other control characters", pattern=r"[^\x00-\x1f\x7f]*"
)


def _known(name: str) -> str:
    if name == "key":
        raise ConfigError('is "key", must be a descriptor; who holds a gateway key is a "caller"')
    descriptor(name)
    return name


DESCRIPTOR = Text(form="the name of a descriptor, such as caller or header:x-team", into=_known)


def pairs(keys: Kind, values: Kind, noun: str, *, least: int = 0) -> Mapped:
    """Return the kind of a table that is read into pairs of key and value."""
    return Mapped(keys, values, noun, least=least, into=lambda found: tuple(found.items()))


VALUES = pairs(DESCRIPTOR, Text(), "descriptors and values")
SOME_VALUES = pairs(DESCRIPTOR, Text(), "descriptors and values", least=1)


@dataclass(frozen=True, slots=True)
class Thresholds(Mapped):
    """A table of actions and counts that is read into a ladder."""

    def plain(self, value: Any) -> Any:
        return Mapped.plain(self, value.steps)


THRESHOLDS = Thresholds(ACTIONS, THRESHOLD, "actions and thresholds", least=1, into=Ladder)
