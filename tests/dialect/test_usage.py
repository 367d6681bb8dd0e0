"""Usage, read from the bytes of answers as they pass."""

import http.client
import json
from functools import cached_property
from itertools import pairwise
from urllib.parse import urlsplit

import anthropic
import openai
import pytest
from google import genai
from hypothesis import given
from hypothesis import strategies as st

from looptrap.dialect import usage_meter
from looptrap.dialect.model import Usage
from looptrap.dialect.usage_meter import HEAD_BYTES, TAIL_BYTES, UsageReader
from looptrap.testing import FakeProvider, Reply, Tokens

TOKENS = Tokens(input=1200, output=340, cached=1000, reasoning=40)
HELLO = [{"role": "user", "content": "hello"}]


def usage_of(dialect, answer, *, stream=False, size=None):
    """Return the usage in `answer` when it comes in chunks of `size` bytes."""
    reader = UsageReader(dialect, stream)
    size = size or max(1, len(answer))
    for start in range(0, len(answer), size):
        reader.feed(answer[start : start + size])
    usage = reader.finish()
    if not stream and len(answer) <= HEAD_BYTES + TAIL_BYTES:
        # Read in one go, an answer that is all there says the same.
        assert usage_meter.usage_of(dialect, answer) == usage
    return usage


def events(*data, ending="\n\n"):
    """Return server-sent events with these data."""
    return "".join(f"data: {json.dumps(item)}{ending}" for item in data).encode()


def chat_chunk(text, usage=None):
    return {"choices": [{"index": 0, "delta": {"content": text}}], "usage": usage}


# What the SDKs report

CALLS = {
    "openai chat": lambda sdk: _chat(sdk.openai.chat.completions.create(model="m", messages=HELLO)),
    "openai chat, streamed": lambda sdk: _chat(
        list(
            sdk.openai.chat.completions.create(
                model="m", messages=HELLO, stream=True, stream_options={"include_usage": True}
            )
        )[-1]
    ),
    "openai completions": lambda sdk: _chat(sdk.openai.completions.create(model="m", prompt="hi")),
    "openai completions, streamed": lambda sdk: _chat(
        list(
            sdk.openai.completions.create(
                model="m", prompt="hi", stream=True, stream_options={"include_usage": True}
            )
        )[-1]
    ),
    "openai responses": lambda sdk: _responses(sdk.openai.responses.create(model="m", input="hi")),
    "openai responses, streamed": lambda sdk: _responses(
        list(sdk.openai.responses.create(model="m", input="hi", stream=True))[-1].response
    ),
    "openai embeddings": lambda sdk: Usage(
        sdk.openai.embeddings.create(model="m", input="hello there").usage.prompt_tokens, 0
    ),
    "anthropic": lambda sdk: _anthropic(
        sdk.anthropic.messages.create(model="m", max_tokens=9, messages=HELLO)
    ),
    "anthropic, streamed": lambda sdk: _anthropic(sdk.stream_anthropic()),
    "gemini": lambda sdk: _gemini(sdk.google.models.generate_content(model="m", contents="hi")),
    "gemini, streamed": lambda sdk: _gemini(
        list(sdk.google.models.generate_content_stream(model="m", contents="hi"))[-1]
    ),
}


def _chat(answer):
    counts = answer.usage
    return Usage(
        counts.prompt_tokens,
        counts.completion_tokens,
        counts.prompt_tokens_details.cached_tokens,
        counts.completion_tokens_details.reasoning_tokens,
    )


def _responses(answer):
    counts = answer.usage
    return Usage(
        counts.input_tokens,
        counts.output_tokens,
        counts.input_tokens_details.cached_tokens,
        counts.output_tokens_details.reasoning_tokens,
    )


def _anthropic(answer):
    counts = answer.usage
    cached = counts.cache_read_input_tokens
    return Usage(counts.input_tokens + cached, counts.output_tokens, cached)


def _gemini(answer):
    counts = answer.usage_metadata
    thought = counts.thoughts_token_count
    output = counts.candidates_token_count + thought
    return Usage(counts.prompt_token_count, output, counts.cached_content_token_count, thought)


class Sdks:
    """The real clients, all pointed at one provider."""

    def __init__(self, url):
        self.url = url

    @cached_property
    def openai(self):
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="k", max_retries=0)

    @cached_property
    def anthropic(self):
        return anthropic.Anthropic(base_url=self.url, api_key="k", max_retries=0)

    @cached_property
    def google(self):
        return genai.Client(api_key="k", http_options={"base_url": self.url})

    def stream_anthropic(self):
        with self.anthropic.messages.stream(model="m", max_tokens=9, messages=HELLO) as stream:
            return stream.get_final_message()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for client in list(vars(self).values()):
            if client is not self.url:
                client.close()


