"""Whatever happens to a server, every ask is answered: once, in time, and by somebody."""

import asyncio
import logging
import signal
import time

import pytest
from tests.store.driving import WINDOW, Driven, ask, eventually, hit
from tests.store.serving import free_port, server

from looptrap.store.model import Hit, Trip
from looptrap.store.redis import RedisStore

TIMEOUT = 0.05


@pytest.fixture
def one():
    """Return a server that a test may do anything to."""
    with server() as started:
        yield started


def is_at_once(store, key):
    """Ask, and say whether the answer is there when the store returns: that costs no time-out."""
    answers = []
    store.ask([Hit(key, WINDOW)], None, retry=False, then=lambda *answer: answers.append(answer))
    return len(answers) == 1 and answers[0][-1]


def stopped(one, _client):
    one.send(signal.SIGSTOP)


def continued(one, _client):
    one.send(signal.SIGCONT)


def paused(_one, client):
    client.client_pause(700, all=True)


def waited_for(_one, _client):
    """Do nothing: a pause ends by itself, and a paused server would not hear of it."""


def full(_one, client):
    client.config_set("maxmemory", 1)


def roomy(_one, client):
    client.config_set("maxmemory", 0)


def demoted(_one, client):
    client.replicaof("127.0.0.1", 1)


def promoted(_one, client):
    client.replicaof("NO", "ONE")


def killed(one, _client):
    one.kill()


def restarted(one, _client):
    one.start()


FAULTS = [
    pytest.param(killed, restarted, "", id="killed, and restarted without its data"),
    pytest.param(stopped, continued, "no answer within 50 ms", id="frozen by SIGSTOP"),
    pytest.param(paused, waited_for, "no answer within 50 ms", id="paused by CLIENT PAUSE"),
    pytest.param(full, roomy, "OOM", id="out of memory, evicting nothing"),
    pytest.param(demoted, promoted, "READONLY", id="a replica that takes no writes"),
]


@pytest.mark.parametrize(("break_it", "mend_it", "line"), FAULTS)
async def test_a_fault_costs_one_time_out_and_is_over_when_it_is_over(
    one, connect, caplog, break_it, mend_it, line
):
    store = await connect(one.url, timeout=TIMEOUT, probe_every=0.02)
    with one.client() as client:
        client.ping()
        assert await hit(store, b"\0\0k") == (1, False)
        break_it(one, client)
        started = time.monotonic()
        hits, is_local = await hit(store, b"\0\0k")
        assert (hits, is_local) == (1, True)
        assert time.monotonic() - started < 10 * TIMEOUT
        assert store.is_degraded
        assert is_at_once(store, b"\0\0k")
        assert await hit(store, b"\0\0k") == (3, True)  # a loop inside one instance is still seen
        assert store.errors >= 1
        assert line in caplog.text
        mend_it(one, client)
        await eventually(lambda: not store.is_degraded)  # with nobody asking
    assert (await hit(store, b"\0\0other")) == (1, False)


@pytest.mark.parametrize(("break_it", "mend_it", "line"), FAULTS)
async def test_no_ask_is_lost_or_answered_twice(one, connect, break_it, mend_it, line):
    store = await connect(one.url, timeout=TIMEOUT, probe_every=0.02)
    answers = []
    with one.client() as client:
        client.ping()

        def send(numbers):
            for number in numbers:
                store.ask(
                    [Hit(b"\0\0%d" % number, WINDOW)],
                    None,
                    retry=False,
                    then=lambda counts, _, __, is_local, number=number: answers.append(
                        (number, counts[0].hits, is_local)
                    ),
                )

        send(range(100))
        await asyncio.sleep(0)
        break_it(one, client)
        send(range(100, 200))
        await asyncio.sleep(0)
        send(range(200, 300))
        await eventually(lambda: len(answers) == 300)
        mend_it(one, client)
        await eventually(lambda: not store.is_degraded)
        send(range(300, 400))
        await eventually(lambda: len(answers) == 400)
    assert sorted(number for number, _, _ in answers) == list(range(400))
    assert {hits for _, hits, _ in answers} == {1}  # each got its own reply, not a neighbour's
    assert not any(is_local for _, _, is_local in answers[300:])


async def test_local_counts_begin_anew_each_time(one, connect):
    store = await connect(one.url, timeout=TIMEOUT, probe_every=0.02)
    for _ in range(2):
        one.send(signal.SIGSTOP)
        assert [(await hit(store, b"\0\0k"))[0] for _ in range(3)] == [1, 2, 3]
        one.send(signal.SIGCONT)
        await eventually(lambda: not store.is_degraded)


async def test_cooldowns_hold_here_while_the_store_is_away(one, connect):
    store = await connect(one.url, timeout=TIMEOUT, probe_every=60)
    one.kill()
    await hit(store, b"\0\0k")
    store.trip([Trip(b"\0\0k", 30, 6)], 1000.0)
    [count], is_local = await ask(store, [Hit(b"\0\0k", WINDOW)], 1001.0)
    assert (count.hits, count.cooldown_left, is_local) == (7, 29, True)
    assert await store.release(b"\0\0k")
    assert (await hit(store, b"\0\0k", 1002.0)) == (1, True)


async def test_a_cooldown_on_its_way_when_the_store_fails_holds_here(one, connect):
    store = await connect(one.url, timeout=TIMEOUT, probe_every=60)
    one.send(signal.SIGSTOP)
    store.trip([Trip(b"\0\0k", 30, 6)], 1000.0)
    await eventually(lambda: store.is_degraded)
    [count], _ = await ask(store, [Hit(b"\0\0k", WINDOW)], 1001.0)
    assert (count.hits, count.cooldown_left) == (7, 29)


