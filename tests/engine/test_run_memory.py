"""Runs are remembered across requests: loops are refused whatever a request shows of them, and
nobody is refused for what others did, for what is forgotten, or for what was never written."""

from itertools import count, cycle, islice
from random import Random

import pytest
from bench.loops.speech import ANTHROPIC, CHAT, GEMINI, RESPONSES, RESPONSES_STREAM
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.agents import (
    EDIT,
    FAIL,
    PACE_S,
    READ,
    START,
    SUMMARY,
    Agent,
    Move,
    elided,
    first_block,
    trimmed,
    whole,
)
from tests.examples import examples
from tests.store.driving import Driven
from tests.store.serving import server

from looptrap import Guard
from looptrap.detect.remembered_round import MAX_REMEMBERED_ROUNDS, ROUND_BYTES
from looptrap.engine.run_memory import LINK
from looptrap.engine.run_search import MAX_RUNS_OF_SESSION, RUN_OF_SESSION
from looptrap.store.memory import MemoryStore
from looptrap.store.model import RUN_MEMORY_S

SECRET = b"s" * 32
DIALECTS = (CHAT, ANTHROPIC, RESPONSES, GEMINI)
WITH_IDS = (CHAT, ANTHROPIC, RESPONSES)

in_each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
in_each_dialect_with_ids = pytest.mark.parametrize("dialect", WITH_IDS, ids=lambda one: one.name)

LOOPS = {
    "one call": [READ] * 12,
    "one failure": [FAIL] * 12,
    "three calls": list(islice(cycle([READ, FAIL, EDIT]), 18)),
}
each_loop = pytest.mark.parametrize("moves", LOOPS.values(), ids=LOOPS)


VIEWS = {
    "the latest two rounds": trimmed(2),
    "the latest three rounds": trimmed(3),
    "all calls, the latest result": elided(1),
    "all calls, the latest three results": elided(3),
}
each_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


def guard(store=None):
    return Guard.from_preset("default", secret=SECRET, store=store)


def work(size, start=0):
    """Return honest moves: each reads another file, or finds fewer tests failing."""
    moves = []
    for number in range(start, start + size):
        if number % 3 == 2:
            left = 400 - number
            result = f"{left} failed, {number} passed\nAssertionError: case {left}"
            moves.append(Move("run_tests", "tests/test_parser.py", result))
        else:
            result = f"def part_{number}(text):\n    return text[{number}:]"
            moves.append(Move("read_file", f"src/part_{number}.py", result))
    return moves


def is_refused(said):
    return first_block(said) is not None


class ForgetfulStore(MemoryStore):
    """A store without any memory of runs."""

    def recall(self, keys, now):
        return [b"" for _ in keys]


