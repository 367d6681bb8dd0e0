"""The forms of agents whose commands, or whose results, are text for the API."""
# ruff: noqa: ARG002

from __future__ import annotations

import json
from typing import ClassVar

from bench.loops.form import Done, Frame, Json, Tool
from bench.loops.tales.coders import GENERIC, OpenCode
from bench.loops.tales.harness import TextHarness, Turn, as_command
from bench.loops.tales.noise import Noise
from bench.loops.tales.tale import Deed, Round, Tale
from bench.loops.tales.wire import told


def surroundings(noise: Noise, used: int) -> str:
    """Return the details of an editor that are sent with each message."""
    return (
        "<environment_details>\n# Visual Studio Code Visible Files\n(No visible files)\n\n"
        "# Visual Studio Code Open Tabs\n(No open tabs)\n\n# Current Time\n"
        f"{noise.now:%m/%d/%Y}, {noise.clock()} (UTC, UTC+0:00)\n\n# Context Window Usage\n"
        f"{used:,} / 200K tokens used ({used // 2000}%)\n\n# Current Mode\nACT MODE\n"
        "</environment_details>"
    )


class Cline(TextHarness):
    """Cline: tools in XML, results and surroundings as messages of the user."""

    name = "cline"
    dialect = "anthropic"
    model = "claude-sonnet-4-6"
    stream = True
    nudge = (
        "[ERROR] You did not use a tool in your previous response! Please retry with a tool use.\n"
        "\n# Next Steps\nIf the task is complete, use attempt_completion. If you need information "
        "from the user, use ask_followup_question. Otherwise go on with the next step.\n"
        "(This is an automated message, so do not respond to it conversationally.)"
    )
    names: ClassVar[Json] = {
        "shell": "execute_command",
        "read": "read_file",
        "edit": "replace_in_file",
        "write": "write_to_file",
        "find": "search_files",
    }

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You are Cline, a highly skilled software engineer.\n\n====\n\nTOOL USE\n\nYou use "
            "tools one at a time, in XML tags: execute_command(command, requires_approval), "
            "read_file(path), write_to_file(path, content), replace_in_file(path, diff), "
            "search_files(path, regex), use_mcp_tool(server_name, tool_name, arguments), "
            "ask_followup_question(question), attempt_completion(result).\n\n====\n\nRULES\n\n"
            f"Your current working directory is /home/dev/app. {tale.persona}"
        )

    def opening(self, tale: Tale, noise: Noise) -> str:
        return f"<task>\n{tale.task}\n</task>\n\n{surroundings(noise, 9_200)}"

    def write(self, said: str, deed: Deed, noise: Noise) -> str:
        args = deed.args
        match deed.verb:
            case "shell":
                fields = {"command": args["command"], "requires_approval": "false"}
            case "edit":
                diff = f"------- SEARCH\n{args['old']}\n=======\n{args['new']}\n+++++++ REPLACE"
                fields = {"path": args["path"], "diff": diff}
            case "find":
                fields = {"path": args["path"], "regex": args["pattern"]}
            case "read" | "write":
                fields = dict(args)
            case name:
                fields = {"server_name": "desk", "tool_name": name}
                fields["arguments"] = json.dumps(dict(args))
        tag = self.names.get(deed.verb, "use_mcp_tool")
        inner = "\n".join(f"<{key}>{value}</{key}>" for key, value in fields.items())
        return f"{said}\n\n<{tag}>\n{inner}\n</{tag}>"

    def report(self, deed: Deed, noise: Noise) -> str:
        tag = self.names.get(deed.verb, "use_mcp_tool")
        subject = deed.args.get("command") or deed.args.get("path") or "desk"
        head = f"[{tag} for '{subject}'] Result:\n"
        match deed.verb:
            case "shell":
                text = f"Command executed.\nOutput:\n{deed.result}"
            case "edit" if deed.failed:
                text = (
                    "The tool execution failed with the following error:\n<error>\nThe SEARCH "
                    "block does not match anything in the file. It may have been changed, or the "
                    "spaces differ. The file was reverted.\n</error>"
                )
            case "edit" | "write":
                text = f"The content was successfully saved to {deed.args['path']}."
            case "find":
                text = deed.result or "Found 0 results."
            case _:
                text = deed.result
        used = noise.rng.randrange(12_000, 160_000)
        return f"{head}{text}\n\n{surroundings(noise, used)}"

    def perform(self, frame: Frame, round_: Round, noise: Noise) -> Turn:
        turn = super().perform(frame, round_, noise)
        if round_.deeds or round_.heard:
            return turn
        text = f"{self.nudge}\n\n{surroundings(noise, noise.rng.randrange(12_000, 160_000))}"
        told_ = told(self.dialect, text)
        return Turn(turn.done, turn.answer, told_, told_)


