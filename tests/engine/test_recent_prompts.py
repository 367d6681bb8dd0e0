"""Prompts without a history that bring nothing new are refused, though no two are equal."""

from itertools import cycle
from random import Random

import pytest
from tests.engine.test_retry_numbers import first_refused

from looptrap.engine.recent_prompts import MAX_KINDS, RecentPrompts

LETTER = (
    "Return name and urgency as JSON. The roster of Holm & Sons never came, they want to cancel."
)
REASONS = (
    "The sender is upset.",
    "The customer waits.",
    "The sender waits.",
    "The customer is upset.",
)
REMARKS = (
    "It lacks proof of the claims.",
    "There is no proof of the claims.",
    "The text has no proof.",
    "It lacks proof.",
)
case = pytest.param


def never_valid(n):
    reason = Random(n).choice(REASONS)
    return (
        f"{LETTER}\n\nYour answer was:\n{reason} {Random(n).choice(REMARKS)}\n\nIt is not valid"
        f" (line {n % 7}, char {n * 31 % 90}): {'ABC'[n % 3]} is no urgency. Try again."
    )


def drafted(n):
    chance = Random(n)
    opening = chance.choice(
        ("Introducing the desk lamp", "Meet the desk lamp", "Here is the desk lamp")
    )
    return (
        "Write a text of at most sixty words about a desk lamp, and improve what the critic said.\n"
        f"The text: {opening}, tested in Utrecht. The critic: {chance.choice(REMARKS)}"
        f" {chance.choice(REMARKS)} Improve the text."
    )


@pytest.mark.parametrize("write", [never_valid, drafted])
def test_prompts_whose_changes_are_all_known_are_refused(write):
    assert first_refused(map(write, range(40)), 5) < 25


def item(n):
    chance = Random(n)
    name, thing = chance.randbytes(3).hex(), chance.randbytes(2).hex()
    return f"Classify this letter as complaint or praise, in one word.\n\nDear {name}, the {thing}."


def word(n):
    words = (
        "red green blue yellow black white grey brown pink purple orange violet teal beige".split()
    )
    return f"Translate into French, with a sentence as an example of its use: {words[n % 14]} paint"


def reading(n):
    return f"The gauge of the boiler says what follows. Is that unusual? {n * 37 % 90}.{n % 10} bar"


def sample(n):
    return f"{LETTER} Letter {item(n // 5)}"


@pytest.mark.parametrize(
    ("prompts", "pause"),
    [
        case(map(item, range(60)), 1, id="one letter after the other"),
        case(map(word, range(60)), 1, id="more words than are remembered"),
        case(map(reading, range(60)), 1, id="figures"),
        case(map(sample, range(60)), 1, id="five samples of each prompt"),
        case(map(drafted, range(60)), 60, id="a timer"),
        case([never_valid(n) + item(n // 2) for n in range(60)], 1, id="news every other time"),
    ],
)
def test_prompts_that_bring_something_pass(prompts, pause):
    assert first_refused(prompts, pause) is None


def test_other_prompts_in_between_do_not_hide_them():
    prompts = (drafted(n) if n % 3 else item(n) for n in range(60))
    assert first_refused(prompts, 1) < 40


def test_senders_are_kept_apart_and_few_kinds_are_remembered():
    recent = RecentPrompts()
    prompts = [drafted(n).lower().encode() for n in range(30)]
    for number, prompt in enumerate(prompts):
        assert not recent.is_stale(("other", number), prompt, 0)
    stale = [recent.is_stale("one", prompt, 0) for prompt in prompts]
    assert stale[-1]
    for number in range(2 * MAX_KINDS):
        recent.is_stale("one", f"{number:048} a kind of its own".encode(), 0)
    assert not recent.is_stale("one", prompts[-1], 0)


def test_long_prompts_bring_documents():
    recent = RecentPrompts()
    texts = cycle([b"a document " * 500 + b"one more", b"a document " * 500 + b"more one"])
    assert not any(recent.is_stale("one", next(texts), 0) for _ in range(20))
