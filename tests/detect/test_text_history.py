"""Agents that write all of their rounds into one message: loops are seen, examples are not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap import Guard, LoopDetectedError
from looptrap.detect.text_history import steps_in_answer, steps_in_prompt
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read

T = 1_800_000_000.0
WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima".split()
case = pytest.param

RULES = """Answer the following questions as best you can. You have access to these tools: search.

Use the following format:

Question: the input question you must answer
Thought: you should always think about what to do
Action: the action to take, should be one of [search]
Action Input: the input to the action
Observation: the result of the action
... (this Thought/Action/Action Input/Observation can repeat N times)
Final Answer: the final answer to the original input question

Begin!

"""


def react(steps, question="How high is it?", before=RULES):
    """Write a prompt as LangChain's ReAct agent does."""
    pad = "".join(
        f" {word} comes to my mind.\nAction: search\nAction Input: {query}\nObservation: {found}\n"
        "Thought:"
        for word, (query, found) in zip(WORDS * 9, steps, strict=False)
    )
    return [{"role": "user", "content": f"{before}Question: {question}\nThought:{pad}"}]


def dspy(steps, question="How high is it?", asked="next_thought"):
    """Write a prompt as DSPy's ReAct does."""
    fields = "\n\n".join(
        f"[[ ## thought_{n} ## ]]\nPerhaps {word}.\n\n[[ ## tool_name_{n} ## ]]\nsearch\n\n"
        f'[[ ## tool_args_{n} ## ]]\n{{"query": "{query}"}}\n\n[[ ## observation_{n} ## ]]\n{found}'
        for n, (word, (query, found)) in enumerate(zip(WORDS * 9, steps, strict=False))
    )
    text = (
        f"[[ ## question ## ]]\n{question}\n\n[[ ## trajectory ## ]]\n{fields}\n\n"
        f"Respond with the corresponding output fields, starting with the field"
        f" `[[ ## {asked} ## ]]`, and then ending with the marker for `[[ ## completed ## ]]`."
    )
    return [
        {"role": "system", "content": "Your input fields are: …"},
        {"role": "user", "content": text},
    ]


def crewai(steps, question="How high is it?"):
    """Write a prompt as CrewAI does: results are added to the answers."""
    return [
        {"role": "user", "content": f"Current Task: {question}\n\nBegin!\n\nThought:"},
        *(
            {
                "role": "assistant",
                "content": f"Thought: {word} comes to my mind.\nAction: search\n"
                f'Action Input: {{"query": "{query}"}}\nObservation: {found}',
            }
            for word, (query, found) in zip(WORDS * 9, steps, strict=False)
        ),
    ]


in_each_form = pytest.mark.parametrize("write", [react, dspy, crewai])
AGAIN = [("the tower", "324 m with antennas")] * 30
FAILING = [(f"tower {word}", "Error: the search service is offline") for word in WORDS * 3]
CYCLE = [("the tower", "a tower"), ("its height", "see: the tower")] * 15
HONEST = [(f"tower {word}", f"{word} is {7 * n} m high") for n, word in enumerate(WORDS)]
POLLED = [("the queue", f"{word} is next") for word in WORDS]


def refused_at(write, steps, path="/v1/chat/completions"):
    """Send a run whose last message grows; return after how many steps it is refused."""
    guard = Guard.from_preset("default", secret=b"test")
    for made in range(len(steps) + 1):
        body = {"model": "m", "max_tokens": 9, "messages": write(steps[:made])}
        try:
            guard.check(body, path=path, caller="team", now=T + 3 * made)
        except LoopDetectedError:
            return made
    return None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@in_each_form
@pytest.mark.parametrize(
    "steps", [case(AGAIN, id="repeat"), case(CYCLE, id="cycle"), case(FAILING, id="failures")]
)
def test_a_loop_is_refused(write, steps, path):
    assert 4 <= refused_at(write, steps, path) <= 8


@in_each_form
@pytest.mark.parametrize("steps", [case(HONEST, id="work"), case(POLLED, id="new results")])
def test_work_is_not(write, steps):
    assert refused_at(write, steps) is None


@in_each_form
def test_each_step_is_a_round(write):
    body = json.dumps({"model": "m", "messages": write(HONEST)}).encode()
    rounds = Trajectory(read(Request(path="/v1/chat/completions", body=body))).latest(99)
    assert [round_.result for round_ in rounds] == [found for _, found in HONEST[::-1]]
    assert {round_.names for round_ in rounds} == {frozenset({"search"})}


EXAMPLES = RULES + "".join(
    f"Question: How high is the {word}?\nThought: I look it up.\nAction: search\n"
    "Action Input: the tower\nObservation: 324 m with antennas\nThought: I know it.\n"
    "Final Answer: 324 m\n\n"
    for word in WORDS[:8]
)


@pytest.mark.parametrize(
    "messages",
    [
        case(react([], before=EXAMPLES), id="worked examples"),
        case(react(HONEST[:2], before=EXAMPLES), id="worked examples, then work"),
        case(
            [{"role": "user", "content": react(AGAIN)[0]["content"] + " Why does it loop?"}],
            id="a log, and a question about it",
        ),
        case(
            [{"role": "user", "content": react(AGAIN)[0]["content"].removesuffix("Thought:")}],
            id="a log for a judge",
        ),
        case(dspy(AGAIN[:9], asked="reasoning"), id="the answer is asked for at last"),
    ],
)
def test_steps_that_are_not_the_agents_own_are_not_judged(messages):
    Guard.from_preset("default").check({"model": "m", "messages": messages}, now=T)


def test_examples_in_fields_end_where_the_numbers_begin_again():
    examples = "".join(message["content"] for message in dspy(AGAIN[:9])[1:])
    messages = dspy(HONEST[:2])
    messages[1]["content"] = examples + messages[1]["content"]
    assert len(steps_in_prompt(messages[1]["content"])) == 2
    Guard.from_preset("default").check({"model": "m", "messages": messages}, now=T)


def test_only_the_latest_steps_are_read():
    assert len(steps_in_prompt(react(AGAIN * 9)[0]["content"])) == 40
    assert len(steps_in_prompt(dspy(AGAIN * 9)[1]["content"])) == 40


def test_several_calls_of_one_step_are_one_call():
    steps = "\n\n".join(
        f"[[ ## thought_{n} ## ]]\nHm.\n\n[[ ## tool_calls_{n} ## ]]\nsearch(a), search(b)\n\n"
        f"[[ ## observation_{n} ## ]]\n['x', 'y']"
        for n in range(3)
    )
    found = steps_in_prompt(steps + "\n\nRespond with `next_tool_calls`.")
    assert [step.arguments for step in found] == ["search(a), search(b)"] * 3
    assert found[0].observation == "['x', 'y']"


PIECES = st.sampled_from(
    [
        *("Thought:", "Action:", "Action Input:", "Observation:", "Question:", "Final Answer:"),
        *("[[ ## thought_0 ## ]]", "[[ ## observation_1 ## ]]", "[[ ## tool_name_9999 ## ]]"),
        *("<observation_2>", "</observation_2>", "next_thought", "\n", " ", "x", "\ud800", "\0"),
    ]
)


@given(st.lists(PIECES, max_size=30))
def test_anything_is_taken(pieces):
    text = "".join(pieces)
    for step in (*steps_in_prompt(text), *steps_in_answer(text)):
        assert step.tool
