"""Requests in words, to a search or to another agent, that say and bring nothing new."""

import pytest
from tests.detect.runs import Use, bash, count
from tests.detect.signals.steps import case, edit, in_both_dialects

TOPICS = ("checkout", "invoices", "refunds", "sessions", "tariffs", "vouchers", "rosters")
FACTS = (
    "Checkout gives up after 521 ms.",
    "About 11% of the requests from Quito fail.",
    "Chidi reported it first.",
)


def report(n):
    """The same findings in another order."""
    return "\n".join(FACTS[(n + place) % 3] for place in range(3))


def task(n, result=None, about="why checkout fails"):
    opening = ("Find out", "Please find out", "Once more, find out", "Again: find out")[n % 4]
    return Use("task", {"prompt": f"{opening} {about}."}, result or report(n))


def asks(n, words=("release", "support", "breaking", "voucher", "removed")):
    """Search for some of a few words each time, and find nothing."""
    chosen = [word for place, word in enumerate(words) if (n + 7) >> place & 1 or place == n % 5]
    return Use("search_documents", {"query": " ".join(chosen)}, "No relevant documents found.")


PLACES = "web/cart.rb:12: if Flag.on?(:checkout)\nweb/pay.rb:88: unless Flag.off?(:checkout)"


def hits(n):
    """Search in words that were never used before."""
    return Use("search", {"query": f"shipments {TOPICS[n % 7]} {n * 7919}"}, PLACES)


def chunks(n):
    """Search in new words, and find the same texts in another order, with other ids."""
    return Use(
        "retrieve", {"query": f"duty {TOPICS[n % 7]} {n * 7919}"}, f"[{n}f{n}e{n:09}]\n{report(n)}"
    )


def grep(n, result=PLACES):
    return bash(f"grep -rn '{TOPICS[n % 7]}{n}' web", result)


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "is_seen"),
    [
        case([task(n) for n in range(16)], True, id="the same task in other words"),
        case(
            [task(n, f"File {n} has {n + 100} lines.", f"what file{n}.py does") for n in range(16)],
            False,
            id="another task each time",
        ),
        case(
            [task(n, f"{report(n)}\nThe log names server {n + 900}.") for n in range(16)],
            False,
            id="the same task, but something new comes back",
        ),
        case(
            [step for n in range(12) for step in (task(n), edit(f"x{n}" * n, f"Saved {n}."))],
            False,
            id="reviews after each edit",
        ),
        case([task(n) for n in range(6)], False, id="not for long yet"),
        case([asks(n) for n in range(24)], True, id="a few words in ever other combinations"),
        case(
            [
                Use(
                    "search_documents", {"query": f"breaking changes of {word}{n}"}, "No documents."
                )
                for n in range(2)
                for word in TOPICS[:6]
            ],
            False,
            id="other words each time, and nothing found",
        ),
        case([hits(n) for n in range(24)], True, id="other words for a search with the same hits"),
        case([grep(n) for n in range(24)], True, id="other patterns with the same hits"),
        case([chunks(n) for n in range(24)], True, id="other words, the same chunks in turn"),
        case(
            [grep(n, f"src/{n}.py:{n}: import flag from the {n}th place") for n in range(24)],
            False,
            id="other patterns with other hits",
        ),
        case(
            [step for n in range(12) for step in (grep(n), edit(f"x{n}" * n, f"Saved {n}."))],
            False,
            id="a look after each edit",
        ),
        case(
            [grep(n, '{"stdout": "", "stderr": "", "exit_code": 1}') for n in range(12)],
            False,
            id="a frame around nothing",
        ),
        case(
            [task(n) for n in range(16)] + [bash("ls", "a.py")], False, id="something else is done"
        ),
    ],
)
def test_words_without_news(write, steps, is_seen):
    assert (count("stagnation", write, steps) >= 6) is is_seen
