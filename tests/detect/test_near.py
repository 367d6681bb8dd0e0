"""Prompts that are their predecessor once more, and those that only look like it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap import Guard, LoopDetectedError
from looptrap.detect.near import without_envelope

T = 1_800_000_000.0
PROMPT = "Return the invoice below as JSON with the fields date, total and currency: Oslo, 12 kr"
TEMPLATE = "You sort customer feedback into praise, complaint or question. Feedback: "
case = pytest.param


def ask(prompt, system="You are terse."):
    """Return a request with a prompt and no history."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
    return {"model": "m", "messages": messages}


def refusal(guard, requests):
    """Send requests one a second; return how many passed and why the next one did not."""
    for sent, request in enumerate(requests):
        try:
            guard.check(request, now=T + sent)
        except LoopDetectedError as error:
            return sent, error
    return len(requests), None


def passes(prompts):
    """Return how many prompts pass in a row."""
    return refusal(Guard.from_preset("default"), list(map(ask, prompts)))[0]


def growing(prompt, before="", after="", times=8):
    return [before * n + prompt + after * n for n in range(times)]


LETTER = "Extract the fields.\n\nLetter from Faro: we ask you to pay 1015 euros for 53 crates."
WORDS = "parser lexer token grammar syntax visitor walker emitter linker".split()


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        case(growing(PROMPT, before="That wasn't valid JSON. Try again: "), 6, id="words before"),
        case(growing(PROMPT, before="Das war kein gültiges JSON. "), 6, id="words beyond ASCII"),
        case(
            [PROMPT, PROMPT, *(f"The field {name} is missing. {PROMPT}" for name in "abcdef")],
            5,
            id="other words before it each time, sent twice without",
        ),
    ],
)
def test_a_prompt_that_contains_an_earlier_one_is_one_more_of_it(prompts, expected):
    # Only from the second prompt with the same end on is it asked what prompts contain.
    assert passes(prompts) == expected


@pytest.mark.parametrize(
    "prompts",
    [
        case([f"{PROMPT} (attempt {n} of 9)" for n in range(1, 9)], id="a counter of attempts"),
        case([f"Attempt number {n}. {PROMPT}" for n in range(1, 9)], id="a number of attempts"),
        case([f"Retry #{n}: {PROMPT}" for n in range(1, 9)], id="a retry"),
        case(
            [f"Request id: 4f3a{n}b1c-9d2e. {PROMPT}" for n in range(8)], id="the id of a request"
        ),
        case([f"[2026-11-15 10:00:0{n}] {PROMPT}" for n in range(8)], id="the time of asking"),
        case([f"{PROMPT} Current time: 10:00:0{n}" for n in range(8)], id="the time, by name"),
        case([f"Fix the build (attempt {n})" for n in range(8)], id="attempts after a short one"),
        case([f"Attempt {n}\n\nFix the build" for n in range(8)], id="attempts on a line"),
        case(
            [f"[attempt {n} at 2026-11-15T10:00:0{n}Z] Fix the build" for n in range(8)],
            id="attempts with their time, in one bracket",
        ),
        case(
            [f"{PROMPT}\n\nThe current date and time is 2026-11-15 10:00:0{n}." for n in range(8)],
            id="the time, in a sentence of its own",
        ),
        case([f"Please attempt to fix it. Attempt {n} of 9." for n in range(8)], id="the verb"),
        case(
            [f"(retry #{n}, 10:00:0{n}) Fix the build" for n in range(8)],
            id="a retry with its time of day",
        ),
        case([f"Fix the build (retry #{n}, 10:00:0{n})" for n in range(8)], id="the same, behind"),
        case([f"Attempt {n}/10: Fix the build" for n in range(8)], id="attempts of many, in short"),
        case([f"Fix the build — sent at 10:0{n}" for n in range(8)], id="when it was sent"),
        case(
            [f"Fix the build [req-7f{n}a]" for n in range(8)], id="the id of a request, by itself"
        ),
        case([f"{PROMPT}. [req-7f{n}a]" for n in range(8)], id="an id after a sentence"),
        case(
            [
                f"[2026-11-15T10:00:{n:02}Z] job 9{n}7696e6, attempt {n}\nSum up.\n\n(attempt {n})"
                for n in range(9)
            ],
            id="two envelopes in front and one behind",
        ),
        case(
            [
                f"{LETTER}\n\nInvalid JSON (extra data: line {n % 4}, column {n * 7}). Try again."
                for n in range(9)
            ],
            id="an answer that a parser refused at another place each time",
        ),
        case(
            [
                f"{LETTER}\n\nYour last answer was:\n{word}, I think.\nIt was rejected"
                f" (trace 5d{n}b): amount is required."
                for n, word in enumerate(WORDS)
            ],
            id="the last answer behind it, and why it was rejected",
        ),
        case(
            [
                LETTER
                + "".join(
                    f"\n\nAttempt {one} failed after {one}.5 s: the answer is not valid JSON."
                    for one in range(1, n)
                )
                for n in range(2, 11)
            ],
            id="a report of each attempt behind it",
        ),
        case(
            [
                f"[2026-11-15T10:00:{n:02}Z] job 9{n}7696e6, attempt {n}\nSum up.\n\n"
                + "You owe us 1015 euros, and know it: this task was done in time. " * 4
                + f"\n\n(attempt {n})"
                for n in range(9)
            ],
            id="what is asked about speaks of other things",
        ),
        case(
            [
                f"[attempt {n} of 9, request 4f3a{n:04}-9d2e]\nThe price is on request."
                for n in range(9)
            ],
            id="the id of a request in brackets",
        ),
        case(
            [
                f"{PROMPT}\n\n"
                + "\n\n".join(f"Not valid. Try again, attempt {one}." for one in range(2, n))
                for n in range(3, 12)
            ],
            id="a line more with each attempt",
        ),
    ],
)
def test_the_same_prompt_once_more_is_refused_the_sixth_time(prompts):
    assert passes(prompts) == 5


