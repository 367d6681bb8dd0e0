"""Two agents that only thank each other are stopped; people who are polite are not."""

import pytest
from tests.detect.runs import DIALECTS, PATHS, Person, bash, says

from looptrap import Guard, LoopDetectedError
from looptrap.detect.courtesy import is_courtesy

T = 1_800_000_000.0
THANKS = [
    "Thank you!",
    "Thank you so much, have a great day!",
    "Goodbye! Take care, and thank you once more.",
    "Thanks again. Feel free to reach out any time!",
    "It was a pleasure. Bye!",
    "Much success with the project! I look forward to our next collaboration, thank you.",
]
REPLIES = [
    "You're welcome!",
    "You're very welcome! Have a wonderful day!",
    "My pleasure. Take care!",
    "Happy to help! Goodbye.",
    "I'm glad that I could help. All the best wishes to you!",
]
FACTS = "Lyon Porto Bergen Gdansk Izmir Osaka Quito Tunis Vilnius Yerevan Zagreb Dakar Riga".split()

in_each_dialect = pytest.mark.parametrize("write", DIALECTS.values(), ids=DIALECTS)


def first_refused(write, said, answered, turns=13, tools=(), seconds=8):
    """Return at which turn a conversation is refused; None if it never is."""
    guard, steps = Guard.from_preset("default", secret=b"test"), []
    for number in range(turns):
        steps.append(Person(said(number)))
        body = write(steps, tools)
        try:
            guard.check(body, path=PATHS[write], caller="team", now=T + seconds * number)
        except LoopDetectedError:
            return number
        steps.append(says(answered(number)))
    return None


def cycling(texts):
    return lambda number: texts[number % len(texts)]


@in_each_dialect
@pytest.mark.parametrize("tools", [(), ("bash",)], ids=["without tools", "with tools"])
@pytest.mark.parametrize(
    ("said", "answered"),
    [
        pytest.param(THANKS, REPLIES, id="in ever other words"),
        pytest.param(THANKS[2:3], REPLIES[1:2], id="in the same words"),
    ],
)
@pytest.mark.parametrize("seconds", [1, 20])
def test_two_sides_that_only_thank_each_other_are_refused(write, tools, said, answered, seconds):
    at = first_refused(write, cycling(said), cycling(answered), 20, tools, seconds)
    assert 5 <= at <= 9


@in_each_dialect
@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (lambda n: "next", lambda n: f"What is the capital of the country of {FACTS[n]}?"),
        (lambda n: "yes, thanks", lambda n: f"Here is another word: {FACTS[n]}. Shall I go on?"),
        (lambda n: f"How do I say {FACTS[n]}?", lambda n: "You're welcome! Take care."),
        (lambda n: f"I like {FACTS[n]}, thank you!", lambda n: "I am glad to hear that!"),
        (cycling(THANKS), lambda n: f"You're welcome! By the way, {FACTS[n]} is lovely."),
    ],
    ids=["a quiz", "a lesson", "questions", "small talk", "news with it"],
)
def test_who_says_something_with_it_is_not(write, said, answered):
    assert first_refused(write, said, answered) is None


@in_each_dialect
def test_thanks_after_work_begin_a_turn(write):
    steps = []
    for number in range(8):
        steps += [bash("pytest", f"{number} passed"), says("Done, all of them."), Person("Thanks!")]
        steps += [says("You're welcome!"), Person(f"Now look into {FACTS[number]}.")]
    Guard.from_preset("default").check(write(steps, ["bash"]), path=PATHS[write], now=T)


@pytest.mark.parametrize("text", [*THANKS, *REPLIES, "Merci beaucoup, bonne journée !"])
def test_courtesies_are_known(text):
    assert is_courtesy(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "next",
        "Thanks, now fix the parser.",
        "You're welcome! 42.",
        "Hello, how are you?",
    ],
)
def test_what_has_a_subject_is_none(text):
    assert not is_courtesy(text)
