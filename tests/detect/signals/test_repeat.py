"""The same calls with the same results, again."""

import pytest
from tests.detect.runs import Person, Use, bash, count, says, together
from tests.detect.signals.steps import CAT, LS, WORDS, case, in_both_dialects, reading


def posts(result, text="The build is red", tool="post_message"):
    return Use(tool, {"channel": "builds", "text": text}, result)


def click(n, title="Your cart", columns=0):
    """A click on the same button, and the page that follows."""
    rows = "\n".join(f"- row {row}: {row * columns or 'empty'}" for row in range(20))
    page = f"# {title}\n{rows}\n- visits: {n}\n- console: [LOG] rendered {'again ' * n}"
    return Use("browser_click", {"element": "Buy"}, page)


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
        case([bash("make bench", f"drawn in {n}.5 ms") for n in range(11)], 2, id="measured times"),
        case([bash("make bench", f"drawn in {n}.5 ms") for n in range(20)], 5, id="without an end"),
        case([bash("make bench", "no such target")] * 5, 5, id="nothing was measured"),
        case(
            [Use("Edit", {"path": "a", "content": "x"}, "Saved; running `cat -n`: x")] * 5,
            5,
            id="an edit is no poll, whatever is running",
        ),
        case([together(LS, LS)] * 2, 2, id="parallel twins count once"),
        case([together(LS, CAT), together(CAT, LS)], 2, id="the order of parallel calls"),
        case([bash(f"mv {word} x", "ok") for word in WORDS], 0, id="batch work"),
        case([LS, LS, Person("Look again"), LS], 0, id="a user's message resets"),
        case([LS, says("Hm."), LS, says("Hm.")], 0, id="talk is no call"),
        case([bash("ls", None)] * 3, 3, id="calls whose results never came"),
        case([reading(page) for page in range(6)], 0, id="paging"),
        case([posts(f"sent, id msg-{n}7f") for n in range(5)], 5, id="sent again: another receipt"),
        case(
            [posts("sent", text=f"Hello, {word}") for word in WORDS],
            0,
            id="sent to everybody: another message",
        ),
        case(
            [posts(f"{word} answered: not today", tool="send_keys") for word in WORDS],
            0,
            id="an answer is no receipt",
        ),
        case(
            [Use("fetch", {"url": "/jobs"}, f"job-{n} is next") for n in range(5)],
            0,
            id="numbers count in what is read",
        ),
        case(
            [Use("mail", {"action": "send", "to": "ops"}, f"queued as {n}") for n in range(5)],
            5,
            id="sent by a tool with several functions",
        ),
        case(
            [Use("mail", {"action": "fetch", "to": "ops"}, f"{n} unread") for n in range(5)],
            0,
            id="read by the same tool",
        ),
        case([click(n) for n in range(16)], 4, id="the same page but for a counter and a log line"),
        case([click(n) for n in range(40)], 4, id="a counter that moves is only warned of"),
        case([click(n, word) for n, word in enumerate(WORDS)], 0, id="another page each time"),
        case(
            [click(n, columns=n) for n in range(1, 12)], 0, id="a page on which many numbers change"
        ),
        case([click(0)] * 5, 5, id="the same page to the letter"),
        case(
            [Use("computer", {"action": "key", "text": "Down"}, "ok")] * 8,
            2,
            id="steps by a tool with several functions",
        ),
        case([Use("computer", {"action": "ls"}, "ok")] * 5, 5, id="another of its functions"),
        case(
            [Use("job", {"action": "wait", "id": "7"}, "ok")] * 8,
            2,
            id="polls by a tool with several functions",
        ),
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
