"""An answer that cannot be read is asked for once more, and never with the same prompt."""

import asyncio
import json

import msgspec
import pytest

from looptrap.errors import GiveUp
from looptrap.retry import Turn, testing


class Model:
    """Answers in order, and remembers what it was asked."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = []

    def __call__(self, prompt):
        self.asked.append(prompt)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def later(self, prompt):
        return self(prompt)


def sync(turn, model, *args, **kwargs):
    return turn.parsed(model, *args, **kwargs)


def asynchronous(turn, model, *args, **kwargs):
    async def main():
        return await turn.parsed(model.later, *args, **kwargs)

    return asyncio.run(main())


def wrapped(turn, model, *args, **kwargs):
    async def main():
        return await turn.parsed(lambda prompt: model.later(prompt), *args, **kwargs)

    return asyncio.run(main())


@pytest.fixture(params=[sync, asynchronous, wrapped], ids=lambda way: way.__name__)
def parsed(request):
    with testing():
        yield request.param


def test_a_readable_answer_is_read(parsed):
    model = Model("[1]")
    with Turn() as turn:
        assert parsed(turn, model, "a list, please", json.loads) == [1]
    assert model.asked == ["a list, please"]


def test_the_model_is_told_what_was_wrong(parsed):
    model = Model("oops", "[1]")
    with Turn() as turn:
        assert parsed(turn, model, "a list, please", json.loads) == [1]
        assert turn.step == 1
    first, second = model.asked
    assert second.startswith(first)
    assert "oops" in second
    assert "Expecting value" in second


def test_messages_get_two_more(parsed):
    model = Model("oops", "[1]")
    messages = [{"role": "user", "content": "a list, please"}]
    with Turn() as turn:
        parsed(turn, model, messages, json.loads)
    assert [message["role"] for message in model.asked[1]] == ["user", "assistant", "user"]
    assert len(messages) == 1


def test_it_happens_once(parsed):
    model = Model("oops", "again")
    with Turn(id="t") as turn, pytest.raises(GiveUp) as raised:
        parsed(turn, model, "a list, please", json.loads)
    marker = raised.value.marker
    assert (marker.reason, marker.step, marker.attempts) == ("bad_output", 1, 2)
    assert isinstance(raised.value.__cause__, json.JSONDecodeError)
    assert len(model.asked) == 2


def test_it_happens_once_a_turn(parsed):
    model = Model("oops", "[1]", "oops")
    with Turn() as turn:
        parsed(turn, model, "a list, please", json.loads)
        with pytest.raises(GiveUp) as raised:
            parsed(turn, model, "another", json.loads)
    assert len(model.asked) == 3
    assert raised.value.marker.step == 2


def test_nested_agents_share_the_one(parsed):
    model = Model("oops", "[1]", "oops")
    with Turn() as outer, Turn() as inner:
        parsed(inner, model, "a list, please", json.loads)
        with pytest.raises(GiveUp):
            parsed(outer, model, "another", json.loads)
    assert len(model.asked) == 3


def test_a_user_makes_the_prompt(parsed):
    model = Model("oops", "[1]")
    with Turn() as turn:
        parsed(turn, model, 7, json.loads, lambda prompt, answer, error: prompt + len(answer))
    assert model.asked == [7, 11]


def test_the_same_prompt_is_never_sent_again(parsed):
    model = Model("oops", "[1]")
    with Turn() as turn, pytest.raises(GiveUp) as raised:
        parsed(turn, model, "a list", json.loads, lambda prompt, _answer, _error: prompt)
    assert len(model.asked) == 1
    assert "the corrective prompt was the same" in raised.value.__cause__.__notes__[0]


def test_a_typed_answer_is_corrected_too(parsed):
    model = Model('"seven"', "7")
    with Turn() as turn:
        assert parsed(turn, model, "?", lambda text: msgspec.json.decode(text, type=int)) == 7


def test_a_parser_with_a_bug_is_no_bad_answer(parsed):
    model = Model("[1]")
    with Turn() as turn, pytest.raises(AttributeError):
        parsed(turn, model, "a list", lambda text: text.no_such_method())
    assert len(model.asked) == 1


def test_a_provider_that_fails_is_retried_as_ever(parsed):
    model = Model(ConnectionResetError(), "oops", ConnectionResetError(), "[1]")
    with Turn() as turn:
        assert parsed(turn, model, "a list", json.loads) == [1]
        assert turn.step == 1
    assert len(model.asked) == 4
