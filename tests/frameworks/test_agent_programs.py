"""Coding agents as people run them: stuck ones end with a reason, honest ones never notice."""

import os
import re
import threading
import time
from dataclasses import replace

import pytest
from tests.frameworks.agent_program import (
    AIDER,
    CLAUDE_CODE,
    CODEX,
    MINI,
    PROGRAMS,
    REASONS,
    Program,
    Script,
    play,
)
from tests.frameworks.agent_scenario import DONE, Scenario, edit_and, in_turns, up_to
from tests.frameworks.page import compare

from looptrap.gateway.handler import Gateway
from looptrap.testing import Received, Reply
from looptrap.testing.reply import Gate, ModelTurn, Tokens

SECONDS_TO_END = 10
"""How soon a program ends after its first refusal."""
COPIES = 8
ANSWER_S = 2.0
"""How long a model takes to answer programs that run side by side."""


@pytest.fixture(autouse=True)
def installed(request):
    """Skip a test whose program is not installed; in CI, fail."""
    program = request.node.callspec.params["program"]
    if not program.is_installed:
        line = f"{program.title} is missing: run make test-frameworks, see tests/frameworks"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(line)


def programs(*chosen: Program):
    """Run a test with each of these programs, where they are installed."""
    return pytest.mark.parametrize(
        "program",
        [pytest.param(one, id=one.title, marks=pytest.mark.env(one.env)) for one in chosen],
    )


@programs(*PROGRAMS)
def test_a_stuck_agent_is_refused_and_ends_with_the_reason(program, tmp_path):
    cells, refused, ends = [], 0, set()
    for scenario in program.stuck:
        runs = play(program, scenario, tmp_path / scenario.name.replace(" ", "-"))
        [run] = runs.runs
        assert runs.refused, (scenario.name, runs)
        assert runs.calls < scenario.latest, (scenario.name, runs)
        assert runs.seconds_to_end < SECONDS_TO_END, (scenario.name, runs)
        assert run.shows_reason, run.screen
        refused = max(refused, runs.refused)
        ends.add((run.status, shown(run.screen)))
        cells.append(str(runs.calls + 1))
    [(status, screen)] = ends
    compare(
        program.title,
        f"| {program.title} {program.version} | {' | '.join(cells)} | {refused}"
        f" | < {SECONDS_TO_END} s | {status} | {screen} |",
    )


def shown(screen: str) -> str:
    """Return the line that shows the reason, up to it."""
    plain = re.sub(r"\x1b\[[0-9;]*m|│", "", screen)
    [*_, last] = re.findall(rf"^.*?(?:{'|'.join(REASONS)})", plain, re.MULTILINE)
    return f"`{re.sub(r'/tmp/[^ ]+', '…', last).strip()} …`"


@programs(*PROGRAMS)
@pytest.mark.parametrize("number", range(4), ids=[one.name for one in CLAUDE_CODE.honest])
def test_an_honest_agent_never_notices(program, number, tmp_path):
    runs = play(program, program.honest[number], tmp_path)
    assert (runs.refused, runs.warned) == (0, 0), runs
    assert [run.status for run in runs.runs] == [0], runs
    assert runs.calls >= 12


# Side by side

PATCH_AND_TEST = Scenario("patch and test", up_to(8, edit_and("python3 t.py")))


def slowly(script: Script, seconds: float = ANSWER_S) -> Script:
    """Return a script whose answers take some time, as those of real models do."""

    def answer(received: Received) -> Reply | None:
        if not received.call.generates:
            return None
        gate = Gate()
        threading.Timer(seconds, gate.open).start()
        return Reply.pause(gate, script(received))

    return answer


def patch_and_test(program: Program) -> Scenario:
    return AIDER.honest[1] if program is AIDER else PATCH_AND_TEST


@programs(*PROGRAMS)
def test_equal_runs_side_by_side_are_no_loop(program, tmp_path):
    scenario = patch_and_test(program)
    script = slowly(program.script(scenario))
    runs = play(program, scenario, tmp_path, script=script, copies=COPIES, patience=240)
    assert (runs.refused, runs.warned) == (0, 0), runs
    assert [run.status for run in runs.runs] == [0] * COPIES, runs


@programs(MINI, AIDER)
@pytest.mark.parametrize(
    ("answer_s", "seconds_apart", "overlap"),
    [
        pytest.param(0.5, 0, True, id="at once, answers of 0.5 s"),
        pytest.param(2, 3, True, id="3 s apart, answers of 2 s"),
        pytest.param(0, 3, False, id="3 s apart, answers at once"),
    ],
)
def test_equal_runs_that_name_no_session_are_not_refused(
    program, answer_s, seconds_apart, overlap, tmp_path
):
    scenario = patch_and_test(program)
    script = program.script(scenario)
    runs = play(
        program,
        scenario,
        tmp_path,
        script=slowly(script, answer_s) if answer_s else script,
        copies=COPIES,
        seconds_apart=seconds_apart,
    )
    assert runs.refused == 0, runs
    if overlap:  # else each may be taken for a restart of the one before
        assert runs.warned == 0, runs
    assert [run.status for run in runs.runs] == [0] * COPIES, runs


