"""The forms of frameworks that call the tools of an application by their API."""
# ruff: noqa: ARG002

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bench.loops.form import Done, Frame, Json, Tool
from bench.loops.tales.coders import ClaudeCode, Codex, GeminiCli, OpenCode
from bench.loops.tales.editors import DeepAgents, OpenHands, SweAgent
from bench.loops.tales.harness import Harness, Turn
from bench.loops.tales.noise import Noise
from bench.loops.tales.tale import Deed, Round, Tale
from bench.loops.tales.texters import TEXTERS, Dspy
from bench.loops.tales.wire import told


class LangGraph(Harness):
    """LangGraph's agent on OpenAI; errors of tools are asked to be fixed."""

    name = "langgraph"
    model = "gpt-4.1"
    nudge = "Go on."

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        name, args, result = super().express(deed, noise)
        if deed.failed:
            result = f"Error: {result}\n Please fix your mistakes."
        return name, args, result


class LangGraphAnthropic(LangGraph):
    """The same on Anthropic."""

    name = "langgraph-anthropic"
    dialect = "anthropic"
    model = "claude-sonnet-4-5"
    call_ids = "toolu_01"


class AgentsSdk(Harness):
    """OpenAI's Agents SDK on the Responses API."""

    name = "openai-agents"
    dialect = "responses"
    model = "gpt-5.1"
    has_item_ids = True
    nudge = "continue"

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        name, args, result = super().express(deed, noise)
        if deed.failed:
            result = f"An error occurred while running the tool. Please try again. Error: {result}"
        return name, args, result

    def headers(self, session: str) -> Mapping[str, str]:
        return {"user-agent": "Agents/Python 0.24.1"}


class Mastra(Harness):
    """Mastra: all rounds since the last message of the user are one message of the assistant."""

    name = "mastra"
    model = "gpt-4.1-mini"
    nudge = "Continue."

    def merge(self, messages: Sequence[Json]) -> list[Json]:
        """Return messages with the calls of neighbouring rounds in one message."""
        merged: list[Json] = []
        results: list[Json] = []
        for message in messages:
            if message["role"] == "tool":
                results.append(message)
                continue
            can_join = message["role"] == "assistant" and results and "tool_calls" in message
            if can_join:
                texts = filter(None, (merged[-1]["content"], message["content"]))
                calls = [*merged[-1]["tool_calls"], *message["tool_calls"]]
                merged[-1] = {**merged[-1], "content": "\n".join(texts), "tool_calls": calls}
                continue
            merged += results
            results = []
            merged.append(message)
        return merged + results


class PydanticAi(Harness):
    """Pydantic AI on Anthropic."""

    name = "pydantic-ai"
    dialect = "anthropic"
    model = "claude-haiku-4-5"
    call_ids = "toolu_01"

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        name, args, result = super().express(deed, noise)
        return name, args, f"{result}\n\nFix the errors and try again." if deed.failed else result


class Adk(Harness):
    """Google's Agent Development Kit, which takes its ids of calls away before it sends them."""

    name = "google-adk"
    dialect = "gemini"
    model = "gemini-2.5-flash"
    nudge = "Continue processing previous requests as instructed."

    def system(self, tale: Tale, noise: Noise) -> str:
        return f'{tale.persona}\n\nYou are an agent. Your internal name is "root_agent".'

    def call_id(self, name: str, noise: Noise) -> str:
        return ""


class McpDesktop(Harness):
    """A desktop chat with tools of MCP servers, on Anthropic; results are blocks of text."""

    name = "mcp-desktop"
    dialect = "anthropic"
    model = "claude-opus-4-6"
    stream = True
    call_ids = "toolu_01"
    prefix = "desk__"
    nudge = "Continue"

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        name, args, result = super().express(deed, noise)
        if deed.failed:
            result = f"MCP error -32603: {result}"
        return name, args, result


class PlaywrightMcp(Harness):
    """A chat with the tools of Playwright's MCP server."""

    name = "playwright-mcp"
    model = "gpt-5.2"
    tools = (
        Tool("browser_navigate", "Go to an address.", ("url",)),
        Tool("browser_click", "Click on a page.", ("element", "ref")),
        Tool("browser_type", "Type into a field.", ("element", "ref", "text")),
        Tool("browser_snapshot", "Take a snapshot of the page."),
        Tool("browser_wait_for", "Wait for some seconds.", ("time",)),
        Tool("browser_evaluate", "Evaluate a function on the page.", ("function",)),
    )
    nudge = "Continue."


class PlaywrightMcpAnthropic(PlaywrightMcp):
    """The same on Anthropic."""

    name = "playwright-mcp-anthropic"
    dialect = "anthropic"
    model = "claude-sonnet-4-6"
    call_ids = "toolu_01"