def send_again(provider, received):
    """Return the bytes of the answer to the same request."""
    place = urlsplit(provider.url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=5)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(received.method, received.target, received.body, headers)
        return connection.getresponse().read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "text", ["Fine.", ("w" * 400 + " ") * 60], ids=["all of it kept", "only the ends kept"]
)
@pytest.mark.parametrize("name", CALLS)
def test_reads_from_the_bytes_what_the_sdk_reports(name, text):
    script = [Reply.text(text, tokens=TOKENS)]
    with FakeProvider.running(script) as provider, Sdks(provider.url) as sdks:
        reported = CALLS[name](sdks)
        [received] = provider.requests
        answer = send_again(provider, received)
    call = received.call
    assert usage_of(call.dialect, answer, stream=call.stream, size=1000) == reported
    if name != "openai embeddings":
        assert (reported.input_tokens, reported.output_tokens) == (1200, 340)


# Shapes that the fake provider does not make

STARTED = events(
    {
        "type": "message_start",
        "message": {
            "usage": {
                "input_tokens": 7,
                "cache_read_input_tokens": 20,
                "cache_creation_input_tokens": 5,
                "output_tokens": 1,
            }
        },
    }
)
AUDIO = {"modality": "AUDIO", "tokenCount": 3}


@pytest.mark.parametrize(
    ("dialect", "stream", "answer", "expected"),
    [
        pytest.param(
            "openai_chat",
            False,
            b'{\n "choices": [],\n "usage" : {\n "prompt_tokens": 7,\n "completion_tokens": 2}\n}',
            Usage(7, 2),
            id="pretty-printed",
        ),
        pytest.param(
            "openai_chat",
            False,
            b'{"usage":{"prompt_tokens":7,"completion_tokens":2},"choices":[{"index":0}]}',
            Usage(7, 2),
            id="usage first",
        ),
        pytest.param(
            "openai_chat",
            True,
            events(chat_chunk("a"), chat_chunk("b", {"prompt_tokens": 7, "completion_tokens": 2}))
            + b"data: [DONE]\n\n",
            Usage(7, 2),
            id="usage with the last words",
        ),
        pytest.param(
            "openai_chat",
            True,
            events(
                chat_chunk("a", {"prompt_tokens": 7, "completion_tokens": 1}),
                chat_chunk("b", {"prompt_tokens": 7, "completion_tokens": 2}),
                chat_chunk("", None),
                ending="\r\n\r\n",
            ),
            Usage(7, 2),
            id="usage in every chunk, CRLF",
        ),
        pytest.param(
            "openai_chat",
            True,
            b'{"usage":{"prompt_tokens":7,"completion_tokens":2}}',
            Usage(7, 2),
            id="asked for a stream, answered in one piece",
        ),
        pytest.param(
            "openai_responses",
            False,
            b'{"tools":[{"parameters":{"properties":{"usage":{"input_tokens":9,"output_tokens":9}}}}'
            b'],"usage":{"input_tokens":7,"output_tokens":2,"input_tokens_details":null}}',
            Usage(7, 2),
            id="a tool with a parameter called usage",
        ),
        pytest.param(
            "openai_responses",
            True,
            events(
                {
                    "type": "response.completed",
                    "response": {
                        "usage": {
                            "input_tokens": 7,
                            "output_tokens": 2,
                            "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
                        },
                        "metadata": {"usage": {"input_tokens": 9, "output_tokens": 9}},
                    },
                }
            ),
            Usage(7, 2, cached_tokens=3, cache_write_tokens=4),
            id="metadata called usage",
        ),
        pytest.param(
            "anthropic",
            False,
            b'{"usage":{"input_tokens":7,"cache_read_input_tokens":20,'
            b'"cache_creation_input_tokens":5,"output_tokens":2,'
            b'"output_tokens_details":{"thinking_tokens":1}}}',
            Usage(32, 2, cached_tokens=20, reasoning_tokens=1, cache_write_tokens=5),
            id="cache read and written",
        ),
        pytest.param(
            "anthropic",
            True,
            events(
                {
                    "type": "message_start",
                    "message": {
                        "usage": {
                            "input_tokens": 7,
                            "cache_read_input_tokens": 20,
                            "output_tokens": 1,
                        }
                    },
                },
                {"type": "message_delta", "usage": {"input_tokens": None, "output_tokens": 2}},
            ),
            Usage(27, 2, cached_tokens=20),
            id="input at the start, output at the end",
        ),
        pytest.param(
            "anthropic",
            True,
            STARTED,
            Usage(32, 1, cached_tokens=20, cache_write_tokens=5),
            id="cut off after the start",
        ),
        pytest.param(
            "anthropic",
            True,
            STARTED + b'data: {"type": "content_block_delta", "delta": {"text": "Once up',
            Usage(32, 1, cached_tokens=20, cache_write_tokens=5),
            id="cut off in a word",
        ),
        pytest.param(
            "anthropic",
            True,
            STARTED + b'data: {"type": "message_delta", "usage": {"output_tok',
            Usage(32, 1, cached_tokens=20, cache_write_tokens=5),
            id="cut off in the last count",
        ),
        pytest.param(
            "anthropic",
            True,
            STARTED + events(*[{"delta": {"text": "word"}}] * 2000),
            Usage(32, 1, cached_tokens=20, cache_write_tokens=5),
            id="cut off after many words",
        ),
        pytest.param(
            "gemini",
            False,
            b'{"usageMetadata":{"promptTokenCount":7,"toolUsePromptTokenCount":3,'
            b'"candidatesTokenCount":2,"thoughtsTokenCount":4}}',
            Usage(10, 6, reasoning_tokens=4),
            id="thoughts and tool results",
        ),
        pytest.param(
            "gemini",
            False,
            b'{"usageMetadata":{"promptTokenCount":70,"candidatesTokenCount":25,'
            b'"promptTokensDetails":[{"modality":"TEXT","tokenCount":7},{"modality":"IMAGE"},'
            b'{"modality":"AUDIO","tokenCount":63}],'
            b'"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":25}]}}',
            Usage(70, 25, audio_input_tokens=63, audio_output_tokens=25),
            id="heard and spoken, gemini",
        ),
        pytest.param(
            "gemini",
            True,
            events(
                {"usageMetadata": {"promptTokenCount": 7, "promptTokensDetails": [AUDIO]}},
                {
                    "usageMetadata": {
                        "promptTokenCount": 7,
                        "candidatesTokenCount": 2,
                        "promptTokensDetails": [AUDIO, AUDIO],
                        "candidatesTokensDetails": None,
                    }
                },
            ),
            Usage(7, 2, audio_input_tokens=6),
            id="heard, in a stream",
        ),
        pytest.param(
            "openai_chat",
            False,
            b'{"usage":{"prompt_tokens":70,"completion_tokens":25,'
            b'"prompt_tokens_details":{"cached_tokens":5,"audio_tokens":60},'
            b'"completion_tokens_details":{"reasoning_tokens":1,"audio_tokens":20}}}',
            Usage(70, 25, 5, 1, audio_input_tokens=60, audio_output_tokens=20),
            id="heard and spoken, chat",
        ),
        pytest.param(
            "openai_responses",
            False,
            b'{"usage":{"input_tokens":70,"output_tokens":25,'
            b'"input_tokens_details":{"audio_tokens":60},'
            b'"output_tokens_details":{"audio_tokens":null}}}',
            Usage(70, 25, audio_input_tokens=60),
            id="heard, responses",
        ),
        pytest.param(
            "gemini",
            True,
            b'[{"usageMetadata":{"promptTokenCount":7}},\r\n'
            b'{"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2}}\n]\n',
            Usage(7, 2),
            id="streamed as an array",
        ),
    ],
)
def test_reads_what_providers_write(dialect, stream, answer, expected):
    assert usage_of(dialect, answer, stream=stream) == expected


