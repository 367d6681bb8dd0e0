"""The forms: how each agent or framework names tools, words results, and writes its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from bench.loops.scenes import wording
from bench.loops.scenes.run import Act
from bench.loops.scenes.world import hexes, uuid


def _plain(act: Act, _rng: Random, _at: float) -> str:
    return act.result


def _nothing(_rng: Random, _session: str) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Client:
    """A form. With `written`, calls are part of the text, and results come as a user's."""

    name: str
    dialect: str
    model: str
    system: str = ""
    calls: Callable[[Act], tuple[str, wording.Args]] = wording.as_it_is
    result: Callable[[Act, Random, float], str] = _plain
    written: Callable[[str, wording.Args], str] | None = None
    stream: bool = False
    headers: Callable[[Random, str], Mapping[str, str]] = _nothing
    extra: Callable[[Random, str], Mapping[str, Any]] = _nothing
    thinks: str = ""
    """What stands before its remarks, where a prompt asks for it."""
    observes: bool = False
    """Whether results are appended to the agent's own message."""
    reminds: str = ""
    """What it adds to about every sixth result."""
    idle: str = ""
    """What it says to an agent that calls no tool."""
    elided: str = "[Old tool result content cleared]"


def _claude_extra(rng: Random, session: str) -> Mapping[str, Any]:
    return {"metadata": {"user_id": f"user_{hexes(rng, 32)}_account__session_{session}"}}


_CLAUDE_REMINDER = (
    "\n\n<system-reminder>\nThe TodoWrite tool hasn't been used recently. If you're working on"
    " tasks that would benefit from tracking progress, consider using the TodoWrite tool. This is"
    " just a gentle reminder - ignore if not applicable.\n</system-reminder>"
)

CLIENTS = {
    one.name: one
    for one in (
        Client(
            "claude_code",
            "messages",
            "claude-sonnet-4-5",
            "You are Claude Code, Anthropic's official CLI for Claude.",
            wording.claude_calls,
            wording.claude_result,
            stream=True,
            headers=lambda _rng, _session: {"user-agent": "claude-cli/2.0.31 (external, cli)"},
            extra=_claude_extra,
            reminds=_CLAUDE_REMINDER,
            idle="Continue with the task.",
        ),
        Client(
            "codex",
            "responses",
            "gpt-5-codex",
            "You are Codex, based on GPT-5. You are running as a coding agent in the Codex CLI.",
            wording.codex_calls,
            wording.codex_result,
            stream=True,
            headers=lambda _rng, session: {"session_id": session, "originator": "codex_cli_rs"},
            extra=lambda _rng, session: {"prompt_cache_key": session, "store": False},
            idle="Continue.",
        ),
        Client(
            "gemini_cli",
            "gemini",
            "gemini-2.5-pro",
            "You are an interactive CLI agent specializing in software engineering tasks.",
            wording.gemini_calls,
            wording.gemini_result,
            stream=True,
            headers=lambda _rng, _session: {"user-agent": "GeminiCLI/0.11.0 (linux; x64)"},
            idle="Please continue.",
        ),
        Client(
            "opencode",
            "chat",
            "qwen3-coder",
            "You are opencode, an interactive CLI tool that helps users with software engineering.",
            wording.opencode_calls,
            wording.opencode_result,
            stream=True,
            idle="Continue if you have next steps",
        ),
        Client(
            "openhands",
            "chat",
            "claude-sonnet-4",
            "You are OpenHands agent, a helpful AI assistant that can interact with a computer.",
            wording.editor_calls("execute_bash"),
            wording.openhands_result,
            idle="Please continue working on the task on whatever approach you think is suitable.\n"
            "If you think you have solved the task, please finish the interaction.\n"
            "IMPORTANT: YOU SHOULD NEVER ASK FOR HUMAN HELP.",
        ),
        Client(
            "swe_agent",
            "chat",
            "gpt-4o",
            "You are a helpful assistant that can interact with a computer to solve tasks.",
            wording.editor_calls("bash"),
            wording.swe_result,
            idle="Your last output did not use any tool calls!\nPlease make sure your output "
            "includes exactly _ONE_ function call!",
            elided="Old environment output: (omitted)",
        ),
        Client(
            "mini_swe_agent",
            "chat",
            "deepseek-v3.2",
            "You are a helpful assistant that can interact multiple times with a computer shell. "
            "Your response must contain exactly ONE bash code block with ONE command.",
            wording.as_command,
            wording.mini_result,
            wording.mini_written,
            thinks="THOUGHT: ",
            idle="Please always provide EXACTLY ONE action in triple backticks, found 0 actions.",
        ),
        Client(
            "cline",
            "messages",
            "claude-sonnet-4-5",
            "You are Cline, a highly skilled software engineer. You have access to a set of tools, "
            "written in XML: execute_command, read_file, write_to_file, replace_in_file, "
            "search_files, attempt_completion.",
            wording.cline_calls,
            wording.cline_result,
            wording.cline_written,
            stream=True,
            idle="[ERROR] You did not use a tool in your previous response! Please retry with a "
            "tool use.",
        ),
        Client("langgraph", "chat", "gpt-4.1"),
        Client("vercel_ai", "messages", "claude-haiku-4-5", stream=True),
        Client("adk", "gemini", "gemini-2.5-flash"),
        Client("openai_agents", "responses", "gpt-5-mini"),
        Client(
            "mcp",
            "messages",
            "claude-opus-4-1",
            "You are a helpful assistant with access to tools of connected MCP servers.",
            wording.of_server,
        ),
        Client(
            "n8n",
            "chat",
            "gpt-4o-mini",
            result=lambda act, _rng, _at: json.dumps([{"response": act.result}]),
            headers=lambda _rng, _session: {"user-agent": "n8n"},
        ),
        Client(
            "crewai",
            "chat",
            "gpt-4o",
            "You are a member of a crew. Use the following format:\n\nThought: think about what to "
            "do\nAction: the action to take\nAction Input: the input to the action, a JSON object\n"
            "Observation: the result of the action",
            result=wording.crew_result,
            written=wording.crew_written,
            thinks="Thought: ",
            observes=True,
            extra=lambda _rng, _session: {"stop": ["\nObservation:"]},
            idle="Invalid Format: I missed the 'Action:' after 'Thought:'. I will do right next, "
            "and don't use a tool I have already used.",
        ),
        Client("autogen", "chat", "gpt-4o"),
        Client("computer_use", "messages", "claude-sonnet-4-5"),
        Client("browser_use", "chat", "gpt-4.1"),
        Client("dspy", "chat", "gpt-4o-mini"),
        Client("app_chat", "chat", "gpt-4.1-mini"),
        Client("app_messages", "messages", "claude-haiku-4-5"),
        Client("app_responses", "responses", "gpt-5-nano"),
        Client("app_gemini", "gemini", "gemini-2.5-flash-lite"),
        Client(
            "app_named",
            "chat",
            "gpt-4.1-mini",
            headers=lambda rng, _session: {"x-session-id": uuid(rng)},
        ),
    )
}
CODING = tuple(list(CLIENTS)[:8])
