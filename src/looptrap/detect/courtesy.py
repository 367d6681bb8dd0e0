"""Courtesies: thanks, farewells and nods, which say nothing that could be worked on."""

from __future__ import annotations

import re

MAX_COURTESY_CHARS = 200

_CORE = frozenset(
    """thank thanks thankful grateful gratitude welcome bye goodbye farewell pleasure cheers
    appreciate appreciated glad happy delighted honoured honored care wishes regards likewise luck
    success gracias adiós adios danke gern
    gerne tschüss wiedersehen merci revoir journée obrigado obrigada grazie prego
    arrivederci""".split()
)
"""Each courtesy has one of these words …"""

_OTHERS = frozenset(
    """a absolutely again ahead all always am an and any anything anytime are as assist assistance
    at back be been best better both can catch certainly chat chatting collaborate collaborating
    collaboration come conversation cooperation could course day days dear did do don't else
    endeavors endeavours enjoy enjoyed evening ever everyone everything excellent fantastic feel
    finish finished for forward free friend from fun future good great had have hear hello help
    helped helpful helping here hesitate hi hope i i'd i'll i'm i've if in indeed is it it's its
    just keep kind kindly kindness know later let look looking lots lovely made make many may me
    meet mention mine moment more morning most much my need needed never next nice night no not of
    off ok okay on once opportunity or our out please problem project question questions reach
    ready really rest safe same see service sincerely so something soon speak speaking stay such
    support sure take talk talking team that that's the then there things this time to today
    together tomorrow too truly until up us very warm was we we'll week weekend well were what when
    whenever will wish with wonderful words work worked working worries would yes you you'll you're
    you've your yours yourself
    auch auf bitte dank dir einen geschehen ihnen noch schönen sehr tag vielen wunderbaren
    buen bueno de día hasta igual igualmente luego mucho nada muchas que tenga tengas un usted
    au aussi beaucoup bientôt bonne rien je vous une à""".split()
)
"""… and no other but these."""

_COURTEOUS = _CORE | _OTHERS
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_DIGIT = re.compile(r"\d")


def is_courtesy(text: str) -> bool:
    """Return whether a text is nothing but a courtesy."""
    if not text or len(text) > MAX_COURTESY_CHARS or _DIGIT.search(text) is not None:
        return False
    words = set(_WORD.findall(text.lower().replace("’", "'")))
    return not words.isdisjoint(_CORE) and words <= _COURTEOUS
