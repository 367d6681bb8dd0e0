"""The forms: how coding agents and frameworks name tools, word results and name sessions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from bench.loops.field.wire import Json


class Act(NamedTuple):
    """What an agent does, and what comes of it, in no form yet."""

    verb: str
    """`sh`, `read`, `edit`, `write`, `grep`, `todo`, or `tool` for any other."""
    args: Json
    out: str = ""
    code: int = 0
    takes: float = 0.4
    """Seconds."""
    image: str = ""
    kind: str = ""
    """The name of another tool."""


def sh(cmd: str, out: str = "", code: int = 0, takes: float = 0.4, why: str = "") -> Act:
    return Act("sh", {"cmd": cmd, "why": why or f"Run {cmd.split()[0]}"}, out, int(code), takes)


def read(path: str, text: str) -> Act:
    return Act("read", {"path": path}, text)


def edit(path: str, old: str, new: str, error: str = "") -> Act:
    """Return a change of a file, which fails if there is an error."""
    return Act("edit", {"path": path, "old": old, "new": new}, error, int(bool(error)))


def write(path: str, text: str) -> Act:
    return Act("write", {"path": path, "text": text})


def grep(pattern: str, out: str = "", path: str = ".") -> Act:
    return Act("grep", {"pattern": pattern, "path": path}, out)


def todo(**items: str) -> Act:
    """Return a plan: `write_tests="pending"` is one of its items."""
    plan = [{"step": key.replace("_", " "), "status": value} for key, value in items.items()]
    return Act("todo", {"items": plan})


def tool(
    name: str, args: Json, out: Any = "", code: int = 0, takes: float = 0.8, image: str = ""
) -> Act:
    """Return a call of any other tool; what comes of it is a text, or JSON."""
    text = out if isinstance(out, str) else json.dumps(out, ensure_ascii=False)
    return Act("tool", args, text, int(code), takes, image, name)


Verbs = Mapping[str, tuple[str, Mapping[str, str], Json]]
"""For each verb the tool, the names of its arguments, and arguments that are always sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """An agent or framework."""

    name: str
    api: str
    models: tuple[str, ...]
    system: str
    verbs: Verbs = field(default_factory=dict)
    shell: Callable[[Act, Random], str] = lambda act, _: act.out or "(no output)"
    """Words what a shell printed."""
    edited: str = "OK: {path} was changed."
    planned: str = "Plan updated."
    item: Callable[[Json], Json] = dict
    """Words one item of a plan."""
    plan: str = "items"
    agent: str = ""
    """How its `User-Agent` begins."""
    session: Callable[[str, Random], tuple[Json, Json]] = lambda _, __: ({}, {})
    """Returns headers and fields that name the session."""
    stream: bool = False
    thinks: bool = False
    says: Callable[[str, str, Json], str] | None = None
    """Writes a call as text: of what is said, the tool and its arguments."""
    hears: Callable[[Act, str, str, int], str] | None = None
    """Writes what comes of it as text: of the act, the tool, its result and the round."""
    opening: str = ""
    """What the harness writes before the first words of the user."""
    reminder: str = ""
    """What it writes behind results, from time to time."""
    joins: bool = False
    """Whether the result is written behind the call, in one message."""


def call_of(form: Form, act: Act) -> tuple[str, Json | str]:
    """Return the tool and the arguments with which a form does it."""
    if act.verb == "tool":
        return act.kind, act.args
    if act.verb not in form.verbs:
        act = Act("sh", {"cmd": _as_command(act), "why": f"{act.verb} a file"})
    name, names, always = form.verbs[act.verb]
    if act.verb == "todo":
        return name, {form.plan: [form.item(item) for item in act.args["items"]], **always}
    if name == "apply_patch":
        return name, _patch(act)
    if name == "replace_in_file":
        args = act.args
        diff = f"------- SEARCH\n{args['old']}\n=======\n{args['new']}\n+++++++ REPLACE"
        return name, {"path": args["path"], "diff": diff}
    return name, {names[key]: value for key, value in act.args.items() if key in names} | always


