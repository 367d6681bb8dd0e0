"""Equal prompts under new sessions or users: those of an agent are refused, those of users pass."""

import heapq
from random import Random

import pytest

from looptrap import Guard, LoopDetectedError
from looptrap.detect.window import Window, WindowKind
from looptrap.dialect.model import Outcome
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Hit

T = 1_800_000_000.0
SERIES = Hit(b"k", Window(15.0, WindowKind.SERIAL))


def chat(text="Summarise my day", **more):
    return {"model": "gpt-5.3", "messages": [{"role": "user", "content": text}], **more}


def send(guard, begin, end, request=None, **options):
    """Check a call, and conclude it at its end."""
    ticket = guard.check(request or chat(), now=T + begin, **options)
    guard.conclude(ticket, Outcome(200), now=T + end)
    return ticket


def passed(guard, named, *, calls=30, takes=4.0, pause=1.0, start=0.0):
    """Send calls one after the other; return how many pass until one is refused."""
    for number in range(calls):
        begin = start + number * (takes + pause)
        try:
            send(guard, begin, begin + takes, **named(number))
        except LoopDetectedError:
            return number
    return calls


def new_session(number):
    return {"session": f"s-{number}"}


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(new_session, id="a new session"),
        pytest.param(lambda n: {"headers": {"X-Session-Id": f"s-{n}"}}, id="in a header"),
        pytest.param(lambda n: {"session": f"s-{n // 3}"}, id="a new session every three calls"),
        pytest.param(lambda n: {"request": chat(user=f"u-{n}")}, id="a new user"),
        pytest.param(
            lambda n: {"request": chat(user=f"u-{n}"), "session": "one"},
            id="a new user in one session",
        ),
    ],
)
def test_the_twelfth_call_right_after_the_answer_before_is_refused(named):
    assert passed(Guard.from_preset("default"), named) == 11


def test_the_refusal_says_why():
    guard = Guard.from_preset("default")
    passed(guard, new_session, calls=11)
    with pytest.raises(LoopDetectedError) as caught:
        send(guard, 55, 59, session="another")
    error = caught.value
    assert "sent 12 times in a row, under other sessions or users." in error.message
    assert error.rule == "identical-conversation"
    assert (error.hit_count, error.cooldown_seconds) == (12, 30)


@pytest.mark.parametrize(
    ("takes", "pause"),
    [
        pytest.param(4.0, 2.1, id="a pause of more than half of an answer"),
        pytest.param(60.0, 15.1, id="a pause of more than the window"),
    ],
)
def test_calls_after_a_pause_are_users_of_one_application(takes, pause):
    assert passed(Guard.from_preset("default"), new_session, takes=takes, pause=pause) == 30


def test_calls_that_overlap_are_users_of_one_application():
    guard, before = Guard.from_preset("default"), None
    for number in range(30):
        ticket = guard.check(chat(), session=f"s-{number}", now=T + 4.0 * number)
        if before is not None:
            guard.conclude(before, Outcome(200), now=T + 4.0 * number + 0.1)
        before = ticket


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(lambda n: {**new_session(n), "request": chat(f"Task {n}")}, id="prompt"),
        pytest.param(lambda n: {**new_session(n), "caller": f"c-{n}"}, id="caller"),
        pytest.param(
            lambda n: {**new_session(n), "request": {**chat(), "model": f"m-{n}"}}, id="model"
        ),
    ],
)
def test_calls_that_differ_in_more_are_not_equal(named):
    assert passed(Guard.from_preset("default"), named) == 30


def test_a_call_that_names_neither_is_counted_once():
    guard = Guard.from_preset("default")
    hits = len(guard.store)
    guard.check(chat(), now=T)
    assert len(guard.store) - hits == 1
    guard.check(chat(), now=T, session="s")
    assert len(guard.store) - hits == 3


def test_a_sample_whose_calls_are_kept_apart_on_purpose_passes():
    guard = Guard.from_preset("default")
    assert passed(guard, lambda n: {"headers": {"X-Looptrap-Session": f"sample-{n}"}}) == 30


def test_one_session_is_refused_at_the_sixth_as_ever():
    assert passed(Guard.from_preset("default"), lambda _n: {"session": "one"}) == 5


