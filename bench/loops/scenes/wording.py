"""How coding agents and frameworks name tools, and word their results and calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from bench.loops.scenes.run import Act
from bench.loops.scenes.world import hexes

Args = dict[str, Any]


def as_it_is(act: Act) -> tuple[str, Args]:
    return act.name, dict(act.args)


def of_server(act: Act) -> tuple[str, Args]:
    """Name a tool of an MCP server."""
    server = "playwright" if act.name.startswith("browser_") else "company"
    return f"mcp__{server}__{act.name}", dict(act.args)


def claude_calls(act: Act) -> tuple[str, Args]:
    a = act.args
    match act.name:
        case "shell":
            return "Bash", {"command": a["command"], "description": "Run a command"}
        case "read":
            return "Read", {"file_path": f"/work/app/{a['path']}"}
        case "edit":
            path = f"/work/app/{a['path']}"
            return "Edit", {"file_path": path, "old_string": a["old"], "new_string": a["new"]}
        case "write":
            return "Write", {"file_path": f"/work/app/{a['path']}", "content": a["content"]}
        case "grep":
            return "Grep", {**a, "output_mode": "content", "-n": True}
    return as_it_is(act) if act.name in ("Task", "TodoWrite") else of_server(act)


def claude_result(act: Act, _rng: Random, _at: float) -> str:
    match act.name:
        case "shell":
            return f"Exit code {act.code}\n{act.result}" if act.code else act.result
        case "read":
            return _numbered(act.result, "{:>6}→{}")
        case "edit" if act.code:
            return f"<tool_use_error>{act.result}</tool_use_error>"
        case "edit":
            return f"The file /work/app/{act.args['path']} has been updated successfully."
        case "write":
            return f"File created successfully at: /work/app/{act.args['path']}"
    return act.result


def _numbered(text: str, form: str) -> str:
    return "\n".join(form.format(number, line) for number, line in enumerate(text.splitlines(), 1))


def _patch(a: Mapping[str, Any]) -> str:
    old = "\n".join("-" + line for line in a["old"].splitlines())
    new = "\n".join("+" + line for line in a["new"].splitlines())
    return f"*** Begin Patch\n*** Update File: {a['path']}\n@@\n{old}\n{new}\n*** End Patch"


def codex_calls(act: Act) -> tuple[str, Args]:
    a = act.args
    match act.name:
        case "shell":
            return "exec_command", {"cmd": a["command"], "workdir": "/work/app"}
        case "read":
            return "exec_command", {"cmd": f"sed -n '1,200p' {a['path']}", "workdir": "/work/app"}
        case "grep":
            command = f"rg -n {json.dumps(a['pattern'])} {a['path']}"
            return "exec_command", {"cmd": command, "workdir": "/work/app"}
        case "edit":
            return "apply_patch", {"input": _patch(a)}
        case "write":
            lines = "\n".join("+" + line for line in a["content"].splitlines())
            text = f"*** Begin Patch\n*** Add File: {a['path']}\n{lines}\n*** End Patch"
            return "apply_patch", {"input": text}
    return as_it_is(act)


def codex_result(act: Act, rng: Random, _at: float) -> str:
    if act.name in ("edit", "write"):
        if act.code:
            return f"apply_patch verification failed: {act.result}"
        mark = "M" if act.name == "edit" else "A"
        return f"Success. Updated the following files:\n{mark} {act.args['path']}\n"
    if act.name not in ("shell", "read", "grep"):
        return act.result
    tokens = len(act.result) // 4
    wall = act.took * rng.uniform(0.8, 1.3)
    return (
        f"Chunk ID: {hexes(rng, 6)}\nWall time: {wall:.4f} seconds\n"
        f"Process exited with code {act.code}\nOriginal token count: {tokens}\n"
        f"Output:\n{act.result}"
    )


def gemini_calls(act: Act) -> tuple[str, Args]:
    a = act.args
    match act.name:
        case "shell":
            return "run_shell_command", {"command": a["command"], "description": "Runs a command."}
        case "read":
            return "read_file", {"file_path": a["path"]}
        case "edit":
            changed = {"old_string": a["old"], "new_string": a["new"]}
            return "replace", {"file_path": a["path"], "instruction": "Apply the fix.", **changed}
        case "write":
            return "write_file", {"file_path": a["path"], "content": a["content"]}
        case "grep":
            return "search_file_content", {"pattern": a["pattern"], "path": a["path"]}
    return as_it_is(act)


def gemini_result(act: Act, rng: Random, _at: float) -> str:
    match act.name:
        case "shell":
            code = f"Exit Code: {act.code}\n" if act.code else ""
            return (
                f"Command: {act.args['command']}\nDirectory: (root)\n"
                f"Output: {act.result or '(empty)'}\nError: (none)\n{code}"
                f"Process Group PGID: {rng.randint(2000, 99000)}"
            )
        case "edit" if act.code:
            return f"Failed to edit, {act.result}"
        case "edit":
            return f"Successfully modified file: {act.args['path']} (1 replacements)."
        case "write":
            return f"Successfully created and wrote to new file: {act.args['path']}."
    return act.result


def opencode_calls(act: Act) -> tuple[str, Args]:
    a = act.args
    match act.name:
        case "shell":
            return "bash", {"command": a["command"], "description": "Runs it", "timeout": 120000}
        case "read":
            return "read", {"filePath": f"/work/app/{a['path']}"}
        case "edit":
            path = f"/work/app/{a['path']}"
            return "edit", {"filePath": path, "oldString": a["old"], "newString": a["new"]}
        case "write":
            return "write", {"filePath": f"/work/app/{a['path']}", "content": a["content"]}
    return act.name.lower(), dict(act.args)


def opencode_result(act: Act, _rng: Random, _at: float) -> str:
    if act.name == "read":
        return f"<file>\n{_numbered(act.result, '{:05}| {}')}\n\n(End of file)\n</file>"
    if act.name in ("edit", "write") and not act.code:
        return "Edit applied successfully." if act.name == "edit" else "Wrote file successfully."
    return act.result


def editor_calls(shell_tool: str) -> Callable[[Act], tuple[str, Args]]:
    def calls(act: Act) -> tuple[str, Args]:
        a = act.args
        path = f"/workspace/{a.get('path', '')}"
        match act.name:
            case "shell":
                return shell_tool, {"command": a["command"]}
            case "read":
                return "str_replace_editor", {"command": "view", "path": path}
            case "edit":
                told = {"command": "str_replace", "path": path}
                return "str_replace_editor", {**told, "old_str": a["old"], "new_str": a["new"]}
            case "write":
                made = {"command": "create", "path": path, "file_text": a["content"]}
                return "str_replace_editor", made
            case "grep":
                command = f"grep -rn {json.dumps(a['pattern'])} {a['path']}"
                return shell_tool, {"command": command}
        return as_it_is(act)

    return calls


def openhands_result(act: Act, _rng: Random, _at: float) -> str:
    match act.name:
        case "shell" | "grep":
            return (
                f"{act.result}\n[The command completed with exit code {act.code}.]\n"
                "[Current working directory: /workspace]\n"
                "[Python interpreter: /usr/bin/python]\n"
                f"[Command finished with exit code {act.code}]"
            )
        case "read":
            shown = _numbered(act.result, "{:>6}\t{}")
            return (
                f"Here's the result of running `cat -n` on /workspace/{act.args['path']}:\n{shown}"
            )
        case "edit" if act.code:
            return f"ERROR:\nNo replacement was performed, {act.result}"
        case "edit":
            shown = _numbered(act.args["new"], "{:>6}\t{}")
            return (
                f"The file /workspace/{act.args['path']} has been edited. Here's the result of "
                f"running `cat -n` on a snippet of it:\n{shown}\nReview the changes and make sure "
                "they are as expected. Edit the file again if necessary."
            )
        case "write":
            return f"File created successfully at: /workspace/{act.args['path']}"
    return act.result


def swe_result(act: Act, _rng: Random, _at: float) -> str:
    text = act.result
    if act.name == "edit":
        text = f"No replacement was performed, {text}" if act.code else "The file has been edited."
    elif act.name == "write":
        text = "File created successfully."
    if not text.strip():
        return "Your last command ran successfully and did not produce any output."
    return f"OBSERVATION:\n{text}"


def as_command(act: Act) -> tuple[str, Args]:
    a = act.args
    match act.name:
        case "shell":
            return "bash", {"command": a["command"]}
        case "read":
            return "bash", {"command": f"cat {a['path']}"}
        case "grep":
            return "bash", {"command": f"grep -rn {json.dumps(a['pattern'])} {a['path']}"}
        case "write":
            return "bash", {"command": f"cat <<'EOF' > {a['path']}\n{a['content']}EOF"}
        case "edit":
            old, new = json.dumps(a["old"]), json.dumps(a["new"])
            command = f"python - <<'EOF'\nfrom pathlib import Path\np = Path({a['path']!r})\n"
            command += f"t = p.read_text()\nassert {old} in t, 'text to replace not found'\n"
            return "bash", {"command": command + f"p.write_text(t.replace({old}, {new}))\nEOF"}
    return "bash", {"command": f"{act.name} " + " ".join(f"--{k} {v!r}" for k, v in a.items())}


def mini_result(act: Act, _rng: Random, _at: float) -> str:
    return f"<returncode>{act.code}</returncode>\n<output>\n{act.result}\n</output>"


def mini_written(_name: str, args: Args) -> str:
    return f"\n\n```bash\n{args['command']}\n```"


def cline_calls(act: Act) -> tuple[str, Args]:
    a = act.args
    match act.name:
        case "shell":
            return "execute_command", {"command": a["command"], "requires_approval": "false"}
        case "read":
            return "read_file", {"path": a["path"]}
        case "write":
            return "write_to_file", {"path": a["path"], "content": a["content"]}
        case "grep":
            return "search_files", {"path": a["path"], "regex": a["pattern"]}
        case "edit":
            diff = f"------- SEARCH\n{a['old']}\n=======\n{a['new']}\n+++++++ REPLACE"
            return "replace_in_file", {"path": a["path"], "diff": diff}
    return as_it_is(act)


def cline_result(act: Act, _rng: Random, at: float) -> str:
    name, args = cline_calls(act)
    about = args.get("command") or args.get("path") or args.get("regex") or ""
    text = act.result
    if act.name == "shell":
        text = f"Command executed.\nOutput:\n{act.result}"
    elif act.name == "edit" and not act.code:
        text = f"The content was successfully saved to {act.args['path']}."
    elif act.code:
        text = (
            f"The tool execution failed with the following error:\n<error>\n{act.result}\n</error>"
        )
    minute, second = divmod(int(at) % 3600, 60)
    return (
        f"[{name} for '{about}'] Result:\n{text}\n\n<environment_details>\n"
        f"# Visual Studio Code Visible Files\nREADME.md\n\n# Current Time\n"
        f"1/11/2027, {9 + int(at) // 3600}:{minute:02}:{second:02} AM (UTC, UTC+0:00)\n\n"
        f"# Context Window Usage\n{14_000 + int(at) * 130:,} / 200K tokens used\n\n"
        "# Current Mode\nACT MODE\n</environment_details>"
    )


def cline_written(name: str, args: Args) -> str:
    inner = "\n".join(f"<{key}>{value}</{key}>" for key, value in args.items())
    return f"\n\n<{name}>\n{inner}\n</{name}>"


def crew_written(name: str, args: Args) -> str:
    return f"\n\nAction: {name}\nAction Input: {json.dumps(args)}"


def crew_result(act: Act, _rng: Random, _at: float) -> str:
    return f"\nObservation: {act.result}"
