"""The example of a receiver, as it is, in a process of its own."""

import asyncio
import base64
import os
import sys
from pathlib import Path

import pytest
from tests.incident.alert.delivering import PATIENCE, event

from looptrap.incident.alert.channel import make_channels
from looptrap.incident.alert.webhook import DeliveryError
from looptrap.incident.setting import ChannelSettings

EXAMPLE = Path(__file__).parents[3] / "examples" / "webhook_receiver.py"
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(32)).decode()


@pytest.fixture
async def example():
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", EXAMPLE),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "WEBHOOK_SECRET": SECRET, "PORT": "0"},
    )
    yield process
    process.kill()
    await process.wait()


async def test_hears_of_each_event_once_and_of_nothing_that_others_send(example):
    async def line() -> str:
        async with asyncio.timeout(PATIENCE):
            return (await example.stdout.readline()).decode().rstrip()

    url = (await line()).removeprefix("waiting for alerts at ")
    settings = ChannelSettings(
        name="ops", url=url, secret_env="SECRET", allow_http=True, allow_private=True
    )
    (ours,) = make_channels([settings], {"SECRET": f"{OTHER} {SECRET}"})
    (forged,) = make_channels([settings], {"SECRET": OTHER})
    with pytest.raises(DeliveryError, match="answered 401"):
        await forged.send(event(data={"rule": "forged"}))
    for number in (1, 1, 2):
        await ours.send(event(number, data={"rule": f"rule-{number}"}))
    assert [await line(), await line()] == [
        "2026-11-06T21:20:00.250Z loop.detected rule-1",
        "2026-11-06T21:20:00.250Z loop.detected rule-2",
    ]