def test_words_that_repeat_themselves_after_a_prompt_are_refused_one_later():
    assert passes(growing(PROMPT, after=" Answer with JSON only!", times=9)) == 6


def test_a_changing_time_in_the_system_prompt_hides_nothing():
    requests = [ask(PROMPT, f"You are terse. Current time: 10:00:0{n}") for n in range(8)]
    assert refusal(Guard.from_preset("default"), requests)[0] == 5


@pytest.mark.parametrize(
    "prompts",
    [
        case([f"{TEMPLATE}{row * 3}" for row in "abcdefghijklmnop"], id="a template, data last"),
        case([f"{row * 3} -- {TEMPLATE}" for row in "abcdefghijklmnop"], id="data first"),
        case(
            [TEMPLATE * 40 + f"row {n}. Answer in one word." for n in range(20)],
            id="a large shared prompt, data in the middle",
        ),
        case([f"Look up order 4f3a9b1c-0000-4000-8000-{n:012d}" for n in range(20)], id="ids"),
        case(
            [f"Summarise the sales of 2026-11-{n:02d}, please." for n in range(1, 20)], id="dates"
        ),
        case([f"What happened in line {n} of the log file?" for n in range(20)], id="lines"),
        case(
            [f"What is the status of request id {n}?" for n in range(4001, 4021)],
            id="questions about requests",
        ),
        case(
            [f"Look up the request. Request id: 4f3a{n:04}-9d2e" for n in range(20)],
            id="a request that is looked up by its id",
        ),
        case([f"status of request id {n}?" for n in range(4001, 4021)], id="in short"),
        case([f"Could you check [req-7f{n:02}]" for n in range(20)], id="what to check"),
        case([f"What is the state of [req-7f{n:02}]" for n in range(20)], id="whose state"),
        case([f"Close the ticket [req-7f{n:02}]" for n in range(20)], id="which ticket"),
        case([f"Approve the refund [req-7f{n:02}]" for n in range(20)], id="which refund"),
        case([f"Let the bot close [req-7f{n:02}]" for n in range(20)], id="what to close"),
        case([f"Is this a duplicate? [req-7f{n:02}]" for n in range(20)], id="this one"),
        case([f"Summarise the mail — sent at 10:{n:02}" for n in range(20)], id="which mail"),
        case([f"Plan my day (retry at {n}:30)" for n in range(8, 20)], id="a time to come back at"),
        case([f"Explain login attempt {n} for user bob" for n in range(20)], id="login attempts"),
        case(
            [f"Job 4{n}17, attempt {n % 4}: FAILED, disk full. Sort this in." for n in range(20)],
            id="log lines about other jobs",
        ),
        case(
            [f"Run {n}: write another haiku about ferries." for n in range(20)], id="numbered work"
        ),
        case(
            [f"Attempt {n}: why did this login attempt fail?" for n in range(20)],
            id="a question about an attempt that is named first",
        ),
        case(
            [f"Which sights are open when the current time is 10:{n:02}?" for n in range(20)],
            id="a time inside the question",
        ),
        case(
            [f"Current time: 10:{n:02}. What time is it in Oslo?" for n in range(20)],
            id="a question about the time that is named first",
        ),
        case([f"What angle do the hands make at {n}:30?" for n in range(1, 13)], id="times of day"),
        case([f"Describe pump {n} of the northern station." for n in range(20)], id="numbers"),
        case(
            [f"{PROMPT}\n{'Thought, action, observation. ' * n}{n}" for n in range(20)],
            id="a transcript that grows",
        ),
        case(
            [f"How often is there a ha in what follows: {'ha ' * n}" for n in range(20, 40)],
            id="counting what repeats itself",
        ),
        case([PROMPT + "and so on, a document being typed"[:n] for n in range(20)], id="typing"),
        case([word + "hello" for word in "abcdefghijkl"], id="too short to tell"),
        case(
            [("An example of how to do it well. " * 20) + f"{n} " + PROMPT for n in range(20)],
            id="much other content before the same question",
        ),
        case(
            [
                f"{LETTER}\n\nYour last answer was:\nA draft.\nIt was rejected: {word} is missing."
                for word in WORDS
            ],
            id="another reason each time",
        ),
        case(
            [
                f"{LETTER} {n}\n\nYour last answer was:\nA draft.\nIt was rejected: no amount."
                for n in range(9)
            ],
            id="other letters, rejected for the same reason",
        ),
        case(
            [f"{LETTER} {n}\n\nInvalid JSON at line {n}. Try again." for n in range(9)],
            id="other letters, whose answers could not be read",
        ),
        case(
            [f"{LETTER}\n\nInvalid JSON: {word} is missing. Try again." for word in WORDS],
            id="a parser that asks for something else each time",
        ),
        case(
            [f"{LETTER}\n\nThe total of {n} is wrong. Try again." for n in range(9)],
            id="a figure that is wrong each time",
        ),
        case(
            [f"job 9{n}7696e6: what does its log say?" for n in range(9)],
            id="jobs that are asked about",
        ),
        case(
            [f"[job 9{n}7696e6, attempt 2]\nYou are terse.\n\nWhy did it fail?" for n in range(9)],
            id="jobs that the last paragraph asks about",
        ),
        case(
            [f"[request 4f3a{n:04}-9d2e] Answer this request." for n in range(9)],
            id="requests that are asked about",
        ),
        case(
            [
                "Which one worked?\n"
                + "\n".join(f"Attempt {one}: {WORDS[one]} turned" for one in range(n))
                for n in range(1, 9)
            ],
            id="a log of attempts that differ",
        ),
    ],
)
def test_what_is_merely_alike_passes(prompts):
    assert passes(prompts) == len(prompts)


