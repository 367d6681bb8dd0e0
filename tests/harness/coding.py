"""Coding agents with tools of their own: editors of several kinds, searches, notes to oneself."""

from tests.detect.runs import Use, says, together
from tests.harness.steps import case, each, prose, source, word


# A shell and an editor that shows what it has done.
def execute(command, output, status=0):
    footer = f"\n[The command completed with exit code {status}.]\n[Current directory: /workspace]"
    return Use("execute_bash", {"command": command}, output + footer)


def editor(command, result, **arguments):
    path = {"path": "/workspace/total.py"}
    return Use("str_replace_editor", {"command": command} | path | arguments, result)


def replaced(number):
    numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(source(number, 8).split("\n")))
    return (
        "The file /workspace/total.py has been edited. Here's the result of running `cat -n` on a"
        f" snippet:\n{numbered}\nReview the changes and make sure they are as expected."
    )


def unmatched(number):
    return editor(
        "str_replace",
        f"No replacement was performed, old_str `{prose(number, 4)}` did not appear verbatim.",
        old_str=prose(number, 4),
        new_str=prose(number, 5),
    )


# Tools of their own for reading, editing, searching and for a list of what is to do.
def reads(number, lines=30):
    numbered = "\n".join(
        f"{n:5}→{line}" for n, line in enumerate(source(number, lines).split("\n"))
    )
    return Use("Read", {"file_path": f"/src/{word(number)}.py"}, numbered)


def edits(number, result="The file /src/total.py has been updated."):
    texts = {"old_string": prose(number, 6), "new_string": prose(number, 7)}
    return Use("Edit", {"file_path": "/src/total.py"} | texts, result)


def notes(number):
    todos = [{"content": prose(n, 4), "status": "done" if n < number else "open"} for n in range(9)]
    return Use("TodoWrite", {"todos": todos}, "Todos have been modified successfully.")


def runs(command, result):
    return Use("Bash", {"command": command}, result)


def failures(left, name):
    return f"FAILED tests/test_{name}.py::test_{name} - AssertionError\n{left} failed, 30 passed"


PROGRESS = "build job step process thread iteration offset line transaction".split()
"""What tools count in words that elsewhere name an id or a place."""


def pytest_report(failed, passed):
    """Return the end of a long report whose first failures stay the same."""
    failures = "".join(f"FAILED tests/test_{word(n)}.py::test_it - KeyError\n" for n in range(3))
    return f"{failures}====== {failed} failed, {passed} passed in {failed}.3s ======"


def checks(_number=0):
    """Return what careful people do after an edit, as long as all is well."""
    return [
        runs("pytest -q", "42 passed in 1.20s"),
        runs("ruff check .", "All checks passed!"),
        runs("mypy", "Success: no issues found in 12 source files"),
    ]


FAILED = "E       assert 4 == 3\ntests/test_total.py:7: AssertionError\n1 failed, 11 passed in 0.2s"

QUIET = [
    *(
        case(
            each(lambda n, name=name: runs("status", f"{name}: {n * 7}% done"), times=12),
            id=f"a {name} whose per cent rise",
        )
        for name in PROGRESS
    ),
    *(
        case(
            each(lambda n, name=name: runs("status", f"{name} {n} of 12 done"), times=12),
            id=f"a {name} of many",
        )
        for name in PROGRESS
    ),
    *(
        case(
            each(lambda n, name=name: runs("look", f'{{"{name}": {n * 100}}}'), times=12),
            id=f"a {name} that rises",
        )
        for name in PROGRESS
    ),
    case(
        each(lambda n: runs("look", f"{120 - n * 10} seconds remaining"), times=12),
        id="seconds that run out",
    ),
    case(
        each(lambda n: runs("pytest -q", pytest_report(20 - 2 * n, 30 + 2 * n)), times=9),
        id="own tools: nine runs of the tests, each with fewer failures",
    ),
    case(
        [step for n in range(12) for step in (edits(n), *checks())],
        id="own tools: edit, test, lint, type check, twelve times",
    ),
    case(
        each(
            lambda n: editor("str_replace", replaced(n), old_str=word(n), new_str=word(n + 1)),
            lambda n: execute("pytest -q", failures(12 - n, word(n)), 1),
            times=12,
        ),
        id="editor: test, edit, test, and each time fewer fail",
    ),
    case(
        each(lambda n: editor("view", source(n), view_range=[n * 40, n * 40 + 40]), times=25),
        id="editor: views of one file",
    ),
    case(
        each(reads, lambda n: edits(n), notes, times=9),
        id="own tools: read, edit and tick off",
    ),
    case(
        each(
            lambda n: Use("Grep", {"pattern": word(n), "path": "/src"}, "No files found"),
            reads,
            times=12,
        ),
        id="own tools: searches without a match between files that are read",
    ),
    case(
        each(
            lambda n: Use(
                "Read",
                {"file_path": f"/src/{word(n)}.py"},
                "     1→class NotFound(Error):\n     2→    'cannot be found'",
            ),
            times=15,
        ),
        id="own tools: short files that speak of errors",
    ),
    case(
        each(
            lambda n: together(reads(n), reads(n + 1), reads(n + 2), text="Let me look."), times=12
        ),
        id="own tools: three files a turn",
    ),
    case(
        each(
            lambda n: runs(f"mypy src/{word(n)}", f"Found {30 - n} errors in 4 files"),
            edits,
            times=12,
        ),
        id="own tools: a checker that finds ever fewer errors",
    ),
    case(
        each(
            edits,
            lambda n: runs("npm run lint", f"✖ {40 - 2 * n} problems ({n} errors, 0 warnings)"),
            times=12,
        ),
        id="own tools: a linter whose numbers alone change",
    ),
    case(
        each(
            edits,
            lambda n: runs("cargo build", f"warning: unused `{word(n)}`\nFinished, 0 errors"),
            times=12,
        ),
        id="own tools: builds that end without errors",
    ),
    case(
        each(
            lambda n: runs(
                f"ls src/{word(n)}", f"{word(n)}Exception.java\nErrorPage.java\nfail.txt"
            ),
            times=16,
        ),
        id="own tools: folders whose files are named after errors",
    ),
    case(
        each(
            lambda n: Use(
                "write_to_file",
                {"path": f"{word(n)}.md", "content": prose(n, 60)},
                "The content was successfully saved.",
            ),
            times=25,
        ),
        id="own tools: twenty-five files written",
    ),
    case(
        each(lambda n: Use("think", {"thought": prose(n, 80)}, ""), reads, times=12),
        id="own tools: a thought before each file",
    ),
    case(
        each(lambda n: Use("TodoRead", {}, "1. [ ] read\n2. [ ] write"), reads, times=9),
        id="own tools: a list of what is to do, looked at again and again",
    ),
]

