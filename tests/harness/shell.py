"""Coding agents whose only tool is a shell, a terminal or a notebook."""

from tests.detect.runs import Use
from tests.harness.steps import case, each, prose, source, word


def shell(command, output="", status=0):
    """A command whose exit status and output come in tags."""
    text = f"<returncode>{status}</returncode>\n<output>\n{output}\n</output>"
    return Use("bash", {"command": command}, text)


NO_JAVA = "bash: line 3: javac: command not found"

QUIET = [
    case(
        each(
            lambda n: shell(f"cd /testbed && sed -n '{n * 40},{n * 40 + 40}p' a.py", source(n)),
            times=25,
        ),
        id="shell: a file read piece by piece, each command with its cd",
    ),
    case(
        each(
            lambda n: shell(f"cd /testbed && sed -i 's/{word(n)}/{word(n + 1)}/' a.py"),
            lambda n: shell("cd /testbed && git status", "modified: a.py"),
            times=8,
        ),
        id="shell: git status between edits",
    ),
    case(
        each(
            lambda n: shell(
                f"cat > s.py <<'PY'\n{source(n)}\nPY\npython s.py", f"KeyError: '{word(n)}'", 1
            ),
            times=20,
        ),
        id="shell: a script rewritten twenty times, and each time another error",
    ),
    case(
        each(
            lambda n: shell(
                f"sed -i {n}d a.py && pytest -q | tail -1", f"{20 - n} failed, {n} passed", 1
            ),
            times=16,
        ),
        id="shell: one failure fewer after each edit",
    ),
    case(
        each(
            lambda n: Use("python", {"code": f"{word(n)} = load('{word(n)}')\n" + source(n)}, ""),
            times=24,
        ),
        id="notebook: cells that print nothing",
    ),
    case(
        each(lambda n: Use("write_stdin", {"session": 1, "chars": ""}, ""), times=10),
        id="terminal: waiting for a command to say more",
    ),
    case(
        [*[shell("kubectl get pods", "web-1   0/1   ContainerCreating")] * 8],
        id="shell: waiting for a container",
    ),
    case(
        each(
            lambda n: Use(
                "python", {"code": "fit(); log.to_csv('log.csv')"}, f"epoch {n}, loss {900 - n}"
            ),
            times=20,
        ),
        id="notebook: the same cell trains on, and writes a log",
    ),
]

HONEST = [
    case(
        each(lambda n: shell(f"cd /testbed && grep -rn {word(n)} src", "", 1), times=14),
        id="shell: a sweep of fourteen searches",
    ),
]

LOOPS = [
    case([shell("cd /testbed && python r.py", NO_JAVA, 127)] * 12, 5, id="shell: one command"),
    case(
        each(lambda n: shell(f"cd /testbed && ./{word(n)} {prose(n, 3)}", NO_JAVA, 127), times=20),
        8,
        id="shell: one error, whatever the command",
    ),
    case(
        each(lambda n: shell(f"cd / && find / -name '{word(n)}*'", "", 1), times=30),
        21,
        id="shell: a search that is stuck, each command with its cd",
    ),
]