class Roo(OpenCode):
    """Roo Code: tools by the API, surroundings as a message of the user after each result."""

    name = "roo"
    model = "gpt-5.2"
    prefix = "mcp--desk--"
    nudge = (
        "[ERROR] You did not use a tool in your previous response! Please retry with a tool use. "
        "(This is an automated message, so do not respond to it conversationally.)"
    )
    tools = (
        Tool("execute_command", "Run a command.", ("command", "cwd")),
        Tool("read_file", "Read a file.", ("path",)),
        Tool("apply_diff", "Change a file.", ("path", "diff")),
        Tool("write_to_file", "Write a file.", ("path", "content")),
        Tool("search_files", "Search in files.", ("path", "regex")),
        Tool("update_todo_list", "Update the list of todos.", ("todos",)),
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You are Roo, a software engineer with knowledge of many languages. Use the tools; "
            f"each answer must use at least one. {tale.persona}"
        )

    def headers(self, session: str) -> dict[str, str]:
        return {"user-agent": "RooCode/3.52.0"}

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        args = deed.args
        match deed.verb:
            case "shell":
                text = f"Command executed in terminal within working directory '/home/dev/app'. Exit code: {deed.code}\nOutput:\n{deed.result}"  # noqa: E501
                return "execute_command", {"command": args["command"], "cwd": None}, text
            case "read":
                return "read_file", dict(args), f"File: {args['path']}\n{deed.result}"
            case "find":
                sent = {"path": args["path"], "regex": args["pattern"]}
                return "search_files", sent, deed.result or "Found 0 results."
            case "write":
                return "write_to_file", dict(args), f"Created {args['path']}"
            case "edit":
                diff = f"<<<<<<< SEARCH\n{args['old']}\n=======\n{args['new']}\n>>>>>>> REPLACE"
                sent = {"path": args["path"], "diff": diff}
                if deed.failed:
                    score = noise.rng.randrange(61, 97)
                    gone = f"No sufficiently similar match found ({score}% similar, needs 100%)"
                    return "apply_diff", sent, f"<error_details>\n{gone}\n</error_details>"
                return "apply_diff", sent, f"<file_write_result>\n{args['path']}: modified"
        return super().express(deed, noise)

    def perform(self, frame: Frame, round_: Round, noise: Noise) -> Turn:
        turn = super().perform(frame, round_, noise)
        around = told("chat", surroundings(noise, noise.rng.randrange(12_000, 160_000)))
        return Turn(turn.done, turn.answer, [*turn.back, *around], [*turn.elided, *around])


class MiniSweAgent(TextHarness):
    """mini-swe-agent: one block of bash in each answer."""

    name = "mini-swe-agent"
    model = "gpt-5-mini"
    nudge = (
        "Please always provide EXACTLY ONE action in triple backticks, found 0 actions.\n"
        "If you are done, issue `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        return (
            "You can interact many times with a computer shell. Each response has a THOUGHT and "
            f"exactly one bash code block with one command. {tale.persona}"
        )

    def opening(self, tale: Tale, noise: Noise) -> str:
        return (
            f"Please solve this issue:\n\n{tale.task}\n\nYou may edit any file of the project. "
            "Directory changes and variables do not last from one command to the next."
        )

    def write(self, said: str, deed: Deed, noise: Noise) -> str:
        return f"THOUGHT: {said}\n\n```bash\n{as_command(deed)[0]}\n```"

    def report(self, deed: Deed, noise: Noise) -> str:
        code = deed.code or int(deed.failed)
        return f"<returncode>{code}</returncode>\n<output>\n{as_command(deed)[1]}\n</output>"


class SweAgentText(MiniSweAgent):
    """SWE-agent with models that have no function calling."""

    name = "swe-agent-text"
    model = "qwen3-coder-480b"
    nudge = (
        "Your output was not formatted correctly. You must always include one discussion and one "
        "command as part of your response."
    )

    def write(self, said: str, deed: Deed, noise: Noise) -> str:
        return f"DISCUSSION\n{said}\n\n```\n{as_command(deed)[0]}\n```"

    def report(self, deed: Deed, noise: Noise) -> str:
        output = as_command(deed)[1]
        nothing = "Your command ran successfully and did not produce any output."
        return f"{output or nothing}\n(Open file: n/a)\n(Current directory: /repo)\nbash-$"