def counting(dialect, number):
    """Return an answer that says it used as many tokens as that."""
    match dialect:
        case "openai_chat":
            return b'{"usage":{"prompt_tokens":7,"completion_tokens":%b}}' % number
        case "openai_responses" | "anthropic":
            return b'{"usage":{"input_tokens":7,"output_tokens":%b}}' % number
        case _:
            return b'{"usageMetadata":{"promptTokenCount":%b}}' % number


ABSURD = [
    pytest.param(dialect, stream, b"data: %b\n\n" % answer if stream else answer, id=name)
    for dialect in ("openai_chat", "openai_responses", "anthropic", "gemini")
    for stream in (False, True)
    for number in (b"1" + b"0" * 400, b"1" * 4_301, b"1e308", b"1000000000001")
    for answer in [counting(dialect, number)]
    for name in [f"{dialect}, {len(number)} characters, {'streamed' if stream else 'whole'}"]
]
"""Numbers that no call can have used."""


@pytest.mark.parametrize(
    ("dialect", "stream", "answer"),
    [
        pytest.param("openai_chat", False, b"", id="nothing"),
        pytest.param("openai_chat", False, b'{"choices":[]}', id="not counted"),
        pytest.param("openai_chat", False, b'{"usage":{}}', id="an empty object"),
        pytest.param("openai_chat", False, b'{"usage":{"prompt_tokens":"7"}}', id="a string"),
        pytest.param("openai_chat", False, b'{"usage":{"prompt_tokens":-7}}', id="below zero"),
        pytest.param("openai_chat", False, b'{"usage":{"prompt_tokens":7}', id="cut off"),
        pytest.param(
            "openai_chat",
            False,
            b'{"usage":{"prompt_tokens":7,"prompt_tokens_details":[]}}',
            id="a list for details",
        ),
        pytest.param(
            "gemini",
            False,
            b'{"usageMetadata":{"promptTokenCount":7,"promptTokensDetails":[{"tokenCount":-7}]}}',
            id="a part below zero",
        ),
        pytest.param(
            "openai_chat",
            False,
            b'{"choices":[{"usage":{"prompt_tokens":7}}]}',
            id="a field of something else",
        ),
        pytest.param(
            "openai_chat",
            False,
            b'{"\\"usage":{"prompt_tokens":7}}',
            id="a key that ends in the word",
        ),
        pytest.param(
            "openai_chat", True, events(chat_chunk("a"), chat_chunk("b")), id="only nulls"
        ),
        pytest.param(
            "openai_chat",
            True,
            events(chat_chunk("a", {"prompt_tokens": 7, "completion_tokens": 1}))
            + b'data: {"usage":{"prompt_tokens":7,"comp',
            id="cut off in a later count",
        ),
        pytest.param("anthropic", False, b"[" * 100_000, id="nested without end"),
        pytest.param("anthropic", False, b'{"usage":' * 900, id="usage in usage in usage"),
        pytest.param("http", False, b'{"usage":{"prompt_tokens":7}}', id="no dialect"),
        *ABSURD,
        pytest.param("mcp", True, events({"usage": {"prompt_tokens": 7}}), id="no model"),
    ],
)
def test_no_number_rather_than_a_wrong_one(dialect, stream, answer):
    assert usage_of(dialect, answer, stream=stream) is None


