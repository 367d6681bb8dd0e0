"""The default policy on whole runs: loops are refused, honest work is not.

Each run is replayed call by call, as a gateway would have seen it, in both dialects. "After n" is
how many turns the agent had made when its next call was refused.
"""

import pytest
from tests.detect.runs import (
    DIALECTS,
    PATHS,
    Person,
    Use,
    bash,
    requests,
    says,
    together,
)

from looptrap import Guard, LoopDetectedError
from looptrap.policy.action import Action

T = 1_800_000_000.0
WORDS = (
    "parser lexer token grammar syntax visitor walker emitter linker loader buffer stream socket"
    " thread mutex widget ledger invoice basket coupon courier parcel pallet harbour anchor rudder"
    " compass lantern canvas easel"
).split()
FAILED_TEST = (
    "====== FAILURES ======\n    def test_total():\n>       assert total([1, 2]) == 3\n"
    "E       assert 4 == 3\n\ntests/test_total.py:7: AssertionError\n1 failed, 11 passed in 0.21s"
)
NO_MATCH = "<returncode>1</returncode>\n<output>\n</output>"
LIMITED = "HTTP 429 Too Many Requests: rate limit exceeded"
RESET = "Error: connection reset by peer"

case = pytest.param
in_both_dialects = pytest.mark.parametrize(
    "write", [pytest.param(write, id=name) for name, write in DIALECTS.items()]
)


def replay(write, steps, *, tools=(), seconds=1):
    """Return what first warned and what first refused a run, each with after how many turns."""
    guard = Guard.from_preset("default")
    warned = refused = None
    for after, body in enumerate(requests(write, steps, tools)):
        now = T + after * seconds
        try:
            verdict = guard.check(body, path=PATHS[write], caller="me", now=now).verdict
        except LoopDetectedError as error:
            refused = refused or (error.evidence[0].signal, after)
        else:
            if verdict.action is not Action.ALLOW:
                warned = warned or (verdict.evidence[0].signal, after)
    return warned, refused


def edit(number, result="The file has been updated."):
    """An edit like no other."""
    word = WORDS[number % len(WORDS)]
    return Use("edit", {"path": "total.py", "old": word * 2, "new": word[::-1] * 2}, result)


def each(*makers, times):
    """Return the steps that these make, for each number in turn."""
    return [maker(number) for number in range(times) for maker in makers]


def page(number):
    lines = range(number * 40, number * 40 + 40)
    return "\n".join(f"{line * 7919 % 1000} = {line * line}" for line in lines)


def fetch(result):
    return Use("http_get", {"url": "https://api.example.com/items"}, result)


def check(_number=0, result=FAILED_TEST):
    return bash("pytest -q", result)


def prose(number):
    """Words that are no command, other words each time."""
    return " ".join(WORDS[number * step % len(WORDS)] for step in (1, 7, 11, 13)) + " (I think)"


def append(number):
    """A call that writes the same line again, and shows the file."""
    rest = "def main():\n    return os.getcwd()\n" * 6
    return Use("insert", {"text": "import os.path"}, "import os.path\n" * (number + 1) + rest)


def variant(number, result):
    """An edit that differs from the others in white space only."""
    old = "return sum(xs)" + " " * number
    return Use("edit", {"path": "total.py", "old": old, "new": "return sum(xs) + 1"}, result)


def mismatch(number):
    return f"E  AssertionError: {WORDS[number]} is not {WORDS[-number]}"


def source(number):
    return f"class {WORDS[number].title()}Error(Exception):\n    pass"