class TestLoops:
    """A loop is refused as soon as with its whole history; its honest twin is not."""

    @in_each_dialect_with_ids
    @each_view
    @each_loop
    def test_a_loop_is_refused_when_a_part_of_it_is_shown(self, dialect, view, moves):
        shown = first_block(Agent(guard(), dialect).play([*work(4), *moves]))
        assert shown is not None
        assert first_block(Agent(guard(), dialect, view=view).play([*work(4), *moves])) == shown
        forgets = guard(ForgetfulStore())
        assert not is_refused(Agent(forgets, dialect, view=trimmed(2)).play([*work(4), *moves]))

    @pytest.mark.parametrize("ids", ["numbered", "fixed"])
    @each_view
    def test_a_cycle_is_refused_where_ids_do_not_tell_rounds_apart(self, ids, view):
        moves = [*work(4), *LOOPS["three calls"]]
        for agent in (Agent(guard(), ids=ids, view=view), Agent(guard(), GEMINI, view=view)):
            assert first_block(agent.play(moves)) == 4 + 9

    @in_each_dialect
    @each_view
    def test_an_honest_run_is_not_refused(self, dialect, view):
        assert {*Agent(guard(), dialect, view=view).play(work(60))} == {"allow"}

    @in_each_dialect
    @pytest.mark.parametrize("session", ["", "one"])
    def test_the_same_after_each_compaction_is_refused(self, dialect, session):
        agent = Agent(guard(), dialect, session=session)
        assert not is_refused(agent.play([*work(2), READ, FAIL]))
        said = []
        for number in range(5):
            agent.compact(f"{SUMMARY} Part {number} is over.")
            said.append(agent.play([READ, FAIL]))
        assert [is_refused(one) for one in said] == [False, False, True, True, True]
        assert said[2][0] == "block compaction-loop"

    @in_each_dialect
    @pytest.mark.parametrize("session", ["", "one"])
    def test_something_new_after_each_compaction_is_not_refused(self, dialect, session):
        agent = Agent(guard(), dialect, session=session)
        said = agent.play([READ, FAIL])
        for number in range(8):
            agent.compact(f"{SUMMARY} Part {number} is over.")
            said += agent.play([READ, *work(2, 10 * number)])
        assert not is_refused(said)

    @pytest.mark.parametrize("kept", ["response", "conversation"])
    @pytest.mark.parametrize("dialect", [RESPONSES, RESPONSES_STREAM], ids=["whole", "streamed"])
    @each_loop
    def test_a_loop_is_refused_whose_history_the_provider_keeps(self, kept, dialect, moves):
        shown = first_block(Agent(guard(), dialect).play([*work(4), *moves]))
        agent = Agent(guard(), dialect, kept=kept)
        assert first_block(agent.play([*work(4), *moves])) == shown

    @pytest.mark.parametrize("kept", ["response", "conversation"])
    @pytest.mark.parametrize("dialect", [RESPONSES, RESPONSES_STREAM], ids=["whole", "streamed"])
    def test_an_honest_run_whose_history_the_provider_keeps_is_not_refused(self, kept, dialect):
        assert {*Agent(guard(), dialect, kept=kept).play(work(60))} == {"allow"}

    @pytest.mark.parametrize("kept", ["response", "conversation"])
    @pytest.mark.parametrize("is_dead", [True, False], ids=["the same page", "another page"])
    def test_clicks_are_refused_that_change_nothing_on_a_page_seen_before(self, kept, is_dead):
        pages = ["row of a table\n" * 20 + f"page {0 if is_dead else n}" for n in range(40)]
        clicks = [Move("click", f"button {n}", page) for n, page in enumerate(pages)]
        said = Agent(guard(), RESPONSES, kept=kept).play([*work(4), *clicks])
        assert is_refused(said) == is_dead

    @pytest.mark.parametrize("turns", ["git bisect bad", "git status"])
    def test_the_same_failure_of_another_revision_is_none_again(self, turns):
        moves = []
        for number in range(16):
            moves += [Move("bash", turns, f"{16 - number} revisions left"), FAIL]
        said = Agent(guard(), CHAT, view=trimmed(2)).play([*work(4), *moves])
        assert is_refused(said) == (turns == "git status")

    @in_each_dialect
    def test_runs_that_end_in_the_same_failure_are_warned_of(self, dialect):
        one, said = guard(), []
        for number in range(5):
            agent = Agent(one, dialect, seed=number, start=START + 1_000 * number)
            said.append(agent.play([READ, FAIL]))
        assert [round_[0] for round_ in said] == ["allow"] * 3 + ["warn restart-loop"] * 2
        assert not any(map(is_refused, said))

    @in_each_dialect
    @pytest.mark.parametrize("seconds_apart", [25, 50, 75])
    def test_runs_side_by_side_are_no_restarts(self, dialect, seconds_apart):
        one, looks = guard(), [READ._replace(path=f"src/{n}.py", result=f"{n}") for n in range(3)]
        agents = [
            Agent(one, dialect, seed=number, start=START + seconds_apart * number)
            for number in range(8)
        ]
        left = {agent: [move for look in looks for move in (look, FAIL)] for agent in agents}
        said = set()
        while any(left.values()):
            agent = min((agent for agent in agents if left[agent]), key=lambda agent: agent.now)
            said.add(agent.do(left[agent].pop(0)))
        assert said == {"allow"}

    @in_each_dialect
    def test_runs_that_end_differently_are_not(self, dialect):
        one = guard()
        for number in range(6):
            error = f"Traceback\n{'AKTV'[number % 4] * 12}Error: {'xyzw'[number % 4] * 9} broke"
            agent = Agent(one, dialect, seed=number, start=START + 1_000 * number)
            said = agent.play([READ, Move("run_tests", "tests/test_parser.py", error)])
            assert {*said} == {"allow"}, number


