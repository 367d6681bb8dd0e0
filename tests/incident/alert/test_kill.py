"""What a gateway had in hand when it was killed is not lost."""

import asyncio
import sys
import time

import pytest
from tests.incident.alert.delivering import PATIENCE, Timeline, event, until
from tests.incident.alert.receiving import hangs

from looptrap.incident.alert.channel import make_channels
from looptrap.incident.alert.deliverer import LEASE_S, AlertDeliverer
from looptrap.incident.history.history import IncidentHistory
from looptrap.incident.history.outbox import OutgoingEvent
from looptrap.incident.setting import ChannelSettings, IncidentSettings

pytestmark = pytest.mark.slow

DELIVERS = """
import asyncio, sys
from looptrap.incident.alert.channel import make_channels
from looptrap.incident.alert.deliverer import AlertDeliverer
from looptrap.incident.history.history import IncidentHistory
from looptrap.incident.setting import ChannelSettings, IncidentSettings

async def main(path, url):
    history = IncidentHistory(path, IncidentSettings())
    history.open()
    given = ChannelSettings(name="ops", url=url, allow_http=True, allow_private=True)
    AlertDeliverer(history.outbox, make_channels([given], {}), owner="killed").start()
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_another_process_takes_up_what_a_killed_one_had_in_hand(receiver, tmp_path):
    path = str(tmp_path / "history.db")
    history = IncidentHistory(path, IncidentSettings())
    history.open()
    history.put([], [OutgoingEvent(event(n), ("ops",)) for n in range(6)])
    receiver.answers = [hangs] * 4
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DELIVERS, path, receiver.url)
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await until(lambda: len(receiver.got) == 4)
    finally:
        child.kill()
        await child.wait()
    in_hand = {got.id for got in receiver.got}

    clock = Timeline(time.time() + LEASE_S + 1)
    given = ChannelSettings(name="ops", url=receiver.url, allow_http=True, allow_private=True)
    deliverer = AlertDeliverer(
        history.outbox,
        make_channels([given], {}),
        owner="next",
        clock=clock.clock,
        sleep=clock.sleep,
    )
    deliverer.start()
    await until(lambda: history.outbox.counts()["delivered"] == 6)
    assert sorted(receiver.heard) == [f"evt_{n}" for n in range(6)]
    assert len(in_hand) == 4
    assert in_hand <= set(receiver.heard)
    await deliverer.close()
    history.close()