HONEST = [
    case(
        [
            *each(lambda n: Use("job_status", {"id": 7}, f"running, {n * 10} %"), times=10),
            Use("job_status", {"id": 7}, "done"),
        ],
        id="polling whose result changes",
    ),
    case(
        [*[Use("job_status", {"id": 7}, "pending")] * 4, Use("job_status", {"id": 7}, "done")],
        id="unchanged polling, four times",
    ),
    case(
        [*[bash("tail -1 build.log", "still running")] * 4, bash("tail -1 build.log", "built")],
        id="unchanged polling by a shell command, four times",
    ),
    case(
        each(lambda n: Use("read", {"path": "a.py", "offset": n * 40}, page(n)), times=25),
        id="paging by offset",
    ),
    case(each(lambda n: Use("scroll_down", {}, page(n)), times=25), id="paging by the same call"),
    case(
        each(edit, lambda n: check(n, result=f"{8 - n} failed in 1s\nFAILED {WORDS[n]}"), times=8),
        id="test, edit, test, and each time fewer fail",
    ),
    case(
        each(edit, lambda n: bash("make", f"main.c:{n}: error: '{WORDS[n]}' undeclared"), times=15),
        id="compile errors fixed one by one",
    ),
    case(
        each(lambda n: bash(f"grep -rn {WORDS[n]} src/", "no matches found"), times=15),
        id="a sweep of fifteen searches without a match",
    ),
    case(
        each(lambda n: bash(f"grep -rn {WORDS[n]} src/", ""), times=15),
        id="a sweep of fifteen searches without a word",
    ),
    case(
        [*[edit(1, "Error: old text not found")] * 3, bash("cat total.py", "def total"), edit(2)],
        id="three identical failing edits, then recovery",
    ),
    case(
        each(
            lambda n: bash(f"cd /src/{WORDS[n]}", ""),
            lambda n: bash("ls", f"{WORDS[n]}.py\n__init__.py"),
            times=15,
        ),
        id="ls after each cd",
    ),
    case(
        [
            bash(command, "")
            for command in (
                "mkdir a",
                "cd a",
                "touch b",
                "cp b c",
                "mv c d",
                "rm d",
                "git add b",
                "export X=1",
                "chmod +x b",
                "ln -s b e",
                "sed -i s/a/b/ b",
                "true",
                "rm -rf e",
            )
        ],
        id="the empty output of thirteen different commands",
    ),
    case(
        each(lambda n: bash(f"cat {WORDS[n]}.py", f"def {WORDS[n]}():\n" + page(n)), times=30),
        id="thirty files read",
    ),
]
STUTTERS = [
    case(
        [*[edit(1, "Error: old text not found")] * 4, bash("cat total.py", "def total"), edit(2)],
        id="four identical failing edits, then recovery",
    ),
    case([*[fetch(LIMITED)] * 4, fetch('{"items": [1, 2]}')], id="a 429 retried four times"),
    case(
        [
            *each(lambda n: fetch(f"Error: 429, retry after {n} seconds"), times=4),
            fetch('{"items": [1, 2]}'),
        ],
        id="a 429 that counts its seconds down",
    ),
    case(each(edit, check, times=4), id="test, edit, test, the same failure four times"),
    case(
        [
            *each(
                lambda n: bash(f"pip install {WORDS[n]}", "ERROR: No such distribution"), times=4
            ),
            bash("pip install rich", "Successfully installed rich"),
        ],
        id="four names guessed, the fifth is right",
    ),
]


TRIPS = [
    case(
        each(lambda n: Use("send", {"to": WORDS[n]}, "ok"), times=30),
        id="batch work: ok",
    ),
    case(
        each(lambda n: Use("insert_row", {"id": n}, '{"status": "stored"}'), times=30),
        id="batch work: a status",
    ),
    case(
        each(lambda n: Use("create", {"title": WORDS[n]}, f'{{"id": {n}}}'), times=30),
        id="batch work: new ids",
    ),
    case(
        each(lambda n: bash(f"git mv {WORDS[n]}.py src/", ""), times=30),
        id="batch work: no output",
    ),
    case(
        each(lambda n: bash(f"touch {n}.txt", ""), times=15),
        id="batch work: numbered files",
    ),
    case(
        each(edit, check, times=8),
        id="test, edit, test, the same failure eight times",
    ),
    case(
        [together(edit(n), check()) for n in range(8)],
        id="edit and test in one turn, the same failure eight times",
    ),
    case(
        each(edit, lambda n: bash("ruff check", "All checks passed!"), times=8),
        id="a clean linter after each of eight edits",
    ),
    case(
        each(
            lambda n: bash(f"cd /src/{WORDS[n]}", ""), lambda n: bash("ls", "__init__.py"), times=8
        ),
        id="ls after each cd, all listings equal",
    ),
    case(
        each(lambda n: bash(f"grep -rn {WORDS[n]} src/", NO_MATCH), times=15),
        id="a sweep of fifteen searches that exit with 1",
    ),
    *(
        case(
            each(lambda n, frame=frame: bash(f"grep -rn {WORDS[n]} src/", frame), times=15),
            id=f"a sweep of fifteen searches that find nothing: {name}",
        )
        for name, frame in {
            "a footer": "[The command completed with exit code 1.]",
            "an error": "Error: Exit code 1",
            "JSON": '{"output":"","metadata":{"exit_code":1,"duration_seconds":0.1}}',
        }.items()
    ),
    case(
        [
            *[fetch(RESET)] * 4,
            fetch('{"items": [1]}'),
            *[fetch(RESET)] * 4,
            fetch('{"items": [2]}'),
            *[fetch(RESET)] * 4,
        ],
        id="a call that fails at times, and brings something new in between",
    ),
    case(
        [Use("salida", {"pid": 7}, "(proceso en ejecución, sin salida nueva)")] * 8,
        id="unchanged polling in Spanish",
    ),
    case(
        each(lambda n: bash(f"pytest tests/test_{WORDS[n]}.py", mismatch(n)), times=12),
        id="twelve test files, each with a failure of its own",
    ),
    case(
        each(lambda n: bash(f"cat {WORDS[n]}.py", source(n)), times=12),
        id="twelve short files that define errors",
    ),
]


