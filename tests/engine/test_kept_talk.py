"""An agent that only talks, whose history the provider keeps and whose harness urges it on."""

import pytest

from looptrap import Guard, LoopDetectedError
from looptrap.dialect.model import Outcome

T = 1_800_000_000.0
NAG = "Please proceed to the next step using your best judgement."
TOOLS = [{"type": "function", "name": "bash", "parameters": {"type": "object"}}]
THINGS = "harbour anchor lantern compass rudder galley bowsprit mainsail cabin keel hull".split()


def word(number, step):
    """Return a word that no other number has."""
    return "".join(chr(97 + (number + place * place) * step % 26) for place in range(7))


def answered(number, text):
    content = f'[{{"type":"output_text","text":"{text}"}}]'
    item = f'{{"type":"message","role":"assistant","content":{content}}}'
    return f'{{"id":"resp_{number}","object":"response","output":[{item}]}}'.encode()


def first_refused(says, hears, turns=14):
    """Continue each answer by its id; return which call is refused, None if none is."""
    guard, chain = Guard.from_preset("default", secret=b"test"), {}
    for number in range(turns):
        heard = hears(number) if number else "Make the tests pass."
        body = {"model": "m", "input": heard, "tools": TOOLS, "store": True} | chain
        now = T + 9 * number
        try:
            ticket = guard.check(body, path="/v1/responses", caller="team", now=now)
        except LoopDetectedError:
            return number
        guard.conclude(ticket, Outcome(200), now=now + 2, answer=answered(number, says(number)))
        chain = {"previous_response_id": f"resp_{number}"}
    return None


@pytest.mark.parametrize("nag", [NAG, "Continue"])
def test_what_an_answer_said_is_remembered(nag):
    assert 5 <= first_refused(lambda n: "All is done, as you asked.", lambda n: nag) <= 8


def test_announcements_in_ever_other_words_are_idle():
    said = [
        "I will now look into the failing tests of the parser.",
        "Let me look into the parser tests that are failing now.",
        "Now I will look at the failing parser tests.",
    ]
    assert 10 <= first_refused(lambda n: said[n % 3], lambda n: NAG) <= 13


@pytest.mark.parametrize(
    ("says", "hears"),
    [
        (lambda n: f"The {word(n, 3)} of {word(n, 5)} and {word(n, 7)}.", lambda n: NAG),
        (lambda n: "All is done, as you asked.", lambda n: f"And what about the {THINGS[n % 11]}?"),
        (lambda n: "word " * 900, lambda n: NAG),
    ],
    ids=["new words", "a person", "content"],
)
def test_who_says_something_new_or_is_asked_something_else_may_go_on(says, hears):
    assert first_refused(says, hears) is None


def test_a_person_begins_anew():
    def hears(number):
        return NAG if number % 4 else f"Now for the {THINGS[number % 11]}."

    assert first_refused(lambda n: "All is done, as you asked.", hears) is None
