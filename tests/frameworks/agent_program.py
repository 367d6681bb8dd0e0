"""Coding agents as people run them: the real programs, a gateway, and a model that is a script."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.clients.serving import running_gateway
from tests.docs.serving import clean_environment
from tests.frameworks.agent_scenario import (
    AIDER_HONEST,
    AIDER_STUCK,
    DONE,
    HONEST,
    REMARKS,
    STUCK,
    Scenario,
    write_workspace,
)
from tests.frameworks.cast import ENVIRONMENTS

from looptrap.config import load
from looptrap.policy.action import Action
from looptrap.testing import FakeProvider, Received, Reply

Script = Callable[[Received], Reply | None]

REASONS = (r"Blocked \(recursive_loop_detected\)", "Looptrap ended this run")
"""What a refusal shows on the screen, one or the other."""

ROUTING = '{"complexity_reasoning": "The build fails.", "complexity_score": 90}'
"""The answer to Gemini CLI's question for the model that a prompt needs."""


@dataclass(frozen=True)
class Program:
    """An agent's program, how it is started, and how its model runs a shell command."""

    title: str
    version: str
    env: str
    """Where `make test-frameworks` installs it."""
    path: str
    """Its file in this environment."""
    arguments: Callable[[str], Sequence[str]]
    """The arguments for a gateway at a URL; the prompt follows."""
    environment: Callable[[str], Mapping[str, str]]
    """The variables for a gateway at a URL, with `{home}` for the home folder."""
    tool: str = ""
    """The tool that runs a shell command."""
    tool_arguments: Callable[[str, str], Mapping[str, Any]] = lambda command, _: {
        "command": command
    }
    """Its arguments for a command and a remark about it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files in the home folder."""
    finish: Reply = field(default_factory=lambda: Reply.text(DONE))
    """How its model says that the work is done."""
    stuck: Sequence[Scenario] = tuple(STUCK)
    honest: Sequence[Scenario] = tuple(HONEST)

    @property
    def file(self) -> Path:
        return ENVIRONMENTS / self.env / self.path

    @property
    def is_installed(self) -> bool:
        return self.file.exists() and (ENVIRONMENTS / self.env / ".installed").exists()

    def script(self, scenario: Scenario) -> Script:
        """Return what the model does in a scenario; calls beside the run get a short text."""

        def answer(received: Received) -> Reply | None:
            if not received.call.generates:
                return None
            if not self.is_turn(received):
                return Reply.text(ROUTING if b"complexity_score" in received.body else "Fine.")
            turn = self.turns(received)
            return self.say(scenario.turn(turn), REMARKS[turn % len(REMARKS)])

        return answer

    def is_turn(self, received: Received) -> bool:
        """Return whether a call is one of the run, and not for a title or a summary."""
        return self.tool in received.call.tools or b'"additional_tools"' in received.body

    def turns(self, received: Received) -> int:
        """Return how often the model has spoken, by the history."""
        return sum(bool(message.calls) for message in received.call.messages)

    def say(self, command: str | None, remark: str) -> Reply:
        """Return the model's reply: a command, or the end of the work."""
        if command is None:
            return self.finish
        return Reply.tool_call(self.tool, self.tool_arguments(command, remark), text=remark)


class LineProgram(Program):
    """aider: a program without tools, which reads what its user says line by line."""

    def is_turn(self, received: Received) -> bool:
        return True

    def turns(self, received: Received) -> int:
        # aider itself answers "Ok." for the model.
        said = [one.text for one in received.call.messages if one.role == "assistant"]
        return sum(not text.startswith("Ok") for text in said)

    def say(self, command: str | None, remark: str) -> Reply:
        return self.finish if command is None else Reply.text(command)


@dataclass(frozen=True)
class AgentRun:
    """What one program showed, and how it ended."""

    screen: str
    status: int | None
    """The exit status; None if it had to be killed."""

    @property
    def shows_reason(self) -> bool:
        return any(re.search(reason, self.screen) for reason in REASONS)


@dataclass(frozen=True, repr=False)
class AgentRuns:
    """What became of programs that ran at the same time."""

    runs: Sequence[AgentRun]
    calls: int
    """Model calls of the runs that reached the provider."""
    refused: int
    warned: int
    seconds_to_end: float
    """From the first refusal to the end of the last program."""
    requests: Sequence[Received] = ()

    def __repr__(self) -> str:
        return (
            f"{self.calls} calls, {self.refused} refused, {self.warned} warned, ended"
            f" {self.seconds_to_end:.1f} s after the first refusal; "
            + ", ".join(f"status {run.status}: …{run.screen[-300:]!r}" for run in self.runs[:2])
        )