MOVES = st.sampled_from(
    [
        READ,
        FAIL,
        EDIT,
        Move("read_file", "src/other.py", "x = 1"),
        Move("run_tests", "tests/test_parser.py", "2 failed, 39 passed\nKeyError: 'end'"),
        Move("search", "needle", ""),
        Move("bash", "sleep 3", "still running"),
        Move("edit_file", "src/parser.py", "Done."),
    ]
)
IDS = st.sampled_from(["random", "numbered", "fixed"])


def verdicts(agent, steps):
    """Return all that a guard says; a step is a move, or what a person says."""
    said = []
    for step in steps:
        said.append(agent.hear(step) if isinstance(step, str) else agent.do(step))
        said.append(agent.why)
    return said


class TestWholeHistories:
    @settings(max_examples=examples(120))
    @given(
        dialect=st.sampled_from(DIALECTS),
        ids=IDS,
        steps=st.lists(MOVES | st.sampled_from(["And now?", "continue"]), max_size=24),
    )
    def test_verdicts_are_those_without_memory(self, dialect, ids, steps):
        agent = Agent(guard(), dialect, ids=ids)
        forgetful = Agent(guard(ForgetfulStore()), dialect, ids=ids)
        assert verdicts(agent, steps) == verdicts(forgetful, steps)


