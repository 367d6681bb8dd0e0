"""The forms of coding agents that call tools by their API."""
# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from bench.loops.form import Json, Tool
from bench.loops.tales.harness import Harness, as_command, numbered
from bench.loops.tales.noise import Noise
from bench.loops.tales.tale import Deed, Tale

GENERIC = frozenset({"shell", "read", "edit", "write", "find"})


def described(command: str, noise: Noise) -> str:
    """Return how a model describes a command: not always in the same words."""
    what = command.split()[0]
    return noise.rng.choice((f"Run {what}", f"Run {what}", f"Runs {what} in the project",
                             f"Use {what} to see the state"))  # fmt: skip


class ClaudeCode(Harness):
    """Claude Code: streams, keeps sealed thoughts, adds reminders to some results."""

    name = "claude-code"
    dialect = "anthropic"
    model = "claude-sonnet-4-6"
    stream = True
    thinks = True
    prefix = "mcp__desk__"
    call_ids = "toolu_01"
    tools = (
        Tool("Bash", "Run a command in a shell.", ("command", "description")),
        Tool("Read", "Read a file.", ("file_path",)),
        Tool("Edit", "Replace a text in a file.", ("file_path", "old_string", "new_string")),
        Tool("Write", "Write a file.", ("file_path", "content")),
        Tool("Grep", "Search in files.", ("pattern", "path", "output_mode")),
        Tool("TodoWrite", "Keep a list of what is to be done.", ("todos",)),
        Tool("Task", "Give a task to a subagent.", ("description", "prompt", "subagent_type")),
    )
    reminders = (
        "The TodoWrite tool has not been used for a while. Use it if the work has several steps; "
        "otherwise ignore this, and never mention it to the user.",
        "A file that you read earlier may have been changed by a linter or by the user. Take it "
        "into account, and do not revert it unless asked.",
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You are Claude Code, a coding agent in a terminal. Help the user with software "
            "tasks. Be brief. Prefer to edit files over creating new ones. Check your work with "
            f"the project's own tests.\n\n<env>\nWorking directory: {self.root}\nIs directory a "
            f"git repo: Yes\nPlatform: linux\nToday's date: {noise.now:%Y-%m-%d}\n</env>\n"
            f"{tale.persona}"
        )

    root: ClassVar[str] = "/home/dev/checkout"

    def opening(self, tale: Tale, noise: Noise) -> str:
        return (
            "<system-reminder>\nContents of CLAUDE.md: keep functions short, run the tests before "
            f"you say that you are done.\n</system-reminder>\n{tale.task}"
        )

    def extra(self, session: str) -> Json:
        return {"metadata": {"user_id": f"user_9d2f_account_4c11_session_{session}"}}

    def headers(self, session: str) -> Mapping[str, str]:
        agent = {"user-agent": "claude-cli/2.1.88 (external, cli)", "x-app": "cli"}
        return {**agent, "x-claude-code-session-id": session}

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        if deed.verb in ("TodoWrite", "Task", "ScheduleWakeup"):
            return deed.verb, dict(deed.args), deed.result
        if deed.is_unknown:
            return deed.verb, dict(deed.args), f"<tool_use_error>{deed.result}</tool_use_error>"
        if deed.verb not in GENERIC:
            return super().express(deed, noise)
        name, args, result = self._express_generic(deed, noise)
        if noise.rng.random() < 0.18:
            reminder = noise.rng.choice(self.reminders)
            result += f"\n\n<system-reminder>\n{reminder}\n</system-reminder>"
        return name, args, result

    def _express_generic(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        args = deed.args
        path = f"{self.root}/{args.get('path', '')}".rstrip("/")
        match deed.verb:
            case "shell":
                about = described(args["command"], noise)
                output = deed.result or "(Bash completed with no output)"
                if deed.code:
                    output = f"Exit code {deed.code}\n{deed.result}"
                return "Bash", {"command": args["command"], "description": about}, output
            case "read":
                return "Read", {"file_path": path}, numbered(deed.result, "→")
            case "find":
                sent = {"pattern": args["pattern"], "path": path, "output_mode": "content"}
                return "Grep", sent, deed.result or "No matches found"
            case "write":
                sent = {"file_path": path, "content": args["content"]}
                return "Write", sent, f"File created successfully at: {path}"
        sent = {"file_path": path, "old_string": args["old"], "new_string": args["new"]}
        if deed.failed:
            gone = f"String to replace not found in file.\nString: {args['old']}"
            return "Edit", sent, f"<tool_use_error>{gone}</tool_use_error>"
        return "Edit", sent, f"The file {path} has been updated successfully."


class Codex(Harness):
    """Codex: Responses without kept history; patches are free text."""

    name = "codex"
    dialect = "responses"
    model = "gpt-5.3-codex"
    stream = True
    thinks = True
    prefix = "desk__"
    tools = (
        Tool("exec_command", "Run a command.", ("cmd", "workdir", "yield_time_ms")),
        Tool("apply_patch", "Apply a patch to files.", is_custom=True),
        Tool("update_plan", "Update the plan.", ("explanation", "plan")),
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You are Codex, a coding agent that runs in a terminal on the user's computer. Work "
            "until the task is solved, then stop. Use rg to search. Edit with apply_patch. "
            f"{tale.persona}"
        )

    def opening(self, tale: Tale, noise: Noise) -> str:
        return (
            "<environment_context>\n  <cwd>/srv/checkout</cwd>\n  <approval_policy>never"
            "</approval_policy>\n  <sandbox_mode>workspace-write</sandbox_mode>\n  <shell>bash"
            f"</shell>\n</environment_context>\n\n{tale.task}"
        )

    def extra(self, session: str) -> Json:
        return {
            "store": False,
            "prompt_cache_key": session,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "medium", "summary": "auto"},
        }

    def headers(self, session: str) -> Mapping[str, str]:
        return {"session_id": session, "originator": "codex_cli_rs"}

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        if deed.verb not in GENERIC:
            return super().express(deed, noise)
        args = deed.args
        if deed.verb == "edit":
            lines = [f"-{line}" for line in args["old"].split("\n")]
            lines += [f"+{line}" for line in args["new"].split("\n")]
            body = "\n".join(lines)
            patch = f"*** Begin Patch\n*** Update File: {args['path']}\n@@\n{body}\n*** End Patch"
            if deed.failed:
                gone = f"Failed to find expected lines in {args['path']}:\n{args['old']}"
                return "apply_patch", {"free_text": patch}, f"apply_patch verification: {gone}"
            done = f"Success. Updated the following files:\nM {args['path']}"
            took = noise.seconds(0.01, 0.2)
            head = f"Exit code: 0\nWall time: {took} seconds\nOutput:\n"
            return "apply_patch", {"free_text": patch}, head + done
        command, output = as_command(deed)
        if deed.verb == "find":
            command = f"rg -n {args['pattern']!r} {args['path']}"
        code = deed.code or int(deed.verb == "find" and not output)
        text = (
            f"Chunk ID: {noise.hex(6)}\nWall time: {noise.rng.uniform(0.02, 3):.4f} seconds\n"
            f"Process exited with code {code}\nOriginal token count: {len(output) // 4}\n"
            f"Output:\n{output}"
        )
        return "exec_command", {"cmd": command, "workdir": "/srv/checkout"}, text


