"""`looptrap run -- PROGRAM`: coding agents with nothing but a key, and a script as their model."""

import sys
from dataclasses import replace
from pathlib import Path

from tests.frameworks.agent_program import (
    AIDER,
    CLINE,
    GEMINI_CLI,
    PROGRAMS,
    AgentRun,
    Program,
    end,
    own_tmux,
    start,
)
from tests.frameworks.agent_scenario import Scenario
from tests.frameworks.test_agent_programs import installed, programs

from looptrap.testing import FakeProvider

__all__ = ["installed"]

PATIENCE_S = 120
REFUSED_STATUS = 42


WITHOUT_LOOPTRAP = {
    "GEMINI_CLI_TRUST_WORKSPACE",
    "LLM_API_KEY",
    "LLM_MODEL",
    "MSWEA_CONFIGURED",
    "MSWEA_COST_TRACKING",
    "OPENAI_MODEL",
    "--auth-type",
    "openai",
    "--model",
    "openai/gpt-5.4",
    "--model=openai/gpt-4o",
    "--override-with-envs",
}
"""What programs need to begin without a question, or choose, if they run by themselves."""


def with_a_key_only(program: Program) -> Program:
    """Return a program on a fresh machine: nothing says where its model is, and it has no files."""
    marker = "http://gateway"

    def is_plain(value: str) -> bool:
        return marker not in value and "model_provider" not in value

    given = program.environment(marker)
    variables = {
        name: value
        for name, value in given.items()
        if is_plain(value) and name not in WITHOUT_LOOPTRAP
    }
    if "LLM_API_KEY" in given:  # a name of OpenHands alone
        variables["OPENAI_API_KEY"] = given["LLM_API_KEY"]
    arguments = [
        one for one in program.arguments(marker) if is_plain(one) and one not in WITHOUT_LOOPTRAP
    ]
    if program is CLINE:  # it has no default
        arguments = list(program.arguments(marker))
    return replace(
        program,
        arguments=lambda _url: arguments,
        environment=lambda _url: variables,
        files={},
    )


def run_guarded(program: Program, scenario: Scenario, folder: Path) -> AgentRun:
    """Run a program by `looptrap run` before a model that is a script."""
    with FakeProvider.running(program.script(scenario)) as provider, own_tmux() as terminals:
        looptrap = Path(sys.executable).with_name("looptrap")
        before = [str(looptrap), "run", "--upstream", provider.url]
        before += ["--exit-code", str(REFUSED_STATUS), "--"]
        running = start(
            with_a_key_only(program), scenario.prompts, provider.url, folder, terminals, before
        )
        try:
            running.wait(PATIENCE_S)
        finally:
            end(running)
        return AgentRun((folder / "screen.txt").read_text("utf-8", "replace"), running.returncode)


@programs(*PROGRAMS, CLINE)
def test_a_stuck_program_is_caught_with_nothing_configured_but_a_key(program, tmp_path):
    run = run_guarded(program, program.stuck[0], tmp_path)
    assert run.status == REFUSED_STATUS, run.screen
    assert run.shows_reason, run.screen
    # aider takes the next line of its user after a refusal.
    calls = "3 calls" if program is AIDER else "1 call"
    assert f"looptrap: 1 loop caught: {calls} refused" in run.screen, run.screen


@programs(GEMINI_CLI)
def test_nothing_of_gemini_cli_is_left_but_what_it_leaves_itself(program, tmp_path):
    run = run_guarded(program, program.honest[1], tmp_path)
    assert run.status == 0, run.screen
    assert "trusts this folder for this run" in run.screen
    own = tmp_path / ".gemini"
    assert not (own / "settings.json").exists()
    assert not (own / "trustedFolders.json").exists()
    assert list(own.glob("tmp/*/chats/*")), "its sessions"


@programs(*PROGRAMS, CLINE)
def test_an_honest_program_ends_as_without_looptrap(program, tmp_path):
    run = run_guarded(program, program.honest[1], tmp_path)
    assert run.status == 0, run.screen
    assert "no loop" in run.screen, run.screen
