"""Servers that the tests of a file share, and a store that keeps what it counts there."""

import pytest
from tests.store.driving import Driven
from tests.store.serving import KINDS, server


@pytest.fixture(scope="module", params=KINDS)
def place(request):
    with server(request.param) as one:
        yield one


@pytest.fixture(scope="module")
def shared(place):
    driven = Driven(place.url)
    yield driven
    driven.close()
