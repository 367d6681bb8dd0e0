"""What a person asked for repeatedly is no loop, as long as it is asked for."""

import pytest
from tests.detect.runs import DIALECTS, Person, Use, bash, count

from looptrap.detect.asked_repetition import AskedRepetition, asked_repetition

case = pytest.param
in_both_dialects = pytest.mark.parametrize("write", DIALECTS.values(), ids=DIALECTS)


@pytest.mark.parametrize(
    ("text", "times", "is_recurring"),
    [
        case("Run the flaky test 14 times", 14, False, id="a number of times"),
        case("Do three runs of the benchmark", 3, False, id="a number in words"),
        case("Führe den Test 5-mal aus", 5, False, id="in German"),
        case("Ping it 900 times", 50, False, id="no more than it is worth"),
        case("Look at the pods every 30 s", 0, True, id="every so many seconds"),
        case("Log the lag each minute for an hour", 0, True, id="each minute"),
        case("Schau alle fünf Minuten nach", 0, True, id="in German, again and again"),
        case("Keep watching the queue until I say stop", 0, True, id="until told otherwise"),
        case("Mend the build, and go on until we have a green one", 0, False, id="until it works"),
        case("Fix the test in total.py", 0, False, id="nothing of it"),
        case("It failed every time, and two runs ago too", 2, False, id="what happened"),
        case("Each file needs a header; everything in src", 0, False, id="each file"),
    ],
)
def test_what_is_asked_for(text, times, is_recurring):
    assert asked_repetition(text) == AskedRepetition(times, is_recurring)


TEST = bash("go test -race ./ring", "ok  ring 2.1s")
PODS = Use("list_pods", {}, "web-1 is well, web-2 is well, web-3 is well")


@in_both_dialects
@pytest.mark.parametrize(
    ("asked", "steps", "expected"),
    [
        case("Run it 14 times.", [TEST] * 14, 0, id="so often"),
        case("Run it 4 times.", [TEST] * 11, 7, id="more often"),
        case("Run it.", [TEST] * 11, 11, id="not asked for"),
        case("List the pods every 30 seconds.", [PODS] * 12, 3, id="again and again"),
    ],
)
def test_what_a_person_asked_for_is_no_repeat(write, asked, steps, expected):
    assert count("repeat", write, [Person(asked), *steps]) == expected
