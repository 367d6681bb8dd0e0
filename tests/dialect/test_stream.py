"""What is heard of a passing answer, however its bytes come."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialect.streams import CALL, FORMS, event, events, hear, texts_of, whole

from looptrap.dialect.answer import answer_reader
from looptrap.dialect.stream import LOOK_CHARS, MAX_EVENT_BYTES, UNREAD_BYTES

TEXT = 'He said "{hello}, [you]" \\ and – naïvely – left.\n\n' * 30

in_every_form = pytest.mark.parametrize("form", FORMS)
streamed = pytest.mark.parametrize("form", [form for form in FORMS if form != "gemini array"])


def pieces(data, cuts):
    """Return the bytes in chunks that end at `cuts`."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@in_every_form
@given(cuts=st.lists(st.integers(0, 10**6), max_size=30))
def test_the_text_is_heard_however_the_bytes_are_cut(form, cuts):
    hearing, _ = hear(form, pieces(b"".join(events(form, TEXT)), cuts))
    assert list(texts_of(hearing).values()) == [TEXT]


@in_every_form
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_the_text_is_heard_from_chunks_of_any_size(form, size):
    data = b"".join(events(form, TEXT))
    hearing, _ = hear(form, [data[at : at + size] for at in range(0, len(data), size)])
    assert list(texts_of(hearing).values()) == [TEXT]


@in_every_form
def test_line_ends_of_either_kind_end_an_event(form):
    data = b"".join(events(form, TEXT)).replace(b"\n", b"\r\n")
    hearing, _ = hear(form, [data])
    assert list(texts_of(hearing).values()) == [TEXT]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "completions"])
def test_arguments_of_tools_are_not_heard(form):
    hearing, _ = hear(form, events(form, "Let me look.", [CALL]))
    assert list(texts_of(hearing).values()) == ["Let me look."]


@in_every_form
def test_a_text_is_looked_at_once_a_kilobyte_not_once_a_chunk(form):
    text = " ".join(f"word{n}" for n in range(4_000))
    stream = events(form, text)
    _, looked = hear(form, stream)
    assert len(looked) <= len(text) / LOOK_CHARS
    assert len(looked) < len(stream) / 20
    assert all(one in text for one in looked)


@in_every_form
def test_a_short_stream_is_not_read_at_all(form):
    stream = events(form, "A short answer, and nothing more.")
    assert sum(map(len, stream)) < UNREAD_BYTES
    hearing, looked = hear(form, stream)
    assert looked == hearing.finish() == []
    assert not hearing.parser.texts


@streamed
def test_an_answer_in_one_piece_is_read_when_it_is_over(form):
    data = whole(form, TEXT)
    hearing, looked = hear(form, [data[:100], data[100:]], stream=False)
    assert looked == []
    assert hearing.finish() == [TEXT]


@in_every_form
def test_what_is_no_event_is_passed_over(form):
    stream = events(form, TEXT)
    if form == "gemini array":
        stream.insert(3, b',{"candidates":"none"}')
    else:
        stream.insert(3, b': a comment\n\nevent: x\nid: 7\ndata: {"choices":\n\ndata:\n\n')
        stream.insert(3, b"data: \xff\xfe\n\n")
    hearing, _ = hear(form, stream)
    assert list(texts_of(hearing).values()) == [TEXT]


@in_every_form
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_any_bytes_can_be_heard(form, data, cuts):
    hearing, _ = hear(form, pieces(data, cuts))
    texts_of(hearing)


def block(index, kind, text, delta):
    opening = {"type": kind, delta.removesuffix("_delta"): ""}
    yield {"type": "content_block_start", "index": index, "content_block": opening}
    said = {"type": delta, delta.removesuffix("_delta"): text}
    yield {"type": "content_block_delta", "index": index, "delta": said}


def chunk(index, **delta):
    return {"choices": [{"index": index, "delta": delta, "finish_reason": None}]}


def candidate(index, text, **more):
    content = {"parts": [{"text": text, **more}], "role": "model"}
    return {"candidates": [{"content": content, "index": index}]}


@pytest.mark.parametrize(
    ("form", "data", "heard"),
    [
        pytest.param(
            "chat",
            [chunk(0, content="a"), chunk(1, content="b"), chunk(0, content="c")],
            ["ac", "b"],
            id="choices",
        ),
        pytest.param(
            "chat",
            [chunk(0, reasoning_content="hm"), chunk(0, reasoning="m"), chunk(0, content="a")],
            ["hmm", "a"],
            id="thoughts of a choice",
        ),
        pytest.param(
            "anthropic",
            [
                *block(0, "thinking", "hmm", "thinking_delta"),
                *block(1, "text", "a", "text_delta"),
            ],
            ["hmm", "a"],
            id="thoughts and blocks of a message",
        ),
        pytest.param(
            "gemini",
            [candidate(0, "hmm", thought=True), candidate(0, "a"), candidate(1, "b")],
            ["hmm", "a", "b"],
            id="thoughts and candidates",
        ),
        pytest.param(
            "responses",
            [
                {
                    "type": "response.reasoning_summary_text.delta",
                    "summary_index": 0,
                    "delta": "hm",
                },
                {"type": "response.reasoning_text.delta", "content_index": 0, "delta": "mm"},
                {"type": "response.output_text.delta", "output_index": 1, "delta": "a"},
                {"type": "response.function_call_arguments.delta", "delta": "{}"},
            ],
            ["hm", "mm", "a"],
            id="thoughts, summaries and items of a response",
        ),
    ],
)
def test_texts_are_kept_apart(form, data, heard):
    hearing, _ = hear(form, [event(one) for one in data])
    assert list(texts_of(hearing).values()) == heard


@pytest.mark.parametrize("dialect", ["mcp", "http", "openai_embeddings"])
def test_some_dialects_have_nothing_to_say(dialect):
    assert answer_reader(dialect, False) is None


def test_what_is_too_large_to_keep_is_given_up():
    hearing = answer_reader("openai_chat", True)
    chunk = b"data: " + b"x" * 65_536
    for _ in range(2 * MAX_EVENT_BYTES // len(chunk) + 1):
        if hearing.feed(chunk):
            hearing.read()
    assert hearing.is_lost


def test_an_element_may_hold_anything_that_looks_like_an_end():
    said = {"candidates": [{"content": {"parts": [{"text": '},{"}]\\"'}]}, "index": 0}]}
    data = b"[" + msgspec.json.encode(said) + b",\n" + msgspec.json.encode(said) + b"]"
    for size in range(1, len(data)):
        hearing, _ = hear("gemini array", [data[a : a + size] for a in range(0, len(data), size)])
        assert list(texts_of(hearing).values()) == ['},{"}]\\"' * 2]


def test_two_broken_events_are_not_one_good_one():
    good = '{"choices":[{"index":0,"delta":{"content":"a"}}]}'
    halves = '{"choices":[{"index":0,"delta":{"content":"b"}}', '{"index":1}]}'
    hearing, _ = hear("chat", [f"data: {one}\n\n".encode() for one in (good, *halves)])
    assert list(texts_of(hearing).values()) == ["a"]
