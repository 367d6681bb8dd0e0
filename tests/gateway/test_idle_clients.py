"""Equal calls of clients side by side are no loop; those of one client are, however it connects."""

from itertools import cycle

import msgspec
import pytest
from tests.gateway.serving import JSON, chat, request

from looptrap.detect.window import MAX_TWINS, Window, WindowKind
from looptrap.gateway.idle_client import MAX_REPEATED_CALLS, IdleClients
from looptrap.store.model import Hit

PASSED = 5
"""Equal calls in a row that pass; the next is refused."""
TASK = chat("Find out why the build fails and mend it.")


async def send(client, body=TASK):
    """Send a call over a connection; return the status."""
    await client.send(request(headers=JSON, body=body))
    return (await client.answer()).status


def continued(body=TASK):
    """Return the call that goes on with the answer: with a tool call and its result."""
    call = {"id": "call_1", "type": "function", "function": {"name": "sh", "arguments": "{}"}}
    conversation = msgspec.json.decode(body)
    conversation["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "3 failed"},
    ]
    return msgspec.json.encode(conversation)


async def passes(here, connections, most=60):
    """Send equal calls over these connections in turn; return how many pass."""
    for number, client in zip(range(most), connections, strict=False):
        if await send(client) != 200:
            return number
    return most


async def test_runs_side_by_side_are_no_loop_before_they_go_on(serve):
    here = await serve()
    clients = [await here.connect() for _ in range(8)]
    assert [await send(one) for one in clients] == [200] * 8
    assert [await send(one, continued()) for one in clients] == [200] * 8
    assert here.app.tally.rules.total() == 0, "nor is one of them warned"


async def test_runs_side_by_side_may_each_be_there_before_the_next_begins(serve):
    here = await serve()
    clients = [await here.connect() for _ in range(8)]
    for one in clients:
        assert await send(one) == 200
        assert await send(one, continued()) == 200
    assert here.app.tally.rules.total() == 0


async def test_one_client_is_refused_on_its_one_connection(serve):
    here = await serve()
    assert await passes(here, cycle([await here.connect()])) == PASSED


async def test_one_client_is_refused_if_it_closes_each_connection(serve):
    here = await serve()
    assert [(await here.ask(headers=JSON, body=TASK)).status for _ in range(7)] == (
        [200] * PASSED + [429] * 2
    )


async def test_one_client_is_refused_if_others_are_idle_beside_it(serve):
    here = await serve()
    for _ in range(3):  # one wave, and the first call
        await send(await here.connect())
    assert await passes(here, cycle([await here.connect()])) == PASSED - 1


@pytest.mark.parametrize(
    ("connections", "passed"),
    [
        pytest.param(2, 6, id="two"),
        pytest.param(4, 8, id="four"),
        pytest.param(8, 12, id="eight"),
        pytest.param(60, 20, id="never one again"),
    ],
)
async def test_one_client_with_several_connections_is_refused(serve, connections, passed):
    here = await serve()
    pool = [await here.connect() for _ in range(connections)]
    assert await passes(here, cycle(pool)) == passed


async def test_a_client_that_has_gone_on_is_not_idle(serve):
    here = await serve()
    clients = [await here.connect() for _ in range(7)]
    statuses = []
    for one in clients:
        statuses.append(await send(one))
        await send(one, chat("Another question."))
    assert statuses == [200] * PASSED + [429] * 2


async def test_a_client_is_idle_for_as_long_as_a_streak_may_pause(serve, monkeypatch):
    here = await serve()
    now = [1_800_000_000.0]
    for one in (here.app.gateway, here.app.gateway._settler):
        monkeypatch.setattr(one, "clock", lambda: now[0])
    for _ in range(2):
        await send(await here.connect())
    statuses = []
    for _ in range(5):  # only the first is side by side with one that is idle
        now[0] += 14
        statuses.append((await here.ask(headers=JSON, body=TASK)).status)
    assert statuses == [200] * 4 + [429]


async def test_instances_tell_clients_apart_by_their_own_connections(instances):
    gateways = await instances(2)
    clients = [await gateways[number % 2].connect() for number in range(8)]
    assert [await send(one) for one in clients] == [200] * 8
    [one, *_] = clients
    assert [await send(one) for _ in range(6)] == [200] * 3 + [429] * 3


# What is kept


class Connection:
    """A connection that is idle after so many requests."""

    def __init__(self, requests=1):
        self.requests = requests
        self.is_idle = True


def hit(number=0, kind=WindowKind.STREAK):
    return Hit(b"key %d" % number, Window(15, kind))


def known(clients):
    return {key: len(connections) for key, connections in clients._clients.items()}


def test_what_is_known_of_idle_clients_is_bounded():
    clients = IdleClients()
    for number in range(2 * MAX_REPEATED_CALLS):
        for _ in range(MAX_TWINS + 2):
            clients.note_answer([hit(number)], Connection(), 0)
    assert known(clients) == {
        hit(number).key: MAX_TWINS for number in range(MAX_REPEATED_CALLS, 2 * MAX_REPEATED_CALLS)
    }


def test_only_streaks_have_idle_clients():
    clients = IdleClients()
    clients.note_answer([hit(kind=WindowKind.SERIAL)], Connection(), 0)
    assert known(clients) == {}
    assert clients.until == 0
