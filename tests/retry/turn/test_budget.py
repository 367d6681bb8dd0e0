"""What a turn may take; it goes from process to process, and what comes in may only lower it."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict
from tests.retry.failing import Answer, Fake, down

from looptrap.errors import GiveUp
from looptrap.retry import Turn, testing
from looptrap.retry.turn_budget import (
    TurnAccount,
    TurnLimits,
    read_turn_headers,
    write_turn_headers,
)


def test_threads_never_take_more_than_there_is():
    account = TurnAccount(TurnLimits(steps=100, tool_calls=100), 0.0)
    taken = []

    def take():
        for _ in range(50):
            one = account.take(0.0, steps=1)
            if not one.exceeded_limit:
                taken.append(one.step)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 101))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 40)), max_size=20))
def test_what_is_left_only_gets_less(takes):
    outer = TurnAccount(TurnLimits(), 0.0)
    inner = TurnAccount(TurnLimits(steps=6), 0.0, outer)
    now, left = 0.0, inner.left(0.0)
    for steps, tool_calls, seconds in takes:
        now += seconds
        inner.take(now, steps=steps, tool_calls=tool_calls)
        after = inner.left(now)
        assert after == after.lower_to(asdict(left))
        assert after == after.lower_to(asdict(outer.left(now)))
        left = after


# Headers


def joined(headers, **options):
    with testing(), Turn.from_headers(headers, **options) as turn:
        return turn.id, turn.left


def test_a_joined_turn_has_the_id_and_what_is_left():
    with testing() as rehearsal, Turn(id="t-1", tokens=1000, usd=2.0) as turn:
        turn.call(Fake())
        turn.tool(Fake())
        turn.spend(tokens=400, usd=0.5)
        rehearsal.advance(30)
        headers = turn.headers()
    assert headers["X-Looptrap-Turn"] == "t-1"
    assert joined(headers) == (
        "t-1",
        TurnLimits(steps=7, deadline=60.0, tool_calls=14, tokens=600, usd=1.5, corrections=1),
    )


def test_the_baggage_alone_is_enough():
    with Turn(id="t-1") as turn:
        assert joined({"Baggage": turn.headers()["baggage"]})[0] == "t-1"


def test_baggage_of_others_travels_along_and_ours_is_replaced():
    with Turn(id="t-1") as turn:
        baggage = turn.headers("user=ada;secret, looptrap.turn=old , region=eu")["baggage"]
    assert baggage.split(",")[0] == "looptrap.turn=t-1"
    assert baggage.split(",")[-2:] == ["user=ada;secret", "region=eu"]
    assert "old" not in baggage


@pytest.mark.parametrize(
    "headers",
    [
        {"x-looptrap-turn": "t-1"},
        {b"X-LOOPTRAP-TURN": b"t-1"},
        [("X-Looptrap-Turn", "t-1")],
        [(b"x-looptrap-turn", b" t-1 "), (b"content-length", 3)],
        {"baggage": "a=b, looptrap.turn=t-1;p=1"},
    ],
    ids=["text", "bytes", "pairs", "pairs of bytes, and others", "baggage with properties"],
)
def test_headers_are_read_as_servers_hand_them_over(headers):
    assert joined(headers)[0] == "t-1"


@pytest.mark.parametrize(
    "baggage",
    [
        "looptrap.steps=99,looptrap.deadline=9999,looptrap.tool_calls=99,looptrap.usd=99",
        "looptrap.steps=-1,looptrap.deadline=nan,looptrap.tool_calls=inf,looptrap.usd=1e999",
        "looptrap.steps=x,looptrap.deadline=,looptrap.tool_calls,looptrap.usd=\x00",
        "looptrap.steps=" + "9" * 5000,
    ],
    ids=["more than ours", "no numbers to count with", "no numbers", "a very long one"],
)
def test_what_is_sent_never_raises_a_limit(baggage):
    own = {"steps": 5, "deadline": 10.0, "tool_calls": 3, "usd": 1.0}
    _, left = joined({"X-Looptrap-Turn": "t-1", "baggage": baggage}, **own)
    assert left == TurnLimits(**own)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Looptrap-Turn": ""},
        {"X-Looptrap-Turn": "a b"},
        {"X-Looptrap-Turn": "x" * 65},
        {"X-Looptrap-Turn": "one", "baggage": "looptrap.turn=two"},
        {"baggage": "=,;,looptrap.turn"},
        {"X-Looptrap-Turn": None},
        [("X-Looptrap-Turn",)],
        [3],
        None,
    ],
    ids=str,
)
def test_garbage_makes_a_turn_of_its_own(headers):
    turn = Turn.from_headers(headers)
    fake = Fake(down())
    with testing(), turn:
        assert turn.id not in ("one", "two", "")
        assert turn.call(fake) == "answer"  # and it retries for itself
    assert fake.calls == 2


@given(
    st.dictionaries(
        st.sampled_from(["X-Looptrap-Turn", "baggage", "other"]),
        st.one_of(st.text(), st.binary(), st.from_regex(r"looptrap\.\w+=[-+.\deE]*(,.*)?")),
    )
)
def test_no_header_breaks_a_turn_or_raises_a_limit(headers):
    _, left = joined(headers, steps=4, deadline=20.0, tool_calls=2, tokens=10, usd=1.0)
    own = TurnLimits(steps=4, deadline=20.0, tool_calls=2, tokens=10, usd=1.0)
    assert left == left.lower_to(asdict(own))


@given(
    st.builds(
        TurnLimits,
        steps=st.integers(0, 100),
        deadline=st.floats(0, 1e6),
        tool_calls=st.integers(0, 100),
        tokens=st.none() | st.integers(0, 10**9),
        usd=st.none() | st.floats(0, 1e6),
        corrections=st.integers(0, 3),
    )
)
def test_what_was_written_is_read(left):
    wide = TurnLimits(steps=10**6, deadline=1e9, tool_calls=10**6, corrections=10)
    read = wide.lower_to(read_turn_headers(write_turn_headers("t", left)).left)
    for name in TurnLimits.__struct_fields__:
        assert getattr(read, name) == pytest.approx(getattr(left, name), abs=1e-6)


def test_in_a_joined_turn_every_call_is_attempted_once():
    fake = Fake(always=down())
    joined = Turn.from_headers({"X-Looptrap-Turn": "t-1"})
    with testing(), joined as turn, pytest.raises(Answer):  # its sender decides what it means
        turn.call(fake)
    assert fake.calls == 1


def test_a_budget_that_was_spent_elsewhere_is_spent_here():
    headers = {"X-Looptrap-Turn": "t-1", "baggage": "looptrap.steps=0"}
    with pytest.raises(GiveUp) as raised, Turn.from_headers(headers) as turn:
        turn.call(Fake())
    assert (raised.value.marker.turn, raised.value.marker.reason) == ("t-1", "step_budget")


async def test_requests_that_claim_the_same_turn_share_no_keys():
    async def request():
        async with Turn.from_headers({"X-Looptrap-Turn": "t-1"}) as turn:
            return turn.key("d")

    one, two = await asyncio.gather(request(), request())
    assert one != two
    assert one.startswith("t-1.")
    assert two.startswith("t-1.")