HONEST = [
    case(
        each(edits, lambda n: runs("tsc --noEmit", ""), times=20),
        id="own tools: a checker without complaint after each of twenty edits",
    ),
    case(
        each(edits, lambda n: runs("pytest -q", "42 passed in 1.20s"), times=20),
        id="own tools: tests that pass after each of twenty edits",
    ),
    case(
        each(edits, lambda n: execute("make", "cc -O2 main.c\nBuild succeeded."), times=20),
        id="own tools: a build that goes well after each of twenty edits",
    ),
    case(
        each(edits, lambda n: runs("pytest -q", FAILED), times=7),
        id="own tools: test, edit, test, the same failure seven times",
    ),
    case(
        [
            *[unmatched(1)] * 3,
            editor("view", source(1)),
            editor("str_replace", replaced(2), old_str="a", new_str="b"),
        ],
        id="editor: a text that does not match, three times, then it is read",
    ),
    case(
        [
            *each(lambda n: edits(n, "File has not been read yet. Read it first."), times=4),
            reads(1),
            edits(9),
        ],
        id="own tools: edits before reading, then it reads",
    ),
    case(
        each(lambda n: runs(f"pytest tests/test_{word(n)}.py", failures(1, word(n))), times=14),
        id="own tools: fourteen test files, each with a failure of its own",
    ),
]

LOOPS = [
    case([runs("look", "step 3 of 9 done")] * 12, 6, id="own tools: a step that does not move on"),
    case(
        each(lambda n: runs("pytest -q", pytest_report(8, 30)), times=12),
        8,
        id="own tools: the tests again and again, as many failures each time",
    ),
    case(
        [edits(0), *(step for n in range(12) for step in checks())],
        12,
        id="own tools: test, lint, type check, and nothing changed",
    ),
    case(
        each(unmatched, lambda n: editor("view", source(0), view_range=[1, 40]), times=20),
        20,
        id="editor: edits that never match, with a look between",
    ),
    case(each(unmatched, times=20), 8, id="editor: edits that never match"),
    case(
        each(lambda n: edits(n, "String to replace not found in file."), notes, times=20),
        14,
        id="own tools: edits that never match, with notes between",
    ),
    case(
        each(lambda n: edits(n, "File has not been read yet. Read it first."), times=20),
        8,
        id="own tools: edits of a file that it does not read",
    ),
    case(
        each(edits, lambda n: runs("pytest -q", FAILED), times=20),
        24,
        id="own tools: test, edit, test, the same failure for ever",
    ),
    case(
        each(reads, edits, lambda n: runs("pytest -q", FAILED), times=20),
        36,
        id="own tools: read, edit, test, the same failure for ever",
    ),
    case([reads(1), runs("git diff", "")] * 10, 8, id="own tools: the same file and an empty diff"),
    case(
        each(
            lambda n: Use(
                "insert_line", {"line": 1, "text": "import os"}, "import os\n" * (n + 1) + source(0)
            ),
            times=12,
        ),
        6,
        id="own tools: the same short line inserted again",
    ),
    case([notes(3)] * 12, 6, id="own tools: the same notes over and over"),
    case(
        each(
            lambda n: runs("npm test", f"npm ERR! code ELIFECYCLE\nnpm ERR! {prose(n, 2)}"),
            times=16,
        ),
        9,
        id="own tools: npm that fails",
    ),
    case([says("I apologise for the confusion. Let me try again.")] * 10, 6, id="apologies"),
]
