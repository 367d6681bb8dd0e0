"""The forms of coding agents that have a shell, and one tool for all that is done to files."""
# ruff: noqa: ARG002

from __future__ import annotations

from typing import ClassVar

from bench.loops.form import Json, Tool
from bench.loops.tales.harness import Harness, as_command, numbered
from bench.loops.tales.noise import Noise
from bench.loops.tales.tale import Deed, Tale


class Editor(Harness):
    """A harness with a shell and one tool for files, which takes a command."""

    shell: ClassVar[str] = "bash"
    editor: ClassVar[str] = "str_replace_editor"
    root: ClassVar[str] = "/testbed"

    def wrap(self, output: str, code: int, noise: Noise) -> str:
        """Return the result of a command as this harness shows it."""
        return output

    def is_error(self, deed: Deed) -> bool:
        return deed.failed and deed.verb != "shell"

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        args = deed.args
        path = f"{self.root}/{args.get('path', '')}"
        match deed.verb:
            case "shell" | "find":
                command, output = as_command(deed)
                sent = {"command": command}
                code = deed.code or int(deed.verb == "find" and not output)
                return self.shell, sent, self.wrap(output, code, noise)
            case "read":
                shown = f"Here's the result of running `cat -n` on {path}:\n"
                sent = {"command": "view", "path": path}
                return self.editor, sent, shown + numbered(deed.result)
            case "write":
                sent = {"command": "create", "path": path, "file_text": args["content"]}
                return self.editor, sent, f"File created successfully at: {path}"
            case "edit":
                sent = {"command": "str_replace", "path": path}
                sent |= {"old_str": args["old"], "new_str": args["new"]}
                if deed.failed:
                    gone = f"`{args['old']}` did not appear verbatim in {path}."
                    return self.editor, sent, f"No replacement was performed, old_str {gone}"
                shown = numbered(args["new"])
                done = f"The file {path} has been edited. Here is a snippet of it:\n{shown}\n"
                return self.editor, sent, done + "Review the change and edit again if necessary."
        return super().express(deed, noise)


class OpenHands(Editor):
    """OpenHands: results end in lines about the exit code and the interpreter."""

    name = "openhands"
    model = "claude-opus-4-6"
    shell = "execute_bash"
    root = "/workspace"
    nudge = (
        "Please continue working on the task on whatever approach you think is suitable.\n"
        "If you think you have solved it, use the finish tool. Do not ask for human help."
    )
    tools = (
        Tool("execute_bash", "Run a command in a terminal.", ("command", "is_input")),
        Tool("str_replace_editor", "View and edit files.", ("command", "path")),
        Tool("finish", "Say that the task is done.", ("message",)),
        Tool("think", "Log a thought.", ("thought",)),
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You are OpenHands agent, an assistant that can run commands, edit files and browse to "
            "solve technical tasks. First explore, then reproduce, then change as little as "
            f"possible, then verify. {tale.persona}"
        )

    def wrap(self, output: str, code: int, noise: Noise) -> str:
        return (
            f"{output}\n[The command completed with exit code {code}.]\n"
            "[Current working directory: /workspace]\n"
            "[Python interpreter: /openhands/venv/bin/python]\n"
            f"[Command finished with exit code {code}]"
        )


class SweAgent(Editor):
    """SWE-agent with function calling."""

    name = "swe-agent"
    model = "gpt-5.2"
    tools = (
        Tool("bash", "Run a command.", ("command",)),
        Tool("str_replace_editor", "View and edit files.", ("command", "path")),
        Tool("submit", "Submit the current state."),
    )
    nudge = (
        "Your last output did not use any tool calls!\nPlease make sure your output includes "
        "exactly _ONE_ function call! If you think you are done, call `submit`."
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        return f"You are a helpful assistant that works with a computer. {tale.persona}"

    def opening(self, tale: Tale, noise: Noise) -> str:
        return (
            f"<uploaded_files>\n/testbed\n</uploaded_files>\nThe issue:\n\n<pr_description>\n"
            f"{tale.task}\n</pr_description>\n\nChange the files outside the tests so that it is "
            "resolved. Your thinking should be thorough."
        )

    def wrap(self, output: str, code: int, noise: Noise) -> str:
        nothing = "Your command ran successfully and did not produce any output."
        return f"OBSERVATION:\n{output or nothing}"


class DeepAgents(Editor):
    """LangChain's deep agents, on Anthropic."""

    name = "deepagents"
    dialect = "anthropic"
    model = "claude-haiku-4-5"
    call_ids = "toolu_01"
    shell = "execute"
    editor = "file"
    root = "/app"
    tools = (
        Tool("execute", "Run a command in the sandbox.", ("command",)),
        Tool("file", "View and edit files.", ("command", "path")),
        Tool("write_todos", "Keep a list of todos.", ("todos",)),
        Tool("task", "Start a subagent.", ("description", "subagent_type")),
    )

    def wrap(self, output: str, code: int, noise: Noise) -> str:
        status = "succeeded" if code == 0 else "failed"
        return f"{output}\n[Command {status} with exit code {code}]"
