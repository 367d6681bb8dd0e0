"""What agents do, in the words of each harness: names of tools, their arguments and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.loops.world import CHUNK, PID, TOOK, Act


@dataclass(frozen=True, slots=True)
class Dressed:
    """An act in the words of a harness; `free_text` is the input of a custom tool."""

    name: str
    args: Mapping[str, Any]
    result: str
    free_text: str = ""


def _numbered(text: str, mark: str) -> str:
    return "\n".join(f"{n:6}{mark}{line}" for n, line in enumerate(text.split("\n"), 1))


def dress_plainly(act: Act, _root: str) -> Dressed:
    """The tools that people write for frameworks."""
    match act.kind:
        case "read":
            return Dressed("read_file", act.args, act.result)
        case "run":
            tail = f"\n[exit code {act.exit_code}]" if act.exit_code else ""
            return Dressed("run_command", act.args, act.result + tail)
        case "edit":
            return Dressed("edit_file", act.args, act.result or f"Edited {act.args['path']}")
        case "plan":
            return Dressed("write_todos", act.args, "Updated todo list")
    return Dressed(act.kind, act.args, act.result)


def dress_for_claude(act: Act, _root: str) -> Dressed:
    match act.kind:
        case "read":
            return Dressed("Read", {"file_path": act.args["path"]}, _numbered(act.result, "→"))
        case "run":
            args = {"command": act.args["command"], "description": "Run a command"}
            head = f"Exit code {act.exit_code}\n" if act.exit_code else ""
            return Dressed("Bash", args, head + act.result)
        case "edit":
            path = act.args["path"]
            args = {
                "file_path": path,
                "old_string": act.args["old"],
                "new_string": act.args["new"],
                "replace_all": False,
            }
            done = f"The file {path} has been updated successfully."
            return Dressed("Edit", args, act.result or done)
        case "plan":
            return Dressed("TodoWrite", act.args, "Todos have been modified successfully.")
    return Dressed(act.kind, act.args, act.result)


def dress_for_codex(act: Act, root: str) -> Dressed:
    head = f"Exit code: {act.exit_code}\nWall time: {TOOK} seconds\nOutput:\n"
    match act.kind:
        case "read" | "run":
            command = act.args.get("command") or f"sed -n '1,200p' {act.args['path']}"
            args = {"command": ["bash", "-lc", command], "workdir": root}
            return Dressed("shell", args, head + act.result)
        case "edit":
            path = act.args["path"]
            old = "\n".join(f"-{line}" for line in act.args["old"].split("\n"))
            new = "\n".join(f"+{line}" for line in act.args["new"].split("\n"))
            patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n{old}\n{new}\n*** End Patch"
            done = head + (act.result or f"Success. Updated the following files:\nM {path}\n")
            return Dressed("apply_patch", {}, done, free_text=patch)
        case "plan":
            return Dressed("update_plan", {"plan": act.args["todos"]}, "Plan updated")
    return Dressed(act.kind, act.args, act.result)


def dress_for_gemini(act: Act, _root: str) -> Dressed:
    match act.kind:
        case "read":
            return Dressed("read_file", {"absolute_path": act.args["path"]}, act.result)
        case "run":
            args = {"command": act.args["command"], "description": "Runs the command."}
            said = [
                f"Command: {act.args['command']}",
                "Directory: (root)",
                f"Output: {act.result}",
                "Error: (none)",
                f"Exit Code: {act.exit_code}",
                "Signal: (none)",
                "Background PIDs: (none)",
                f"Process Group PGID: {PID}",
            ]
            return Dressed("run_shell_command", args, "\n".join(said))
        case "edit":
            args = {
                "file_path": act.args["path"],
                "old_string": act.args["old"],
                "new_string": act.args["new"],
            }
            done = f"Successfully modified file: {act.args['path']} (1 replacements)."
            return Dressed("replace", args, act.result or done)
        case "plan":
            return Dressed("write_todos", act.args, "Successfully updated the todo list.")
    return Dressed(act.kind, act.args, act.result)


def dress_for_opencode(act: Act, _root: str) -> Dressed:
    match act.kind:
        case "read":
            text = f"<file>\n{_numbered(act.result, '| ')}\n\n(End of file)\n</file>"
            return Dressed("read", {"filePath": act.args["path"]}, text)
        case "run":
            args = {"command": act.args["command"], "description": "Runs command"}
            return Dressed("bash", args, act.result)
        case "edit":
            args = {
                "filePath": act.args["path"],
                "oldString": act.args["old"],
                "newString": act.args["new"],
            }
            return Dressed("edit", args, act.result or "Edit applied successfully.")
        case "plan":
            return Dressed("todowrite", act.args, json.dumps(act.args["todos"], indent=2))
    return Dressed(act.kind, act.args, act.result)


def dress_for_openhands(act: Act, root: str) -> Dressed:
    match act.kind:
        case "read":
            path = act.args["path"]
            text = f"Here's the result of running `cat -n` on {path}:\n"
            args = {"command": "view", "path": path}
            return Dressed("str_replace_editor", args, text + _numbered(act.result, "\t"))
        case "run":
            args = {"command": act.args["command"], "is_input": "false"}
            tail = (
                f"\n[The command completed with exit code {act.exit_code}.]"
                f"\n[Current working directory: {root}]"
                "\n[Python interpreter: /usr/bin/python3]"
                f"\n[Command finished with exit code {act.exit_code}]"
            )
            return Dressed("execute_bash", args, act.result + tail)
        case "edit":
            args = {
                "command": "str_replace",
                "path": act.args["path"],
                "old_str": act.args["old"],
                "new_str": act.args["new"],
            }
            shown = _numbered(act.args["new"], "\t")
            done = f"The file {act.args['path']} has been edited. A snippet of it:\n{shown}"
            return Dressed("str_replace_editor", args, act.result or done)
        case "plan":
            return Dressed("task_tracker", {"command": "plan", **act.args}, "Task list updated.")
    return Dressed(act.kind, act.args, act.result)


def dress_for_swe_agent(act: Act, root: str) -> Dressed:
    if act.kind == "run":
        return Dressed("bash", act.args, f"OBSERVATION:\n{act.result}")
    dressed = dress_for_openhands(act, root)
    return replace(dressed, result=f"OBSERVATION:\n{dressed.result}")


def dress_as_shell(act: Act, _root: str) -> Dressed:
    """Everything is a shell command, and its output a message of the user."""
    match act.kind:
        case "run":
            command = act.args["command"]
        case "read":
            command = f"cat {act.args['path']}"
        case "edit":
            path, new = act.args["path"], act.args["new"]
            command = f"cat <<'EOF' | python3 patch.py {path}\n{new}\nEOF"
        case "plan":
            command = f"cat > PLAN.md <<'EOF'\n{json.dumps(act.args['todos'], indent=1)}\nEOF"
        case kind:
            command = f"desk {kind} '{json.dumps(act.args)}'"
    result = f"<returncode>{act.exit_code}</returncode>\n<output>\n{act.result}\n</output>"
    return Dressed("", {"command": command}, result)


def dress_for_codex_exec(act: Act, root: str) -> Dressed:
    """Codex with its newer shell tool, which names each piece of output."""
    if act.kind not in ("read", "run"):
        return dress_for_codex(act, root)
    command = act.args.get("command") or f"sed -n '1,200p' {act.args['path']}"
    said = [
        f"Chunk ID: {CHUNK}",
        f"Wall time: {TOOK}12 seconds",
        f"Process exited with code {act.exit_code}",
        f"Original token count: {len(act.result) // 4}",
        "Output:",
        act.result,
    ]
    args = {"cmd": command, "workdir": root, "yield_time_ms": 1000}
    return Dressed("exec_command", args, "\n".join(said))


def dress_for_gemini_briefly(act: Act, root: str) -> Dressed:
    """Gemini CLI as it is now: lines that say nothing are left out."""
    if act.kind != "run":
        return dress_for_gemini(act, root)
    args = {"command": act.args["command"], "description": "Runs the command."}
    said = [f"Output: {act.result or '(empty)'}"]
    if act.exit_code:
        said.append(f"Exit Code: {act.exit_code}")
    return Dressed("run_shell_command", args, "\n".join([*said, f"Process Group PGID: {PID}"]))


def dress_for_qwen(act: Act, root: str) -> Dressed:
    dressed = dress_for_gemini(act, root)
    return replace(dressed, name="edit") if act.kind == "edit" else dressed


def dress_for_cline(act: Act, _root: str) -> Dressed:
    """Calls are elements, and results begin with the call that they are of."""
    match act.kind:
        case "read":
            path = act.args["path"]
            return _headed("read_file", {"path": path}, path, act.result)
        case "run":
            command = act.args["command"]
            ended = f"Command failed with exit code {act.exit_code}." if act.exit_code else ""
            told = f"{ended or 'Command executed.'}\nOutput:\n{act.result}"
            args = {"command": command, "requires_approval": "false"}
            return _headed("execute_command", args, command, told)
        case "edit":
            path, old, new = (act.args[key] for key in ("path", "old", "new"))
            diff = f"------- SEARCH\n{old}\n=======\n{new}\n+++++++ REPLACE"
            done = act.result or f"The content was successfully saved to {path}."
            return _headed("replace_in_file", {"path": path, "diff": diff}, path, done)
    return _served(act)


def _headed(name: str, args: Mapping[str, Any], what: str, result: str) -> Dressed:
    return Dressed(name, args, f"[{name} for '{what}'] Result:\n{result}")


def _served(act: Act) -> Dressed:
    """A tool of another server, which Cline and Roo call through one tool of their own."""
    args = {"server_name": "desk", "tool_name": act.kind, "arguments": json.dumps(act.args)}
    return Dressed("use_mcp_tool", args, f"[use_mcp_tool for 'desk'] Result:\n{act.result}")


def dress_for_roo(act: Act, root: str) -> Dressed:
    match act.kind:
        case "read":
            path, lines = act.args["path"], act.result.count("\n") + 1
            shown = _numbered(act.result, " | ")
            content = f'<content lines="1-{lines}">\n{shown}\n</content>'
            told = f"<file><path>{path}</path>\n{content}\n</file>"
            return _headed("read_file", {"path": path}, path, told)
        case "run":
            command = act.args["command"]
            place = f"Command executed in terminal within working directory '{root}'."
            told = f"{place} Exit code: {act.exit_code}\nOutput:\n{act.result}"
            return _headed("execute_command", {"command": command}, command, told)
        case "edit":
            dressed = dress_for_cline(act, root)
            result = dressed.result.replace("replace_in_file", "apply_diff")
            return replace(dressed, name="apply_diff", result=result)
    return _served(act)
