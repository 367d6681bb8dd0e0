"""The same calls again, whose results differ in a few figures at most."""

import pytest
from tests.detect.runs import Person, Use, bash, count
from tests.detect.signals.steps import WORDS, case, in_both_dialects

HOSTS = [24, 1, 25, 15, 28, 23, 10, 26, 15, 20, 24, 7, 31, 18, 2, 29, 11]
LINES = [2103, 2810, 1891, 2472, 2479, 2152, 2055, 2124, 2295, 1849, 2022, 2360, 1910, 2001]


def start(n, day="2027-01-14"):
    return Use("trigger_dag", {"dag": "daily", "day": day}, f'{{"run_id": "manual_{n * 7919:x}"}}')


def log(n, why="CSV parse error: Row 935018: Expected 14 columns, got 15"):
    place = HOSTS[n % len(HOSTS)], LINES[n % len(LINES)]
    text = "[08:01:38] taskinstance.py {1}: running on host worker-{0}\n[08:01:39] ERROR - {2}"
    return Use("show_output", {"dag": "daily"}, text.format(*place, why))


def page(n, rows=range(12), name="page"):
    listed = ", ".join(f'{{"id": "ord_{row}", "owner": "{WORDS[row % 9]}"}}' for row in rows)
    result = f'{{"request_id": "req_{n * 7919:x}", "{name}": {n}, "data": [{listed}]}}'
    return Use("list_orders", {name: n, "per_page": 12}, result)


def snapshot(n, text="Buy now"):
    refs = HOSTS[n % len(HOSTS)], LINES[n % len(LINES)]
    shown = "- main\n  - dialog 'We value your privacy' [ref=e{0}]\n  - button '{2}' [ref=e{1}]\n"
    return Use(
        "browser_click", {"element": "Buy now", "ref": f"e{refs[1]}"}, shown.format(*refs, text) * 3
    )


def server(n):
    pid = 4000 + LINES[n % len(LINES)] * 7 % 1000
    return [
        bash("npm run dev &", f"started as [{pid}], listening on the port of web"),
        bash(f"ps {pid}", f"{pid} pts/0 exited with an error"),
    ]


def service(n):
    """A start that prints nothing but a number, a look, and an end of that process."""
    pid = 4000 + LINES[n % len(LINES)] * 7 % 1000
    return [
        bash("./serve > out.log & echo $!", f"{pid}"),
        bash("tail out.log", "cannot reach the database at db:5432"),
        bash(f"kill -9 {pid}", f"kill: ({pid}) - no such process"),
        bash("curl localhost:8080", "connection refused by localhost on port 8080"),
    ]


def rounds(make, times=16):
    steps = [make(n) for n in range(times)]
    return [one for step in steps for one in (step if isinstance(step, list) else [step])]


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case(rounds(lambda n: [start(n), log(n)], 10), 18, id="a job that fails again"),
        case(rounds(page), 15, id="pages that a server ignores"),
        case(rounds(snapshot), 9, id="a click that does nothing, and new names of elements"),
        case(rounds(server, 10)[:-1], 12, id="another process each time, and a look at it"),
        case(rounds(service, 8), 18, id="a start that prints a number only"),
    ],
)
def test_what_comes_back_but_for_figures_counts(write, steps, expected):
    assert count("noisy_repeat", write, steps) >= expected


@in_both_dialects
@pytest.mark.parametrize(
    "steps",
    [
        case(
            rounds(lambda n: [start(n), log(n, f"Row {n} of 20: bad")], 10),
            id="a figure that rises is progress",
        ),
        case(
            rounds(lambda n: [start(n), log(n, f"column {WORDS[n]} is missing")], 10),
            id="each run fails in other words",
        ),
        case(
            rounds(lambda n: [start(n, f"2027-01-{n + 10}"), log(n)], 10),
            id="another day each time",
        ),
        case(
            rounds(lambda n: page(n, range(12 * n, 12 * n + 12))),
            id="pages with other rows",
        ),
        case(rounds(lambda n: page(n, [])), id="pages that are empty"),
        case(
            rounds(
                lambda n: bash("cat app.log", "served a page\n" * 400 + f"served {WORDS[n % 9]}")
            ),
            id="a long log that goes on at its end",
        ),
        case(
            rounds(
                lambda n: Use(
                    "book",
                    {"room": "blue", "start": f"2027-03-{n + 10}T09:00"},
                    "the room is taken at that time by somebody else, please choose another one",
                )
            ),
            id="another time each time",
        ),
        case(
            rounds(lambda n: page(n, name="warehouse")),
            id="the same rows for other questions are batch work",
        ),
        case(
            rounds(lambda n: snapshot(n, f"Zone {LINES[n % len(LINES)]}")),
            id="a figure on a page is what it shows",
        ),
        case(
            rounds(lambda n: bash("./measure", f"{LINES[n % len(LINES)]}")),
            id="a figure is all of the result",
        ),
        case(
            rounds(lambda n: [bash("./measure", f"{LINES[n % 14]}"), bash("date", "noon")], 6),
            id="measured six times, with a look at the same in between",
        ),
        case(
            rounds(lambda n: [start(n), log(n), Use("edit", {"new": WORDS[n]}, "edited")], 10),
            id="something new is changed each time",
        ),
        case([*rounds(log), Person("Now look at the other one."), log(1)], id="a person spoke"),
        case([*rounds(log), bash("ls", "a.txt")], id="another call at last"),
    ],
)
def test_what_brings_something_new_does_not(write, steps):
    assert count("noisy_repeat", write, steps) < 7


@in_both_dialects
def test_a_poll_counts_less_and_begins_again_where_its_state_changes(write):
    def poll(state):
        return lambda n: Use(
            "get_job_status", {"id": "7"}, f"the job {state}, on host worker-{HOSTS[n % 17]}"
        )

    waiting = rounds(poll("is running"), 18)
    assert 7 <= count("noisy_repeat", write, waiting) <= 10
    moved = [*waiting, *rounds(poll("is running on the second stage"), 6)]
    assert count("noisy_repeat", write, moved) < 7


@in_both_dialects
def test_a_state_that_changes_and_changes_back_counts_a_quarter(write):
    def alerts(n):
        return Use(
            "list_alerts", {}, "no alerts" if n % 2 else f"disk of host-{HOSTS[n % 17]} full"
        )

    assert count("noisy_repeat", write, rounds(alerts, 24)) < 7
