"""Hear what a passing answer says: its texts, each apart, from bytes that go on unchanged.

hearing     one answer: keeps chunks, reads them a few KB at a time
framing     where an event ends: server-sent events, the elements of an array, whole answers
ear         what is heard: texts, and what is needed to end the stream; one module a dialect
text        one text as it grows
"""

from looptrap.answer.hearing.ear import Ear
from looptrap.answer.hearing.hearing import Hearing, hearing_of

__all__ = ["Ear", "Hearing", "hearing_of"]