def play(
    program: Program,
    scenario: Scenario,
    folder: Path,
    *,
    script: Script | None = None,
    copies: int = 1,
    seconds_apart: float = 0,
    toml: str = "",
    patience: float = 120,
) -> AgentRuns:
    """Run a program on a scenario, or copies of it in folders of their own, before one gateway.

    The model does as the scenario says, unless it has a script of its own. The copies are started
    at once, or one after the other. Programs that take longer than `patience` seconds are killed.
    """
    folder.mkdir(exist_ok=True)
    file = folder / "looptrap.toml"
    file.write_text(toml)
    with FakeProvider.running(script or program.script(scenario)) as provider, ExitStack() as stack:
        terminals = stack.enter_context(own_tmux())
        flags = {"listen": "127.0.0.1:0", "upstream": provider.url, "state": str(folder / "state")}
        gateway = stack.enter_context(running_gateway(load(file, env={}, flags=flags)))
        tally = gateway.app.tally
        homes = [folder / f"home-{number}" for number in range(copies)]
        running = []
        for home in homes:
            if running:
                time.sleep(seconds_apart)  # as people start them: the programs keep no other time
            running.append(start(program, scenario.prompts, gateway.url, home, terminals))
        first_refusal, deadline = None, time.monotonic() + patience
        while any(one.poll() is None for one in running) and time.monotonic() < deadline:
            if first_refusal is None and _refused(tally.verdicts):
                first_refusal = time.monotonic()
            time.sleep(0.02)
        ended = time.monotonic()
        for one in running:
            end(one)
        verdicts = tally.verdicts
    return AgentRuns(
        [
            AgentRun((home / "screen.txt").read_text("utf-8", "replace"), one.returncode)
            for home, one in zip(homes, running, strict=True)
        ],
        sum(
            received.call.generates and program.is_turn(received) for received in provider.requests
        ),
        _refused(verdicts),
        verdicts.total() - _refused(verdicts) - verdicts[Action.ALLOW],
        ended - (first_refusal or ended),
        provider.requests,
    )


@contextmanager
def own_tmux() -> Iterator[str]:
    """Give the folder of a tmux server, which OpenHands starts and leaves running."""
    with TemporaryDirectory(prefix="tmux-") as folder:  # sockets need a short path
        try:
            yield folder
        finally:
            if tmux := shutil.which("tmux"):
                subprocess.run(
                    [tmux, "-L", "openhands", "kill-server"],
                    env=os.environ | {"TMUX_TMPDIR": folder},
                    capture_output=True,
                    check=False,
                )