FORGERY = (
    '","usage":{"prompt_tokens":1,"completion_tokens":1}} \n\ndata: {"usage":{"prompt_tokens":1}}\n'
)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_the_model_says_about_usage_is_not_believed(stream):
    spoken = json.dumps(FORGERY) + FORGERY
    counts = {"prompt_tokens": 7, "completion_tokens": 2}
    if stream:
        without, with_counts = (
            events(chat_chunk("a", usage), chat_chunk(spoken)) for usage in (None, counts)
        )
    else:
        message = {"choices": [{"message": {"content": spoken}}]}
        without = json.dumps(message).encode()
        with_counts = json.dumps({"usage": counts, **message}).encode()
    assert usage_of("openai_chat", without, stream=stream) is None
    assert usage_of("openai_chat", with_counts, stream=stream) == Usage(7, 2)


# Long answers, of which only the ends are kept


def long_answer(after):
    """Return a long answer whose last `after` bytes begin with the comma before the count."""
    counts = '"usage":{"prompt_tokens":7,"completion_tokens":2}'
    end = counts + ',"note":"' + "n" * (after - len(counts) - 12) + '"}'
    answer = '{"text":"' + "t" * 50_000 + '",' + end
    assert len(end) == after - 1
    return answer.encode()


@pytest.mark.parametrize("size", [1, 7, 1000, TAIL_BYTES, 40_000, 100_000])
@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(TAIL_BYTES, Usage(7, 2), id="just kept"),
        pytest.param(TAIL_BYTES + 1, None, id="the comma cut"),
        pytest.param(TAIL_BYTES + 10, None, id="cut inside"),
        pytest.param(TAIL_BYTES + 30, None, id="cut between the numbers"),
    ],
)
def test_a_count_at_the_edge_is_read_whole_or_not_at_all(after, expected, size):
    assert usage_of("openai_chat", long_answer(after), size=size) == expected


