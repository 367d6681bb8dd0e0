"""What the history inside one request shows, signal by signal, in both dialects."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.runs import (
    DIALECTS,
    Person,
    Use,
    anthropic,
    bash,
    count,
    evidence,
    openai,
    says,
    together,
    trajectory,
)

from looptrap.call.model import Request
from looptrap.call.read import read
from looptrap.detect.nudge import NUDGE_MARK
from looptrap.detect.signals import ROUNDS, SIGNALS, Look
from looptrap.detect.trajectory import Trajectory

WORDS = "parser lexer token grammar syntax visitor walker emitter linker loader buffer".split()
LS, CAT, PWD = bash("ls", "a.txt"), bash("cat a.txt", "hello"), bash("pwd", "/src")
NO_FILE = "cat: No such file or directory"
GOODBYE = says("Thank you, and goodbye! Have a wonderful day.")

in_both_dialects = pytest.mark.parametrize(
    "write", [pytest.param(write, id=name) for name, write in DIALECTS.items()]
)
case = pytest.param


def edit(old, result="Error: old text not found"):
    return Use("edit", {"path": "total.py", "old": old, "new": "return sum(xs) + 1"}, result)


def append(times):
    """A call that writes the same line again, and shows the file."""
    before, after = "import sys\nimport json\n", "def main():\n    return os.getcwd()\n" * 6
    return Use(
        "insert", {"at": 3, "text": "import os.path"}, before + "import os.path\n" * times + after
    )


def reading(page):
    """A call without arguments that brings another page each time."""
    lines = range(page * 40, page * 40 + 40)
    return Use("scroll_down", {}, "\n".join(f"{n * 7919 % 1000} = {n * n}" for n in lines))


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([LS], 0, id="once"),
        case([LS] * 3, 3, id="three times"),
        case([bash("true", "")] * 3, 3, id="empty results are equal too"),
        case([LS, CAT, LS, CAT, LS], 3, id="not only consecutive"),
        case([LS, LS, CAT], 0, id="the latest is new"),
        case([bash("make", f"{n} done") for n in range(4)], 0, id="a changed result is progress"),
        case([bash("make", f"ended at 10:0{n}") for n in range(4)], 4, id="times do not count"),
        case([bash("make", f"took {n}.5s") for n in range(4)], 4, id="durations do not count"),
        case([together(LS, LS)] * 2, 2, id="parallel twins count once"),
        case([together(LS, CAT), together(CAT, LS)], 2, id="the order of parallel calls"),
        case([bash(f"mv {word} x", "ok") for word in WORDS], 0, id="batch work"),
        case([LS, LS, Person("Look again"), LS], 0, id="a user's message resets"),
        case([LS, says("Hm."), LS, says("Hm.")], 0, id="talk is no call"),
        case([bash("ls", None)] * 3, 3, id="calls whose results never came"),
        case([reading(page) for page in range(6)], 0, id="paging"),
    ],
)
def test_repeat(write, steps, expected):
    assert count("repeat", write, steps) == expected


@in_both_dialects
def test_repeat_looks_only_at_the_latest_rounds(write):
    assert count("repeat", write, [LS] * 9, rounds=4) == 4
    assert count("repeat", write, [LS, CAT, CAT, CAT, LS], rounds=4) == 0


@in_both_dialects
def test_repeat_may_pass_over_results(write):
    steps = [bash("make", f"{n} done") for n in range(3)]
    assert count("repeat", write, steps, with_results=False) == 3


@in_both_dialects
@pytest.mark.parametrize(
    "poll",
    [
        case(Use("job_status", {"id": 7}, "step a"), id="by its name"),
        case(bash("tail -1 build.log", "still running"), id="by what it says"),
        case(bash("tail -1 build.log", "no new output"), id="by what it does not say"),
    ],
)
def test_unchanged_polling_weighs_less_than_a_repeat(write, poll):
    assert count("repeat", write, [poll] * 4) < 2
    assert 2 <= count("repeat", write, [poll] * 12) < 5
    assert count("repeat", write, [poll] * 40) >= 5


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([LS, CAT] * 3, 3, id="two rounds, three times"),
        case([LS, CAT, PWD] * 4, 4, id="three rounds, four times"),
        case([bash(word, word) for word in WORDS[:8]] * 3, 3, id="eight rounds, three times"),
        case([bash(word, word) for word in WORDS[:9]] * 2, 0, id="nine rounds are too many"),
        case([PWD, *[LS, CAT] * 3], 3, id="after something else"),
        case([*[LS, CAT] * 3, PWD], 0, id="then something new"),
        case([LS, CAT, LS], 0, id="not yet twice"),
        case([LS] * 8, 0, id="one call over and over is a repeat"),
        case(
            [step for n in range(4) for step in (LS, bash("make", f"{n} done"))],
            0,
            id="one result changes",
        ),
        case(
            [step for n in range(4) for step in (LS, bash("make", f"done in {n}s"))],
            4,
            id="only a duration changes",
        ),
        case([LS, CAT, Person("Again"), LS, CAT], 0, id="a user's message resets"),
        case([says("Hm."), LS] * 4, 0, id="talk between"),
        case([together(LS, PWD), CAT, together(PWD, LS), CAT], 2, id="order of parallel calls"),
    ],
)
def test_cycle(write, steps, expected):
    assert count("cycle", write, steps) == expected


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([bash(f"cat {word}", NO_FILE) for word in WORDS[:6]], 6, id="whatever the arguments"),
        case([bash(word, f"error: line {n}") for n, word in enumerate(WORDS[:4])], 4, id="numbers"),
        case(
            [bash(word, f"bash: {word}: command not found") for word in WORDS[:5]],
            5,
            id="errors that echo what was asked",
        ),
        case([bash("cat a", NO_FILE), LS] * 3 + [bash("cat b", NO_FILE)], 4, id="in most rounds"),
        case([bash("cat a", NO_FILE)] * 4 + [LS], 0, id="the latest went well"),
        case([bash(word, "") for word in WORDS], 0, id="empty success is no error"),
        case([bash(word, "no matches found") for word in WORDS], 0, id="no matches is no error"),
        case([bash(f"cat {word}", NO_FILE) for word in WORDS], 8, id="no more than it looks at"),
        case([bash("cat a", NO_FILE)] * 3 + [Person("Go on"), LS], 0, id="a user's message resets"),
        case(
            [bash("a", NO_FILE)] * 3 + [bash("b", "Traceback\nKeyError: 'total'")],
            1,
            id="another error",
        ),
        case(
            [bash(f"run {word}", f"KeyError: '{word}'") for word in WORDS],
            1,
            id="an error that names something else",
        ),
        case(
            [bash(f"sed -i {n} && test", f"{9 - n} failed, {n} passed") for n in range(8)],
            1,
            id="ever fewer failures",
        ),
    ],
)
def test_same_error(write, steps, expected):
    assert count("same_error", write, steps) == expected


def test_same_error_sees_what_anthropic_flags():
    steps = [Use("bash", {"n": n}, "Not today", is_error=True) for n in range(4)]
    assert count("same_error", anthropic, steps) == 4
    assert count("same_error", openai, steps) == 0


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([bash("a", "fatal: x"), bash("b", NO_FILE)] * 2, 3, id="in turn: one less than all"),
        case(
            [bash(word, f"{word}Error: {word[::-1]}") for word in WORDS],
            1,
            id="a new failure of a new call gets on",
        ),
        case(
            [bash("make", f"{word}Error: {word[::-1]}") for word in WORDS],
            11,
            id="the same call that fails in ever other ways",
        ),
        case(
            [bash("make", f"{9 - n} failed, {n} passed") for n in range(9)],
            1,
            id="ever fewer failures get on",
        ),
        case([bash("a", "fatal: x")] * 3 + [LS, bash("b", NO_FILE)], 0, id="since one went well"),
        case([bash("a", "fatal: x")] * 3 + [LS], 0, id="the latest went well"),
        case([bash("a", "fatal: x")] * 30, 16, id="no more than it looks at"),
        case([bash(word, "") for word in WORDS], 0, id="empty success is no failure"),
        case([bash("a", "fatal: x"), Person("Go on"), LS], 0, id="a user's message resets"),
    ],
)
def test_failing(write, steps, expected):
    assert count("failing", write, steps) == expected


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([edit("return sum(xs)" + " " * n) for n in range(6)], 6, id="variants that fail"),
        case(
            [
                edit("return sum(xs)" + " " * n, f"Error: {WORDS[n]} cannot be {WORDS[-n]}")
                for n in range(6)
            ],
            1,
            id="each time with another error",
        ),
        case(
            [Use("search", {"query": "frobnicate", "attempt": n}, "no results") for n in range(6)],
            6,
            id="a counter around what brings nothing",
        ),
        case(
            [edit("return sum(xs)"), LS, edit("return sum(xs) "), LS, edit(" return sum(xs)")],
            3,
            id="others between",
        ),
        case([edit("return sum(xs)")] * 4 + [edit("return sum(xs)", "ok")], 0, id="then it works"),
        case(
            [bash(f"grep -rn {word} src/{word[::-1]}", "no matches found") for word in WORDS],
            1,
            id="a sweep of different searches",
        ),
        case([bash(f"cat {word}.txt", "some text") for word in WORDS], 0, id="what brings results"),
        case(
            [edit("return sum(xs)"), bash("echo " + "y" * 80, "error")],
            1,
            id="another tool that fails",
        ),
        case(
            [Use(tool, {"path": "total.py"}, "fatal: x") for tool in ("edit", "patch", "edit")],
            2,
            id="the same arguments for another tool",
        ),
        case([edit("return sum(xs)")] * 3 + [Person("Try b.py"), LS], 0, id="a user resets"),
    ],
)
def test_near_repeat(write, steps, expected):
    assert count("near_repeat", write, steps) == expected


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([append(times) for times in range(1, 7)], 6, id="an append loop"),
        case([append(1), append(2), LS, append(3)], 0, id="something between"),
        case(
            [append(1), Use("insert", {"at": 9}, append(2).result), append(3), append(4)],
            2,
            id="another call between, its result alike",
        ),
        case([append(1), append(2), LS], 0, id="the latest is another call"),
        case([append(1)], 0, id="once"),
        case([reading(page) for page in range(8)], 0, id="paging: every page is new"),
        case(
            [Use("job_status", {"id": 7}, f"{n} of 90 parts done") for n in range(8)],
            0,
            id="polling that changes",
        ),
        case([append(1), append(2), Person("Again"), append(3)], 0, id="a user's message resets"),
        case(
            [Use("create_ticket", {"title": "x"}, f'{{"id": "T-{n}"}}') for n in range(100, 105)],
            5,
            id="the same thing created again",
        ),
        case(
            [
                Use("put", {"text": "import os"}, "import os\n" * n + "x = 1\n" * 40)
                for n in range(1, 6)
            ],
            5,
            id="a short line that piles up",
        ),
        case(
            [
                Use(
                    "click", {"element": "Next page", "ref": "e9"}, "Next page\n" * 30 + f"item {n}"
                )
                for n in range(6)
            ],
            0,
            id="the same click leads on",
        ),
        case(
            [Use("python", {"code": "fit()\nlog.to_csv('a')"}, f"loss {n}" * 9) for n in range(6)],
            0,
            id="a script that trains on",
        ),
    ],
)
def test_mutating_repeat(write, steps, expected):
    assert count("mutating_repeat", write, steps) == expected


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "is_seen"),
    [
        case([bash(f"find / -name {n}", "") for n in range(20)], True, id="a stuck search"),
        case(
            [
                step
                for n in range(10)
                for step in (edit(f"x{n}" * n, "Saved."), bash("make", "2 bad"))
            ],
            True,
            id="edit and run, the output never changes",
        ),
        case([bash(f"find / -name {n}", "") for n in range(15)], False, id="not for long yet"),
        case([bash(f"cat {n}", chr(97 + n) * 9) for n in range(25)], False, id="all results new"),
        case(
            [*[bash(f"find / -name {n}", "") for n in range(24)], bash("cat a", "found it")],
            False,
            id="the latest result is new",
        ),
        case(
            [LS, *[bash(f"find / -name {n}", "") for n in range(18)], LS],
            False,
            id="the latest result came long ago",
        ),
        case(
            [*[bash(f"find / -name {n}", "") for n in range(24)], Person("Try /etc"), LS],
            False,
            id="a user's message resets",
        ),
        case(
            [step for n in range(12) for step in (edit(f"x{n}" * n, "Saved."), bash("tsc", ""))],
            False,
            id="a check that keeps quiet after each edit",
        ),
        case(
            [
                step
                for n in range(12)
                for step in (edit(f"x{n}" * n, "Saved."), bash("make", "Build succeeded."))
            ],
            False,
            id="a build that goes well after each edit",
        ),
        case(
            [
                step
                for n in range(12)
                for step in (edit(f"x{n}" * n, "Saved."), bash("mypy", f"Found {40 - n} errors"))
            ],
            False,
            id="ever fewer errors after each edit",
        ),
        case(
            [
                step
                for n in range(10)
                for step in (
                    bash(f"cat {n}", chr(97 + n) * 9),
                    edit(f"x{n}" * n, "Saved."),
                    bash("git diff", f"+{n}"),
                    bash("make", "error: no rule"),
                )
            ],
            True,
            id="a call that fails the same way, every fourth round",
        ),
        case(
            [Use("python", {"code": f"x{n} = " + "y" * 400}, "") for n in range(24)],
            False,
            id="long scripts without a word are no search",
        ),
    ],
)
def test_stagnation(write, steps, is_seen):
    # What the preset warns at, where it looks at twenty rounds.
    assert (count("stagnation", write, steps) >= 6) is is_seen


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([GOODBYE] * 4, 4, id="goodbye and goodbye"),
        case(
            [
                says(f"{word} I am sorry for the confusion, let me try again.")
                for word in ("Oh,", "So,", "Well,")
            ],
            3,
            id="apologies, almost equal",
        ),
        case([GOODBYE], 0, id="said once"),
        case([GOODBYE, LS, GOODBYE], 0, id="something done between"),
        case([GOODBYE, GOODBYE, LS], 0, id="something done at last"),
        case([together(LS, text="Let me look.")] * 4, 0, id="the same words with each call"),
        case([says(f"{word} {word[::-1]} " * 5) for word in WORDS], 0, id="something new said"),
        case([GOODBYE, GOODBYE, Person("Wait!"), GOODBYE], 0, id="a user's message resets"),
    ],
)
def test_monologue(write, steps, expected):
    assert count("monologue", write, steps) == expected


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "tools", "expected"),
    [
        case([Use("browse", {"n": n}, "?") for n in range(4)], ["bash"], 4, id="not offered"),
        case([LS] * 4, ["bash"], 0, id="offered"),
        case([LS] * 4, [], 0, id="none offered: nothing to compare with"),
        case([Use("browse", {}, "?")] * 3 + [LS], ["bash"], 0, id="then one that is"),
        case([Use("browse", {}, "?"), LS, Use("browse", {}, "?")], ["bash"], 1, id="in a row"),
        case([together(LS, Use("browse", {}, "?"))] * 3, ["bash"], 0, id="along with one that is"),
        case([Use("browse", {}, "?")] * 3 + [says("Hm.")], ["bash"], 0, id="then only words"),
        case(
            [Use("browse", {"n": n}, "Error: unknown tool 'browse'") for n in range(3)],
            [],
            3,
            id="the results say so",
        ),
        case(
            [Use("browse", {"n": n}, "Tool browse does not exist.") for n in range(3)],
            ["browse"],
            3,
            id="the results say so of one that is offered",
        ),
        case(
            [Use("calc", {"q": n}, "Action 'calc' don't exist, use one of: x") for n in range(3)],
            [],
            3,
            id="an action that does not exist",
        ),
        case(
            [Use("calc", {"q": n}, "tried to call unavailable tool 'calc'") for n in range(3)],
            [],
            3,
            id="a tool that is unavailable",
        ),
        case(
            [Use("sql", {"q": n}, "ERROR: function area(int) does not exist") for n in range(3)],
            [],
            0,
            id="a function of the program is not the tool",
        ),
    ],
)
def test_unknown_tool(write, steps, tools, expected):
    assert count("unknown_tool", write, steps, tools=tools) == expected


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([LS, together(LS, CAT)], 3, id="parallel calls one by one"),
        case([LS, LS, Person("And now?"), CAT], 1, id="since the last user message"),
        case([says("Hm.")], 0, id="none"),
        case([LS] * 60, 60, id="however far back"),
    ],
)
def test_turn_budget(write, steps, expected):
    assert count("turn_budget", write, steps) == expected


def test_results_are_matched_to_their_calls_whatever_their_order():
    body = openai([together(LS, CAT)] * 2)
    body["messages"][-1], body["messages"][-2] = body["messages"][-2], body["messages"][-1]
    call = read(Request(path="/v1/chat/completions", body=json.dumps(body).encode()))
    assert SIGNALS["repeat"](Look(12))(Trajectory(call)).count == 2


def test_two_gemini_calls_of_one_name_keep_their_own_results():
    def call(city):
        return {"functionCall": {"name": "weather", "args": {"city": city}}}

    def answer(text):
        return {"functionResponse": {"name": "weather", "response": {"output": text}}}

    contents = [{"role": "user", "parts": [{"text": "Weather?"}]}]
    for cities in (["Rome", "Oslo"], ["Oslo", "Rome"]):
        results = [answer("sun" if city == "Rome" else "snow") for city in cities]
        contents.append({"role": "model", "parts": [call(city) for city in cities]})
        contents.append({"role": "user", "parts": results})
    body = json.dumps({"contents": contents}).encode()
    path = "/v1beta/models/gemini-3:generateContent"
    found = SIGNALS["repeat"](Look(12))(Trajectory(read(Request(path=path, body=body))))
    assert found.count == 2


# What holds for any run.

RESULTS = [
    "",
    "a.txt",
    "hello",
    NO_FILE,
    "fatal: x",
    "no matches found",
    "took 3s",
    "still running",
]
uses = st.builds(
    Use,
    st.sampled_from(["bash", "edit", "job_status"]),
    st.fixed_dictionaries({"command": st.sampled_from(["ls", "cat a", "cat b"])}),
    st.sampled_from(RESULTS),
)
rounds = st.lists(
    uses, min_size=1, max_size=3, unique_by=lambda use: (use.tool, str(use.arguments))
)
runs = st.lists(rounds, min_size=1, max_size=24)
dialects = st.sampled_from(list(DIALECTS.values()))


def counts(write, steps):
    return {signal: count(signal, write, steps, tools=["bash"]) for signal in SIGNALS}


@given(write=dialects, run=runs, data=st.data())
def test_the_order_of_parallel_calls_does_not_matter(write, run, data):
    shuffled = [together(*data.draw(st.permutations(one))) for one in run]
    assert counts(write, shuffled) == counts(write, [together(*one) for one in run])


@given(run=runs)
def test_both_dialects_show_the_same(run):
    steps = [together(*one) for one in run]
    assert counts(openai, steps) == counts(anthropic, steps)


@given(write=dialects, run=runs)
def test_a_new_call_with_a_new_result_is_progress(write, run):
    steps = [*(together(*one) for one in run), Use("read", {"path": "z.py"}, "quite another text")]
    for signal in ("repeat", "cycle", "same_error", "near_repeat", "mutating_repeat", "stagnation"):
        assert evidence(signal, write, steps) is None


@given(write=dialects, run=runs)
def test_a_new_call_with_a_new_failure_counts_as_one(write, run):
    new = Use("read", {"path": "z.py"}, "Traceback: KeyError 'quite_another_name_of_something'")
    steps = [*(together(*one) for one in run), new]
    assert count("repeat", write, steps) == count("cycle", write, steps) == 0
    assert count("same_error", write, steps) == count("near_repeat", write, steps) == 1


@given(write=dialects, before=runs, after=runs)
def test_a_users_message_resets(write, before, after):
    steps = [together(*one) for one in after]
    history = [together(*one) for one in before]
    assert counts(write, [*history, Person("Now this."), *steps]) == counts(write, steps)


@given(run=runs, data=st.data())
def test_the_order_of_the_results_of_one_round_does_not_matter(run, data):
    body = openai([together(*one) for one in run])
    call = Request(path="/v1/chat/completions", body=json.dumps(body).encode())
    size = len(run[-1])
    body["messages"][-size:] = data.draw(st.permutations(body["messages"][-size:]))
    swapped = Request(path="/v1/chat/completions", body=json.dumps(body).encode())
    for signal, looks_at in ROUNDS.items():
        watch = SIGNALS[signal](Look(looks_at))
        assert watch(Trajectory(read(swapped))) == watch(Trajectory(read(call)))


@pytest.mark.parametrize("signal", SIGNALS)
@in_both_dialects
def test_evidence_names_tools_and_counts_and_nothing_that_was_said(signal, write):
    marker = "xyzzy-marker"
    shown = {
        "cycle": [bash(marker, marker), bash(f"cat {marker}", marker)] * 6,
        "mutating_repeat": [
            Use(
                "insert",
                {"text": f"import {marker}"},
                f"{marker}\n" * 40 + f"import {marker}\n" * n,
            )
            for n in range(6)
        ],
        "monologue": [says(f"{marker}, goodbye")] * 6,
        "unknown_tool": [Use("browse", {"url": marker}, marker)] * 6,
        "stagnation": [bash(marker, marker)] * 24,
    }
    failing = [Use("bash", {"command": marker}, f"error: {marker}")] * 6
    found = evidence(signal, write, shown.get(signal, failing), tools=["bash"])
    assert found.signal == signal
    assert found.count >= 2
    assert marker not in str(found)
    assert "error" not in found.what


@given(write=dialects, run=runs)
def test_evidence_counts_no_more_than_it_looked_at_and_knows_since_when(write, run):
    steps = [together(*one) for one in run]
    for signal in ROUNDS:
        found = evidence(signal, write, steps, tools=["bash"])
        if found is not None:
            assert 1 <= found.count <= ROUNDS[signal]
            assert 0 <= found.ago < len(steps)
            assert 0 < found.confidence <= 1


@in_both_dialects
def test_the_same_call_that_fails_in_ever_other_ways_is_the_same_error(write):
    steps = [bash("deploy", f"Error: {word} {word[::-1]} is missing") for word in WORDS[:6]]
    assert count("same_error", write, steps) == 6
    others = [bash(f"try {word}", step.result) for word, step in zip(WORDS, steps, strict=False)]
    assert count("same_error", write, others) < 3


@in_both_dialects
@pytest.mark.parametrize(
    "step",
    [
        case(Use("fetch", {"url": "a"}, "HTTP 429 Too Many Requests"), id="told to come again"),
        case(Use("press_key", {"key": "PageDown"}, "ok"), id="one more step"),
        case(Use("write_stdin", {"chars": ""}, ""), id="nothing new to read"),
    ],
)
def test_what_is_rightly_done_again_is_for_repeat_to_say_and_weighs_less(write, step):
    assert count("repeat", write, [step] * 4) < 2
    assert count("repeat", write, [step] * 40) >= 5
    assert count("same_error", write, [step] * 12) == 0
    assert count("near_repeat", write, [step] * 12) == 0


@in_both_dialects
def test_a_failure_that_speaks_of_what_runs_is_no_poll(write):
    assert count("repeat", write, [bash("deploy", "Error while running deploy")] * 5) == 5


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case(
            [
                step
                for n in range(6)
                for step in (Use("press_key", {"key": "Down"}, "ok"), bash("screen", f"row {n}"))
            ],
            0,
            id="what else was asked is answered anew",
        ),
        case([LS, CAT] * 4, 4, id="what else was asked is answered as before"),
    ],
)
def test_another_answer_is_progress_for_all(write, steps, expected):
    assert count("repeat", write, steps) == expected


@in_both_dialects
@pytest.mark.parametrize(
    "wait",
    [case(Use("wait", {"seconds": 5}, "ok"), id="tool"), case(bash("sleep 5", ""), id="shell")],
)
def test_asking_and_waiting_in_turn_is_polling(write, wait):
    steps = [bash("gh run view 7", "queued"), wait]
    assert count("cycle", write, steps * 3) < 2
    assert 2 <= count("cycle", write, steps * 11) < 3
    assert count("cycle", write, steps * 12) == 3
    assert count("stagnation", write, steps * 12) < 6


@in_both_dialects
def test_our_own_nudge_neither_resets_nor_makes_a_result_another(write):
    nudge = f"{NUDGE_MARK}\nYou are going in circles: ls, 3 times."
    assert count("repeat", write, [LS, LS, Person(nudge), LS]) == 3
    assert count("repeat", write, [LS, bash("ls", f"a.txt\n{nudge}")]) == 2


@in_both_dialects
def test_a_far_budget_is_counted_exactly_where_it_is_reached(write):
    look = Look(0, first=200)
    steps = [bash(f"echo {n}", f"{n}") for n in range(210)]
    assert SIGNALS["turn_budget"](look)(trajectory(write, steps)).count == 210
    assert SIGNALS["turn_budget"](look)(trajectory(write, steps[:40])) is None


@in_both_dialects
@pytest.mark.parametrize("signal", sorted(SIGNALS))
def test_no_signal_is_surer_than_sure(write, signal):
    for steps in ([LS] * 12, [LS, CAT] * 6, [bash("x", NO_FILE)] * 9, [GOODBYE] * 5):
        found = evidence(signal, write, steps)
        assert found is None or 0 < found.confidence <= 1