def result_of(form: Form, act: Act, chance: Random) -> str:
    """Return what the form shows of what came of it."""
    match act.verb:
        case "tool":
            return act.out
        case "sh":
            return form.shell(act, chance)
        case "edit" | "write" if act.verb in form.verbs:
            return act.out if act.code else form.edited.format(path=act.args["path"])
        case "todo":
            return form.planned
    if act.verb not in form.verbs:
        return form.shell(act, chance)
    if act.verb == "read" and form.name in ("claude-code", "opencode", "openhands"):
        lines = act.out.split("\n")
        return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))
    return act.out or "No matches found"


def _as_command(act: Act) -> str:
    args = act.args
    match act.verb:
        case "read":
            return f"sed -n '1,240p' {args['path']}"
        case "grep":
            return f"grep -rn {shlex.quote(args['pattern'])} {args['path']}"
        case "todo":
            steps = [f"[{item['status']}] {item['step']}" for item in args["items"]]
            return "cat > PLAN.md <<'END'\n" + "\n".join(steps) + "\nEND"
        case "write":
            return f"cat > {args['path']} <<'END'\n{args['text']}\nEND"
    pair = f"{args['old']!r}, {args['new']!r}"
    code = f"p = {args['path']!r}\ns = open(p).read()\nopen(p, 'w').write(s.replace({pair}))"
    return f"python3 - <<'END'\n{code}\nEND"


def _patch(act: Act) -> str:
    path = act.args["path"]
    if act.verb == "write":
        lines = "\n".join(f"+{line}" for line in act.args["text"].split("\n"))
        return f"*** Begin Patch\n*** Add File: {path}\n{lines}\n*** End Patch\n"
    old, new = (
        "\n".join(mark + line for line in act.args[key].split("\n"))
        for mark, key in (("-", "old"), ("+", "new"))
    )
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n{old}\n{new}\n*** End Patch\n"


# how results are worded


def _claude_shell(act: Act, _: Random) -> str:
    return f"Exit code {act.code}\n{act.out}" if act.code else act.out


def _codex_exec(act: Act, chance: Random) -> str:
    return (
        f"Chunk ID: {chance.randrange(16**6):06x}\n"
        f"Wall time: {act.takes * chance.uniform(0.97, 1.03):.4f} seconds\n"
        f"Process exited with code {act.code}\n"
        f"Original token count: {len(act.out) // 4}\nOutput:\n{act.out}"
    )


def _codex_shell(act: Act, chance: Random) -> str:
    seconds = round(act.takes * chance.uniform(0.95, 1.05), 1)
    about = {"exit_code": act.code, "duration_seconds": seconds}
    return json.dumps({"output": act.out, "metadata": about})


def _gemini_shell(act: Act, chance: Random) -> str:
    code = f"\nExit Code: {act.code}" if act.code else ""
    out = act.out or "(empty)"
    return f"Output: {out}{code}\nProcess Group PGID: {chance.randrange(2_000, 90_000)}"


def _hands_shell(act: Act, _: Random) -> str:
    return (
        f"{act.out}\n[The command completed with exit code {act.code}.]\n"
        "[Current working directory: /workspace]\n[Python interpreter: /usr/bin/python3]\n"
        f"[Command finished with exit code {act.code}]"
    )


def _plain_shell(act: Act, _: Random) -> str:
    return json.dumps({"exit_code": act.code, "output": act.out})


def _xml(say: str, name: str, args: Json) -> str:
    own = {"execute_command", "read_file", "replace_in_file", "write_to_file", "search_files"}
    if name not in own:
        given = f"<arguments>\n{json.dumps(args)}\n</arguments>"
        args = {"server_name": "project", "tool_name": name}
        inner = "\n".join(f"<{key}>{value}</{key}>" for key, value in args.items())
        return f"{say}\n\n<use_mcp_tool>\n{inner}\n{given}\n</use_mcp_tool>"
    flags = {False: "false", True: "true"}
    inner = "\n".join(f"<{key}>{flags.get(value, value)}</{key}>" for key, value in args.items())
    return f"{say}\n\n<{name}>\n{inner}\n</{name}>"


