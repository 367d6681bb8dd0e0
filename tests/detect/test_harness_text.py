"""What a harness says as the user is known by its form; a person who says almost that is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.detect.runs import Person, count, says, trajectory
from tests.detect.signals.steps import LS, case, in_both_dialects

from looptrap.detect.harness_text import is_harness_text

NAGS = [
    "No tool calls found in the response. Every response needs to use the 'bash' tool at least once"
    " to execute commands.",
    "Please proceed to the next step using your best judgement.",
    "Please proceed to the next step using your best judgement. If you believe you have completed"
    " the task, please call the `submit()` tool with your final answer.",
    "System: Potential loop detected. Details: Repetitive patterns identified. Please take a step"
    " back and confirm you're making forward progress.",
    "[ERROR] You did not use a tool in your previous response! Please retry with a tool use.\n\n"
    "# Reminder: Instructions for Tool Use\n\nAlways adhere to the tool use format.",
    "<system-reminder>The list of open points is empty.</system-reminder>",
    "<system-reminder>One.</system-reminder>\n<environment_details>\n# Time\n8:04\n"
    "</environment_details>",
    "<system>No tool call detected in last message. Did you mean to finish?</system>",
    "Your last output was not valid JSON. Return ONLY valid JSON now.",
    "your last output was not valid JSON matching the schema",
    "Your last output could not be parsed.",
    "Failed to parse your response. Please answer in valid JSON.",
    "Error parsing tool call arguments: Expecting value. Every response must include a tool call.",
    "Tool result missing due to internal error",
    "You have 3 steps left.",
    "Your answer was cut off. Continue.",
    "Your previous response was truncated.",
    "You have 3 turns remaining. Finish with the submit tool.",
    "Your response did not contain a tool call or FINAL_ANSWER. Either call a tool, or answer.",
    "[system] Your last reply could not be parsed as a valid tool call.",
    "⚠️ Your previous response could not be parsed as a valid tool call. Please respond with EITHER"
    " a tool call OR a text response.",
    "Your response was not in the correct format. Please try again.",
    "You must use one of the provided tools. Respond with a tool call.",
    "Invalid format. Respond with exactly one action.",
    "Please continue working on the task on whatever approach you think is suitable.\nIf you think"
    " you have solved the task, please finish the interaction.\n",
    "Please continue. If everything is done, reply 'TERMINATE'.",
]
PERSONS = [
    "that JSON is wrong, use the second schema",
    "Your last output was not valid JSON, use the second schema",
    "Your last output was not valid JSON. Use the second schema.",
    "You didn't use any tools, please check with grep",
    "You didn't use a tool. Search the web for it.",
    "You must use the search tool for this.",
    "Why did you not use a tool?",
    "Please continue with the docs.",
    "Proceed with the refactoring of the parser.",
    "System: Ubuntu 22.04, Python 3.12. The output is garbled.",
    "System: macOS. The tool crashes at start.",
    "Failed to parse response: Unexpected token < in JSON at position 0",
    "Invalid JSON in config.json, please fix",
    "Your answer does not include a call to action",
    "Your response does not mention the price. Please add it.",
    "Every response must include a header named X-Id.",
    "The response must be valid JSON for the mobile client, so change the endpoint.",
    "The output is not in the right format",
    "I get an error: no tool calls found in the logs, can you look at the harness?",
    'What does "You have 3 steps left" mean?',
    "The output was cut off, take the second page",
    "Why was the output of the report truncated?",
    "You have three files left to translate.",
    "<task>Make the tests pass.</task>",
    "<user_query>Fix the response format</user_query>",
    "<system-reminder>One.</system-reminder> Now fix the tests of the parser.",
    "<system-reminder>The user sent a new message: stop that.</system-reminder>",
    "<system-reminder>This session is continued from an earlier one. Summary: all is done."
    "</system-reminder>",
    "<system-reminder>never closed",
    "",
]


@pytest.mark.parametrize("text", NAGS)
def test_a_harness_is_known_by_its_form(text):
    assert is_harness_text(text)


@pytest.mark.parametrize("text", PERSONS)
def test_a_person_has_a_subject(text):
    assert not is_harness_text(text)


@in_both_dialects
@pytest.mark.parametrize("nag", NAGS)
def test_what_came_before_it_belongs_to_the_run_from_the_first_time_on(write, nag):
    assert len(trajectory(write, [LS, LS, says("Done."), Person(nag)]).latest(9)) == 3
    assert count("repeat", write, [LS, LS, LS, says("Done."), Person(nag), LS]) == 4


@in_both_dialects
@pytest.mark.parametrize("text", PERSONS[:-1])
def test_a_person_begins_anew(write, text):
    assert count("repeat", write, [LS, LS, LS, says("Done."), Person(text), LS]) == 0


@in_both_dialects
@pytest.mark.parametrize(
    "size",
    [case(3_000, id="with all its rules"), case(40_000, id="too long to be read")],
)
def test_a_long_one_is_read_up_to_a_size(write, size):
    nag = NAGS[0] + "\n" + "Rule: call a tool.\n" * (size // 19)
    rounds = trajectory(write, [LS, says("Done."), Person(nag)]).latest(9)
    assert len(rounds) == (2 if size < 6_000 else 0)


@given(st.text(alphabet="<>/system-reminder []:.,your lastpu JSON\n", max_size=200))
def test_anything_is_taken(text):
    assert is_harness_text(text) in (True, False)