class ComputerUse(Harness):
    """Anthropic's computer use: a screenshot after each action."""

    name = "computer-use"
    dialect = "anthropic"
    model = "claude-opus-4-6"
    call_ids = "toolu_01"
    nudge = "Please go on."

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You use an Ubuntu virtual machine with a screen of 1280 by 800 pixels. Take a "
            f"screenshot after each step to see whether it worked. {tale.persona}"
        )

    tools = (Tool("computer", "Use the screen, the mouse and the keyboard.", ("action",)),)


class SupportBot(Harness):
    """A customer service agent with a policy, talking to a customer."""

    name = "support-bot"
    model = "gpt-4o"

    def extra(self, session: str) -> Json:
        return {"temperature": 0.0}


class Goose(Harness):
    """Goose: extensions as tools."""

    name = "goose"
    model = "gpt-5-mini"
    prefix = "desk__"
    tools = (
        Tool("developer__shell", "Run a command.", ("command",)),
        Tool("developer__text_editor", "View and edit files.", ("command", "path")),
    )

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        args = deed.args
        match deed.verb:
            case "shell":
                return "developer__shell", {"command": args["command"]}, deed.result
            case "find":
                command = f"rg -n {args['pattern']!r} {args['path']}"
                return "developer__shell", {"command": command}, deed.result
            case "read":
                sent = {"command": "view", "path": f"/home/me/{args['path']}"}
                shown = f"### /home/me/{args['path']}\n```\n{deed.result}\n```"
                return "developer__text_editor", sent, shown
            case "write":
                sent = {"command": "write", "path": f"/home/me/{args['path']}"}
                sent["file_text"] = args["content"]
                return "developer__text_editor", sent, f"Successfully wrote to {sent['path']}"
            case "edit":
                sent = {"command": "str_replace", "path": f"/home/me/{args['path']}"}
                sent |= {"old_str": args["old"], "new_str": args["new"]}
                if deed.failed:
                    text = "-32602: 'old_str' must appear exactly once in the file, but it does not"
                    return "developer__text_editor", sent, text
                return "developer__text_editor", sent, "The text has been replaced."
        return super().express(deed, noise)


class AutoGen(Harness):
    """AutoGen: the agents of a team see each other as users with names."""

    name = "autogen"
    model = "gpt-4o"


class AutoGenAnthropic(AutoGen):
    """The same on Anthropic."""

    name = "autogen-anthropic"
    dialect = "anthropic"
    model = "claude-sonnet-4-5"


class BrowserUse(Dspy):
    """browser-use: each request is one prompt with the history and the page as it is now."""

    name = "browser-use"
    dialect = "anthropic"
    model = "claude-sonnet-4-6"

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You are a browser agent. Each step you get the history, the request and the page. "
            "Answer with JSON: evaluation_previous_goal, memory, next_goal, action."
        )

    def perform(self, frame: Frame, round_: Round, noise: Noise) -> Turn:
        deed = round_.deeds[0] if round_.deeds else Deed("done", {"success": True}, "")
        action = {deed.verb.removeprefix("browser_"): dict(deed.args)}
        plan = {
            "evaluation_previous_goal": "Uncertain" if deed.failed else "Success",
            "memory": round_.note,
            "next_goal": round_.said,
            "action": [action],
        }
        shown = deed.result.partition("### Page state\n")[2] or "about:blank"
        parts = {"goal": round_.said, "action": json.dumps(action), "page": shown}
        return Turn(Done(json.dumps(plan), (), noise.word(28)), (), [parts], [parts])

    def gather(self, task: str, parts: list[Json]) -> list[Json]:
        history = "\n".join(
            f"<step_{n}>\nNext Goal: {part['goal']}\nAction: {part['action']}\n</step_{n}>"
            for n, part in enumerate(parts, 1)
        )
        page = parts[-1]["page"] if parts else "about:blank"
        return told(
            self.dialect,
            f"<agent_history>\n{history}\n</agent_history>\n<user_request>\n{task}\n"
            f"</user_request>\n<step_info>Step {len(parts) + 1} of 100</step_info>\n"
            f"<browser_state>\n{page}\n</browser_state>",
        )


CODERS = (ClaudeCode, Codex, GeminiCli, OpenCode, OpenHands, SweAgent, DeepAgents)
FRAMEWORKS = (
    AutoGen,
    AutoGenAnthropic,
    BrowserUse,
    LangGraph,
    LangGraphAnthropic,
    AgentsSdk,
    Mastra,
    PydanticAi,
    Adk,
    McpDesktop,
    PlaywrightMcp,
    PlaywrightMcpAnthropic,
    ComputerUse,
    SupportBot,
    Goose,
)
HARNESSES: Mapping[str, Harness] = {kind.name: kind() for kind in (*CODERS, *TEXTERS, *FRAMEWORKS)}
