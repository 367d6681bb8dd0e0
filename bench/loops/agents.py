"""Further agents and frameworks: today's coding agents, plain-text ones, browsers and screens."""

from __future__ import annotations

from dataclasses import replace

from bench.loops import dress
from bench.loops import harness as by
from bench.loops.form import COMPUTER, Tool
from bench.loops.harness import Harness, Run
from bench.loops.plain import DETAILS

_REMINDERS = (
    "There is no list of todos at the moment. Keep one if the task has several steps.",
    "The list of todos was not used for a while. Clean it up if it is stale.",
    "Files may have been changed by the user or by a linter since they were read.",
)


def _remind(run: Run) -> str:
    """Return a reminder after every fifth result or so."""
    if run.rng.random() > 0.2:
        return ""
    return f"<system-reminder>\n{run.rng.choice(_REMINDERS)}\n</system-reminder>"


def _describe_editor(run: Run) -> str:
    """Return what an editor's agent adds: open files, the time, how much was used."""
    used = 14_000 + 380 * len(run.steps)
    return (
        f"{DETAILS}\n# VSCode Visible Files\nsrc/main.{run.world.language}\n\n"
        f"# VSCode Open Tabs\nsrc/main.{run.world.language}\nREADME.md\n\n"
        f"# Current Time\n{_time(run)} (Europe/Lisbon, UTC+0:00)\n\n"
        f"# Context Window Usage\n{used:,} / 200K tokens used ({used // 2000}%)\n\n"
        "# Current Mode\nACT MODE\n</environment_details>"
    )


def _describe_with_cost(run: Run) -> str:
    cost = 0.03 + 0.017 * len(run.steps)
    return (
        f"{DETAILS}\n# VSCode Visible Files\nsrc/main.{run.world.language}\n\n"
        f"# Current Time\nCurrent time in ISO 8601 UTC format: 2027-01-15T{_time(run)}Z\n\n"
        f"# Current Cost\n${cost:.2f}\n\n"
        "# Current Mode\n<slug>code</slug>\n<name>Code</name>\n</environment_details>"
    )


def _time(run: Run) -> str:
    seconds = int(run.clock)
    return f"{8 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


CLAUDE_CODE = replace(by.CLAUDE_CODE, prefix="", note=_remind)
CLAUDE_CODE_MCP = replace(CLAUDE_CODE, prefix="mcp__desk__")
CODEX = replace(
    by.CODEX,
    dress=dress.dress_for_codex_exec,
    tools=(
        Tool("exec_command", "Runs a command in a terminal.", ("cmd", "workdir")),
        *by.CODEX.tools[1:],
    ),
)
GEMINI_CLI = replace(by.GEMINI_CLI, dress=dress.dress_for_gemini_briefly)
QWEN_CODE = replace(
    by.GEMINI_CLI,
    name="qwen-code",
    form="chat",
    model="qwen3-coder-plus",
    dress=dress.dress_for_qwen,
    tools=tuple(
        replace(tool, name="edit") if tool.name == "replace" else tool
        for tool in by.GEMINI_CLI.tools
    ),
    stream=True,
    ids="call",
    thinks=False,
)
OPENCODE = replace(by.OPENCODE, prefix="")
OPENHANDS = by.OPENHANDS
SWE_AGENT = by.SWE_AGENT
MINI_SWE = by.MINI_SWE
LANGGRAPH = replace(by.LANGCHAIN, name="langgraph")
PYDANTIC_AI = by.PYDANTIC_AI
AUTOGEN = by.AUTOGEN
ADK = by.ADK
AGENTS_SDK = by.AGENTS_SDK
MCP_CLIENT = replace(by.LANGCHAIN_CLAUDE, name="mcp-client", model="claude-sonnet-4-5")

CLINE = Harness(
    "cline",
    "xml-anthropic",
    "claude-sonnet-4-5-20250929",
    "You are Cline, an engineer in an editor. Write one tool use as XML per message. "
    "The project is in {root}.\n\n{rules}",
    dress.dress_for_cline,
    stream=True,
    ids="none",
    note=_describe_editor,
)
CLINE_CHAT = replace(CLINE, form="xml", model="deepseek-chat")
ROO = replace(
    CLINE,
    name="roo-code",
    form="xml",
    model="gpt-4.1",
    system="You are Roo, an engineer in an editor. Use one tool per message, written as XML. "
    "Workspace: {root}\n\n{rules}",
    dress=dress.dress_for_roo,
    note=_describe_with_cost,
)

_REACT_TOOLS = "\n".join(f"Tool Name: {tool.name}\nTool About: {tool.about}" for tool in by.PLAIN)
CREWAI = Harness(
    "crewai",
    "crew",
    "gpt-4o",
    "You are a senior engineer. You work in {root}. {rules}\n\nYou have only these tools:\n"
    f"{_REACT_TOOLS}\n\nWrite Thought, Action and Action Input; then you get the Observation.",
    dress.dress_plainly,
    ids="none",
)
LLAMAINDEX = replace(CREWAI, name="llamaindex", form="react", model="gpt-4.1-mini")
DSPY = Harness(
    "dspy",
    "dspy",
    "openai/gpt-4o-mini",
    "Your input fields are:\n1. `question` (str)\n2. `trajectory` (str)\n\nYou are an agent in "
    "{root}: in each turn you give the next thought, tool name and tool args. {rules}",
    dress.dress_plainly,
    ids="none",
)
MASTRA = replace(by.LANGCHAIN, name="mastra", form="merged", model="gpt-4o")
MASTRA_CLAUDE = replace(
    by.LANGCHAIN_CLAUDE, name="mastra-anthropic", form="merged-anthropic", model="claude-sonnet-4-5"
)

_BROWSER = "You steer a browser to do what the user asks. {rules}\n\nNotes are kept in {root}."
BROWSER_USE = Harness(
    "browser-use", "browser", "gpt-4.1", _BROWSER, dress.dress_plainly, ids="none"
)
PLAYWRIGHT = replace(MCP_CLIENT, name="playwright-mcp", system=_BROWSER, tools=())
PLAYWRIGHT_CHAT = replace(by.LANGCHAIN, name="playwright-mcp", system=_BROWSER, tools=())
COMPUTER_USE = replace(
    MCP_CLIENT,
    name="computer-use",
    system="You use a computer by its screen, mouse and keyboard. {rules} Home: {root}",
    tools=(),
)
OPENAI_COMPUTER = replace(
    by.RESPONSES_LOOP,
    name="openai-computer-use",
    model="computer-use-preview",
    system=COMPUTER_USE.system,
    tools=(Tool(COMPUTER, "Uses the computer."),),
)
