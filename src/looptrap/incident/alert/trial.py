"""The event that says a channel works."""

from __future__ import annotations

from hashlib import blake2b
from typing import get_args

from looptrap.incident.alert.channel import Channel
from looptrap.incident.model import Event, EventName


def test_event(channel: Channel, now: float) -> Event:
    """Return an event such as the channel gets, which says of itself that it is a test."""
    projects = channel.settings.projects
    project = projects[0] if projects else ""
    id = f"test_{blake2b(f'{channel.name} {now}'.encode(), digest_size=16).hexdigest()}"
    events = [
        Event(
            id=id,
            name=name,
            time=now,
            project=project,
            stage="test",
            title="Test of an alert: nothing has happened",
            data={
                "test": True,
                "channel": channel.name,
                "message": "This is how Looptrap tells of loops, budgets and failing stores.",
            },
        )
        for name in get_args(EventName)
    ]
    return next(filter(channel.wants, events))