def test_a_client_that_waits_out_its_refusal_is_refused_again():
    guard = Guard.from_preset("default")
    assert passed(guard, new_session) == 11  # refused at 55 s, for 30
    assert passed(guard, new_session, start=90) == 0
    assert passed(guard, new_session, start=90 + 30 + 16) == 11, "after a pause"


def test_a_release_lets_the_count_begin_anew():
    guard = Guard.from_preset("default")
    passed(guard, new_session, calls=11)
    with pytest.raises(LoopDetectedError) as caught:
        send(guard, 55, 59, session="another")
    assert guard.release(caught.value.fingerprint, now=T + 56)
    assert passed(guard, new_session, start=57) == 11


def test_a_transport_retry_is_part_of_its_call():
    guard = Guard.from_preset("default")
    for number in range(11):
        begin = 10.0 * number
        if number in (4, 8):
            send(guard, begin, begin + 1, session=f"s-{number}")  # it fails
            headers = {"x-stainless-retry-count": "1"}
            send(guard, begin + 3, begin + 8, session=f"s-{number}", headers=headers)
        else:
            send(guard, begin, begin + 8, session=f"s-{number}")
    with pytest.raises(LoopDetectedError):
        send(guard, 110, 118, session="another")


def test_what_is_checked_and_never_concluded_takes_no_time():
    guard = Guard.from_preset("default")
    for number in range(30):
        guard.check(chat(), session=f"s-{number}", now=T + number)


def test_a_held_ticket_of_another_session_stays_open():
    guard = Guard.from_preset("default")
    for number in range(2):
        guard.check(chat(), session="a", now=T + number)
    held = guard.check(chat(), session="a", now=T + 2)
    guard.check(chat(), session="b", now=T + 2.5)
    assert held.streaks
    assert guard.store.hit([held.streaks[0]], T + 3)[0].hits == 3, "beside the one that is held"


def test_a_rule_of_ones_own_counts_one_after_the_other():
    rule = Rule(
        name="serial",
        watch="request",
        window=Window(15.0, WindowKind.SERIAL),
        ladder=Ladder({Action.BLOCK: 4}),
    )
    assert passed(Guard([Policy(name="own", rules=(rule,))]), new_session) == 3
    assert passed(Guard([Policy(name="own", rules=(rule,))]), new_session, pause=2.5) == 30


ANSWERS = {
    "all alike": lambda _rng: 8.0,
    "a little different": lambda rng: rng.uniform(4.0, 12.0),
    "very different": lambda rng: rng.expovariate(1 / 8.0),
}
"""How long answers take, in seconds: 8 on average."""


@pytest.mark.parametrize("takes", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("a_minute", [0.5, 2.0, 6.1, 12.0, 60.0])
def test_users_who_send_the_same_at_times_of_their_own_are_never_refused(takes, a_minute):
    """At 6.1 a minute the chance to follow right after an answer is the highest: 4 in 27."""
    rng, guard, now, under_way = Random(7), Guard.from_preset("default"), 0.0, []
    for number in range(1_500):
        now += rng.expovariate(a_minute / 60.0)
        while under_way and under_way[0][0] <= now:
            end, _, ticket = heapq.heappop(under_way)
            guard.conclude(ticket, Outcome(200), now=T + end)
        ticket = guard.check(chat(), session=f"s-{number}", now=T + now)
        heapq.heappush(under_way, (now + takes(rng), number, ticket))


@pytest.mark.parametrize("takes", ANSWERS.values(), ids=ANSWERS)
def test_the_calls_of_users_seldom_follow_one_another(takes):
    """A user's call continues a series by chance in at most 4 of 27 cases, whatever the load."""
    rng = Random(11)
    for load in (0.1, 0.4, 0.81, 1.5):
        store, now, under_way, counts = MemoryStore(), 0.0, [], []
        for _ in range(4_000):
            now += rng.expovariate(load / 8.0)
            while under_way and under_way[0] <= now:
                store.answer([SERIES], T + heapq.heappop(under_way))
            counts.append(store.hit([SERIES], T + now)[0].hits)
            if counts[-1] > 1:
                heapq.heappush(under_way, now + takes(rng))
        continued = sum(count > 2 for count in counts)
        assert continued / sum(count > 1 for count in counts) < 4 / 27 + 0.02