class SmolAgents(TextHarness):
    """smolagents: code as action, printed logs as observation."""

    name = "smolagents"
    model = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    nudge = (
        "Error in code parsing:\nYour code snippet is invalid, because no code between <code> and "
        "</code> was found in it.\nNow let's retry: take care not to repeat previous errors! If "
        "you have retried several times, try a completely different approach."
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        names = ", ".join(tool.name for tool in tale.tools) or "python"
        return (
            "You are an expert who solves tasks with code. In each step write a 'Thought:' and "
            f"then code between <code> and </code>. You can call: {names}, final_answer. "
            f"{tale.persona}"
        )

    def opening(self, tale: Tale, noise: Noise) -> str:
        return f"New task:\n{tale.task}"

    def write(self, said: str, deed: Deed, noise: Noise) -> str:
        if deed.verb in GENERIC:
            code = f"print(run({as_command(deed)[0]!r}))"
        else:
            args = ", ".join(f"{key}={value!r}" for key, value in deed.args.items())
            code = deed.args.get("code", f"print({deed.verb}({args}))")
        return f"Thought: {said}\n<code>\n{code}\n</code>"

    def report(self, deed: Deed, noise: Noise) -> str:
        result = as_command(deed)[1] if deed.verb in GENERIC else deed.result
        if deed.failed:
            return f"Error:\n{result}\nNow let's retry: take care not to repeat previous errors!"
        return f"Observation:\nExecution logs:\n{result}\nLast output from code snippet:\nNone"


class CrewAi(TextHarness):
    """CrewAI: thoughts, actions and observations of a run follow in messages of the assistant."""

    name = "crewai"
    model = "gpt-4.1"
    nudge = (
        "I did it wrong. Invalid Format: I missed the 'Action:' after 'Thought:'. I will do right "
        "next, and don't use a tool I have already used."
    )

    def system(self, tale: Tale, noise: Noise) -> str:
        listed = "\n".join(
            f"Tool Name: {tool.name}\nTool Arguments: {tool.schema()}\n"
            f"Tool Description: {tool.about}"
            for tool in tale.tools
        )
        return (
            f"You are Field Analyst. {tale.persona}\nYour personal goal is: finish the task with "
            f"care.\nYou ONLY have access to the following tools:\n\n{listed}\n\nUse this format:\n"
            "Thought: what to do\nAction: one tool\nAction Input: its arguments as JSON\n"
            "Observation: the result of the action"
        )

    def opening(self, tale: Tale, noise: Noise) -> str:
        return f"Current Task: {tale.task}\n\nBegin! Give your best final answer.\n\nThought:"

    def write(self, said: str, deed: Deed, noise: Noise) -> str:
        args = json.dumps(dict(deed.args))
        return f"Thought: {said}\nAction: {deed.verb}\nAction Input: {args}"

    def perform(self, frame: Frame, round_: Round, noise: Noise) -> Turn:
        if not round_.deeds:
            return super().perform(frame, round_, noise)
        deed = round_.deeds[0]
        text = self.write(round_.said, deed, noise)
        whole = told(self.dialect, f"{text}\nObservation: {deed.result}", "assistant")
        cleared = told(self.dialect, f"{text}\nObservation: (cleared)", "assistant")
        back = told(self.dialect, round_.heard) if round_.heard else []
        return Turn(Done(text, (), noise.word(28)), (), [*whole, *back], [*cleared, *back])


class Dspy(TextHarness):
    """DSPy's ReAct: the whole trajectory is written into one message of the user."""

    name = "dspy"
    model = "gpt-4.1-mini"
    is_one_message = True

    def system(self, tale: Tale, noise: Noise) -> str:
        listed = "\n".join(
            f"({n}) {tool.name}, whose description is <desc>{tool.about}</desc>. It takes "
            f"arguments {tool.schema()['properties']}."
            for n, tool in enumerate(tale.tools, 1)
        )
        return (
            "Your input fields are:\n1. `question` (str)\n2. `trajectory` (str)\nYour output "
            "fields are:\n1. `next_thought` (str)\n2. `next_tool_name` (str)\n3. `next_tool_args` "
            f"(dict)\n\nYour objective: {tale.persona}\nTools:\n{listed}"
        )

    def perform(self, frame: Frame, round_: Round, noise: Noise) -> Turn:
        if round_.deeds:
            deed = round_.deeds[0]
            name, args, result = deed.verb, json.dumps(dict(deed.args)), deed.result
            if deed.failed:
                result = f"Execution error in {name}: {result}"
        else:
            name, args, result = "finish", "{}", round_.heard or "Completed."
        text = (
            f"[[ ## next_thought ## ]]\n{round_.said}\n\n[[ ## next_tool_name ## ]]\n{name}\n\n"
            f"[[ ## next_tool_args ## ]]\n{args}\n\n[[ ## completed ## ]]"
        )
        parts = {"thought": round_.said, "name": name, "args": args, "result": result}
        return Turn(Done(text, (), noise.word(28)), (), [parts], [{**parts, "result": "…"}])

    def gather(self, task: str, parts: list[Json]) -> list[Json]:
        """Return one message with the whole trajectory."""
        lines = [f"[[ ## question ## ]]\n{task}\n\n[[ ## trajectory ## ]]"]
        for n, part in enumerate(parts):
            lines.append(
                f"[[ ## thought_{n} ## ]]\n{part['thought']}\n\n[[ ## tool_name_{n} ## ]]\n"
                f"{part['name']}\n\n[[ ## tool_args_{n} ## ]]\n{part['args']}\n\n"
                f"[[ ## observation_{n} ## ]]\n{part['result']}"
            )
        lines.append(
            "Respond with the corresponding output fields, starting with `[[ ## next_thought ## ]]`"
            ", and end with the marker for `[[ ## completed ## ]]`."
        )
        return told(self.dialect, "\n\n".join(lines))


TEXTERS = (Cline, Roo, MiniSweAgent, SweAgentText, SmolAgents, CrewAi, Dspy)