class TestSideBySide:
    """Each agent is judged by what it did itself."""

    @staticmethod
    def interleaved(agents, plan):
        """Let agents make their moves in turn; return what the guard says to each."""
        said = [[] for _ in agents]
        for turn, (who, move) in enumerate(plan):
            if agents[who] is not None:
                agents[who].now = START + 2 * PACE_S * turn
                said[who].append(agents[who].do(move))
        return said

    @settings(max_examples=examples(120))
    @given(
        dialect=st.sampled_from(WITH_IDS),
        views=st.tuples(*[st.sampled_from([whole, trimmed(2), trimmed(3), elided(1)])] * 2),
        plan=st.lists(st.tuples(st.integers(0, 1), MOVES), max_size=40),
    )
    def test_two_with_the_same_prompts_are_judged_like_each_alone(self, dialect, views, plan):
        def agents(*present):
            one = guard()
            return [
                Agent(one, dialect, view=views[who], seed=who) if who in present else None
                for who in (0, 1)
            ]

        both = self.interleaved(agents(0, 1), plan)
        assert both[0] == self.interleaved(agents(0), plan)[0]
        assert both[1] == self.interleaved(agents(1), plan)[1]

    @pytest.mark.parametrize("view", [whole, trimmed(2), trimmed(3), elided(1)])
    @pytest.mark.parametrize(
        ("dialect", "ids"), [(CHAT, "random"), (CHAT, "numbered"), (CHAT, "fixed"), (GEMINI, "")]
    )
    def test_honest_ones_that_do_the_same_now_and_then_are_not_refused(self, dialect, ids, view):
        one = guard()
        agents = [Agent(one, dialect, view=view, ids=ids, seed=n) for n in range(4)]
        for turn in range(30):
            for number, agent in enumerate(agents):
                agent.now = START + 80 * turn + 20 * number
                move = READ if turn % 4 == number else work(1, 100 * number + turn)[0]
                assert not agent.do(move).startswith("block")

    @pytest.mark.parametrize(
        ("dialect", "ids"), [(CHAT, "random"), (CHAT, "numbered"), (CHAT, "fixed"), (GEMINI, "")]
    )
    @pytest.mark.parametrize("view", [whole, trimmed(3)], ids=["whole", "trimmed"])
    def test_one_that_begins_where_another_loops_is_not_refused(self, dialect, ids, view):
        one, listing = guard(), Move("bash", "ls", "a.txt\nb.txt")
        stuck = Agent(one, dialect, view=trimmed(3), ids=ids, seed=1)
        assert is_refused(stuck.play([*work(3), *[listing, READ] * 8, listing]))
        task = "Tell me what is in this folder, and what each of its files is for."
        other = Agent(one, dialect, view=view, ids=ids, seed=2, task=task, start=stuck.now)
        assert {*other.play([listing, READ, *work(3, 50), listing, READ])} == {"allow"}

    @pytest.mark.parametrize("view", [trimmed(3), trimmed(5), whole])
    @pytest.mark.parametrize(("dialect", "ids"), [(CHAT, "fixed"), (GEMINI, "")])
    def test_one_that_does_what_another_loops_on_is_not_refused(self, dialect, ids, view):
        one = guard()
        stuck = Agent(one, dialect, view=trimmed(3), ids=ids, seed=1)
        other = Agent(one, dialect, view=view, ids=ids, seed=2)
        for turn, move in enumerate([*work(3), *[READ, FAIL] * 12]):
            stuck.now = START + 40 * turn
            stuck.do(move)
            other.now = stuck.now + 20
            honest = {5: READ, 7: READ, 8: FAIL, 15: READ, 16: FAIL}.get(turn)
            assert other.do(honest or work(1, 100 + turn)[0]) == "allow", turn

    @in_each_dialect
    @pytest.mark.parametrize("session", ["", "one"])
    def test_callers_never_share_a_run_even_with_equal_ids_and_sessions(self, dialect, session):
        one, said = guard(), []
        agents = [
            Agent(one, dialect, view=trimmed(2), caller=name, session=session)
            for name in ("a", "b", "c", "d")
        ]
        for _ in range(4):
            said += [agent.do(READ) for agent in agents]
        assert not is_refused(said)
        kept = [
            Agent(one, RESPONSES, kept=kept, caller=name)
            for name in ("a", "b", "c", "d")
            for kept in ("conversation", "response")
        ]
        for _ in range(4):
            said += [agent.do(READ) for agent in kept]
        assert not is_refused(said)

    @in_each_dialect
    def test_continuations_of_one_history_harm_nobody(self, dialect):
        for view in (whole, trimmed(3)):
            one = guard()
            trunk = Agent(one, dialect, view=view)
            trunk.play(work(6))
            forks = []
            for number in range(6):
                fork = Agent(one, dialect, view=view, seed=f"fork {number}", start=trunk.now)
                fork.rounds = [*trunk.rounds]
                forks.append(fork)
            for turn in range(8):
                for number, fork in enumerate(forks):
                    # The first two of each do the same: they were sampled from one prompt.
                    at = 50 + turn if turn < 2 else 100 * number + turn
                    assert fork.do(*work(1, at)) == "allow"


