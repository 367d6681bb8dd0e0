"""What is asked again and again with good reason: states, delays and single steps."""

import pytest

from looptrap.detect.call_kind import is_deferred, is_poll, is_step

case = pytest.param


def polls(name="bash", arguments="{}", result="x"):
    return is_poll(frozenset([name]), arguments, result)


@pytest.mark.parametrize(
    "asked",
    [
        case({"name": "get_task"}, id="by its name"),
        case({"name": "TodoRead"}, id="what is left to do"),
        case({"result": "queued"}, id="by its answer"),
        case({"arguments": '{"command":"sleep 5; cat a"}'}, id="by a pause"),
        case({"arguments": '{"command":"kubectl get pods"}'}, id="by a command"),
        case({"arguments": '{"chars":"","session":1}'}, id="by typing nothing"),
        case(
            {"name": "get_run", "result": '{"status": "completed", "next": {"status": "queued"}}'},
            id="a part of it has ended, and another one waits",
        ),
        case({"name": "get_task", "result": '{"status": "ok"}'}, id="an answer that went well"),
    ],
)
def test_polling(asked):
    assert polls(**asked)


@pytest.mark.parametrize(
    "asked",
    [
        case({}, id="anything"),
        case({"name": "TodoWrite"}, id="a note that is written"),
        case({"result": "running\n" * 200}, id="a long text that speaks of it"),
        case({"arguments": '{"command":"ls"}'}, id="another command"),
        case({"name": "get_task", "result": '{"state": "CANCELLED"}'}, id="a state that is final"),
        case({"name": "get_job", "result": "status: failed, exit 2"}, id="a final one in words"),
    ],
)
def test_no_polling(asked):
    assert not polls(**asked)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        case("HTTP 429 Too Many Requests", True, id="too many requests"),
        case('{"error": "rate_limit", "retry-after": 7}', True, id="as JSON"),
        case("Service unavailable, try again later", True, id="in words"),
        case("Text not found, please fix it and try again.", False, id="something is to be mended"),
        case("rate limit\n" * 100, False, id="a text about it"),
    ],
)
def test_being_put_off(result, expected):
    assert is_deferred(result) is expected


@pytest.mark.parametrize(
    ("name", "result", "expected"),
    [
        case("browser_press_key", "Pressed PageDown.", True, id="a key and a nod"),
        case("moveForward", "ok", True, id="a step"),
        case("scroll_down", "text of the page " * 10, False, id="a page that comes back"),
        case("click", "[image 3f2a90c1d2e4b586]", False, id="a screen that comes back"),
        case("get_monkey", "ok", False, id="a verb inside a word"),
    ],
)
def test_one_more_step(name, result, expected):
    assert is_step(frozenset([name]), result) is expected
