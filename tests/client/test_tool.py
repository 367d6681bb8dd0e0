"""`looptrap.tool`: a call that goes in circles is refused before it is made, and no other is."""

import asyncio
import inspect
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import looptrap
from looptrap import Guard, LoopDetectedError
from looptrap.client.tool import (
    MAX_NAMED_RUNS,
    UNLINKED_CALLS_BEFORE_WARNING,
    ToolGuard,
    guard_tool,
)
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import KillSwitch, Policy
from looptrap.policy.rule import Rule


class Clock:
    """Time as the test wants it."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tool_guard(clock):
    return ToolGuard(clock=clock)


def outcomes(function, calls):
    """Call a function with each of these arguments; return what it said, or "refused"."""
    said = []
    for arguments in calls:
        try:
            said.append(function(*arguments))
        except LoopDetectedError:
            said.append("refused")
        except TimeoutError:
            said.append("failed")
    return said


MACHINES = "valve pump tank mill oven kiln crane lathe drill".split()


def weigh(parcel=1):
    return f"parcel {parcel} weighs 12 kg"


def stuck(number=5):
    raise TimeoutError("the scales do not answer")


class TestLoops:
    def test_the_fifth_equal_call_with_equal_results_is_refused_and_not_made(self, tool_guard):
        made = []
        tool = guard_tool(lambda parcel: made.append(parcel) or "12 kg", tool_guard, "weigh")
        assert outcomes(tool, [(1,)] * 6) == ["12 kg"] * 4 + ["refused"] * 2
        assert len(made) == 4

    def test_the_refusal_says_what_repeats_in_words_for_the_model(self, tool_guard):
        tool = guard_tool(weigh, tool_guard)
        outcomes(tool, [(1,)] * 4)
        with pytest.raises(LoopDetectedError) as caught:
            tool(1)
        error = caught.value
        assert str(error) == (
            "Blocked (recursive_loop_detected): weigh with the same arguments and result,"
            " 5 times in 5 rounds."
            " Refused for another 30 seconds."
            " Sending it again will not change the answer: change the approach, or stop."
        )
        assert (error.rule, error.hit_count, error.cooldown_seconds) == ("no-progress", 5, 30)
        assert error.evidence[0].signal == "repeat"
        assert error.fingerprint

    @pytest.mark.parametrize(
        ("function", "calls", "passing", "rule"),
        [
            pytest.param(stuck, [(5,)] * 9, 4, "no-progress", id="the same failing call"),
            pytest.param(stuck, [(n,) for n in range(9)], 5, "near-repeat", id="its variants"),
            pytest.param(
                lambda text: stuck(), [(text,) for text in MACHINES], 6, "same-error",
                id="the same error, whatever is tried",
            ),
            pytest.param(
                weigh, [(1,), (2,)] * 5, 5, "cycle", id="two calls in turn",
            ),
            pytest.param(
                lambda job: "still running", [(1,)] * 30, 19, "no-progress", id="unchanged polling",
            ),
        ],
    )  # fmt: skip
    def test_each_way_of_going_in_circles(self, tool_guard, function, calls, passing, rule):
        tool = guard_tool(function, tool_guard, "weigh")
        assert "refused" not in outcomes(tool, calls[:passing])
        with pytest.raises(LoopDetectedError) as caught:
            tool(*calls[passing])
        assert caught.value.rule == rule

    def test_several_tools_of_a_run_are_seen_together(self, tool_guard):
        ask = guard_tool(lambda: "busy line", tool_guard, "dial")
        note = guard_tool(lambda: "written in the book", tool_guard, "jot")
        said = []
        for _ in range(3):
            said += outcomes(ask, [()]) + outcomes(note, [()])
        assert said.count("refused") == 1
        assert said[-1] == "refused"


class TestHonestWork:
    @pytest.mark.parametrize(
        ("answer", "calls"),
        [
            pytest.param(lambda n: f"page {n}", [(n,) for n in range(80)], id="paging"),
            pytest.param(lambda n: "normal", [(n,) for n in range(80)], id="a batch, all alike"),
            pytest.param(lambda n: None, [(n,) for n in range(80)], id="silent steps"),
            pytest.param(
                lambda n, seen=[]: f"{seen.append(n) or len(seen)} of 99 done",
                [(1,)] * 80,
                id="moving polls",
            ),
        ],
    )
    def test_is_never_refused_nor_warned_about(self, tool_guard, caplog, answer, calls):
        assert "refused" not in outcomes(guard_tool(answer, tool_guard, "survey"), calls)
        assert caplog.records == []

    def test_other_arguments_than_those_that_failed_are_another_approach(self, tool_guard):
        def read(pump):
            return stuck() if pump == 5 else f"pump {pump}: pressure normal"

        tool = guard_tool(read, tool_guard, "read_log")
        said = outcomes(tool, [(5,)] * 7 + [(6,), (7,), (5,), (8,)])
        assert said[4:7] == ["failed", "refused", "refused"]
        assert said[7:9] == ["pump 6: pressure normal", "pump 7: pressure normal"]
        assert said[10] == "pump 8: pressure normal"

    def test_an_edit_in_between_makes_the_same_check_worth_another_try(self, tool_guard):
        check = guard_tool(lambda: "1 failed: test_weigh", tool_guard, "run_tests")
        edit = guard_tool(lambda line: "edited", tool_guard, "edit_file")
        for line in range(8):
            assert outcomes(check, [()]) == ["1 failed: test_weigh"]
            assert outcomes(edit, [(line,)]) == ["edited"]

    def test_a_tool_that_polls_has_more_patience(self, tool_guard, caplog):
        tool = guard_tool(lambda job: {"state": 1}, tool_guard, "job", polls=True)
        said = outcomes(tool, [(1,)] * 60)
        assert said.index("refused") == 59
        assert "20 times in 20 rounds" in caplog.messages[0]

    def test_after_a_long_silence_a_run_begins_anew(self, tool_guard, clock):
        tool = guard_tool(weigh, tool_guard)
        assert "refused" in outcomes(tool, [(1,)] * 5)
        clock.now += 3600
        assert outcomes(tool, [(1,)] * 4) == [weigh(1)] * 4


class TestAfterARefusal:
    def test_one_call_passes_as_a_probe_when_the_cooldown_is_over(self, tool_guard, clock):
        tool = guard_tool(weigh, tool_guard)
        outcomes(tool, [(1,)] * 5)
        clock.now += 29
        assert outcomes(tool, [(1,)]) == ["refused"]
        clock.now += 2
        assert outcomes(tool, [(1,)] * 2) == [weigh(1), "refused"]

    def test_a_probe_that_brings_something_else_ends_it(self, tool_guard, clock):
        answers = ["12 kg"] * 4 + ["13 kg"] * 9
        tool = guard_tool(lambda: answers.pop(0), tool_guard, "weigh")
        outcomes(tool, [()] * 5)
        clock.now += 31
        assert outcomes(tool, [()] * 4) == ["13 kg"] * 4

    def test_a_release_lets_the_next_call_through(self, clock):
        guard = Guard.from_preset("default")
        tool = guard_tool(weigh, ToolGuard(guard, clock=clock))
        outcomes(tool, [(1,)] * 4)
        with pytest.raises(LoopDetectedError) as caught:
            tool(1)
        assert guard.release(caught.value.fingerprint, clock.now)
        assert outcomes(tool, [(1,)]) == [weigh(1)]


class TestFunctions:
    def test_the_tools_own_exception_comes_out_unchanged(self, tool_guard):
        error = KeyError("pump")

        def broken():
            raise error

        with pytest.raises(KeyError) as caught:
            guard_tool(broken, tool_guard)()
        assert caught.value is error

    async def test_asynchronous_ones_stay_so_and_are_judged(self, tool_guard):
        async def weigh_later(parcel: int) -> str:
            """Weigh it."""
            await asyncio.sleep(0)
            return "12 kg"

        tool = guard_tool(weigh_later, tool_guard)
        assert inspect.iscoroutinefunction(tool)
        for _ in range(4):
            assert await tool(1) == "12 kg"
        with pytest.raises(LoopDetectedError):
            await tool(1)

    async def test_ones_that_only_return_something_to_await_are_judged_too(self, tool_guard):
        async def weigh_later(parcel):
            return "12 kg"

        tool = guard_tool(lambda parcel: weigh_later(parcel), tool_guard, "weigh")
        for _ in range(4):
            assert await tool(1) == "12 kg"
        with pytest.raises(LoopDetectedError):
            await tool(1)

    async def test_a_call_that_is_cancelled_has_failed(self, tool_guard):
        async def hang():
            await asyncio.Event().wait()

        tool = guard_tool(hang, tool_guard)
        with looptrap.session("hanging"):
            for _ in range(4):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(tool(), 0.01)
            with pytest.raises(LoopDetectedError):
                await asyncio.wait_for(tool(), 10)

    def test_methods_are_judged_object_by_object(self, tool_guard):
        class Pump:
            def read(self):
                return "pressure normal"

        Pump.read = guard_tool(Pump.read, tool_guard)
        pumps = [Pump() for _ in range(20)]
        assert "refused" not in [one for pump in pumps for one in outcomes(pump.read, [()])]
        assert "refused" not in [one for _ in range(20) for one in outcomes(Pump().read, [()])]
        assert outcomes(pumps[0].read, [()] * 6).count("refused") >= 1

    def test_name_text_signature_and_hints_are_the_functions_own(self):
        @looptrap.tool
        def read_log(pump: int, lines: int = 10) -> str:
            """Read the log of a pump."""
            return ""

        assert (read_log.__name__, read_log.__doc__) == ("read_log", "Read the log of a pump.")
        assert str(inspect.signature(read_log)) == "(pump: int, lines: int = 10) -> str"
        assert inspect.get_annotations(read_log)["pump"] is int

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            pytest.param(lambda: (yield 1), "is a generator", id="a generator"),
            pytest.param(classmethod(weigh), "below the decorators", id="a class method made"),
            pytest.param(int, "no function", id="a class"),
            pytest.param("weigh", "no function", id="a text"),
        ],
    )
    def test_what_cannot_be_judged_is_refused_at_once(self, wrong, said):
        with pytest.raises(TypeError, match=said):
            looptrap.tool(wrong)

    def test_asynchronous_generators_are_refused_at_once(self):
        async def lines():
            yield 1

        with pytest.raises(TypeError, match="lines is a generator"):
            looptrap.tool(lines)


class TestOptions:
    def test_a_name_of_its_own_is_what_is_told(self, clock):
        tool = looptrap.tool(name="scales", guard=Guard.from_preset("default"))(weigh)
        outcomes(tool, [(1,)] * 4)
        with pytest.raises(LoopDetectedError, match="scales with the same arguments"):
            tool(1)

    def test_tools_with_one_guard_are_judged_together_and_others_apart(self):
        guard = Guard.from_preset("default")
        one = looptrap.tool(name="one", guard=guard)(weigh)
        two = looptrap.tool(name="two", guard=guard)(weigh)
        other = looptrap.tool(name="other", guard=Guard.from_preset("default"))(weigh)
        said = []
        for _ in range(3):
            said += outcomes(one, [(1,)]) + outcomes(other, [(2,)]) + outcomes(two, [(1,)])
        assert [n for n, text in enumerate(said) if text == "refused"] == [8]

    def test_a_tool_that_tells_raises_nothing(self):
        tool = looptrap.tool(tells=True, guard=Guard.from_preset("default"))(weigh)
        assert outcomes(tool, [(1,)] * 4) == [weigh(1)] * 4
        assert tool(1).startswith(
            "Blocked (recursive_loop_detected): weigh with the same arguments"
        )

    def test_polls_and_a_guard_do_not_go_together(self):
        with pytest.raises(TypeError, match=r'\[tools."weigh"\]'):
            looptrap.tool(polls=True, guard=Guard.from_preset("default"))(weigh)

    def test_without_options_all_tools_of_a_process_share_a_toolbox(self):
        with looptrap.session("test_without_options"):
            one, two = looptrap.tool(partial(weigh)), looptrap.tool(weigh)
            said = []
            for _ in range(3):
                said += outcomes(one, [(1,)]) + outcomes(two, [(1,)])
        assert "refused" in said


def guard_with(ladder, mode="enforce", watch="repeat", **settings):
    rule = Rule(name="r", watch=watch, ladder=Ladder(ladder), cooldown=30.0)
    return Guard([Policy(name="p", mode=mode, rules=(rule,))], **settings)


class TestActions:
    def test_a_warning_is_logged_and_the_call_made(self, clock, caplog):
        tool = guard_tool(weigh, ToolGuard(guard_with({Action.WARN: 2}), clock=clock))
        assert outcomes(tool, [(1,)] * 2) == [weigh(1)] * 2
        assert caplog.messages == [
            "tool weigh: Warning: weigh with the same arguments and result, 2 times in 2 rounds."
        ]

    def test_in_shadow_a_refusal_is_only_logged(self, clock, caplog):
        guard = guard_with({Action.BLOCK: 2}, mode="shadow")
        tool = guard_tool(weigh, ToolGuard(guard, clock=clock))
        assert outcomes(tool, [(1,)] * 3) == [weigh(1)] * 3
        assert caplog.messages[0] == (
            "tool weigh: Would have been refused (recursive_loop_detected):"
            " weigh with the same arguments and result, 2 times in 2 rounds."
        )

    def test_a_throttled_call_is_held_back(self, clock, monkeypatch):
        slept = []
        monkeypatch.setattr("looptrap.client.tool.time.sleep", slept.append)
        tool = guard_tool(weigh, ToolGuard(guard_with({Action.THROTTLE: 2}), clock=clock))
        assert outcomes(tool, [(1,)] * 3) == [weigh(1)] * 3
        assert slept == pytest.approx([0.2, 0.3])

    def test_a_nudge_stands_at_the_end_of_the_result_and_changes_no_history(self, clock):
        guard = guard_with({Action.NUDGE: 3, Action.BLOCK: 6})
        tool = guard_tool(weigh, ToolGuard(guard, clock=clock))
        said = outcomes(tool, [(1,)] * 6)
        assert said[:2] == [weigh(1)] * 2
        assert said[2].startswith(f"{weigh(1)}\n\n[looptrap]\nYou are going in circles: weigh")
        assert said[3:] == [weigh(1), weigh(1), "refused"]

    def test_a_stop_is_a_refusal(self, clock):
        tool = guard_tool(weigh, ToolGuard(guard_with({Action.STOP: 2}), clock=clock))
        assert outcomes(tool, [(1,)] * 2) == [weigh(1), "refused"]

    def test_what_counts_requests_counts_equal_calls(self, clock):
        guard = guard_with({Action.BLOCK: 3}, watch="request")
        tool = guard_tool(weigh, ToolGuard(guard, clock=clock))
        assert outcomes(tool, [(1,), (2,), (1,), (2,), (3,), (1,)])[4:] == [weigh(3), "refused"]

    def test_a_kill_switch_kills(self, clock):
        switch = KillSwitch(match=(("session", "s-1"),), reason="leaked")
        guard = guard_with({Action.WARN: 2}, kill_switches=[switch])
        tool = guard_tool(weigh, ToolGuard(guard, clock=clock))
        with looptrap.session("s-1"), pytest.raises(looptrap.KilledError, match="leaked"):
            tool(1)
        with looptrap.session("s-2"):
            assert tool(1) == weigh(1)


class TestFailingOpen:
    def test_an_error_of_our_own_lets_the_call_pass_and_is_logged(self, tool_guard, caplog):
        tool_guard._guard = object()  # which judges nothing
        assert outcomes(guard_tool(weigh, tool_guard), [(1,)] * 9) == [weigh(1)] * 9
        assert "weigh: could not be judged" in caplog.messages[0]


class TestParallelCalls:
    async def test_equal_calls_made_together_count_once(self, tool_guard):
        async def weigh_later(parcel):
            await asyncio.sleep(0)
            return "12 kg"

        tool = guard_tool(weigh_later, tool_guard)
        with looptrap.session("together"):
            for _ in range(4):
                assert await asyncio.gather(*(tool(1) for _ in range(20))) == ["12 kg"] * 20
            with pytest.raises(LoopDetectedError):
                await tool(1)

    async def test_calls_that_overlap_without_end_are_judged_too(self, tool_guard):
        gates = [asyncio.Event() for _ in range(20)]

        async def weigh_later(number):
            await gates[number].wait()
            return "12 kg"

        def weigh(number):  # the same arguments for all, as far as the model says
            return guard_tool(lambda: weigh_later(number), tool_guard, "weigh")()

        running = []
        with looptrap.session("overlapping"):
            running.append(asyncio.create_task(weigh(0)))
            for number in range(1, 20):
                await asyncio.sleep(0)
                try:
                    running.append(asyncio.create_task(weigh(number)))
                except LoopDetectedError:
                    break
                await asyncio.sleep(0)
                gates[number - 1].set()
                await running[-2]
        for gate in gates:
            gate.set()
        await asyncio.gather(*running)
        assert 5 <= len(running) < 20

    def test_threads_of_one_session_are_one_run(self, tool_guard):
        tool = guard_tool(weigh, tool_guard)
        with looptrap.session("threads"), ThreadPoolExecutor(4) as pool:
            said = [pool.submit(outcomes, tool, [(1,)]).result()[0] for _ in range(5)]
        assert said == [weigh(1)] * 4 + ["refused"]

    def test_many_threads_at_once_lose_nothing(self, clock):
        tool_guard = ToolGuard(clock=clock)
        failed = []

        def work(session):
            tool = guard_tool(weigh, tool_guard)
            with looptrap.session(session):
                said = outcomes(tool, [(1,)] * 5)
            if said != [weigh(1)] * 4 + ["refused"]:
                failed.append((session, said))

        threads = [threading.Thread(target=work, args=(f"s-{n}",)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert failed == []


class TestRuns:
    def test_sessions_are_judged_apart(self, tool_guard):
        tool = guard_tool(weigh, tool_guard)
        for session in range(5):
            with looptrap.session(f"run-{session}"):
                assert outcomes(tool, [(1,)] * 4) == [weigh(1)] * 4
        with looptrap.session("run-0"):
            assert outcomes(tool, [(1,)]) == ["refused"]

    def test_a_refusal_of_one_session_is_none_of_another(self, tool_guard, clock):
        tool = guard_tool(weigh, tool_guard)
        with looptrap.session("a"):
            assert outcomes(tool, [(1,)] * 5)[-1] == "refused"
        clock.now += 31
        with looptrap.session("b"):  # and the probe that is due now is not for this one
            assert outcomes(tool, [(1,)] * 5) == [weigh(1)] * 4 + ["refused"]
        with looptrap.session("a"):
            assert outcomes(tool, [(1,)]) == [weigh(1)]

    async def test_without_a_session_tasks_are_judged_apart(self, tool_guard):
        tool = guard_tool(weigh, tool_guard)

        async def run():
            return outcomes(tool, [(1,)] * 5)

        both = await asyncio.gather(asyncio.create_task(run()), asyncio.create_task(run()))
        assert both == [[weigh(1)] * 4 + ["refused"]] * 2

    async def test_tasks_begun_in_a_session_are_one_run(self, tool_guard):
        tool = guard_tool(weigh, tool_guard)

        async def once():
            return outcomes(tool, [(1,)])[0]

        with looptrap.session("tasks"):
            said = [await asyncio.create_task(once()) for _ in range(5)]
        assert said[-1] == "refused"

    async def test_that_nothing_can_be_compared_is_said_once(self, tool_guard, caplog):
        tool = guard_tool(weigh, tool_guard)

        async def once():
            return tool(1)

        for _ in range(3 * UNLINKED_CALLS_BEFORE_WARNING):
            await asyncio.create_task(once())
        assert len(caplog.messages) == 1
        assert "looptrap.session" in caplog.messages[0]

    def test_what_a_tool_calls_is_a_run_of_its_own(self, tool_guard):
        inner = guard_tool(weigh, tool_guard)
        said = []
        outer = guard_tool(
            lambda job: said.append(outcomes(inner, [(1,)] * 5)), tool_guard, "delegate"
        )
        for job in range(6):
            outer(job)
        assert said == [[weigh(1)] * 4 + ["refused"]] * 6
        assert outcomes(inner, [(1,)] * 4) == [weigh(1)] * 4

    def test_runs_are_forgotten_when_there_are_too_many(self, tool_guard):
        tool = guard_tool(weigh, tool_guard)
        for session in range(MAX_NAMED_RUNS + 50):
            with looptrap.session(f"run-{session}"):
                tool(1)
        assert len(tool_guard._named_histories) == MAX_NAMED_RUNS
        with looptrap.session("run-49"):
            assert outcomes(tool, [(1,)] * 4) == [weigh(1)] * 4


@given(st.lists(st.sampled_from([1, 2, 3]), max_size=60))
def test_what_brings_something_new_every_time_is_never_refused(calls):
    logging.disable(logging.WARNING)
    answers = count()
    tool = guard_tool(lambda parcel: f"answer {next(answers)}", ToolGuard(), "ask")
    try:
        assert "refused" not in outcomes(tool, [(one,) for one in calls])
    finally:
        logging.disable(logging.NOTSET)


def test_the_example_runs_as_its_page_says():
    example = Path(__file__).parents[2] / "examples" / "guarded_tool.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", example],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:3] == [f"call {n}: part 5 is on no shelf" for n in (1, 2, 3)]
    assert lines[3].startswith("tool find_part: Warning: ")
    assert lines[5].startswith("call 5: Blocked (recursive_loop_detected): find_part with the same")
    assert lines[6] == "call 6: part 6 is on no shelf"