@in_both_dialects
@pytest.mark.parametrize("steps", HONEST)
def test_honest_work_is_not_even_warned(write, steps):
    assert replay(write, steps) == (None, None)


@in_both_dialects
@pytest.mark.parametrize("steps", [*STUTTERS, *TRIPS])
def test_honest_work_that_looks_like_a_loop_is_not_refused(write, steps):
    # At an agent's pace: six equal conversations within a minute are for another rule.
    _, refused = replay(write, steps, seconds=10)
    assert refused is None


@in_both_dialects
def test_a_person_may_have_the_same_checked_again(write):
    recheck = [
        Use("get_order", {"id": 5}, "status: shipped"),
        says("It is shipped."),
        Person("Please check again."),
    ]
    assert replay(write, recheck * 5) == (None, None)
    assert replay(write, recheck * 20, seconds=15) == (None, None)


LOOPS = [
    case([bash("ls", "a.txt")], ("repeat", 5), id="the same call with the same result"),
    case([bash("make", "")], ("repeat", 5), id="the same call, and never a word"),
    case([edit(1, "Error: old text not found")], ("repeat", 5), id="the same failing edit"),
    case(
        [bash("ls", "a.txt"), bash("cat a.txt", "hello")], ("cycle", 6), id="a cycle of two rounds"
    ),
    case(
        [bash("ls", "a.txt"), bash("cat a.txt", "hello"), bash("wc a.txt", "1 1 6")],
        ("cycle", 9),
        id="a cycle of three rounds",
    ),
    case([edit(1), check()], ("cycle", 6), id="the same edit and the same failure"),
    case(
        each(lambda n: bash(prose(n), "bash: syntax error near unexpected token `('"), times=20),
        ("same_error", 7),
        id="the same error, with ever new arguments",
    ),
    case(
        each(lambda n: bash(prose(n), f"bash: {WORDS[n]}: command not found"), times=20),
        ("same_error", 7),
        id="the same error, which echoes the arguments",
    ),
    case(
        [*[bash("curl a", RESET)] * 3, bash("curl a", '{"items": [1]}')] * 4,
        ("repeat", 10),
        id="a call that fails most times, and brings the same in between",
    ),
    case(
        [Use("message", {"action": "reply", "text": "Done."}, '{"messageId": "om_81a9c4d2"}')],
        ("repeat", 5),
        id="the same reply, sent again",
    ),
    case(each(append, times=12), ("mutating_repeat", 5), id="an append loop"),
    case(
        each(lambda n: variant(n, "Error: old text not found"), times=12),
        ("near_repeat", 6),
        id="near-variants that fail the same way",
    ),
    case(
        each(lambda n: variant(n, f"Error: cannot {WORDS[n]} the {WORDS[-n]}"), times=16),
        ("failing", 13),
        id="near-variants that fail in different ways",
    ),
    case(
        each(lambda n: Use("search", {"query": "frobnicate", "try": n}, "no results"), times=12),
        ("near_repeat", 6),
        id="a counter around a search that finds nothing",
    ),
    case(
        each(lambda n: bash(f"find / -name '{WORDS[n]}*'", ""), times=30),
        ("stagnation", 20),
        id="a stuck search",
    ),
    case([says("Thank you, and goodbye!")], ("monologue", 5), id="a goodbye monologue"),
    case(
        each(lambda n: Use("browse", {"url": f"https://{WORDS[n]}.example"}, "?"), times=12),
        ("unknown_tool", 5),
        id="a tool that is not offered",
    ),
]


@in_both_dialects
@pytest.mark.parametrize(("steps", "expected"), LOOPS)
def test_a_loop_is_refused(write, steps, expected):
    run = steps if len(steps) > 3 else steps * 10
    _, refused = replay(write, run, tools=["bash", "edit", "insert", "search"])
    assert refused == expected


@in_both_dialects
def test_unchanged_polling_does_not_go_on_for_ever(write):
    run = [Use("job_status", {"id": 7}, "pending")] * 60
    _, refused = replay(write, run, seconds=15)  # slower than equal conversations are counted
    signal, after = refused
    assert signal == "repeat"
    assert 15 <= after <= 40


@in_both_dialects
def test_after_a_refusal_a_changed_approach_passes(write):
    guard = Guard.from_preset("default")
    loop = [bash("ls", "a.txt")] * 5

    def verdict(steps, now):
        return guard.check(write(steps), path=PATHS[write], caller="me", now=T + now).verdict

    with pytest.raises(LoopDetectedError) as caught:
        verdict(loop, 0)
    assert caught.value.cooldown_seconds == 30
    with pytest.raises(LoopDetectedError):
        verdict(loop, 29)
    assert verdict(loop, 31).action is Action.WARN  # the probe: the model gets a turn
    changed = [*loop, bash("cat a.txt", "hello")]
    assert verdict(changed, 32).action is Action.ALLOW
    with pytest.raises(LoopDetectedError):
        verdict([*loop, bash("ls", "a.txt")], 33)
