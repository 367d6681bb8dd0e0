"""What a gateway had in hand when it was killed is not lost."""

import asyncio
import sys
import time

from tests.incident.alert.delivering import PATIENCE, Timeline, event, until
from tests.incident.alert.receiving import hangs

from looptrap.incident.alert.channel import channels_of
from looptrap.incident.alert.deliverer import LEASE, Deliverer
from looptrap.incident.history.history import History
from looptrap.incident.history.letter import Outgoing
from looptrap.incident.setting import ChannelSettings, IncidentSettings

DELIVERS = """
import asyncio, sys
from looptrap.incident.alert.channel import channels_of
from looptrap.incident.alert.deliverer import Deliverer
from looptrap.incident.history.history import History
from looptrap.incident.setting import ChannelSettings, IncidentSettings

async def main(path, url):
    history = History(path, IncidentSettings())
    history.open()
    given = ChannelSettings(name="ops", url=url, allow_http=True, allow_private=True)
    Deliverer(history.outbox, channels_of([given], {}), owner="killed").start()
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_another_process_takes_up_what_a_killed_one_had_in_hand(receiver, tmp_path):
    path = str(tmp_path / "history.db")
    history = History(path, IncidentSettings())
    history.open()
    history.put([], [Outgoing(event(n), ("ops",)) for n in range(6)])
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

    clock = Timeline(time.time() + LEASE + 1)
    given = ChannelSettings(name="ops", url=receiver.url, allow_http=True, allow_private=True)
    deliverer = Deliverer(
        history.outbox,
        channels_of([given], {}),
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
