"""The deliverer with a real outbox, against receivers that fail, hang and come back."""

import asyncio
import base64
import logging
import resource
from itertools import pairwise
from random import Random

import pytest
from standardwebhooks import Webhook
from tests.incident.alert.delivering import PATIENCE, START, Timeline, event, until
from tests.incident.alert.receiving import Receiver, closes, hangs, status

from looptrap.incident.alert.channel import AlertChannel, make_channels
from looptrap.incident.alert.deliverer import LEASE_S, MAX_EVENT_AGE_S, AlertDeliverer
from looptrap.incident.alert.webhook import DeliveryError
from looptrap.incident.history.history import IncidentHistory
from looptrap.incident.history.outbox import OutgoingEvent
from looptrap.incident.setting import ChannelSettings, IncidentSettings

SECRET = "whsec_" + base64.b64encode(b"thirty-two bytes of some secret!").decode()


def channel_to(url: str, name: str = "ops") -> AlertChannel:
    settings = ChannelSettings(
        name=name, url=url, secret_env="SECRET", allow_http=True, allow_private=True
    )
    (channel,) = make_channels([settings], {"SECRET": SECRET})
    return channel


class Sending(AlertChannel):
    """A channel that does what a test says."""

    def __init__(self, send, name: str = "ops", max_in_flight: int = 4) -> None:
        self.name, self.send, self.max_in_flight = name, send, max_in_flight


