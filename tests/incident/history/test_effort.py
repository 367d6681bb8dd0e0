"""Effort: what is asked every moment costs no more in a long history than in a short one."""

import pytest
from tests.incident.history.keeping import NOON, incident, opened_history, outgoing

OPEN = 20


def steps(history, ask):
    """Return how many hundred steps of SQLite's machine that takes."""
    taken = 0

    def step():
        nonlocal taken
        taken += 1

    connection = history._database._reader
    connection.set_progress_handler(step, 100)
    ask(history)
    connection.set_progress_handler(None, 0)
    return taken


def history_of(number):
    """Return a history in which few of many incidents are open, and few of many letters pending."""
    history = opened_history()
    history.put(
        [incident(n, closed=NOON + n if n >= OPEN else None) for n in range(number)],
        outgoing(*range(number)),
    )
    for letter in history.outbox.lease(NOON, "me", number - OPEN, 30):
        history.outbox.mark_delivered(letter, NOON)
    return history


@pytest.fixture(scope="module")
def short():
    history = history_of(300)
    yield history
    history.close()


@pytest.fixture(scope="module")
def long():
    history = history_of(12_000)
    yield history
    history.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda history: history.incidents(),
        lambda history: history.incidents(cursor=f"{NOON + 150!r}~x"),
        lambda history: history.incidents(state="open"),
        lambda history: history.incidents(state="closed"),
        lambda history: history.incidents(caller="ann"),
        lambda history: history.incidents(since=NOON + 100_000),
        lambda history: history.incident("00000003"),
        lambda history: history.incident("0000000"),
        lambda history: history.open_incidents(),
        lambda history: history.changes(200, 50),
        lambda history: history.last_change(),
        lambda history: history.outbox.next_due(),
        lambda history: history.outbox.next_due(without=["ops"]),
        lambda history: history.outbox.lease(NOON, "me", 5, 0),
        lambda history: history.outbox.undelivered(),
        lambda history: history.outbox.deliveries("dead"),
        lambda history: history.outbox.deliveries("delivered", 50, "200"),
        lambda history: history.put([incident(5)], outgoing(5)),
        lambda history: history.sweep(),
    ],
    ids=["the first page", "a later page", "open ones", "closed ones", "of a caller", "since",
         "by id", "by the beginning of ids", "to go on with", "changes", "the last change",
         "next due", "next due of no channel", "lease", "undelivered", "dead letters",
         "delivered letters", "put", "sweep"],
)  # fmt: skip
def test_the_length_of_the_history_does_not_matter(short, long, ask):
    assert steps(long, ask) <= 2 * steps(short, ask) + 5
