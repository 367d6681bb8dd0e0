"""Courtesies: thanks, farewells and nods, which say nothing that could be worked on."""

from __future__ import annotations

import re

MAX_COURTESY_CHARS = 200

_CORE = frozenset(
    """thank thanks thankful grateful gratitude welcome bye goodbye farewell pleasure cheers
    appreciate appreciated glad happy delighted honoured honored care wishes regards likewise luck
    success gracias adiós adios danke gern
    gerne tschüss wiedersehen merci revoir journée obrigado obrigada grazie prego
    arrivederci dank dankjewel bedankt graag gedaan tack takk tak kiitos dziękuję proszę widzenia
    pozdrawiam děkuji ďakujem köszönöm mulțumesc teşekkürler teşekkür rica спасибо благодарю
    пожалуйста свидания дякую ευχαριστώ shukran terima kasih cảm""".split()
)
"""Each courtesy has one of these words …"""

_OTHERS = frozenset(
    """a absolutely again ahead all amazing awesome brilliant business doing perfect super warmly
    wishing always am an and any anything anytime are as assist assistance
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


_NAME = re.compile(r"(?<=[\w,] )[A-Z][^\W\d_]+")
"""A name, or the like, inside a sentence."""
_CORE_UNSPACED = re.compile(
    "谢谢|感谢|不客气|再见|祝你|祝您|ありがと|どういたし|失礼します|お疲れ|감사|천만에|안녕히|고마"
)
MAX_UNSPACED_CHARS = 60
MIN_KNOWN_SHARE = 0.8
"""Share of its words by which a text is known as a courtesy: the rest names somebody."""


def is_courtesy(text: str) -> bool:
    """Return whether a text is nothing but a courtesy."""
    if not text or len(text) > MAX_COURTESY_CHARS or _DIGIT.search(text) is not None:
        return False
    if "?" in text or "\uff1f" in text:
        return False
    if not text.isascii() and _CORE_UNSPACED.search(text) is not None:
        return len(text) <= MAX_UNSPACED_CHARS
    names = {name.lower() for name in _NAME.findall(text)}
    words = set(_WORD.findall(text.lower().replace("’", "'"))) - names
    if words.isdisjoint(_CORE):
        return False
    return len(words & _COURTEOUS) >= MIN_KNOWN_SHARE * len(words)