def _cline_hears(act: Act, name: str, result: str, number: int) -> str:
    about = act.args.get("cmd") or act.args.get("path") or act.kind
    ratio = min(11 + number, 90)
    return (
        f"[{name} for '{about}'] Result:\n{result}\n\n<environment_details>\n"
        "# Visual Studio Code Visible Files\n(No visible files)\n\n"
        f"# Context Window Usage\n{ratio * 2},{len(result) % 900 + 100} / 200K tokens used "
        f"({ratio}%)\n\n# Current Mode\nACT MODE\n</environment_details>"
    )


def _cline_shell(act: Act, _: Random) -> str:
    head = "Command executed." if not act.code else f"Command failed with exit code {act.code}."
    return f"{head}\nOutput:\n{act.out}"


def _react(say: str, name: str, args: Json) -> str:
    return f"Thought: {say}\nAction: {name}\nAction Input: {json.dumps(args)}"


def _fenced(tag: str) -> Callable[[str, str, Json], str]:
    head = "THOUGHT: " if tag else "DISCUSSION\n"
    return lambda say, _, args: f"{head}{say}\n\n```{tag}\n{args['command']}\n```"


def _swe_hears(_: Act, __: str, result: str, ___: int) -> str:
    return f"OBSERVATION:\n{result}\n(Open file: n/a)\n(Current directory: /repo)\nbash-$"


def _mini_hears(act: Act, _: str, result: str, __: int) -> str:
    return f"<returncode>{act.code}</returncode>\n<output>\n{result}\n</output>"


# how sessions are named


def _uuid(text: str) -> str:
    return str(UUID(int=Random(text).getrandbits(128), version=4))


def _claude_session(session: str, _: Random) -> tuple[Json, Json]:
    id = _uuid(session)
    user = {"device_id": _uuid(session + "d").replace("-", ""), "session_id": id}
    head = {"x-app": "cli", "x-claude-code-session-id": id, "anthropic-version": "2023-06-01"}
    return head, {"metadata": {"user_id": json.dumps(user)}}


def _codex_session(session: str, _: Random) -> tuple[Json, Json]:
    id = _uuid(session)
    fields: Json = {"prompt_cache_key": id, "reasoning": {"effort": "medium", "summary": "auto"}}
    fields |= {"store": False, "include": ["reasoning.encrypted_content"], "tool_choice": "auto"}
    return {"originator": "codex_cli_rs", "session_id": id}, fields


def _kept_session(session: str, _: Random) -> tuple[Json, Json]:
    return {}, {"store": True, "prompt_cache_key": _uuid(session)}


def _qwen_session(session: str, chance: Random) -> tuple[Json, Json]:
    prompt = f"{_uuid(session)}########{chance.randrange(9)}"
    return {}, {"metadata": {"sessionId": _uuid(session), "promptId": prompt}}


def _opencode_session(session: str, _: Random) -> tuple[Json, Json]:
    return {"x-opencode-session": f"ses_{_uuid(session)[:18]}"}, {}


# the forms

_CLAUDES = ("claude-opus-4-7", "claude-sonnet-5")
_GPTS = ("gpt-5.6", "gpt-5.6-mini")
_OPEN = ("glm-5.1", "kimi-k2.7", "deepseek-v4", "mistral-large-4")
_EDIT = {"path": "file_path", "old": "old_string", "new": "new_string"}
_FILE = {"path": "file_path", "text": "content"}
_HITS = {"pattern": "pattern", "path": "path"}
_RUN = {"cmd": "command", "why": "description"}
_TODO: dict[str, str] = {}

_GEMINI_VERBS: Verbs = {
    "sh": ("run_shell_command", _RUN, {}),
    "read": ("read_file", _FILE, {}),
    "edit": ("replace", _EDIT, {}),
    "write": ("write_file", _FILE, {}),
    "grep": ("search_file_content", _HITS, {}),
    "todo": ("write_todos", _TODO, {}),
}
_PLAIN_VERBS: Verbs = {
    "sh": ("run_command", {"cmd": "command"}, {}),
    "read": ("read_file", {"path": "path"}, {}),
    "edit": ("edit_file", {"path": "path", "old": "find", "new": "replace"}, {}),
    "write": ("write_file", {"path": "path", "text": "content"}, {}),
    "grep": ("search_code", {"pattern": "query"}, {}),
    "todo": ("set_plan", _TODO, {}),
}

