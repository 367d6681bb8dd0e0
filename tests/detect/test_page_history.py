"""Browser agents that show their steps and the page as it is now: dead pages are seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap import Guard, LoopDetectedError
from looptrap.detect.page_history import page_step

T = 1_800_000_000.0
case = pytest.param


def page(what, *, rows=8):
    links = "\n".join(f"[{n}]<a>Item {n} of {what}</a>" for n in range(rows))
    return f"Current url: https://shop.example/list\n{links}\n[41]<button>{what}</button>"


def step_text(number, did, form):
    said = f"Evaluation of Previous Step: Unknown.\nMemory: At {number}.\nNext Goal: Go on."
    match form:
        case "results":
            return f"<step_{number}>:\n{said}\nAction Results:\nAction 1/1: {did}\n</step_{number}>"
        case "result":
            return f"<step>\nGo on.\nResult\n{did}\n</step>"
        case "action":
            return f'<step_{number}>\n{said}\nAction: {{"{did}": {{}}}}\n</step_{number}>'


def prompt(steps, form="results", after="", task="Buy two tickets."):
    """Write the prompt after these steps: each is what was done, and the page that it led to."""
    history = "\n".join(step_text(n, did, form) for n, (did, _) in enumerate(steps, 1))
    state = steps[-1][1] if steps else "about:blank"
    return (
        f"<agent_history>\n{history}\n</agent_history>\n<agent_state>\n<user_request>\n{task}\n"
        f"</user_request>\n<step_info>Step {len(steps) + 1} of 100. Current time: 2026-11-18"
        f" 10:{len(steps):02}</step_info>\n</agent_state>\n<browser_state>\n{state}\n"
        f"</browser_state>{after}"
    )


def body(text):
    system = {"role": "system", "content": "You are a browser agent. Answer with JSON."}
    return {"model": "gpt-5.4", "messages": [system, {"role": "user", "content": text}]}


def refused_at(texts, guard=None):
    """Return which request is refused; None if none is."""
    guard = guard or Guard.from_preset("default", secret=b"test")
    for number, text in enumerate(texts):
        try:
            guard.check(body(text), caller="team", now=T + 20 * number)
        except LoopDetectedError:
            return number
    return None


def run(steps, **options):
    return [prompt(steps[:count], **options) for count in range(len(steps) + 1)]


VISITS = [(f"Navigated to https://shop.example/{n}", page(f"hall {n}")) for n in range(4)]
PAY = ("Clicked button 'Pay'", page("Pay"))
LIST = ("Went back", page("list"))
WAIT = ("Waited for 5 seconds", page("Pay"))


@pytest.mark.parametrize("form", ["results", "result", "action"])
@pytest.mark.parametrize(
    ("steps", "is_refused"),
    [
        case([PAY] * 8, True, id="a click that changes nothing"),
        case([PAY] * 4 + [(PAY[0], page("Paid"))] * 2, False, id="a click that works at last"),
        case([PAY, ("Pressed Enter", page("Pay"))] * 5, True, id="two actions in turn"),
        case([("Clicked 'Next'", page(f"part {n}")) for n in range(30)], False, id="next pages"),
        case([("Clicked 'Add'", page(f"{n} in basket")) for n in range(30)], False, id="a basket"),
        case([WAIT] * 12, False, id="waiting"),
        case([WAIT] * 30, True, id="waiting for ever"),
        case([PAY, WAIT] * 4, False, id="a click, and waiting"),
        case(
            [step for n in range(20) for step in (LIST, (f"Opened item {n}", page(f"item {n}")))],
            False,
            id="back to the list after each item",
        ),
        case(
            [step for _ in range(20) for step in (LIST, ("Opened item 1", page("item 1")))],
            True,
            id="the list and the same item",
        ),
    ],
)
def test_a_page_that_stays_the_same_is_a_loop(steps, is_refused, form):
    assert (refused_at(run([*VISITS, *steps], form=form)) is not None) == is_refused


def test_it_is_refused_after_five_and_says_what_was_done():
    guard = Guard.from_preset("default", secret=b"test")
    texts = run([*VISITS, *[PAY] * 5])
    assert refused_at(texts[:-1], guard) is None
    with pytest.raises(LoopDetectedError, match=r"Clicked .* 5 times in .* shows the latest round"):
        guard.check(body(texts[-1]), caller="team", now=T + 200)


@pytest.mark.parametrize(
    ("after", "is_refused"),
    [
        case(lambda n: "", True, id="nothing else"),
        case(lambda n: f"\n<read_state>\nPrice {n}\n</read_state>", False, id="what it read"),
        case(lambda n: f"\nBasket: {n}", False, id="a number"),
    ],
)
def test_anything_new_beside_the_page_is_progress(after, is_refused):
    steps = [*VISITS, *[PAY] * 12]
    texts = [prompt(steps[:count], after=after(count)) for count in range(len(steps) + 1)]
    assert (refused_at(texts) is not None) == is_refused


def test_a_request_that_is_sent_again_is_no_step():
    texts = [text for text in run([*VISITS, *[PAY] * 4]) for _ in range(3)]
    assert refused_at(texts) is None


def test_agents_side_by_side_are_judged_apart():
    """Each pays once, at the same page, after steps of its own."""
    guard = Guard.from_preset("default", secret=b"test")
    for number in range(12):
        steps = [(f"Opened seat {number}", page(f"seat {number}")), PAY]
        assert refused_at(run(steps, task=f"Buy seat {number}."), guard) is None


@pytest.mark.parametrize(
    "text",
    [
        case("", id="nothing"),
        case("<agent_history></agent_history>", id="no step and no page"),
        case("<agent_history>\n</agent_history>\nthe page", id="no step"),
        case(
            "<agent_history>\n<step_1>\nGo on.\n</step_1>\n</agent_history>\npage", id="no action"
        ),
        case(prompt([PAY]).partition("</agent_history>")[0] + "</agent_history>", id="no page"),
        case("</agent_history>" + prompt([PAY]).partition("</agent_history>")[0], id="reversed"),
    ],
)
def test_other_texts_are_no_such_history(text):
    assert page_step(text) is None


@given(st.text(alphabet="<>/step_1234 agent_history\n:Action Results", max_size=400))
def test_any_text_can_be_read(text):
    page_step(f"<agent_history>{text}</agent_history>{text}")
    page_step(text)