def start(
    program: Program,
    prompts: Sequence[str],
    url: str,
    home: Path,
    terminals: str,
    before: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in a workspace of its own, with a command `before` it."""
    workspace = home / "project"
    write_workspace(workspace)
    for name, text in program.files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{url}", url))
    environment = {
        **clean_environment(),
        "HOME": str(home),
        "PWD": str(workspace),  # opencode takes its folder from here
        "NO_COLOR": "1",
        "COLUMNS": "200",  # so that no line is broken
        "TMUX_TMPDIR": terminals,
        **{
            name: value.replace("{home}", str(home))
            for name, value in program.environment(url).items()
        },
    }
    lines = home / "prompts.txt"
    lines.write_text("".join(f"{prompt}\n" for prompt in prompts))
    argument = () if isinstance(program, LineProgram) else prompts
    with lines.open() as said, (home / "screen.txt").open("wb") as screen:
        return subprocess.Popen(
            [*before, program.file, *program.arguments(url), *argument],
            cwd=workspace,
            env=environment,
            stdin=said if isinstance(program, LineProgram) else subprocess.DEVNULL,
            stdout=screen,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end(running: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a program; it has a group of its own."""
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    if running.wait() == -signal.SIGKILL:
        running.returncode = None


def _refused(verdicts: Mapping[Action, int]) -> int:
    return verdicts[Action.BLOCK] + verdicts[Action.STOP]


CLAUDE_CODE = Program(
    "Claude Code",
    "2.1.326",
    "agents",
    "node_modules/.bin/claude",
    lambda _url: ["--allowedTools", "Bash", "-p"],
    lambda url: {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    },
    "Bash",
    lambda command, remark: {"command": command, "description": remark},
)

CODEX = Program(
    "Codex",
    "0.169.0",
    "agents",
    "node_modules/.bin/codex",
    lambda url: [
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        "--model=gpt-5.3-codex",
        "--config=model_provider=looptrap",
        "--config=model_providers.looptrap="
        f'{{name="Looptrap",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}',
    ],
    lambda _url: {"OPENAI_API_KEY": "sk-test"},
    "exec_command",
    lambda command, _: {"cmd": command},
)

GEMINI_CLI = Program(
    "Gemini CLI",
    "0.61.0",
    "agents",
    "node_modules/.bin/gemini",
    lambda _url: ["--yolo", "--prompt"],
    lambda url: {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "test",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "TMPDIR": "{home}",  # where it reports errors
    },
    "run_shell_command",
    lambda command, remark: {"command": command, "description": remark},
    files={
        ".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}},'
        ' "privacy": {"usageStatisticsEnabled": false}}'
    },
)

QWEN_CODE = Program(
    "Qwen Code",
    "0.24.4",
    "agents",
    "node_modules/.bin/qwen",
    lambda _url: ["--auth-type", "openai", "--yolo", "--prompt"],
    lambda url: {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "test",
        "OPENAI_MODEL": "qwen3-coder-plus",
    },
    "run_shell_command",
    lambda command, remark: {
        # It loses the output of some commands that end at once.
        "command": f"sh unhurried.sh {command}",
        "description": remark,
        "is_background": False,
    },
)

OPENCODE = Program(
    "opencode",
    "1.18.33",
    "agents",
    "node_modules/.bin/opencode",
    lambda _url: ["run", "--model", "openai/gpt-5.4"],
    lambda url: {
        "OPENAI_API_KEY": "test",
        "OPENCODE_CONFIG_CONTENT": json.dumps(
            {"provider": {"openai": {"options": {"baseURL": f"{url}/v1"}}}}
        ),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    },
    "bash",
    lambda command, remark: {"command": command, "description": remark},
)

CLINE = Program(
    "Cline",
    "3.0.65",
    "agents",
    "node_modules/.bin/cline",
    lambda _url: ["--provider", "openai-native", "--key", "test", "--model", "gpt-5.4"],
    lambda _url: {"CLINE_SESSION_BACKEND_MODE": "local"},
    "run_commands",
    lambda command, _: {"commands": [command]},
    files={
        ".cline/data/settings/providers.json": json.dumps(
            {
                "version": 1,
                "providers": {
                    "openai-native": {
                        "settings": {"provider": "openai-native", "baseUrl": "{url}/v1"},
                        "updatedAt": "2026-01-01T00:00:00.000Z",
                        "tokenSource": "manual",
                    }
                },
            }
        )
    },
    stuck=STUCK[2:],  # it ends by itself after five equal calls, even if their results differ
)

MINI = Program(
    "mini-swe-agent",
    "2.4.6",
    "mini",
    "bin/mini",
    lambda _url: ["--model", "openai/gpt-5.4", "--yolo", "--exit-immediately", "--task"],
    lambda url: {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "test",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    "bash",
    finish=Reply.tool_call(
        "bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}, text=DONE
    ),
)

OPENHANDS = Program(
    "OpenHands",
    "1.16.0",
    "openhands",
    "bin/openhands",
    lambda _url: [
        "--headless",
        "--override-with-envs",
        "--exit-without-confirmation",
        "--task",
    ],
    lambda url: {
        "LLM_MODEL": "openai/gpt-4o",
        "LLM_BASE_URL": f"{url}/v1",
        "LLM_API_KEY": "test",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENHANDS_SUPPRESS_BANNER": "1",
        "OPENHANDS_SUPPRESS_CLI_UPDATES": "1",
    },
    "terminal",
    lambda command, remark: {"command": command, "security_risk": "LOW", "summary": remark},
    finish=Reply.tool_call("finish", {"message": DONE}),
)

AIDER = LineProgram(
    "aider",
    "0.86.2",
    "aider",
    "bin/aider",
    lambda _url: [
        "--yes-always",
        "--no-git",
        "--no-check-update",
        "--no-show-model-warnings",
        "--no-analytics",
        "--no-fancy-input",
        "--model=openai/gpt-4o",
        "--auto-test",
        "--test-cmd=python3 t.py",
        "app.py",
    ],
    lambda url: {
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": "test",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    stuck=AIDER_STUCK,
    honest=AIDER_HONEST,
)

PROGRAMS = [CLAUDE_CODE, CODEX, GEMINI_CLI, QWEN_CODE, OPENCODE, MINI, OPENHANDS, AIDER]