class GeminiCli(Harness):
    """Gemini CLI: results that tell output, error, exit code and process group."""

    name = "gemini-cli"
    dialect = "gemini"
    model = "gemini-3-pro-preview"
    thinks = True
    tools = (
        Tool("run_shell_command", "Run a command.", ("command", "description")),
        Tool("read_file", "Read a file.", ("file_path",)),
        Tool(
            "replace",
            "Replace a text in a file.",
            ("file_path", "instruction", "old_string", "new_string"),
        ),
        Tool("write_file", "Write a file.", ("file_path", "content")),
        Tool("search_file_content", "Search in files.", ("pattern", "dir_path")),
        Tool("google_web_search", "Search the web.", ("query",)),
    )
    nudge = "Please continue."

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You are an interactive CLI agent for software engineering. Follow the conventions of "
            "the project, never assume that a library is there, and verify changes with its own "
            f"build and tests. {tale.persona}"
        )

    def opening(self, tale: Tale, noise: Noise) -> str:
        return (
            f"This is the Gemini CLI. Today's date is {noise.now:%A, %B %d, %Y}. My operating "
            "system is: linux. I'm working in the directory: /work-area/app\n\n" + tale.task
        )

    def is_error(self, deed: Deed) -> bool:
        """A command that fails is no error of the tool: its result tells the exit code."""
        return deed.failed and deed.verb != "shell"

    def call_id(self, name: str, noise: Noise) -> str:
        """Return an id that only the results have: it is made by the harness."""
        return f"{name}-{noise.now.timestamp():.0f}{noise.rng.randrange(1000):03d}-{noise.hex(13)}"

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        args = deed.args
        path = args.get("path", "")
        match deed.verb:
            case "shell":
                output = deed.result or "(empty)"
                text = (
                    f"Output: {output}\nError: (none)\nExit Code: {deed.code}\nSignal: (none)\n"
                    f"Background PIDs: (none)\nProcess Group PGID: {noise.pid()}"
                )
                sent = {"command": args["command"]}
                sent["description"] = described(args["command"], noise)
                return "run_shell_command", sent, text
            case "read":
                return "read_file", {"file_path": path}, deed.result
            case "find":
                sent = {"pattern": args["pattern"], "dir_path": path}
                nothing = f'No matches found for pattern "{args["pattern"]}".'
                return "search_file_content", sent, deed.result or nothing
            case "write":
                sent = {"file_path": path, "content": args["content"]}
                return "write_file", sent, f"Successfully created and wrote to new file: {path}."
            case "edit":
                sent = {
                    "file_path": path,
                    "instruction": "Make the change that was discussed.",
                    "old_string": args["old"],
                    "new_string": args["new"],
                }
                if deed.failed:
                    gone = f"Failed to edit, 0 occurrences found for old_string in {path}."
                    return "replace", sent, f"{gone} No edits made. Check whitespace and context."
                return "replace", sent, f"Successfully modified file: {path} (1 replacements)."
        return super().express(deed, noise)


