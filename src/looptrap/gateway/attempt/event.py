"""What people are told when a circuit opens. Pure."""

from __future__ import annotations

from looptrap.incident.event import NOTICED_TOGETHER, event_id
from looptrap.incident.model import Event
from looptrap.retry.breakers import Key


def breaker_opened(key: Key, seconds: float, now: float, caller: str = "") -> Event:
    """Return that a provider, or one credential there, is left alone for so many seconds.

    `caller` is the only one for whom it is; empty for everybody. Instances that notice together
    tell it as one.
    """
    credential = key.credential or ""
    whose = f" for {credential or caller}" if credential or caller else ""
    noticed = str(int(now // NOTICED_TOGETHER))
    return Event(
        id=event_id("breaker.opened", key.provider, credential or caller, noticed),
        name="breaker.opened",
        time=now,
        stage="opened",
        title=f"{key.provider} is left alone{whose} for {seconds:.0f} s after failures in a row",
        data={
            "provider": key.provider,
            "credential": credential,
            "caller": caller,
            "seconds": seconds,
        },
    )