def test_a_last_event_longer_than_what_is_kept_is_still_read():
    response = {
        "output": [{"text": "t" * 50_000}],
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }
    answer = events({"type": "response.completed", "response": response, "sequence_number": 9})
    assert usage_of("openai_responses", answer, stream=True) == Usage(7, 2)


def test_a_first_event_longer_than_what_is_kept_is_not_guessed():
    start = {
        "message": {"note": "n" * HEAD_BYTES, "usage": {"input_tokens": 7, "output_tokens": 1}}
    }
    talk = {"type": "content_block_delta", "delta": {"text": "t" * 50_000}}
    answer = events(start, talk, {"usage": {"output_tokens": 2}})
    assert usage_of("anthropic", answer, stream=True) is None


def test_keeps_no_more_than_both_ends():
    reader = UsageReader("openai_chat", True)
    for number in range(10_000):
        reader.feed(b"%0100d" % number)
    kept = reader._head + reader._older + reader._newest
    assert sum(map(len, kept)) <= HEAD_BYTES + 2 * TAIL_BYTES + 3 * 100


ANSWERS = [
    ("openai_chat", True, events(chat_chunk("é" * 3000), chat_chunk("", {"prompt_tokens": 7}))),
    ("openai_chat", True, events(*[chat_chunk("word")] * 400, {"usage": {"prompt_tokens": 7}})),
    ("openai_chat", False, long_answer(TAIL_BYTES)),
    ("openai_chat", False, long_answer(TAIL_BYTES + 1)),
    (
        "anthropic",
        True,
        events(
            {"message": {"usage": {"input_tokens": 7, "output_tokens": 1}}},
            *[{"delta": {"text": "word"}}] * 500,
            {"usage": {"output_tokens": 2}},
            {"type": "error", "error": {"type": "overloaded_error"}},
        ),
    ),
]


@given(st.sampled_from(ANSWERS), st.lists(st.integers(0, 60_000), max_size=40))
def test_how_the_bytes_are_split_changes_nothing(case, cuts):
    dialect, stream, answer = case
    reader = UsageReader(dialect, stream)
    places = sorted({0, len(answer), *(cut for cut in cuts if cut < len(answer))})
    for start, stop in pairwise(places):
        reader.feed(answer[start:stop])
    assert reader.finish() == usage_of(dialect, answer, stream=stream)


@given(
    st.sampled_from(["openai_chat", "openai_responses", "anthropic", "gemini", "http"]),
    st.booleans(),
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from([b'"usage":', b"{", b"}", b'"error":', b"\ndata: ", b"event: error\n"]),
        )
    ),
)
def test_whatever_passes_is_survived(dialect, stream, chunks):
    reader = UsageReader(dialect, stream)
    for chunk in chunks:
        reader.feed(chunk)
    assert reader.finish() is None


# Errors inside an answer that began well


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        pytest.param(
            "anthropic",
            b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error",'
            b'"message":"Overloaded"}}\n\n',
            id="anthropic",
        ),
        pytest.param(
            "openai_chat",
            events(chat_chunk("a"), {"error": {"message": "m", "type": "server_error"}}),
            id="openai chat",
        ),
        pytest.param("openai_chat", events({"error": "boom"}), id="a mere string"),
        pytest.param(
            "openai_chat", events({"error": {"code": 502, "message": "m"}}), id="a number"
        ),
        pytest.param(
            "openai_responses",
            b'event: error\ndata: {"type":"error","code":"rate_limit_exceeded","message":"m"}\n\n',
            id="an event of Responses",
        ),
        pytest.param(
            "openai_responses",
            events({"type": "response.failed", "response": {"error": {"code": "server_error"}}}),
            id="a response that failed",
        ),
        pytest.param(
            "gemini",
            events({"error": {"code": 503, "status": "UNAVAILABLE"}}),
            id="gemini",
        ),
        pytest.param(
            "gemini",
            b'[{"candidates":[]},\n{"error":{"code":503,"status":"UNAVAILABLE"}}]',
            id="gemini, streamed as an array",
        ),
        pytest.param(
            "openai_chat",
            events(chat_chunk('event: error\ndata: {"error":{"type":"x"}} "error"')),
            id="the model speaks of errors",
        ),
        pytest.param(
            "openai_responses", events({"response": {"error": None}}), id="no error, said so"
        ),
    ],
)
def test_an_error_that_passed_inside_a_stream_is_no_usage(dialect, answer):
    assert usage_of(dialect, answer, stream=True) is None
