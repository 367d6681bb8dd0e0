"""The forms of coding agents in an editor or a sandbox; and all coding agents."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from bench.loops.form import Json, Tool, Use
from bench.loops.held_out.coders import (
    ClaudeCode,
    Coder,
    Codex,
    GeminiCli,
    OpenCode,
    Ran,
    numbered,
)
from bench.loops.held_out.run import Act, Harness


def xml_text(said: str, uses: Sequence[Use]) -> tuple[str, str]:
    """Write a turn as Cline does: XML in the answer, results in a message of the user."""
    asked = [said] if said else []
    heard = []
    for use in uses:
        inside = "\n".join(f"<{key}>{value}</{key}>" for key, value in use.args.items())
        asked.append(f"<{use.name}>\n{inside}\n</{use.name}>")
        first = next(iter(use.args.values()), "")
        heard.append(f"[{use.name} for '{first}'] Result:\n{use.result}")
    seen = "\n\n<environment_details>\n# Current Mode\nACT MODE\n</environment_details>"
    return "\n\n".join(asked), ("\n".join(heard) + seen if heard else "")


class Cline(Coder):
    """Cline on the Messages API, its tools written as XML."""

    root = "/home/kim/projects/portal"
    harness = Harness(
        "Cline",
        "anthropic",
        "claude-sonnet-4-5",
        "You are Cline, a highly skilled software engineer. Tool use is formatted with XML-style "
        "tags. You can use one tool per message and get its result in the user's response.",
        (),
        stream=True,
        flat=xml_text,
        headers=lambda rng: {"x-title": "Cline", "x-task-id": str(rng.randint(10**12, 10**13))},
    )

    def ran(self, ran: Ran) -> Act:
        args = {"command": ran.command, "requires_approval": "false"}
        return Act("execute_command", args, f"Command executed.\nOutput:\n{ran.output}")

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        args: Json = {"path": path}
        if start > 1:
            args |= {"start_line": start, "end_line": start + len(lines) - 1}
        return Act("read_file", args, "\n".join(lines))

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        diff = f"------- SEARCH\n{old}\n=======\n{new}\n+++++++ REPLACE"
        result = f"The content was successfully saved to {path}.\n\n{new}"
        if not fits:
            result = (
                "The tool execution failed with the following error:\n<error>\nThe SEARCH block:\n"
                f"{old}\n...does not match anything in the file.\n</error>"
            )
        return Act("replace_in_file", {"path": path, "diff": diff}, result)

    def search(self, pattern: str, hits: Sequence[str]) -> Act:
        result = "\n".join([f"Found {len(hits)} results.", *hits])
        return Act("search_files", {"path": ".", "regex": pattern}, result)


class Roo(Coder):
    """Roo Code with native tools on the Chat Completions API."""

    root = "/home/ada/shop"
    harness = Harness(
        "Roo Code",
        "chat",
        "anthropic/claude-sonnet-4.5",
        "You are Roo, a knowledgeable technical assistant. You must use a tool in each answer, "
        "and attempt_completion when the task is done.",
        [
            Tool("execute_command", "Runs a command", ("command",)),
            Tool("read_file", "Reads files", ("path",)),
            Tool("apply_diff", "Applies a diff", ("path", "diff")),
            Tool("search_files", "Searches files", ("path", "regex")),
            Tool("attempt_completion", "Ends the task", ("result",)),
        ],
        stream=True,
        headers=lambda _rng: {"x-title": "Roo Code", "user-agent": "RooCode/3.36.2"},
    )

    def ran(self, ran: Ran) -> Act:
        place = f"Command executed in terminal within working directory '{self.root}'."
        result = f"{place} Exit code: {ran.exit_code}\nOutput:\n{ran.output}"
        return Act("execute_command", {"command": ran.command}, result)

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        shown = numbered(lines, start, "{} | {}")
        args = {"path": path, "line_range": f"{start}-{start + len(lines) - 1}"}
        return Act("read_file", args, f"File: {path}\nLines {start}-:\n{shown}")

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        diff = f"<<<<<<< SEARCH\n:start_line:14\n-------\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
        result = f'{{"path":"{path}","operation":"modified","notice":"No need to re-read."}}'
        if not fits:
            result = (
                f"Unable to apply diff to file: {self.path(path)}\n\n<error_details>\nNo "
                "sufficiently similar match found at line: 14 (41% similar, needs 100%)\n"
                f"Search Content:\n{old}\n</error_details>"
            )
        return Act("apply_diff", {"path": path, "diff": diff}, result)

    def unknown(self, name: str, args: Json) -> Act:
        return Act(name, args, f"<error>Unknown tool: {name}. Use one of those given.</error>")


class OpenHands(Coder):
    """OpenHands by way of LiteLLM on the Chat Completions API."""

    root = "/workspace/project"
    harness = Harness(
        "OpenHands",
        "chat",
        "claude-sonnet-4-5-20250929",
        "You are OpenHands agent, a helpful AI assistant that can interact with a computer to "
        "solve tasks.\n<ROLE>\nBe thorough, methodical, and prioritize quality.\n</ROLE>",
        [
            Tool("execute_bash", "Runs bash", ("command", "security_risk")),
            Tool("str_replace_editor", "Views and edits files", ("command", "path")),
            Tool("think", "Logs a thought", ("thought",)),
            Tool("finish", "Ends the task", ("message",)),
        ],
        extra=lambda _rng: {"temperature": 0.0, "max_completion_tokens": 8192},
    )
    editor = "str_replace_editor"

    def ran(self, ran: Ran) -> Act:
        result = (
            f"{ran.output}\n[The command completed with exit code {ran.exit_code}.]\n"
            f"[Current working directory: {self.root}]\n[Python interpreter: /usr/bin/python]"
        )
        return Act("execute_bash", {"command": ran.command, "security_risk": "LOW"}, result)

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        args: Json = {"command": "view", "path": self.path(path)}
        if start > 1:
            args["view_range"] = [start, start + len(lines) - 1]
        shown = numbered(lines, start, "{:>6}\t{}")
        return Act(self.editor, args, f"Here's the result of running `cat -n`:\n{shown}")

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        where = self.path(path)
        args = {"command": "str_replace", "path": where, "old_str": old, "new_str": new}
        result = f"The file {where} has been edited. Review the changes.\n{new}"
        if not fits:
            said = f"No replacement was performed, old_str `{old}` did not appear verbatim in"
            result = f"ERROR:\n{said} {where}."
        return Act(self.editor, args, result)


class SweAgent(OpenHands):
    """SWE-agent on the Chat Completions API."""

    root = "/testbed"
    harness = Harness(
        "SWE-agent",
        "chat",
        "gpt-5",
        "You are a helpful assistant that can interact with a computer to solve tasks.",
        [
            Tool("bash", "runs the given command directly in bash", ("command",)),
            Tool("str_replace_editor", "Views and edits files", ("command", "path")),
            Tool("submit", "submits the current file"),
        ],
        extra=lambda _rng: {"temperature": 0.0, "top_p": 1.0},
    )

    def ran(self, ran: Ran) -> Act:
        empty = "Your command ran successfully and did not produce any output."
        return Act("bash", {"command": ran.command}, f"OBSERVATION:\n{ran.output or empty}")


def fenced_text(said: str, uses: Sequence[Use]) -> tuple[str, str]:
    """Write a turn as mini-swe-agent does: a block of bash, and what it printed."""
    blocks = [f"```bash\n{use.args['command']}\n```" for use in uses]
    heard = "\n".join(use.result for use in uses)
    return "\n\n".join([f"THOUGHT: {said or 'Go on.'}", *blocks]), heard


class MiniSwe(Coder):
    """mini-swe-agent: only bash, in plain text."""

    root = "/testbed"
    harness = Harness(
        "mini-swe-agent",
        "chat",
        "gpt-5-mini",
        "You are a helpful assistant that can interact multiple times with a computer shell to "
        "solve programming tasks. Your response must contain exactly ONE bash code block.",
        (),
        flat=fenced_text,
    )
    codes: ClassVar[dict[bool, int]] = {True: 0, False: 1}

    def ran(self, ran: Ran) -> Act:
        result = f"<returncode>{ran.exit_code}</returncode>\n<output>\n{ran.output}\n</output>"
        return Act("bash", {"command": ran.command}, result)

    def read(self, path: str, lines: Sequence[str], start: int = 1) -> Act:
        command = f"nl -ba {path} | sed -n '{start},{start + len(lines) - 1}p'"
        return self.shell(Random(command), command, numbered(lines, start, "{:>6}\t{}"))

    def edit(self, path: str, old: str, new: str, *, fits: bool = True) -> Act:
        swap = f"p.write_text(swap(p.read_text(), {old!r}, {new!r}))"
        command = f"python - <<'END'\nfrom tools import swap\np = path('{path}')\n{swap}\nEND"
        output = f"changed {path}:\n{new}" if fits else f"ValueError: text not in {path}: {old!r}"
        return self.shell(Random(command), command, output, self.codes[fits])


CODERS: tuple[Coder, ...] = (
    ClaudeCode(),
    Codex(),
    GeminiCli(),
    OpenCode(),
    Cline(),
    Roo(),
    OpenHands(),
    SweAgent(),
    MiniSwe(),
)