async def test_a_store_that_is_down_at_start_is_no_obstacle(connect):
    port = free_port()
    store = await connect(f"redis://127.0.0.1:{port}", probe_every=0.02)
    assert store.is_degraded
    assert await hit(store, b"\0\0k") == (1, True)
    with server(port=port):
        await eventually(lambda: not store.is_degraded)
        assert await hit(store, b"\0\0k") == (1, False)


async def silence(_reader, _writer):
    """Say nothing."""


async def http(_reader, writer):
    """Answer in another protocol."""
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def hang_up(_reader, writer):
    """Close at once."""
    writer.close()


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        pytest.param(silence, "no answer", id="nothing"),
        pytest.param(http, "does not speak the Redis protocol", id="another protocol"),
        pytest.param(hang_up, "the connection was lost", id="a hang-up"),
    ],
)
async def test_starts_without_a_server_that_answers_with(connect, caplog, answer, line):
    writers = []

    async def serve(reader, writer):
        writers.append(writer)
        await answer(reader, writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        store = await connect(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        await store.stop()
    finally:
        for writer in writers:
            writer.close()
        listening.close()
    assert store.is_degraded
    assert is_at_once(store, b"\0\0k")
    assert line in caplog.text


@pytest.mark.parametrize("user", ["", "agent"])
async def test_enters_with_a_password(connect, caplog, user):
    with server(requirepass="s3cret/@:") as one:
        with one.client(password="s3cret/@:") as client:
            client.acl_setuser(
                "agent", enabled=True, passwords=["+s3cret/@:"], keys=["*"], commands=["+@all"]
            )
        url = one.url.replace("unix://", f"unix://{user}:s3cret%2F%40%3A@")
        store = await connect(url)
        assert await hit(store, b"\0\0k") == (1, False)
        wrong = await connect(one.url.replace("unix://", f"unix://{user}:wr0ng@"))
    assert wrong.is_degraded
    assert await hit(wrong, b"\0\0k") == (1, True)
    assert "refuses the user name or password (WRONGPASS)" in caplog.text
    assert "wr0ng" not in caplog.text


async def test_a_script_that_the_server_has_forgotten_is_taught_again(valkey, connect):
    store = await connect(valkey.url)
    key = b"\0\0forgotten"
    assert await hit(store, key) == (1, False)
    with valkey.client() as client:
        client.script_flush()
        answers = await asyncio.gather(*(hit(store, key) for _ in range(5)))
        assert answers == [(count, False) for count in range(2, 7)]
        assert await hit(store, key) == (7, False)
    assert store.errors == 0


async def test_an_idle_connection_that_ends_is_replaced_and_nothing_is_missed(valkey, connect):
    store = await connect(valkey.url, probe_every=0)
    assert await hit(store, b"\0\0idle") == (1, False)
    with valkey.client() as client:
        assert client.client_kill_filter(_type="normal", skipme=True) >= 1
        await eventually(lambda: any(one["name"] == "looptrap" for one in client.client_list()))
    assert await hit(store, b"\0\0idle") == (2, False)
    assert store.errors == 0


async def test_a_loop_that_was_late_itself_does_not_blame_the_store(valkey, connect):
    store = await connect(valkey.url, timeout=TIMEOUT)
    waiting = asyncio.create_task(hit(store, b"\0\0late"))
    for _ in range(2):
        await asyncio.sleep(0)  # the ask is sent
    time.sleep(2 * TIMEOUT)  # and this process does something else for too long
    assert await waiting == (1, False)
    assert store.errors == 0


def test_a_new_ask_is_not_blamed_for_an_old_one(valkey):
    store = Driven(valkey.url, timeout=TIMEOUT)
    hits = [Hit(b"\0\0new", WINDOW)]
    store.hit(hits, None)
    time.sleep(2 * TIMEOUT)  # the loop stands still: the timer goes off in the turn of the next ask
    store.hit(hits, None)
    store.trip([Trip(b"\0\0new", 1, 2)], None)
    time.sleep(TIMEOUT / 2)  # and the second look comes in the turn of the one after that
    store.hit(hits, None)
    assert store.store.errors == 0
    store.close()


async def test_whoever_waits_when_the_store_is_stopped_gets_an_answer(valkey):
    store = RedisStore(valkey.url)
    await store.start()
    answers = []
    for sent in (True, False):
        store.ask(
            [Hit(b"\0\0stop", WINDOW)], None, retry=False, then=lambda *one: answers.append(one)
        )
        if sent:
            await asyncio.sleep(0)
    await store.stop()
    assert [is_local for *_, is_local in answers] == [True, True]


async def test_a_caller_that_fails_costs_the_others_nothing(valkey, connect, caplog):
    store = await connect(valkey.url)

    def fail(*_answer):
        raise ValueError("a caller's own fault")

    store.ask([Hit(b"\0\0fail", WINDOW)], None, retry=False, then=fail)
    assert await hit(store, b"\0\0fail") == (2, False)
    assert "a caller's own fault" in caplog.text
    assert store.errors == 0


async def test_the_log_is_told_once_a_second_at_most(connect, caplog):
    caplog.set_level(logging.ERROR, "looptrap")
    store = await connect("unix:///nonexistent/looptrap.sock", probe_every=0.005)
    await eventually(lambda: store.errors > 20)
    assert len(caplog.records) <= 2
    assert "unix:///nonexistent/looptrap.sock: cannot connect: No such file" in caplog.text
