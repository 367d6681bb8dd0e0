"""The forms of coding agents in a terminal: tools, arguments, and wrapping of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.loops.form import Json, Tool
from bench.loops.held_out.run import Act, Harness, hexes, uuid


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run."""

    command: str
    output: str
    exit_code: int
    took: float
    pid: int


class Coder:
    """A coding agent: writes what a story does in the form of its tools."""

    harness: Harness
    root = "/workspace"

    def shell(self, rng: Random, command: str, output: str, exit_code: int = 0) -> Act:
        """Run a command."""
        took = round(rng.uniform(0.1, 4.0), 1)
        return self.ran(Ran(command, output, exit_code, took, rng.randint(2000, 90000)))

    def ran(self, ran: Ran) -> Act:
        """Return a command with its result."""
        raise NotImplementedError

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        """Read a part of a file."""
        raise NotImplementedError

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        """Replace a text of a file, which may not be there."""
        raise NotImplementedError

    def search(self, pattern: str, hits: Sequence[str]) -> Act:
        """Search the files of the project."""
        command = f"grep -rn {pattern!r} ."
        return self.shell(Random(command), command, "\n".join(hits), 0 if hits else 1)

    def unknown(self, name: str, args: Json) -> Act:
        """Use a tool that does not exist."""
        return Act(name, args, f"Tool '{name}' does not exist.")

    def path(self, name: str) -> str:
        """Return where a file of the project is."""
        return f"{self.root}/{name}"


def numbered(lines: Sequence[str], start: int, form: str) -> str:
    """Return lines with their numbers."""
    return "\n".join(form.format(start + at, line) for at, line in enumerate(lines))


class ClaudeCode(Coder):
    """Claude Code on the Messages API."""

    root = "/home/dev/src/app"
    harness = Harness(
        "Claude Code",
        "anthropic",
        "claude-sonnet-4-5-20250929",
        "You are Claude Code, Anthropic's official CLI for Claude.\nYou help with software work "
        "in the user's terminal. Working directory: /home/dev/src/app\nPlatform: linux",
        [
            Tool("Bash", "Runs a bash command", ("command", "description")),
            Tool("Read", "Reads a file", ("file_path",)),
            Tool("Edit", "Replaces text in a file", ("file_path", "old_string", "new_string")),
            Tool("Grep", "Searches with ripgrep", ("pattern", "output_mode")),
            Tool("Task", "Starts an agent", ("description", "prompt", "subagent_type")),
            Tool("TodoWrite", "Keeps a list of tasks", ("todos",)),
        ],
        stream=True,
        thinks=True,
        extra=lambda rng: {
            "metadata": {"user_id": f"user_{hexes(rng, 64)}_account__session_{uuid(rng)}"}
        },
        headers=lambda _rng: {
            "user-agent": "claude-cli/2.0.61 (external, cli)",
            "anthropic-version": "2023-06-01",
            "x-app": "cli",
        },
    )

    def ran(self, ran: Ran) -> Act:
        about = " ".join(ran.command.split()[:3])
        result = f"Exit code {ran.exit_code}\n{ran.output}" if ran.exit_code else ran.output
        return Act("Bash", {"command": ran.command, "description": f"Run {about}"}, result)

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        args: Json = {"file_path": self.path(path)}
        if start > 1:
            args |= {"offset": start, "limit": len(lines)}
        return Act("Read", args, numbered(lines, start, "{:>6}→{}"))

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        args = {"file_path": self.path(path), "old_string": old, "new_string": new}
        if not fits:
            said = "<tool_use_error>String to replace not found in file.\n"
            return Act("Edit", args, f"{said}String: {old}</tool_use_error>")
        said = f"The file {self.path(path)} has been updated. Here's the result of running `cat -n`"
        shown = numbered(new.split("\n"), 14, "{:>6}→{}")
        return Act("Edit", args, f"{said} on a snippet of the edited file:\n{shown}")

    def search(self, pattern: str, hits: Sequence[str]) -> Act:
        result = "\n".join(hits) or "No matches found"
        return Act("Grep", {"pattern": pattern, "output_mode": "content"}, result)

    def unknown(self, name: str, args: Json) -> Act:
        said = f"<tool_use_error>Error: No such tool available: {name}</tool_use_error>"
        return Act(name, args, said)


