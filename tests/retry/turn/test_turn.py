"""One answer to a user: steps, attempts, tools, time and money on one budget."""

import asyncio
import json
import subprocess
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.retry.failing import Answer, Fake, down, forbidden

from looptrap.errors import AllProvidersFailed, ConfigError, GiveUp
from looptrap.retry import Breakers, Chain, RetryPolicy, Turn, testing
from looptrap.retry.turn import Marker, current_turn


@pytest.fixture
def rehearsal():
    with testing() as rehearsal:
        yield rehearsal


def given_up(raised):
    marker = raised.value.marker
    return marker.reason, marker.step, marker.attempts


class TestCircuits:
    def ask(self, breakers, *errors):
        """Make one call in a turn of its own; return how often it was tried."""
        fake = Fake(*errors)

        def provider():
            return fake()

        with Turn(breakers=breakers) as turn, suppress(GiveUp):
            turn.call(provider)
        return fake.calls

    def test_failures_of_one_turn_close_the_road_for_no_other(self, rehearsal):
        breakers = Breakers(threshold=3)
        assert self.ask(breakers, down(), down(), down()) == 3
        assert self.ask(breakers) == 1

    def test_failures_of_several_turns_close_it(self, rehearsal):
        breakers = Breakers(threshold=4)
        assert self.ask(breakers, down(), down(), down()) == 3
        self.ask(breakers, down(), down(), down())
        assert self.ask(breakers) == 0


class TestSteps:
    def test_a_retry_spends_the_steps_patience_and_not_the_turns(self, rehearsal):
        with Turn(steps=2) as turn:
            assert turn.call(Fake(down(), down())) == "answer"
            assert turn.call(Fake(down(), down())) == "answer"
            assert (turn.step, turn.left.steps) == (2, 0)

    def test_a_ninth_step_is_refused(self, rehearsal):
        fake = Fake()
        with Turn() as turn:
            for _ in range(8):
                turn.call(fake)
            with pytest.raises(GiveUp) as raised:
                turn.call(fake)
        assert (fake.calls, given_up(raised)) == (8, ("step_budget", 8, 0))

    def test_a_failed_step_ends_the_turn(self, rehearsal):
        error = down()
        after = Fake()
        with Turn() as turn:
            with pytest.raises(GiveUp) as raised:
                turn.call(Fake(down(), down(), error))
            with pytest.raises(GiveUp) as again:
                turn.call(after)
        assert given_up(raised) == ("http_503", 1, 3)
        assert raised.value.__cause__ is error
        assert again.value.marker == raised.value.marker
        assert after.calls == 0

    def test_a_permanent_error_ends_it_after_one_attempt(self, rehearsal):
        with pytest.raises(GiveUp) as raised, Turn() as turn:
            turn.call(Fake(forbidden()))
        assert given_up(raised) == ("http_403", 1, 1)
        assert rehearsal.waits == []

    def test_a_tool_that_fails_is_left_to_the_model(self, rehearsal):
        with Turn() as turn:
            with pytest.raises(subprocess.CalledProcessError):
                turn.call(Fake(subprocess.CalledProcessError(1, "make")))
            assert turn.call(Fake()) == "answer"

    def test_attempts_are_the_lower_of_turn_and_policy(self, rehearsal):
        fake = Fake(always=down())
        with pytest.raises(GiveUp), Turn(attempts=2, policy=RetryPolicy(attempts=5)) as turn:
            turn.call(fake)
        assert fake.calls == 2

    def test_a_step_may_go_over_a_chain(self, rehearsal):
        fake = Fake(always=down())
        chain = Chain.of("anthropic", "openai")
        with pytest.raises(GiveUp) as raised, Turn() as turn:
            turn.failover(chain, fake, "question")
        assert [args[0].name for args, _ in fake.got] == ["anthropic"] * 3 + ["openai"] * 3
        assert given_up(raised) == ("http_503", 1, 6)
        assert isinstance(raised.value.__cause__, AllProvidersFailed)

    async def test_asynchronous_steps_are_the_same(self, rehearsal):
        fake = Fake(down())
        async with Turn() as turn:
            assert await turn.call(fake.later, "question") == "answer"
            with pytest.raises(GiveUp) as raised:
                await turn.call(Fake(always=down()).later)
        assert given_up(raised) == ("http_503", 2, 3)

    async def test_steps_at_the_same_time_share_the_budget(self, rehearsal):
        fake = Fake()
        async with Turn(steps=3) as turn:
            done = await asyncio.gather(
                *(turn.call(fake.later) for _ in range(5)), return_exceptions=True
            )
        assert [type(one) for one in done] == [str, str, str, GiveUp, GiveUp]
        assert fake.calls == 3


class TestTime:
    def test_nothing_begins_after_the_deadline(self, rehearsal):
        with Turn() as turn:
            rehearsal.advance(90)
            with pytest.raises(GiveUp) as raised:
                turn.call(Fake())
        assert given_up(raised) == ("deadline", 0, 0)

    def test_no_wait_goes_past_the_deadline(self, rehearsal):
        with pytest.raises(GiveUp), Turn(deadline=1.0) as turn:
            turn.call(Fake(always=down()))
        assert rehearsal.waits == [0.4]

    def test_what_is_left_makes_a_time_out(self, rehearsal):
        with Turn() as turn:
            rehearsal.advance(30)
            assert turn.left.deadline == 60

    async def test_an_asynchronous_step_is_cut_at_the_deadline(self):
        async with Turn(deadline=0.01) as turn:
            with pytest.raises(GiveUp) as raised:
                await asyncio.wait_for(turn.call(asyncio.Event().wait), 20)
        assert raised.value.marker.reason == "deadline"


