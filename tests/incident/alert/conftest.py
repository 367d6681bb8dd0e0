"""Tests of alerts run on the loop that the product runs on."""

import pytest
import uvloop
from tests.incident.alert.receiving import Receiver


def pytest_asyncio_loop_factories():
    """Give every asynchronous test here a uvloop."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def receiver():
    """Somebody who gets webhooks, on a real socket."""
    async with Receiver.running() as receiver:
        yield receiver
