"""All wire tests run on the loop that the product runs on."""

import uvloop


def pytest_asyncio_loop_factories():
    """Give every asynchronous test here a uvloop."""
    return {"uvloop": uvloop.new_event_loop}