_ALL = (
    Form(
        name="claude-code",
        api="anthropic",
        models=_CLAUDES,
        agent="claude-cli/2.2.14 (external, cli)",
        system="You are Claude Code, Anthropic's official CLI for Claude.\n\nYou are an "
        "interactive agent that helps users with software engineering tasks. "
        "Keep answers short. Use TodoWrite "
        "to plan. Never commit unless asked.",
        verbs={
            "sh": ("Bash", _RUN, {}),
            "read": ("Read", _FILE, {}),
            "edit": ("Edit", _EDIT, {}),
            "write": ("Write", _FILE, {}),
            "grep": ("Grep", _HITS, {"output_mode": "content", "-n": True}),
            "todo": ("TodoWrite", _TODO, {}),
        },
        shell=_claude_shell,
        edited="The file {path} has been updated successfully.",
        opening="<system-reminder>\nAs you answer the user's questions, you can use the following "
        "context:\n# currentDate\nToday's date is {day}.\n</system-reminder>",
        reminder="<system-reminder>\nThe TodoWrite tool hasn't been used recently. If "
        "you're working "
        "on tasks that would benefit from tracking progress, consider using it. Make sure that you "
        "NEVER mention this reminder to the user\n</system-reminder>",
        planned="Todos have been modified successfully. Ensure that you continue to use the todo "
        "list to track your progress. Please proceed with the current tasks if applicable",
        item=lambda item: {
            "content": item["step"],
            "status": item["status"],
            "activeForm": f"Doing: {item['step']}",
        },
        plan="todos",
        session=_claude_session,
        stream=True,
        thinks=True,
    ),
    Form(
        name="codex",
        api="responses",
        models=("gpt-5.6-codex",),
        agent="codex_cli_rs/0.131.0 (Debian 13.0.0; x86_64) xterm-256color",
        system="You are Codex, based on GPT-5. You are running as a coding agent in the Codex CLI "
        "on a user's computer. Prefer rg. Use apply_patch for edits.",
        verbs={
            "sh": ("exec_command", {"cmd": "cmd"}, {"yield_time_ms": 10_000}),
            "edit": ("apply_patch", {}, {}),
            "write": ("apply_patch", {}, {}),
            "todo": ("update_plan", _TODO, {}),
        },
        shell=_codex_exec,
        edited="Success. Updated the following files:\nM {path}\n",
        opening="<environment_context>\n  <cwd>/srv/work</cwd>\n  <approval_policy>never"
        "</approval_policy>\n  <shell>bash</shell>\n  <current_date>{day}</current_date>\n"
        "</environment_context>",
        planned="Plan updated",
        plan="plan",
        session=_codex_session,
        stream=True,
        thinks=True,
    ),
    Form(
        name="responses-kept",
        api="responses",
        models=_GPTS,
        agent="OpenAI/Python 3.1.0",
        system="You are a careful engineer. You work in a container through the tool shell. The "
        "provider keeps the conversation.",
        verbs={"sh": ("shell", {"cmd": "command"}, {"timeout_ms": 120_000})},
        shell=_codex_shell,
        session=_kept_session,
    ),
    Form(
        name="gemini-cli",
        api="gemini",
        models=("gemini-3.5-pro", "gemini-3.5-flash"),
        agent="GeminiCLI/0.31.2/gemini-3.5-pro (linux; x64)",
        system="You are Gemini CLI, an interactive CLI agent specializing in software engineering "
        "tasks. Follow the project's conventions. Explain commands that change the system.",
        verbs=_GEMINI_VERBS,
        shell=_gemini_shell,
        edited="Successfully modified file: {path} (1 replacements).",
        opening="<session_context>\nThis is the Gemini CLI. We are setting up the context for our "
        "chat.\nToday's date is {day}.\nMy operating system is: linux\n</session_context>",
        planned="Successfully updated the todo list.",
        item=lambda item: {"description": item["step"], "status": item["status"]},
        plan="todos",
        stream=True,
    ),
    Form(
        name="qwen-code",
        api="chat",
        models=("qwen3.5-coder-plus", "qwen3.5-max"),
        agent="QwenCode/0.14.0 (linux; x64)",
        system="You are Qwen Code, an interactive CLI agent developed by Alibaba Group, "
        "specializing in software engineering tasks.",
        verbs={
            **_GEMINI_VERBS,
            "sh": ("run_shell_command", _RUN, {"is_background": False}),
            "edit": ("edit", _EDIT, {}),
            "grep": ("grep_search", _HITS, {}),
            "todo": ("todo_write", _TODO, {}),
        },
        shell=lambda act, _: (
            f"Command: {act.args.get('cmd', '')}\nDirectory: (root)\n"
            f"Output: {act.out or '(empty)'}\nError: (none)\nExit Code: {act.code}\nSignal: 0"
        ),
        edited="The file: {path} has been updated.",
        planned="Todos have been modified successfully.",
        item=lambda item: {"id": item["step"][:8], "content": item["step"], **item},
        plan="todos",
        session=_qwen_session,
        stream=True,
    ),
    Form(
        name="opencode",
        api="chat",
        models=_OPEN,
        agent="opencode/1.4.9 ai-sdk/openai-compatible/2.0.11",
        system="You are opencode, an interactive CLI tool that helps users with software "
        "engineering tasks. Answer in fewer than four lines unless asked for detail.",
        verbs={
            "sh": ("bash", _RUN, {"timeout": 120_000}),
            "read": ("read", {"path": "filePath"}, {}),
            "edit": ("edit", {"path": "filePath", "old": "oldString", "new": "newString"}, {}),
            "write": ("write", {"path": "filePath", "text": "content"}, {}),
            "grep": ("grep", _HITS, {}),
            "todo": ("todowrite", _TODO, {}),
        },
        edited="Edit applied successfully.",
        item=lambda item: {"content": item["step"], "status": item["status"], "priority": "high"},
        plan="todos",
        session=_opencode_session,
        stream=True,
    ),
    Form(
        name="cline",
        api="anthropic",
        models=_CLAUDES,
        agent="Anthropic/JS 0.91.0",
        system="You are Cline, a highly skilled software engineer with extensive knowledge in many "
        "programming languages. Tool uses are formatted in XML-style tags: <execute_command>, "
        "<read_file>, <replace_in_file>, <write_to_file>, <search_files>, <use_mcp_tool>, "
        "<attempt_completion>. Use one tool per message.",
        verbs={
            "sh": ("execute_command", {"cmd": "command"}, {"requires_approval": False}),
            "read": ("read_file", {"path": "path"}, {}),
            "edit": ("replace_in_file", {}, {}),
            "write": ("write_to_file", {"path": "path", "text": "content"}, {}),
            "grep": ("search_files", {"pattern": "regex", "path": "path"}, {}),
        },
        shell=_cline_shell,
        edited="The content was successfully saved to {path}.",
        stream=True,
        says=_xml,
        hears=_cline_hears,
    ),
    Form(
        name="openhands",
        api="chat",
        models=_CLAUDES + _OPEN,
        agent="OpenAI/Python 3.1.0",
        system="You are OpenHands agent, a helpful AI assistant that can interact with a computer "
        "to solve tasks.\n<ROLE>Be thorough. Fix the root of a problem.</ROLE>",
        verbs={
            "sh": ("execute_bash", {"cmd": "command"}, {"security_risk": "LOW"}),
            "read": ("str_replace_editor", {"path": "path"}, {"command": "view"}),
            "edit": (
                "str_replace_editor",
                {"path": "path", "old": "old_str", "new": "new_str"},
                {"command": "str_replace"},
            ),
            "write": (
                "str_replace_editor",
                {"path": "path", "text": "file_text"},
                {"command": "create"},
            ),
            "todo": ("task_tracker", _TODO, {"command": "plan"}),
        },
        shell=_hands_shell,
        edited="The file {path} has been edited. Review the changes and make sure they are as "
        "expected. Edit the file again if necessary.",
        planned="Task list has been updated.",
        item=lambda item: {"title": item["step"], "status": item["status"], "notes": ""},
        plan="task_list",
    ),
    Form(
        name="swe-agent",
        api="chat",
        models=_GPTS + _OPEN,
        agent="litellm/1.92.0",
        system="SETTING: You are an autonomous programmer, and you work directly in the command "
        "line. Give a DISCUSSION and then one command in a block of three backticks.",
        verbs={"sh": ("bash", {"cmd": "command"}, {})},
        shell=lambda act, _: act.out or "Your command ran and did not produce any output.",
        says=_fenced(""),
        hears=_swe_hears,
    ),
    Form(
        name="mini-swe-agent",
        api="chat",
        models=_GPTS + _OPEN,
        agent="litellm/1.92.0",
        system="You are a helpful assistant that can interact with a computer. Each response has a "
        "THOUGHT and exactly one bash code block. To finish, run echo "
        "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT.",
        verbs={"sh": ("bash", {"cmd": "command"}, {})},
        shell=lambda act, _: act.out,
        says=_fenced("mswea_bash_command"),
        hears=_mini_hears,
    ),
    Form(
        name="langgraph",
        api="chat",
        models=_GPTS + _OPEN,
        agent="OpenAI/Python 3.1.0",
        system="You are an assistant of the operations team. Use the tools that you have, and say "
        "when you are done.",
        verbs=_PLAIN_VERBS,
        shell=_plain_shell,
    ),
    Form(
        name="crewai",
        api="chat",
        models=_GPTS + _OPEN,
        agent="litellm/1.92.0",
        system="You are Senior Specialist. You have twenty years of experience.\nYour personal "
        "goal is: finish the task.\nUse the following format:\n\nThought: what to do\nAction: the "
        "action to take\nAction Input: a JSON object\nObservation: the result of the action",
        verbs=_PLAIN_VERBS,
        shell=_plain_shell,
        says=_react,
        hears=lambda _, __, result, ___: f"\nObservation: {result}",
        joins=True,
    ),
    Form(
        name="openai-agents",
        api="responses",
        models=_GPTS,
        agent="Agents/Python 0.31.0",
        system="# System context\nYou are part of a multi-agent system called the Agents SDK. "
        "Handoffs are made by calling a function named transfer_to_<agent_name>.\n",
        verbs=_PLAIN_VERBS,
        shell=_plain_shell,
    ),
    Form(
        name="autogen",
        api="chat",
        models=_GPTS,
        agent="autogen-python/0.9.2",
        system="You take part in a chat of several agents. Reply TERMINATE when the task is done.",
        verbs=_PLAIN_VERBS,
        shell=_plain_shell,
    ),
    Form(
        name="anthropic-mcp",
        api="anthropic",
        models=_CLAUDES,
        agent="Anthropic/Python 2.8.0",
        system="You are an assistant with access to MCP servers. Use their tools to do what the "
        "user asks, and report back.",
        verbs=_PLAIN_VERBS,
        shell=_plain_shell,
    ),
    Form(
        name="computer-use",
        api="anthropic",
        models=_CLAUDES,
        agent="Anthropic/Python 2.8.0",
        system="You control an Ubuntu desktop with a screen of 1280 by 800. After each step, take "
        "a screenshot and evaluate whether you have reached the right outcome.",
        session=lambda _, __: ({"anthropic-beta": "computer-use-2025-11-24"}, {}),
    ),
    Form(
        name="browser-use",
        api="chat",
        models=_GPTS + _OPEN,
        agent="OpenAI/Python 3.1.0",
        system="You are an AI agent designed to operate in an iterative loop to automate browser "
        "tasks. Your input has your history, the user's request and the state of the browser. "
        "Answer with JSON: thinking, evaluation_previous_goal, memory, next_goal and action.",
    ),
    Form(
        name="gemini-api",
        api="gemini",
        models=("gemini-3.5-flash",),
        agent="google-genai-sdk/2.3.0 gl-python/3.13.1",
        system="You are a research assistant. Ground each statement in a source.",
        verbs=_PLAIN_VERBS,
        shell=_plain_shell,
    ),
)

FORMS = {form.name: form for form in _ALL}