class TestMoney:
    @pytest.mark.parametrize(
        ("limit", "spent", "reason"),
        [
            ({"tokens": 1000}, {"tokens": 1000}, "token_budget"),
            ({"usd": 0.5}, {"usd": 0.75}, "dollar_budget"),
        ],
        ids=["tokens", "dollars"],
    )
    def test_what_was_paid_for_is_kept_and_the_next_step_refused(
        self, rehearsal, limit, spent, reason
    ):
        with Turn(**limit) as turn:
            turn.call(Fake())
            turn.spend(**spent)
            with pytest.raises(GiveUp) as raised:
                turn.call(Fake())
        assert given_up(raised) == (reason, 1, 0)

    def test_without_a_limit_it_is_only_counted(self, rehearsal):
        with Turn() as turn:
            turn.spend(tokens=10**9, usd=10**6)
            turn.call(Fake())
            assert (turn.spent.tokens, turn.spent.usd) == (10**9, 10**6)

    def test_nothing_is_given_back(self, rehearsal):
        with Turn() as turn, pytest.raises(ValueError, match="must be 0 or more"):
            turn.spend(usd=-1)


class TestTools:
    def test_a_sixteenth_tool_call_is_refused(self, rehearsal):
        tool = Fake()
        with Turn() as turn:
            for _ in range(15):
                turn.tool(tool, "x")
            with pytest.raises(GiveUp) as raised:
                turn.tool(tool, "x")
        assert (tool.calls, raised.value.marker.reason) == (15, "tool_budget")
        assert raised.value.marker.spent.tool_calls == 15

    def test_what_a_tool_raises_is_raised(self, rehearsal):
        with Turn() as turn:
            with pytest.raises(KeyError):
                turn.tool(Fake(KeyError()))
            assert turn.call(Fake()) == "answer"

    async def test_asynchronous_tools_are_awaited(self, rehearsal):
        async with Turn() as turn:
            assert await turn.tool(Fake().later) == "answer"


class TestTogether:
    def test_a_nested_agent_spends_the_same_budget(self, rehearsal):
        with Turn(steps=3, id="outer") as outer:
            outer.call(Fake())
            with Turn(steps=8) as inner:
                assert (inner.id, current_turn()) == ("outer", inner)
                inner.call(Fake())
                inner.call(Fake())
                with pytest.raises(GiveUp) as raised:
                    inner.call(Fake())
            assert current_turn() is outer
            assert outer.left.steps == 0
        assert raised.value.marker.turn == "outer"

    def test_a_nested_agent_may_have_less(self, rehearsal):
        with Turn() as outer:
            with Turn(steps=1) as inner:
                inner.call(Fake())
                with pytest.raises(GiveUp):
                    inner.call(Fake())
            assert outer.call(Fake()) == "answer"

    def test_what_a_nested_agent_pays_counts_outside(self, rehearsal):
        with Turn(usd=1.0) as outer, Turn() as inner:
            inner.spend(usd=1.0)
            with pytest.raises(GiveUp) as raised:
                outer.call(Fake())
        assert raised.value.marker.reason == "dollar_budget"

    def test_a_nested_agent_that_gave_up_is_not_called_again(self, rehearsal):
        entered = []

        def agent():
            entered.append(1)
            with Turn(steps=0) as inner:
                inner.call(Fake())

        with pytest.raises(GiveUp) as raised, Turn() as outer:
            outer.call(agent)
        assert (len(entered), raised.value.marker.reason) == (1, "step_budget")

    def test_outside_there_is_no_turn(self):
        assert current_turn() is None
        with Turn():
            pass
        assert current_turn() is None

    @given(st.lists(st.sampled_from(["outer", "inner", "fails"]), max_size=30), st.integers(0, 8))
    def test_no_order_of_steps_goes_beyond_the_outer_budget(self, order, steps):
        made = []
        with testing(), Turn(steps=steps) as outer, Turn(steps=5) as inner:
            for who in order:
                turn = outer if who == "outer" else inner
                try:
                    turn.call(lambda: made.append(1))
                except GiveUp:
                    continue
        assert len(made) <= steps


class TestMarker:
    def test_it_is_json_that_can_be_read_back(self, rehearsal):
        with Turn(id="t-1") as turn:
            turn.spend(tokens=1200, usd=0.03)
            turn.tool(Fake())
            with pytest.raises(GiveUp) as raised:
                turn.call(Fake(always=down()))
        marker = raised.value.marker
        assert json.loads(marker.dumps()) == {
            "turn": "t-1",
            "step": 1,
            "reason": "http_503",
            "attempts": 3,
            "spent": {"seconds": 1.2, "tokens": 1200, "usd": 0.03, "tool_calls": 1},
        }
        assert Marker.loads(marker.dumps()) == marker

    @pytest.mark.parametrize("text", ["", "{}", "null", b"\xff", '{"turn": 3}'])
    def test_what_is_no_marker_is_a_value_error(self, text):
        with pytest.raises(ValueError, match="not a marker"):
            Marker.loads(text)


class TestMistakes:
    @pytest.mark.parametrize(
        "options",
        [{"id": "a b"}, {"id": "x" * 65}, {"steps": -1}, {"deadline": float("inf")}],
        ids=["id with a space", "long id", "negative", "endless"],
    )
    def test_a_turn_that_cannot_be_is_refused(self, options):
        with pytest.raises(ConfigError):
            Turn(**options)

    def test_a_turn_begins_with_with(self):
        with pytest.raises(RuntimeError, match="with Turn"):
            Turn().call(Fake())

    def test_a_turn_is_entered_once(self):
        turn = Turn()
        with turn, pytest.raises(RuntimeError, match="once"), turn:
            pass

    def test_own_errors_pass_through(self, rehearsal):
        with pytest.raises(Answer), Turn():
            raise down()