class TestRequests:
    """What counts as a new round."""

    @in_each_dialect
    @pytest.mark.parametrize("view", [whole, trimmed(2)], ids=["whole", "trimmed"])
    def test_a_request_that_is_sent_again_adds_no_round(self, dialect, view):
        agent = Agent(guard(), dialect, view=view)
        for move in [*work(4), READ, READ, READ]:
            agent.do(move)
            for _ in range(4):
                assert agent.ask() in ("allow", "warn no-progress")

    @pytest.mark.parametrize("kept", ["response", "conversation"])
    def test_nor_does_one_whose_history_the_provider_keeps(self, kept):
        agent = Agent(guard(), RESPONSES, kept=kept)
        for move in [*work(4), READ, READ, READ]:
            agent.do(move)
            for _ in range(4):
                assert agent.ask() in ("allow", "warn no-progress")

    @in_each_dialect
    @pytest.mark.parametrize("view", [whole, trimmed(2)], ids=["whole", "trimmed"])
    def test_what_came_before_a_persons_message_does_not_count(self, dialect, view):
        agent = Agent(guard(), dialect, view=view, session="one")
        for number in range(6):
            assert not is_refused(agent.play([READ, READ, READ, READ]))
            agent.hear(f"Thank you. Now look at it once more, for reason {number}.")

    @in_each_dialect
    @pytest.mark.parametrize("session", ["", "one"])
    def test_nor_where_persons_ask_for_summaries(self, dialect, session):
        agent = Agent(guard(), dialect, session=session)
        assert agent.do(READ) == "allow"
        for number in range(6):
            assert agent.hear(f"Please summarize what was done so far. {'!' * number}") == "allow"
            assert agent.do(READ) == "allow"

    def test_a_new_message_begins_anew_where_the_provider_keeps_the_history(self):
        agent = Agent(guard(), RESPONSES, kept="response")
        for number in range(6):
            assert not is_refused(agent.play([READ, READ, READ, READ]))
            agent.say(f"Thank you. Now look at it once more, for reason {number}.")


class GarbageStore(MemoryStore):
    """A store that returns anything for a note."""

    SIZES = (
        *(0, 1, LINK.size, LINK.size + ROUND_BYTES, ROUND_BYTES, 3 * ROUND_BYTES),
        *(RUN_OF_SESSION.size, 4 * RUN_OF_SESSION.size, 22, 4_096),
    )

    def __init__(self, seed, share):
        super().__init__()
        self.random, self.share = Random(seed), share

    def recall(self, keys, now):
        return [
            self.garbage() if self.random.random() < self.share else value
            for value in super().recall(keys, now)
        ]

    def garbage(self):
        size = self.random.choice([self.random.randrange(300), *self.SIZES])
        kinds = (self.random.randbytes(size), bytes(size), b"\xff" * size)
        return self.random.choice(kinds)


class TestLostMemory:
    """What is forgotten is judged by what the request shows."""

    @in_each_dialect
    @pytest.mark.parametrize("view", [whole, trimmed(3)], ids=["whole", "trimmed"])
    def test_a_store_that_was_emptied_refuses_nothing_honest_and_learns_again(self, dialect, view):
        agent = Agent(guard(), dialect, view=view)
        for number in range(4):
            assert {*agent.play(work(7, 20 * number))} == {"allow"}
            agent.guard.store = MemoryStore()
        cycle_of_three = LOOPS["three calls"]
        agent.play(cycle_of_three[:6])
        agent.guard.store = MemoryStore()
        assert is_refused(agent.play(cycle_of_three))

    @pytest.mark.parametrize("kept", ["response", "conversation"])
    def test_also_where_the_provider_keeps_the_history(self, kept):
        agent = Agent(guard(), RESPONSES, kept=kept)
        agent.play([READ] * 4)
        agent.guard.store = MemoryStore()
        said = agent.play([READ] * 8)
        assert said[0] == "allow"
        assert is_refused(said)

    @pytest.mark.parametrize("dialect", [CHAT, ANTHROPIC], ids=lambda one: one.name)
    def test_a_run_is_forgotten_after_an_hour_without_a_request(self, dialect):
        for pause, is_known in ((RUN_MEMORY_S - 60, True), (RUN_MEMORY_S + 60, False)):
            agent = Agent(guard(), dialect, view=trimmed(2))
            agent.play([*work(3), READ, READ, READ, READ])
            agent.now += pause
            assert agent.do(READ).startswith("block") is is_known

    @settings(max_examples=examples(400))
    @given(
        seed=st.integers(0, 2**32),
        share=st.sampled_from([0.1, 0.5, 1.0]),
        dialect=st.sampled_from(DIALECTS),
        view=st.sampled_from([whole, trimmed(1), trimmed(2), elided(1)]),
        ids=IDS,
        steps=st.lists(MOVES | st.sampled_from(["And now?", "compact"]), max_size=12),
    )
    def test_anything_in_the_store_is_taken(self, seed, share, dialect, view, ids, steps):
        agent = Agent(guard(GarbageStore(seed, share)), dialect, view=view, ids=ids)
        for step in steps:
            if step == "compact":
                agent.compact(f"{SUMMARY} {len(agent.rounds)}")
            elif isinstance(step, str):
                agent.hear(step)
            else:
                agent.do(step)

    @settings(max_examples=examples(100))
    @given(
        seed=st.integers(0, 2**32),
        share=st.sampled_from([0.1, 0.5, 1.0]),
        kept=st.sampled_from(["response", "conversation"]),
        moves=st.lists(MOVES, max_size=12),
    )
    def test_also_where_the_provider_keeps_what_was_said(self, seed, share, kept, moves):
        Agent(guard(GarbageStore(seed, share)), RESPONSES, kept=kept).play(moves)


