"""A conversation in which nothing new is said is found; people who talk are left alone."""

from itertools import cycle, islice
from random import Random

import pytest
from tests.detect.runs import Person, Use, count, says, together, trajectory
from tests.detect.signals.steps import WORDS, case, in_both_dialects

THANKS = (
    "We have read your message.",
    "Your message was read with care.",
    "Thank you for writing.",
)
CLOSING = ("Please write whenever there are questions.", "We stay available for all questions.")
AWAY = ("We are out of office this month.", "This month we are away.", "Nobody is here this month.")
DRAFTS = (
    "Here is the text: The shop was founded in a small town, and many people work there.",
    "The new text: The shop was founded in a small town; many people work there today.",
    "This is the text now: Founded in a small town, the shop has many people today.",
)
REMARKS = (
    "Better, but the text does not say what the shop sells. Please add that.",
    "The text reads well, but it does not say what the shop sells. Please revise it.",
    "I miss what the shop sells. Please add that to the text.",
)


TOLD = (
    "I have told you the case. Please look into it.",
    "Please look into the case. I have told you.",
    "I have told you. Could you look into it, please?",
)


def talk(turns, answers, messages):
    """Return turns of the assistant, each followed by somebody's message."""
    return [
        step
        for answer, message in islice(zip(answers, messages, strict=False), turns)
        for step in (says(answer), Person(message))
    ]


def mixed(*parts, seed=3):
    """Return endless texts made of one choice of each part."""
    chance = Random(seed)
    while True:
        yield " ".join(chance.choice(part) for part in parts)


def auto_replies():
    chance = Random(5)
    while True:
        yield (
            f"Subject: Automatic reply ({chance.randrange(24)}:{chance.randrange(10, 60)})\n"
            f"{chance.choice(AWAY)} Your message is registered under"
            f" #8744-{chance.randrange(100, 999)} and will not be read."
        )


STUCK = [
    case(mixed(THANKS, CLOSING), auto_replies(), id="two machines that answer each other"),
    case(mixed(DRAFTS), mixed(REMARKS), id="a writer and a critic"),
    case(cycle(DRAFTS), cycle(REMARKS[:1]), id="the same remark each time"),
]


@in_both_dialects
@pytest.mark.parametrize(("answers", "messages"), STUCK)
def test_talk_in_which_nothing_new_is_said_is_counted(write, answers, messages):
    assert count("idle", write, talk(20, answers, messages)) >= 10


def lectures():
    for number in range(99):
        chance = Random(number)
        known = " ".join(chance.choices(WORDS, k=6))
        yield f"The part number {number} is about the {known} of the {chance.randbytes(3).hex()}x."


def quiz():
    for number in range(11, 99):
        yield f"How much is {number} times 7? Answer with the number and a short sentence."


def orders():
    for number in range(99):
        yield f"What is the state of order A-{number * 7919 % 90_000:05}, please? Thank you."


def answered_orders():
    for number in range(99):
        yield f"The order A-{number * 7919 % 90_000:05} is on its way to you. Anything else?"


@in_both_dialects
@pytest.mark.parametrize(
    ("answers", "messages"),
    [
        case(lectures(), cycle(["Go on, please, I am listening."]), id="someone explains"),
        case(cycle(["That is right, well done."]), quiz(), id="figures are what is asked about"),
        case(answered_orders(), orders(), id="one order after the other"),
        case(mixed(THANKS), lectures(), id="someone tells news"),
        case(mixed(THANKS), cycle(["Is there any news? Please look again."]), id="a timer asks"),
    ],
)
def test_talk_that_brings_something_is_not(write, answers, messages):
    assert trajectory(write, talk(24, answers, messages)).stale_turns == 0


@in_both_dialects
def test_short_talk_is_not(write):
    assert count("idle", write, talk(7, cycle(DRAFTS), cycle(REMARKS))) == 0


@in_both_dialects
def test_a_new_message_ends_it(write):
    steps = talk(20, cycle(DRAFTS), cycle(REMARKS))
    assert count("idle", write, steps) >= 10
    steps[-1] = Person("Stop here. Let us write about the harbour, its ferries and the pilots.")
    assert count("idle", write, steps) == 0


@in_both_dialects
def test_calls_belong_to_it_if_they_bring_nothing_new_either(write):
    def look(case_number):
        return Use("get_case", {"case": case_number}, '{"state": "open", "owner": "nobody yet"}')

    def turns(numbers):
        for number, told in zip(numbers, cycle(TOLD), strict=False):
            yield together(look(number), text="Let me look into the case for you.")
            yield says("The case is open. Could you tell me the case, please?")
            yield Person(told)

    assert count("idle", write, list(turns([7] * 20))) >= 10
    assert trajectory(write, list(turns(range(7, 27)))).stale_turns == 0


@in_both_dialects
def test_what_a_user_names_and_a_call_takes_up_is_news(write):
    places = "Varna Trieste Turku Graz Porto Ghent Lyon Brno Cork Split Bergen Tartu".split()
    steps = [
        step
        for place in places
        for step in (
            Person(f"The same in {place}, please."),
            Use("book_room", {"site": place, "seats": 12}, '{"ok": true, "room": "B2"}'),
            says("The room is reserved for the meeting."),
        )
    ]
    assert trajectory(write, [*steps, Person("The same in Cork, please.")]).stale_turns == 0
