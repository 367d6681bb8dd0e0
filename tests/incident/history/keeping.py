"""Histories, incidents and events for tests."""

from looptrap.detect.signals.signal import Evidence
from looptrap.incident.history import IncidentHistory, OutgoingEvent
from looptrap.incident.history.history import NO_CALL_LOG
from looptrap.incident.model import AlertEvent, Incident, IncidentStep
from looptrap.incident.setting import IncidentSettings

NOON = 1_800_000_000.0


class Clock:
    """A time that stands still until it is told otherwise."""

    def __init__(self, now=NOON):
        self.now = now

    def __call__(self):
        return self.now


def incident(number=0, *, instance="one", opened=None, last=None, **fields):
    """Return what an instance saw of the incident of that number; the later ones opened later."""
    opened = NOON + number if opened is None else opened
    return Incident(
        **{
            "id": f"{number:08x}",
            "instance": instance,
            "key": f"key-{number}",
            "opened": opened,
            "last": opened if last is None else last,
            "caller": "ann",
            "project": "research",
            "session": f"session-{number}",
            "rule": "identical-conversation",
            "action": "block",
            "evidence": (Evidence("conversation", "the same 6 times", 6),),
            "steps": [IncidentStep(opened, "block", "identical-conversation", 6)],
            "calls": 1,
        }
        | fields
    )


def event(number=0, **fields):
    return AlertEvent(
        **{"id": f"evt-{number}", "name": "loop.detected", "time": NOON, "data": {"hits": number}}
        | fields
    )


def outgoing(*numbers, channels=("ops",)):
    return [OutgoingEvent(event(number), channels) for number in numbers]


def opened_history(path="", *, clock=None, call_log=NO_CALL_LOG, **settings):
    clock = clock or Clock()
    history = IncidentHistory(str(path), IncidentSettings(**settings), call_log, clock=clock)
    history.open()
    return history


def ids(incidents):
    return [one.id for one in incidents]