class Codex(Coder):
    """Codex on the Responses API, which sends all items again."""

    root = "/srv/repo"
    harness = Harness(
        "Codex",
        "responses",
        "gpt-5.1-codex",
        "You are Codex, based on GPT-5. You are running as a coding agent in the Codex CLI on a "
        "user's computer. Use apply_patch for edits.",
        [
            Tool("shell_command", "Runs a shell command", ("command", "workdir")),
            Tool("apply_patch", "Edits files by a patch", is_custom=True),
            Tool("update_plan", "Updates the plan", ("plan",)),
        ],
        stream=True,
        thinks=True,
        extra=lambda rng: {
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "medium", "summary": "auto"},
            "prompt_cache_key": uuid(rng),
        },
        headers=lambda rng: {"originator": "codex_cli_rs", "session_id": uuid(rng)},
    )

    def ran(self, ran: Ran) -> Act:
        result = f"Exit code: {ran.exit_code}\nWall time: {ran.took} seconds\nOutput:\n{ran.output}"
        return Act("shell_command", {"command": ran.command, "workdir": self.root}, result)

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        command = f"sed -n '{start},{start + len(lines) - 1}p' {path}"
        return self.shell(Random(command), command, "\n".join(lines))

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        took = "\n".join(f"-{line}" for line in old.split("\n"))
        put = "\n".join(f"+{line}" for line in new.split("\n"))
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n{took}\n{put}\n*** End Patch"
        result = f"Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated:\nM {path}\n"
        if not fits:
            where = f"Failed to find expected lines in {self.path(path)}"
            result = f"apply_patch verification failed: {where}:\n{old}"
        return Act("apply_patch", {}, result, free_text=patch)

    def unknown(self, name: str, args: Json) -> Act:
        return Act(name, args, f"unsupported call: {name}")


class GeminiCli(Coder):
    """Gemini CLI on Gemini's API."""

    root = "/Users/mia/code/service"
    harness = Harness(
        "Gemini CLI",
        "gemini",
        "gemini-2.5-pro",
        "You are an interactive CLI agent specializing in software engineering tasks. Follow the "
        "conventions of the project and check your work with its tests.",
        [
            Tool("run_shell_command", "Runs a command", ("command", "description")),
            Tool("read_file", "Reads a file", ("file_path",)),
            Tool("replace", "Replaces text", ("file_path", "old_string", "new_string")),
            Tool("search_file_content", "Searches files", ("pattern",)),
        ],
        thinks=True,
        headers=lambda _rng: {"user-agent": "GeminiCLI/0.19.1/gemini-2.5-pro (darwin; arm64)"},
    )

    def ran(self, ran: Ran) -> Act:
        result = (
            f"Command: {ran.command}\nDirectory: (root)\nOutput: {ran.output}\nError: (none)\n"
            f"Exit Code: {ran.exit_code}\nSignal: 0\nBackground PIDs: (none)\n"
            f"Process Group PGID: {ran.pid}"
        )
        return Act("run_shell_command", {"command": ran.command, "description": "Run it"}, result)

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        args: Json = {"file_path": self.path(path)}
        if start > 1:
            args |= {"offset": start - 1, "limit": len(lines)}
        return Act("read_file", args, "\n".join(lines))

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        args = {"file_path": self.path(path), "old_string": old, "new_string": new}
        result = f"Successfully modified file: {self.path(path)} (1 replacements)."
        if not fits:
            result = (
                "Failed to edit, could not find the string to replace. 0 occurrences found for "
                f"old_string in {self.path(path)}. Use read_file to check the exact text."
            )
        return Act("replace", args, result)

    def search(self, pattern: str, hits: Sequence[str]) -> Act:
        found = f"Found {len(hits)} matches for pattern" if hits else "No matches found for pattern"
        result = "\n".join([f'{found} "{pattern}" in the workspace directory:', *hits])
        return Act("search_file_content", {"pattern": pattern}, result)

    def unknown(self, name: str, args: Json) -> Act:
        said = f'Tool "{name}" not found in registry. Tools must use the exact names given.'
        return Act(name, args, said)


class OpenCode(Coder):
    """opencode on the Chat Completions API."""

    root = "/srv/checkout"
    harness = Harness(
        "opencode",
        "chat",
        "gpt-5.1",
        "You are opencode, an interactive CLI tool that helps users with software engineering "
        "tasks. Keep answers short.\n<env>\n  Working directory: /srv/checkout\n</env>",
        [
            Tool("bash", "Executes a command", ("command", "description")),
            Tool("read", "Reads a file", ("filePath",)),
            Tool("edit", "Edits a file", ("filePath", "oldString", "newString")),
            Tool("grep", "Searches contents", ("pattern",)),
            Tool("todowrite", "Writes the list of tasks", ("todos",)),
            Tool("task", "Gives a task to another agent", ("description", "prompt")),
        ],
        stream=True,
        headers=lambda _rng: {"user-agent": "opencode/1.0.134"},
    )

    def ran(self, ran: Ran) -> Act:
        args = {"command": ran.command, "description": f"Runs {ran.command.split()[0]}"}
        return Act("bash", args, ran.output or "(no output)")

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        args: Json = {"filePath": self.path(path)}
        if start > 1:
            args |= {"offset": start - 1, "limit": len(lines)}
        return Act("read", args, f"<file>\n{numbered(lines, start, '{:05}| {}')}\n</file>")

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        args = {"filePath": self.path(path), "oldString": old, "newString": new}
        return Act("edit", args, "" if fits else "Error: oldString not found in content")

    def search(self, pattern: str, hits: Sequence[str]) -> Act:
        found = f"Found {len(hits)} matches\n" if hits else "No files found"
        return Act("grep", {"pattern": pattern}, found + "\n".join(hits))

    def unknown(self, name: str, args: Json) -> Act:
        said = f"Model tried to call unavailable tool '{name}'. Available tools: bash, read, edit"
        return Act("invalid", {"tool": name, "error": said, "input": args}, f"Invalid: {said}")
