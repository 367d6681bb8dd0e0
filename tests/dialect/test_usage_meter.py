"""Bills of answers in no dialect: what they report counts, and a guess is bounded."""

import json

import pytest

from looptrap.dialect.model import Request, Usage
from looptrap.dialect.registry import read
from looptrap.dialect.usage_meter import MAX_GUESSED_OUTPUT, UsageMeter

PICTURE = {"data": [{"b64_json": "A" * 100_000}]}


def used(path, answer, *, pieces=1):
    """Return what a call is billed for an answer that comes in pieces."""
    call = read(Request(path=path, body=b'{"model":"m","prompt":"A cat"}'))
    sent = json.dumps(answer).encode()
    bill = UsageMeter(call, len(sent))
    size = -(-len(sent) // pieces)
    for start in range(0, len(sent), size):
        bill.take(sent[start : start + size])
    return bill.usage(0)


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    ("path", "usage", "expected"),
    [
        pytest.param(
            "/v1/images/generations",
            {"input_tokens": 12, "output_tokens": 4160, "total_tokens": 4172},
            Usage(12, 4160),
            id="a picture",
        ),
        pytest.param(
            "/model/m/converse",
            {"inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 3},
            Usage(13, 5, 3),
            id="Bedrock",
        ),
    ],
)
def test_what_is_reported_is_billed(path, usage, expected, pieces):
    assert used(path, PICTURE | {"usage": usage}, pieces=pieces) == expected


@pytest.mark.parametrize("pieces", [1, 7])
def test_the_tokens_of_a_picture_are_not_told_from_its_bytes(pieces):
    guessed = used("/v1/images/generations", PICTURE, pieces=pieces)
    assert (guessed.output_tokens, guessed.is_estimated) == (MAX_GUESSED_OUTPUT, True)