@programs(CLAUDE_CODE)
def test_eight_subagents_of_one_run_are_no_loop(program, tmp_path):
    task = {
        "description": "Mend it",
        "prompt": "Mend the build.",
        "subagent_type": "general-purpose",
    }
    [call] = Reply.tool_call("Agent", task).content.calls
    work = program.script(PATCH_AND_TEST)
    subagents = set()

    def script(received: Received) -> Reply | None:
        if agent := received.headers.get("x-claude-code-agent-id"):
            subagents.add(agent)
            return work(received)
        is_first = not any(message.calls for message in received.call.messages)
        return Reply(ModelTurn("", (call,) * COPIES)) if is_first else Reply.text(DONE)

    runs = play(program, PATCH_AND_TEST, tmp_path, script=slowly(script))
    assert len(subagents) == COPIES
    assert (runs.refused, runs.warned) == (0, 0), runs
    assert [run.status for run in runs.runs] == [0], runs


# Compaction

WINDOW = 100_000
SUMMARY = "<summary>The build fails. After {calls} calls I know no reason yet.</summary>"
ASKS_FOR_SUMMARY = (b"REMINDER: Do NOT call any tools", b"CONTEXT CHECKPOINT COMPACTION")
COMPACTING = [
    replace(
        CLAUDE_CODE,
        environment=lambda url: (
            CLAUDE_CODE.environment(url) | {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(WINDOW)}
        ),
    ),
    replace(
        CODEX,
        arguments=lambda url: [
            *CODEX.arguments(url),
            f"--config=model_auto_compact_token_limit={WINDOW}",
        ],
    ),
]


class CompactingModel:
    """A model for which the context window is full after every fourth call."""

    def __init__(self, program: Program, scenario: Scenario) -> None:
        self.compactions = 0
        self.calls = 0
        self._program = program
        self._turn = scenario.turn

    def __call__(self, received: Received) -> Reply | None:
        if any(text in received.body for text in ASKS_FOR_SUMMARY):
            self.compactions += 1
            return Reply.text(SUMMARY.format(calls=self.calls))
        command = self._turn(self.calls)
        self.calls += 1
        reply = self._program.say(command, "")
        tokens = Tokens(WINDOW // (5 if self.calls % 4 else 1) * 2, 100)
        return replace(reply, content=replace(reply.content, tokens=tokens))


@programs(*COMPACTING)
def test_a_loop_across_compactions_is_refused(program, tmp_path):
    reads = in_turns("cat a.txt", "cat b.txt", "cat c.txt", "cat part_1.txt")
    scenario = Scenario("the same after each compaction", reads)
    model = CompactingModel(program, scenario)
    runs = play(program, scenario, tmp_path, script=model)
    assert model.compactions >= 2
    assert runs.refused
    assert model.calls == {"Claude Code": 12, "Codex": 17}[program.title]
    assert runs.seconds_to_end < SECONDS_TO_END
    assert runs.runs[0].shows_reason
    assert "compactions" in runs.runs[0].screen


@programs(*COMPACTING)
def test_an_honest_agent_whose_history_is_compacted_never_notices(program, tmp_path):
    scenario = program.honest[0]
    model = CompactingModel(program, scenario)
    runs = play(program, scenario, tmp_path, script=model)
    assert model.compactions >= 4
    assert (runs.refused, runs.warned) == (0, 0), runs
    assert runs.runs[0].status == 0


# WebSockets

BUILT_IN = replace(
    CODEX,
    arguments=lambda url: [
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        "--model=gpt-5.3-codex",
        f'--config=openai_base_url="{url}/v1"',
    ],
    environment=lambda _url: {"CODEX_API_KEY": "sk-test"},
)


@programs(BUILT_IN)
def test_codex_falls_back_from_its_websocket_within_a_second(program, tmp_path, monkeypatch):
    denied, posted = [], []
    deny = Gateway._deny

    def record(self, exchange, context, denial):
        denied.append((denial.status, time.monotonic()))
        deny(self, exchange, context, denial)

    def script(received: Received) -> Reply | None:
        if received.call.generates:
            posted.append(time.monotonic())
        return work(received)

    monkeypatch.setattr(Gateway, "_deny", record)
    work = program.script(program.honest[2])
    runs = play(program, program.honest[2], tmp_path, script=script)
    assert [status for status, _ in denied] == [426]
    assert 0 < posted[0] - denied[0][1] < 1
    assert (runs.refused, runs.warned, runs.runs[0].status) == (0, 0, 0)
    assert {received.method for received in runs.requests} <= {"POST", "GET"}