class Bench:
    """An outbox, time, and the deliverers that a test starts."""

    def __init__(self, path: str) -> None:
        self.time = Timeline()
        self.history = IncidentHistory(path, IncidentSettings(), clock=self.time.clock)
        self.history.open()
        self.started: list[AlertDeliverer] = []

    @property
    def outbox(self):
        return self.history.outbox

    def put(self, *events, channels=("ops",)) -> None:
        self.history.put([], [OutgoingEvent(one, tuple(channels)) for one in events])

    def start(self, *channels: AlertChannel, owner: str = "me") -> AlertDeliverer:
        deliverer = AlertDeliverer(
            self.outbox,
            channels,
            owner=owner,
            clock=self.time.clock,
            rng=Random(7),
            sleep=self.time.sleep,
        )
        deliverer.start()
        self.started.append(deliverer)
        return deliverer

    def letter(self, state="all"):
        (letter,) = self.outbox.deliveries(state).items
        return letter

    async def is_at_rest(self) -> None:
        """Wait until nothing is under way and everybody sleeps, for some turns of the loop."""
        turns = 0
        async with asyncio.timeout(PATIENCE):
            while turns < 10:
                await asyncio.sleep(0 if turns else 0.001)
                turns = turns + 1 if self._is_quiet() else 0

    def _is_quiet(self) -> bool:
        tasks = sum(len(one._tasks) for one in self.started)
        return len(self.time.sleeping) == tasks and not any(
            one._in_flight or any(lane.wakeup.is_set() for lane in one._queues.values())
            for one in self.started
        )

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass, step by step, with everybody at rest in between."""
        end = self.time.now + seconds
        while self.time.now < end:
            await self.is_at_rest()
            self.time.advance(min(step, end - self.time.now))
        await self.is_at_rest()


@pytest.fixture
async def bench(tmp_path):
    bench = Bench(str(tmp_path / "history.db"))
    yield bench
    for deliverer in bench.started:
        await deliverer.close()
    bench.history.close()


async def test_what_is_in_the_outbox_at_start_is_delivered_and_verified(bench, receiver):
    bench.put(event(1), event(2))
    deliverer = bench.start(channel_to(receiver.url))
    await until(lambda: bench.outbox.counts()["delivered"] == 2)
    assert sorted(receiver.heard) == ["evt_1", "evt_2"]
    for got in receiver.got:
        Webhook(SECRET).verify(got.body, got.headers)
    assert deliverer.deliveries == {
        ("ops", "attempts"): 2,
        ("ops", "delivered"): 2,
        ("ops", "failed"): 0,
        ("ops", "dead"): 0,
    }


async def test_what_is_new_is_delivered_as_soon_as_somebody_says_so(bench, receiver):
    deliverer = bench.start(channel_to(receiver.url))
    await bench.is_at_rest()
    bench.put(event())
    deliverer.wake()
    await until(lambda: receiver.heard == ["evt_1"])
    assert bench.time.now == START


async def test_what_another_process_put_there_is_found_within_seconds(bench, receiver):
    bench.start(channel_to(receiver.url))
    await bench.is_at_rest()
    bench.put(event())
    bench.time.advance(5.0)
    await until(lambda: receiver.heard == ["evt_1"])


@pytest.mark.parametrize(
    ("answers", "within"),
    [
        pytest.param([status(500)], 2, id="fails once"),
        pytest.param([status(500), closes, status(404)], 20, id="fails in many ways"),
        pytest.param([status(307, Location="/x")] * 2, 6, id="redirects"),
        pytest.param([status(500)] * 6, 300, id="is away for minutes"),
    ],
)
async def test_a_receiver_that_comes_back_hears_each_event_once(bench, receiver, answers, within):
    receiver.answers = list(answers)
    bench.put(event())
    deliverer = bench.start(channel_to(receiver.url))
    await until(lambda: receiver.got)
    await bench.pass_time(within)
    assert receiver.heard == ["evt_1"]
    assert {got.id for got in receiver.got} == {"evt_1"}
    assert len({got.body for got in receiver.got}) == 1
    assert len(receiver.got) == len(answers) + 1
    assert bench.letter().state == "delivered"
    assert deliverer.deliveries["ops", "failed"] == len(answers)


async def test_letters_that_fail_side_by_side_are_all_tried_again_within_seconds(bench, receiver):
    receiver.answers = [status(500)] * 4
    bench.put(*(event(n) for n in range(8)))
    bench.start(channel_to(receiver.url))
    await until(lambda: len(receiver.got) == 4)
    await bench.pass_time(3)
    assert sorted(receiver.heard) == [f"evt_{n}" for n in range(8)]


async def test_first_tries_come_after_about_1_3_10_and_30_seconds(bench):
    tried = []

    async def fail(_event):
        tried.append(bench.time.now - START)
        raise DeliveryError("is away")

    bench.put(event())
    bench.start(Sending(fail))
    await until(lambda: tried)
    await bench.pass_time(60, step=0.25)
    waits = [after - before for before, after in pairwise(tried)]
    assert len(waits) == 4
    for wait, about in zip(waits, (1, 3, 10, 30), strict=True):
        assert 0.8 * about <= wait <= 1.2 * about + 0.25


async def test_an_answer_that_got_lost_means_the_same_event_again(bench, receiver):
    """The receiver has it, we do not know: it comes twice, under one id."""

    async def accepts_and_closes(request):
        receiver.heard.append(request.headers["webhook-id"])
        return await closes(request)

    receiver.answers = [accepts_and_closes]
    bench.put(event())
    bench.start(channel_to(receiver.url))
    await until(lambda: receiver.got)
    await bench.pass_time(3)
    assert [got.id for got in receiver.got] == ["evt_1", "evt_1"]
    assert receiver.heard == ["evt_1"]


async def test_gone_is_gone(bench, receiver):
    receiver.always = status(410)
    bench.put(event())
    deliverer = bench.start(channel_to(receiver.url))
    await until(lambda: bench.outbox.counts()["dead"] == 1)
    assert bench.letter("dead").last_error == f"http://127.0.0.1:{receiver.port} answered 410"
    assert deliverer.deliveries["ops", "dead"] == 1
    await bench.pass_time(60, step=5)
    assert len(receiver.got) == 1


@pytest.mark.parametrize("code", [429, 503])
async def test_a_receiver_that_asks_for_time_is_given_it_by_all_letters(bench, receiver, code):
    receiver.answers = [status(code, Retry_After="40")] * 4
    bench.put(*(event(n) for n in range(9)))
    bench.start(channel_to(receiver.url))
    await until(lambda: len(receiver.got) == 4)
    await bench.pass_time(39)
    assert len(receiver.got) == 4
    await bench.pass_time(90)
    assert sorted(receiver.heard) == [f"evt_{n}" for n in range(9)]


async def test_after_three_days_a_letter_is_dead_and_can_be_sent_anew(bench):
    is_away = True
    sent = []

    async def send(one):
        if is_away:
            raise DeliveryError("is away")
        sent.append(one.id)

    bench.put(event())
    deliverer = bench.start(Sending(send))
    await until(lambda: deliverer.deliveries["ops", "attempts"])
    await bench.pass_time(MAX_EVENT_AGE_S - 4_200, step=300)
    assert bench.letter().state == "pending"
    await bench.pass_time(4_200, step=300)
    assert (bench.letter().state, bench.letter().last_error) == ("dead", "is away")
    assert 65 <= deliverer.deliveries["ops", "attempts"] <= 100
    is_away = False
    assert bench.outbox.resend("evt_1") == 1
    await bench.pass_time(70, step=5)
    assert sent == ["evt_1"]
    assert bench.letter().state == "delivered"


async def test_a_letter_that_waited_for_long_is_tried_before_it_is_given_up(bench, receiver):
    bench.put(event())
    bench.time.advance(2 * MAX_EVENT_AGE_S)
    bench.start(channel_to(receiver.url))
    await until(lambda: receiver.heard == ["evt_1"])


async def test_one_channel_that_hangs_does_not_hold_up_another(bench, receiver):
    async with Receiver.running() as stuck:
        stuck.always = hangs
        bench.put(*(event(n) for n in range(300)), channels=["stuck"])
        bench.put(*(event(n) for n in range(300, 320)), channels=["ops"])
        bench.start(channel_to(stuck.url, "stuck"), channel_to(receiver.url))
        await until(lambda: len(receiver.heard) == 20)
        assert len(stuck.got) == 4


@pytest.mark.parametrize("max_in_flight", [1, 4])
async def test_no_more_letters_are_on_their_way_than_a_channel_takes(bench, max_in_flight):
    now = most = done = 0

    async def send(_event):
        nonlocal now, most, done
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        done += 1

    bench.put(*(event(n) for n in range(40)))
    bench.start(Sending(send, max_in_flight=max_in_flight))
    await until(lambda: done == 40)
    assert most == max_in_flight


async def test_one_letter_that_is_never_taken_does_not_hold_up_the_others(bench):
    sent = []

    async def send(one):
        if one.id == "evt_0":
            raise DeliveryError("answered 400")
        sent.append(one.id)

    bench.put(*(event(n) for n in range(50)))
    bench.start(Sending(send))
    await bench.pass_time(10)
    assert len(sent) == len(set(sent)) == 49


async def test_letters_of_a_channel_that_is_no_longer_there_are_given_up(bench, receiver, caplog):
    bench.put(*(event(n) for n in range(250)), channels=["old"])
    deliverer = bench.start(channel_to(receiver.url))
    await until(lambda: bench.outbox.counts()["dead"] == 250)
    assert {one.last_error for one in bench.outbox.deliveries("dead").items} == {
        "channel 'old' no longer exists"
    }
    assert deliverer.deliveries["none", "dead"] == 250
    assert receiver.got == []


async def test_without_any_channel_letters_are_given_up_too(bench):
    bench.put(event())
    bench.start()
    await until(lambda: bench.outbox.counts()["dead"] == 1)


async def test_a_failure_is_one_line_with_the_channel_and_no_secret(bench, receiver, caplog):
    receiver.always = status(500)
    bench.put(event())
    with caplog.at_level(logging.DEBUG, "looptrap"):
        bench.start(channel_to(receiver.url))
        await until(lambda: bench.letter().last_error)
    assert [record.getMessage() for record in caplog.records] == [
        f"alert evt_1 was not delivered: channel ops: http://127.0.0.1:{receiver.port}"
        " answered 500; next try in 1 s"
    ]
    assert "secret" not in caplog.text + bench.letter().last_error


async def test_a_mistake_in_a_channel_is_a_failure_like_others(bench, caplog):
    calls = []

    async def send(_event):
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError

    bench.put(event())
    bench.start(Sending(send))
    await until(lambda: calls)
    await bench.pass_time(3)
    assert bench.letter().state == "delivered"
    assert "internal error (ZeroDivisionError)" in caplog.text


async def test_an_outbox_that_fails_is_asked_again(bench, receiver, monkeypatch, caplog):
    def fail(*_given, **_named):
        raise OSError("disk I/O error")

    bench.put(event())
    with monkeypatch.context() as broken:
        broken.setattr(bench.outbox, "next_due", fail)
        bench.start(channel_to(receiver.url))
        await bench.is_at_rest()
    assert "the outbox cannot be read: disk I/O error" in caplog.text
    await bench.pass_time(6)
    assert receiver.heard == ["evt_1"]


async def test_what_cannot_be_recorded_is_sent_again_when_its_lease_ends(
    bench, receiver, monkeypatch, caplog
):
    def fail(*_given, **_named):
        raise OSError("disk full")

    bench.put(event())
    with monkeypatch.context() as broken:
        broken.setattr(bench.outbox, "mark_delivered", fail)
        bench.start(channel_to(receiver.url))
        await until(lambda: "cannot be written: disk full" in caplog.text)
    await bench.pass_time(LEASE_S + 6)
    assert [got.id for got in receiver.got] == ["evt_1", "evt_1"]
    assert bench.letter().state == "delivered"


async def test_what_a_killed_process_had_in_hand_is_delivered_by_another(bench, receiver):
    bench.put(event())
    bench.outbox.lease(START, "killed", 10, LEASE_S)
    bench.start(channel_to(receiver.url))
    await bench.pass_time(LEASE_S - 1)
    assert receiver.got == []
    await bench.pass_time(6)
    assert receiver.heard == ["evt_1"]


async def test_what_is_cut_short_by_a_stop_is_delivered_at_once_by_the_next(bench, monkeypatch):
    monkeypatch.setattr("looptrap.incident.alert.deliverer.STOP_GRACE_S", 0.05)
    started, sent = asyncio.Event(), []

    async def hang(_event):
        started.set()
        await asyncio.Event().wait()

    async def send(one):
        sent.append(one.id)

    bench.put(event())
    first = bench.start(Sending(hang))
    await started.wait()
    await first.close()
    bench.started.remove(first)
    bench.start(Sending(send), owner="next")
    await until(lambda: sent == ["evt_1"])
    assert bench.time.now == START


async def test_two_processes_deliver_each_letter_once(bench, receiver, tmp_path):
    other = Bench(str(tmp_path / "history.db"))
    bench.put(*(event(n) for n in range(200)))
    bench.start(channel_to(receiver.url), owner="one")
    other.start(channel_to(receiver.url), owner="two")
    await until(lambda: len(receiver.heard) == 200)
    await until(lambda: bench.outbox.counts()["delivered"] == 200)
    assert len(receiver.got) == 200
    await other.started[0].close()
    other.history.close()


async def test_ten_thousand_letters_for_a_dead_receiver_cost_next_to_nothing(bench):
    async with Receiver.running() as gone:
        url = gone.url
    bench.put(*(event(n) for n in range(10_000)))
    asked = 0
    next_due = bench.outbox.next_due

    def counted(*options):
        nonlocal asked
        asked += 1
        return next_due(*options)

    bench.outbox.next_due = counted
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    deliverer = bench.start(channel_to(url))
    await until(lambda: deliverer.deliveries["ops", "failed"] >= 4)
    await bench.pass_time(3_600, step=10)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 16 * 1024, "KB"
    # About one attempt a minute finds out whether it is back; the others wait where they are.
    assert 60 <= deliverer.deliveries["ops", "attempts"] <= 100
    assert asked < 2 * 3_600 / 5 + 300
    assert bench.outbox.counts() == {"pending": 10_000, "delivered": 0, "dead": 0}


async def test_a_backlog_is_worked_off_at_full_speed_once_a_receiver_is_back(bench):
    is_away, sent = True, []

    async def send(one):
        if is_away:
            raise DeliveryError("is away")
        sent.append(one.id)

    bench.put(*(event(n) for n in range(1_000)))
    deliverer = bench.start(Sending(send))
    await until(lambda: deliverer.deliveries["ops", "failed"])
    await bench.pass_time(600, step=5)
    is_away = False
    await bench.pass_time(70, step=5)
    assert len(sent) >= 980, "all but those that wait for a time of their own"
