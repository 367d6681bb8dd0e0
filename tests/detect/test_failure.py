"""What a tool's result says: that it failed, that there was nothing, or something."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.detect.failure import (
    failure_of,
    is_check,
    is_echo,
    is_empty_result,
    is_success_report,
    is_test_report,
)

LONG_FILE = "\n".join(
    f"def read_{n}(path):\n    raise ValueError(f'error in {{path}}, cannot read {n}')"
    if n == 20
    else f"def read_{n}(path):\n    return open(path).read({n})"
    for n in range(40)
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            'Exit code: 0\n{"type": "about:blank", "title": "Unauthorized", "status": 401}',
            id="curl: exits well, and is not let in",
        ),
        pytest.param(
            '{"exit_code": 0, "output": "{\\"status\\": 503, \\"title\\": \\"Busy\\"}"}',
            id="curl: an error inside of JSON",
        ),
        pytest.param("bash: frobnicate: command not found", id="shell: no such command"),
        pytest.param("ls: cannot access 'x': No such file or directory", id="shell: no such file"),
        pytest.param("rm: /etc/hosts: Permission denied", id="shell: denied"),
        pytest.param("curl: (28) Operation timed out after 5001 ms", id="shell: timed out"),
        pytest.param("fatal: not a git repository", id="git: fatal"),
        pytest.param(
            'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n'
            "    main()\nKeyError: 'total'",
            id="traceback",
        ),
        pytest.param(
            "Traceback (most recent call last):\n"
            + '  File "a.py", line 3, in main\n    main()\n' * 60
            + "RecursionError: maximum recursion depth exceeded",
            id="long traceback",
        ),
        pytest.param(
            "collected 200 items\n" + "tests/test_a.py .......... ok\n" * 60 + "ValueError: no",
            id="the exception in the last line of a long output",
        ),
        pytest.param('{"error": "quota used up"}', id="JSON error"),
        pytest.param('{"error": {"code": 404, "message": "no order"}}', id="JSON error object"),
        pytest.param("<returncode>1</returncode>\n<output>\nkilled\n</output>", id="return code"),
        pytest.param("Exit code: 2\nusage: tool [-h]", id="exit code"),
        pytest.param("done\n[exit status 127]", id="exit status at the end"),
        pytest.param("compiled\n" * 500 + "exit code 2", id="exit code after a long output"),
        pytest.param("Error: old text not found in total.py", id="a failed edit"),
        pytest.param("403 Forbidden", id="forbidden"),
        pytest.param("src/a.c:24:7: error: expected ';'", id="a compiler"),
        pytest.param("src/a.py:24: error: Name 'x' is not defined", id="a type checker"),
        pytest.param("src/a.py:3:1: F821 undefined name 'x'", id="a linter"),
        pytest.param('{"message": "Unauthorized"}', id="unauthorized"),
        pytest.param("You are not authorised to read this.", id="not authorised"),
        pytest.param("python: No module named pytest", id="no module"),
        pytest.param("{'success': False, 'data': None}", id="a Python dictionary"),
        pytest.param('{"ok":false}', id="JSON: not ok"),
        pytest.param('{"isError": true, "content": []}', id="an MCP error"),
        pytest.param("make returned a non-zero exit status", id="exit status in words"),
        pytest.param('{"stdout": "building", "exit_code": 2}', id="exit code in JSON"),
        pytest.param("Process exited with status code 3\nbye", id="exited with status code"),
        pytest.param("429 Too Many Requests: invalid until later", id="refused for now"),
        pytest.param('{"success": false, "reason": "card"}', id="JSON success: false"),
        pytest.param('{"status": "error", "data": null}', id="JSON status"),
        pytest.param("request ended with status code 500", id="status code"),
        pytest.param("HTTP/1.1 503", id="status line"),
        pytest.param("npm ERR! code ELIFECYCLE", id="npm"),
        pytest.param("Process exited with code 3\nbye", id="exited with code"),
        pytest.param('{"output": "usage: x", "exit_code": 2}', id="JSON exit code"),
        pytest.param("java.lang.IllegalStateException: closed", id="a Java exception"),
        pytest.param("main.c:3: error: 'x' undeclared", id="a compiler"),
        pytest.param("No replacement was performed, old_str did not appear verbatim", id="editor"),
        pytest.param("File has not been read yet. Read it first.", id="another editor"),
        pytest.param("Fehler: Datei nicht gefunden", id="German"),
        pytest.param("错误：服务不可用", id="Chinese"),
    ],
)
def test_is_a_failure(text):
    assert failure_of(text)
    assert len(failure_of(text)) <= 300


FAILURE_PHRASES = """error|errors|exception|failed|failure|fails|fail|fatal|denied|refused|invalid
undefined|missing|panic|forbidden|unauthorised|unauthorized|err!|valueerror:|typeexception|traceback
unrecognised|unrecognized|not found|no such|cannot|can't|could not|couldn't|unable to|timed out
timeout|time-out|unexpected|mismatch|aborted|no module named|nonzero exit|non-zero status
not defined|not an allowed|not authorised|not permitted|not supported|not valid|not recognized
not exist|not available|not unique|not been read|does not|doesn't|don't exist|did not appear
did not match|did not contain|did not exist|did not find|must be|no replacement|no changes to make
no changes were made|"success": false|'ok':false|"succeeded":false|success=false|success = false
is_error: true|iserror":true|http/1.1 404|http 500|status 503|status code: 404|fehler|erreur
errore|fallo|nicht gefunden|introuvable|no se pudo|no se encontr|ошибка|错误|失败|エラー|오류"""


@pytest.mark.parametrize("phrase", FAILURE_PHRASES.replace("\n", "|").split("|"))
@pytest.mark.parametrize("text", ["The job: {}", "ok\nThe job: {}\ndone"])
def test_each_phrase_makes_a_line_a_failure(text, phrase):
    assert failure_of(text.format(phrase)) is not None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty success"),
        pytest.param("ok", id="ok"),
        pytest.param("12 passed in 0.21s", id="tests that pass"),
        pytest.param("exit code: 0\nerror handling tested", id="exit code 0 and the word error"),
        pytest.param(
            "<returncode>0</returncode>\n<output>\nerror.log\nfailed.txt\n</output>",
            id="return code 0 and the word error",
        ),
        pytest.param(LONG_FILE, id="a long file that contains the word error"),
        pytest.param("value = 1\n" * 100 + "error\n" + "value = 2\n" * 100, id="amid a long text"),
        pytest.param("mirrors, terrors and failsafes", id="words that merely contain it"),
        pytest.param('{"items": [1, 2], "next": null}', id="JSON data"),
        pytest.param('{"ok": true, "error": null, "errors": []}', id="JSON without an error"),
        pytest.param("Build succeeded. 0 Warning(s), 0 errors", id="0 errors"),
        pytest.param("Finished without any errors", id="without errors"),
        pytest.param("src/ErrorPage.java\nsrc/errors/fail.txt\nFooException.java", id="names"),
        pytest.param(
            "     1→class NotFound:\n     2→    'cannot be found'", id="a numbered listing"
        ),
        pytest.param("a.py:3:    raise ValueError('must be')", id="a search in source"),
        pytest.param("src/a.rs:24: pub fn load() -> Result<u8, Error> {", id="a hit in Rust"),
        pytest.param("src/a.ts:24:7: onError(cannot)", id="a hit with a column"),
        pytest.param("{'success': True, 'data': None}", id="a Python dictionary of success"),
        pytest.param('{"isError": false, "content": ["x"]}', id="an MCP result"),
        pytest.param("docs/forbidden-words.md\nsrc/unauthorized.py", id="names of files"),
        pytest.param('{"stdout": "error log is empty", "exit_code": 0}', id="exit code 0 in JSON"),
    ],
)
def test_is_no_failure(text):
    assert failure_of(text) is None


@pytest.mark.parametrize(
    ("text", "form"),
    [
        pytest.param("", "failed", id="nothing said"),
        pytest.param(" \n\t\n", "failed", id="only white space"),
        pytest.param("Not  today", "not today", id="in words of its own"),
    ],
)
def test_the_dialects_flag_makes_it_a_failure(text, form):
    assert failure_of(text) is None
    assert failure_of(text, is_error=True) == form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("error in line 12", "error in line 340", id="line numbers"),
        pytest.param("10:02:11 error: no route", "23:59:01 error: no route", id="times"),
        pytest.param("failed after 0.21s", "failed after 13.5s", id="durations"),
        pytest.param("Error: got 4, want 3", "Error: got 17, want 3", id="plain numbers"),
        pytest.param("error at 0x7ffe12", "error at 0x55d0aa", id="addresses"),
        pytest.param("ERROR:  not found", "error: not found\n", id="case and white space"),
        pytest.param(
            "error: x\n" + "a\n" * 400, "error: x\n" + "b\n" * 420, id="what a long output holds"
        ),
    ],
)
def test_the_same_failure_has_one_form(one, other):
    # What surrounds a long output's error is content: only its head and tail are looked at.
    assert failure_of(one) == failure_of(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("3 failed, 9 passed", "2 failed, 10 passed", id="tests"),
        pytest.param("Found 14 errors in 2 files", "Found 12 errors in 2 files", id="a checker"),
        pytest.param("Tests run: 9, Failures: 2", "Tests run: 9, Failures: 1", id="numbers last"),
    ],
)
def test_fewer_failures_are_another_failure(one, other):
    forms = [failure_of(text, is_error=True) for text in (one, other)]
    assert forms[0] != forms[1]
    assert all(map(is_test_report, forms))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("42 passed in 1.2s", True, id="tests"),
        pytest.param("All checks passed!", True, id="a linter"),
        pytest.param("Build succeeded.", True, id="a build"),
        pytest.param('{"thing": 4}', False, id="some output"),
        pytest.param("bypassed", False, id="a word inside another"),
    ],
)
def test_some_results_tell_that_all_is_well(text, expected):
    assert is_success_report(text) is expected


@pytest.mark.parametrize(
    ("asked", "expected"), [("tsc --noEmit", True), ("npm run lint", True), ("python a.py", False)]
)
def test_a_check_may_keep_quiet(asked, expected):
    assert is_check(asked) is expected


def test_different_failures_have_different_forms():
    assert failure_of("Error: no such table") != failure_of("Error: disk is full")


@given(first=st.integers(0, 10**12), second=st.integers(0, 10**12))
def test_numbers_do_not_change_a_failures_form(first, second):
    assert failure_of(f"error: {first} items left") == failure_of(f"error: {second} items left")


@given(text=st.text(max_size=2000), is_error=st.booleans())
def test_any_text_is_read(text, is_error):
    failure = failure_of(text, is_error)
    assert failure is None or len(failure) <= 300
    assert failure is not None or not is_error or "code" in text.lower() or "status" in text.lower()
    assert is_empty_result(text) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(" \n", id="white space"),
        pytest.param("[]", id="an empty list"),
        pytest.param("{}", id="an empty object"),
        pytest.param("no matches found", id="no matches found"),
        pytest.param("No results found for 'frobnicate'.", id="no results for"),
        pytest.param("0 matches", id="0 matches"),
        pytest.param("Found 0 results in 12 files", id="found 0 results"),
        pytest.param("nothing found", id="nothing found"),
        pytest.param("No files found", id="no files found"),
        pytest.param('{"results": [], "total": 0}', id="JSON without results"),
        pytest.param("<returncode>0</returncode>\n<output>\n</output>", id="nothing in tags"),
        pytest.param("<returncode>1</returncode>\n<output>\n</output>", id="and exit status 1"),
        pytest.param("\n[The command completed with exit code 0.]", id="nothing but a footer"),
        pytest.param("[The command completed with exit code 1.]", id="a footer with status 1"),
        pytest.param("Error: Exit code 1", id="status 1 as an error"),
        pytest.param(
            "Your command ran successfully and did not produce any output.",
            id="no output, in words",
        ),
    ],
)
def test_is_fruitless_and_no_failure(text):
    assert is_empty_result(text)
    assert failure_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ok", id="ok"),
        pytest.param("7", id="a number"),
        pytest.param("a.txt", id="a listing"),
        pytest.param("10 results", id="10 results"),
        pytest.param("no problem at all", id="a sentence with no"),
        pytest.param("[1, 2]", id="a list"),
        pytest.param("[image_url 3f2a90c1d2e4b586]", id="an image"),
        pytest.param("<returncode>0</returncode>\n<output>\n7\n</output>", id="a number in tags"),
        pytest.param("no matches\n" + "but a page of text\n" * 60, id="a long text that says so"),
    ],
)
def test_is_not_fruitless(text):
    assert not is_empty_result(text)


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param("e", id="one letter"),
        pytest.param("error ", id="the word"),
        pytest.param("\n", id="empty lines"),
        pytest.param("exit code ", id="exit codes without a number"),
        pytest.param("returncode=", id="return codes without a number"),
        pytest.param("A.B.", id="dotted names"),
        pytest.param("can't not does not ", id="half words"),
        pytest.param("0", id="digits"),
        pytest.param("12:", id="almost times"),
        pytest.param("deadbeef-", id="almost ids"),
        pytest.param("no ", id="no and no"),
    ],
)
@pytest.mark.parametrize("is_error", [False, True])
def test_a_hostile_result_costs_no_more_than_its_ends(unit, is_error):
    text = unit * (4_000_000 // len(unit))
    begun = process_time()
    failure_of(text, is_error)
    is_empty_result(text)
    # Quadratic work on this much would take hours: the bound is generous on purpose.
    assert process_time() - begun < 2


@pytest.mark.parametrize(
    ("result", "arguments", "expected"),
    [
        pytest.param("TR-7: login fails on tablets", "login fails", True, id="a search for it"),
        pytest.param("12: ERROR disk full", "grep -i error log", True, id="a search in a log"),
        pytest.param("cat: cannot open error.log", "cat error.log", False, id="another failure"),
        pytest.param("failed\nexit code: 1", "./run-failed.sh", False, id="an exit status"),
        pytest.param("all is well", "grep error", False, id="nothing that sounds like one"),
    ],
)
def test_what_was_asked_for_is_no_failure(result, arguments, expected):
    assert is_echo(result, arguments) is expected


def test_the_missing_field_is_part_of_the_failure():
    errors = [
        "Validation Error found:\n1 validation error for Order\n{}\n  Field required\nFix it."
    ]
    forms = {failure_of(error.format(name)) for error in errors for name in ("price", "name")}
    assert len(forms) == 2
