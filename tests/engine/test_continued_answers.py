"""Equal runs of an agent that names no session are no loop; calls that nothing follows are."""

from secrets import token_hex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from looptrap import Guard, LoopDetectedError
from looptrap.detect.window import MAX_CONTINUED
from looptrap.dialect.model import Outcome

T = 1_800_000_000.0
TASK = "Find out why the build fails and mend it."
TOOLS = {"search": "3 files found", "read_file": "def parse(text):\n    return text.split()"}


def opening(task=TASK):
    return [
        {"role": "system", "content": "You are an engineer."},
        {"role": "user", "content": task},
    ]


def tool_round(number, run):
    """Return a call and its result, the same in every run but for the id."""
    tool, result = list(TOOLS.items())[number % len(TOOLS)]
    call_id = f"call_{run}_{number}"
    function = {"name": tool, "arguments": f'{{"path": "part_{number}.py"}}'}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": f"{result} {number}"},
    ]


def said_round(number):
    """Return the same of an agent whose harness answers in text."""
    return [
        {"role": "assistant", "content": f"Thought: on.\nAction: read part_{number}.py"},
        {"role": "user", "content": f"Observation: part {number} is fine"},
    ]


class Clock:
    """A guard, and calls to it that are answered after some seconds."""

    def __init__(self, guard=None):
        self.guard, self.now = guard or Guard.from_preset("default"), T

    def send(self, messages, takes=0.2, model="gpt-5.4", **options):
        """Send a call; return whether it passed."""
        body = {"model": model, "messages": messages}
        try:
            ticket = self.guard.check(body, now=self.now, **options)
        except LoopDetectedError:
            return False
        self.now += takes
        self.guard.conclude(ticket, Outcome(200), now=self.now)
        return True

    def run(self, name, rounds=4, make=tool_round, **options):
        """Run an agent; return whether all of its calls passed."""
        messages = opening()
        for number in range(rounds):
            if not self.send(messages, **options):
                return False
            messages = [*messages, *make(number, name)]
        return self.send(messages, **options)


def passed(send, limit=60):
    """Return how often something passes until it is refused."""
    return next((number for number in range(limit) if not send(number)), limit)


@pytest.mark.parametrize("rounds", [2, 3, 8])
def test_equal_runs_one_after_the_other_are_no_loop(rounds):
    clock = Clock()
    assert all(clock.run(name, rounds) for name in range(8))


def test_equal_runs_that_answer_in_text_pass_their_first_calls():
    clock = Clock()
    for name in range(8):
        assert clock.send(opening()), name
        clock.send([*opening(), *said_round(name)])


def test_a_prompt_that_nothing_follows_is_refused_on_the_sixth_time():
    clock = Clock()
    assert passed(lambda _number: clock.send(opening())) == 5


def test_only_calls_that_nothing_follows_count():
    """Two of three runs go on; what is left of them after a while is refused."""
    clock = Clock()

    def send(number):
        is_passed = clock.send(opening())
        if number % 3:
            clock.send([*opening(), *tool_round(0, number)])
        return is_passed

    refused = passed(send)
    assert 5 + 4 <= refused <= 6 * 3


def test_a_retry_of_a_later_call_is_refused_on_the_sixth_time():
    clock = Clock()
    clock.send(opening())
    later = [*opening(), *tool_round(0, "a"), *tool_round(1, "a")]
    assert passed(lambda _number: clock.send(later)) == 5


def test_a_later_call_sent_again_takes_nothing_off_but_its_first():
    """Those who send the second call again and again gain nothing by it."""
    clock = Clock()
    clock.send(opening())
    second = [*opening(), *tool_round(0, "a")]
    assert passed(lambda _number: clock.send(second)) == 5


def test_a_run_that_begins_again_after_two_steps_is_refused_in_the_end():
    clock = Clock()
    assert passed(lambda number: clock.run(number, 2)) == 2 + MAX_CONTINUED + 3


def test_a_run_that_begins_again_after_one_step_is_refused_on_the_sixth_time():
    """It looks like an agent that shows only its latest round."""
    clock = Clock()
    assert passed(lambda number: clock.run(number, 1)) == 5


@pytest.mark.parametrize("ids", ["random", "numbered"])
@pytest.mark.parametrize("shown", [1, 2, 3])
def test_a_loop_with_a_trimmed_history_and_new_ids_is_refused(shown, ids):
    clock, rounds = Clock(), []

    def send(number):
        messages = [*opening(), *(message for one in rounds[-shown:] for message in one)]
        rounds.append(tool_round(0, token_hex(12) if ids == "random" else number))
        return clock.send(messages)

    assert passed(send) <= 6


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"caller": "b"}, id="caller"),
        pytest.param({"model": "gpt-5.4-mini"}, id="model"),
        pytest.param({"session": "s"}, id="session"),
    ],
)
def test_what_another_continues_takes_nothing_off(other):
    clock = Clock()

    def send(number):
        clock.send([*opening(), *tool_round(0, number)], **other)
        return clock.send(opening())

    assert passed(send) == 5


def test_another_prompt_that_is_continued_takes_nothing_off():
    clock = Clock()

    def send(number):
        clock.send([*opening("Write the changelog."), *tool_round(0, number)])
        return clock.send(opening())

    assert passed(send) == 5


def test_a_transport_retry_takes_nothing_off():
    clock = Clock()

    def send(number):
        is_passed = clock.send(opening())
        second = [*opening(), *tool_round(0, number)]
        clock.send(second, headers={"x-stainless-retry-count": "1"})
        return is_passed

    assert passed(send) == 5


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 1.0, 14.0, 16.0])), max_size=30))
def test_calls_that_go_on_never_bring_a_refusal_nearer(events):
    """The same calls, with and without what follows some of them."""
    with_next, without = Clock(), Clock()
    for number, (goes_on, _pause) in enumerate(events):
        for clock in (with_next, without):
            clock.now = T + number * 0.2 + sum(gap for _, gap in events[:number])
        before = without.send(opening())
        after = with_next.send(opening())
        assert after or not before
        if goes_on:
            with_next.send([*opening(), *tool_round(0, number)], takes=0.0)
