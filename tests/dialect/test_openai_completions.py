"""Legacy Completions and Embeddings bodies read into neutral form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from looptrap.dialect.model import Message, Request
from looptrap.dialect.registry import read

PROMPTS = [
    pytest.param("Once upon", "Once upon", id="a string"),
    pytest.param(["Once", "upon"], "Once\nupon", id="a list of strings"),
    pytest.param("", "", id="an empty string"),
    pytest.param([], "", id="an empty list"),
    pytest.param(["a", 5, None], "a\n5\nnull", id="strings and other things"),
]


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(("prompt", "text"), PROMPTS)
def test_a_prompt_is_one_message(prompt: Any, text: str) -> None:
    request = Request(path="/v1/completions", body=body(model="m", prompt=prompt, stream=True))
    call = read(request)
    assert (call.dialect, call.model, call.stream) == ("openai_completions", "m", True)
    assert call.messages == [Message("user", text)]
    assert call.generates


@pytest.mark.parametrize(("texts", "text"), PROMPTS)
def test_an_embedding_is_one_message_and_generates_nothing(texts: Any, text: str) -> None:
    call = read(Request(path="/v1/embeddings", body=body(model="m", input=texts, user="u")))
    assert (call.dialect, call.model, call.user) == ("openai_embeddings", "m", "u")
    assert call.messages == [Message("user", text)]
    assert not call.generates


def test_tokens_are_told_apart_by_digest() -> None:
    def text(prompt: Any) -> str:
        return read(Request(path="/v1/completions", body=body(prompt=prompt))).messages[0].text

    assert text([1, 2]).startswith("[tokens ")
    assert text([1, 2]) == text([1, 2])
    assert text([1, 2]) == text([[1, 2]])
    assert text([1, 2]) != text([1, 3])
    assert text([[1], [2]]) != text([[1, 2]])


@pytest.mark.parametrize("prompt", [None, 5, {"id": "x"}, True])
def test_a_prompt_of_a_wrong_type_is_not_read(prompt: Any) -> None:
    assert read(Request(path="/v1/completions", body=body(prompt=prompt))).is_opaque


@pytest.mark.parametrize("ending", ["completions", "embeddings"])
def test_azure_names_the_model_in_the_path(ending: str) -> None:
    path = f"/openai/deployments/my%20model/{ending}"
    assert read(Request(path=path, body=body(prompt="a", input="a"))).model == "my model"