class SpyStore(MemoryStore):
    """A store that shows what is in its notes."""

    def values(self, now):
        notes = self._notes.entries
        return dict(zip(notes, self.recall([*notes], now), strict=True))


class TestBounds:
    def test_a_run_has_no_more_records_than_can_be_judged(self):
        store = SpyStore()
        for view in (whole, trimmed(2)):
            agent = Agent(guard(store), view=view, seed=str(view))
            agent.play(work(MAX_REMEMBERED_ROUNDS + 30))
            sizes = {len(value) for value in store.values(agent.now).values()}
            assert max(sizes) == MAX_REMEMBERED_ROUNDS * ROUND_BYTES

    def test_a_session_has_no_more_runs_than_can_be_compared(self):
        store = SpyStore()
        one = guard(store)
        for number in range(3 * MAX_RUNS_OF_SESSION):
            Agent(one, session="one", seed=number, task=f"Task {number}").play(work(2, number))
        limit = MAX_RUNS_OF_SESSION * RUN_OF_SESSION.size
        assert limit in {len(value) for value in store.values(START + PACE_S).values()}

    def test_a_finished_run_leaves_few_notes(self):
        store = SpyStore()
        Agent(guard(store)).play(work(50))
        assert 0 < len(store.values(START + PACE_S)) <= 5

    def test_a_round_with_very_many_calls_is_one_round(self):
        agent = Agent(guard(), view=trimmed(2))
        for number in range(3):
            assert agent.do(*work(43, 50 * number)) == "allow"
        assert agent.do(*work(300, 200)) == "block turn-budget"


@pytest.fixture(scope="module")
def shared():
    with server() as one:
        driven = Driven(one.url)
        yield driven
        driven.close()


CALLERS = count()
"""Every run has a caller of its own: the server remembers those of the runs before."""


class TestSharedStore:
    @settings(max_examples=examples(40))
    @given(
        dialect=st.sampled_from(DIALECTS),
        view=st.sampled_from([whole, trimmed(2), elided(1)]),
        steps=st.lists(MOVES | st.sampled_from(["And now?", "compact"]), max_size=20),
    )
    def test_verdicts_are_those_of_a_store_in_the_process(self, shared, dialect, view, steps):
        said, caller = [], f"caller {next(CALLERS)}"
        for store in (MemoryStore(), shared):
            agent = Agent(guard(store), dialect, view=view, caller=caller)
            said.append(
                [
                    agent.compact(f"{SUMMARY} {place}")
                    if step == "compact"
                    else agent.hear(step)
                    if isinstance(step, str)
                    else agent.do(step)
                    for place, step in enumerate(steps)
                ]
            )
        assert said[0] == said[1]

    @pytest.mark.parametrize("kept", ["response", "conversation"])
    @each_loop
    def test_also_where_the_provider_keeps_the_history(self, shared, kept, moves):
        caller = f"{kept} {moves}"
        said = [
            Agent(guard(store), RESPONSES, kept=kept, caller=caller).play(moves)
            for store in (MemoryStore(), shared)
        ]
        assert said[0] == said[1]
        assert is_refused(said[0])