def test_another_system_prompt_is_another_prompt():
    prompts = growing(PROMPT, before="Try again: ")
    requests = [ask(prompt, f"Persona {n}") for n, prompt in enumerate(prompts)]
    assert refusal(Guard.from_preset("default"), requests) == (8, None)


def test_a_refused_prompt_stays_refused_while_words_are_added_and_can_be_released():
    guard = Guard.from_preset("default")
    requests = [ask(prompt) for prompt in growing(PROMPT, before="Try again: ", times=12)]
    sent, error = refusal(guard, requests)
    assert (sent, error.evidence[0].signal) == (6, "similar_prompt")
    with pytest.raises(LoopDetectedError):
        guard.check(requests[8], now=T + 20)
    assert guard.release(error.fingerprint)
    guard.check(requests[9], now=T + 21)


@given(prompts=st.lists(st.text(min_size=0, max_size=60), max_size=5), times=st.integers(1, 5))
def test_no_prompt_passes_less_often_than_it_is_allowed_to(prompts, times):
    # Whatever else was asked: fewer than six requests are never refused.
    assert passes((prompts * times)[:5]) == len((prompts * times)[:5])


@given(text=st.text(max_size=300))
def test_an_envelope_is_only_ever_taken_from_the_ends(text):
    assert without_envelope(text) in text


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200,
        "attempt 1\n" * 9_000,
        "attempt " * 40,
        "attempt 1, " * 40,
        "2026-11-15 " * 30,
        " -" * 100,
        "id " * 80,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_prompts_take_little_time(text):
    started = time.process_time()
    for _ in range(20):
        without_envelope(text)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("[run 3 at 2026-11-15T10:00:03Z] Write the notes.", "Write the notes."),
        ("[request 2, 2026-11-15T10:00:05Z] Write the notes.", "Write the notes."),
        ("message 448ef89178f9227c, delivery 4\nWrite the notes.", "Write the notes."),
        (
            "Job c2b5fccf-88dd-7b35-eedc-79282475e959, queued 2026-11-15T10:00:00Z\n"
            "Write the notes.",
            "Write the notes.",
        ),
        ("Order 448ef89178f9227c, 2026-11-15T10:00:00Z\nShip.", None),
        (
            "Job c2b5fccf-88dd-7b35-eedc-79282475e959, queued 2026-11-15T10:00:00Z\nIs it done?",
            None,
        ),
        ("[run 3 of 9] Write the notes.", None),
    ],
)
def test_what_a_queue_writes_before_a_prompt_is_an_envelope(text, inner):
    assert without_envelope(text) == (text if inner is None else inner)