class OpenCode(Harness):
    """opencode with a model behind an OpenAI-compatible API."""

    name = "opencode"
    model = "glm-5"
    stream = True
    prefix = "desk_"
    tools = (
        Tool("bash", "Run a command.", ("command", "description")),
        Tool("read", "Read a file.", ("filePath",)),
        Tool("edit", "Replace a text in a file.", ("filePath", "oldString", "newString")),
        Tool("write", "Write a file.", ("filePath", "content")),
        Tool("grep", "Search in files.", ("pattern", "path")),
        Tool("todowrite", "Keep a list of todos.", ("todos",)),
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You are opencode, an interactive CLI tool for software engineering. Answer in few "
            f"lines. Never commit unless asked.\n<env>\n  Working directory: /code/app\n  Is "
            f"directory a git repo: yes\n  Today's date: {noise.now:%a %b %d %Y}\n</env>\n"
            f"{tale.persona}"
        )

    def headers(self, session: str) -> Mapping[str, str]:
        return {"user-agent": "opencode/1.4.2", "x-session-affinity": f"ses_{session[:20]}"}

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        args = deed.args
        path = f"/code/app/{args.get('path', '')}"
        match deed.verb:
            case "shell":
                sent = {"command": args["command"]}
                sent["description"] = described(args["command"], noise)
                return "bash", sent, deed.result or "(no output)"
            case "read":
                lines = deed.result.split("\n")
                text = "\n".join(f"{n}: {line}" for n, line in enumerate(lines, 1))
                end = f"(End of file - total {len(lines)} lines)"
                return "read", {"filePath": path}, f"<file>\n{text}\n\n{end}\n</file>"
            case "find":
                sent = {"pattern": args["pattern"], "path": path}
                return "grep", sent, deed.result or "No files found"
            case "write":
                return "write", {"filePath": path, "content": args["content"]}, "Wrote file."
            case "edit":
                sent = {"filePath": path, "oldString": args["old"], "newString": args["new"]}
                if deed.failed:
                    return "edit", sent, "Error: oldString not found in content"
                return "edit", sent, "Edit applied successfully."
            case "TodoWrite":
                return "todowrite", dict(args), deed.result
        return super().express(deed, noise)
