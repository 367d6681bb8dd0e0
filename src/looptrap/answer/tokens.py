"""Tokens as each dialect counts them, and as they are counted here: alike for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from looptrap.call.content import UNREADABLE
from looptrap.call.model import Dialect
from looptrap.call.usage import MOST_TOKENS, Usage

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
"""What is negative, or more than any call has, was not reported."""


class _Details(msgspec.Struct, gc=False):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    thinking_tokens: Count | None = None
    audio_tokens: Count | None = None


_NO_DETAILS = _Details()


class ChatCounts(msgspec.Struct, gc=False):
    prompt_tokens: Count
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None

    def usage(self) -> Usage:
        asked = self.prompt_tokens_details or _NO_DETAILS
        said = self.completion_tokens_details or _NO_DETAILS
        return Usage(
            self.prompt_tokens,
            self.completion_tokens or 0,
            asked.cached_tokens or 0,
            said.reasoning_tokens or 0,
            asked.cache_write_tokens or 0,
            asked.audio_tokens or 0,
            said.audio_tokens or 0,
        )


class ResponsesCounts(msgspec.Struct, gc=False):
    input_tokens: Count
    output_tokens: Count
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None

    def usage(self) -> Usage:
        asked = self.input_tokens_details or _NO_DETAILS
        said = self.output_tokens_details or _NO_DETAILS
        return Usage(
            self.input_tokens,
            self.output_tokens,
            asked.cached_tokens or 0,
            said.reasoning_tokens or 0,
            asked.cache_write_tokens or 0,
            asked.audio_tokens or 0,
            said.audio_tokens or 0,
        )


class AnthropicCounts(msgspec.Struct, gc=False):
    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens_details: _Details | None = None

    def usage(self) -> Usage:
        # Anthropic counts what concerns the cache apart from the rest of the input.
        read = self.cache_read_input_tokens or 0
        written = self.cache_creation_input_tokens or 0
        thought = (self.output_tokens_details or _NO_DETAILS).thinking_tokens or 0
        return Usage(self.input_tokens + read + written, self.output_tokens, read, thought, written)


class Bedrock(msgspec.Struct, gc=False, rename="camel"):
    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None

    def usage(self) -> Usage:
        read, written = self.cache_read_input_tokens or 0, self.cache_write_input_tokens or 0
        asked = self.input_tokens + read + written
        return Usage(asked, self.output_tokens, read, cache_write_tokens=written)


class _Part(msgspec.Struct, gc=False, rename="camel"):
    modality: str = ""
    token_count: Count = 0


class GeminiCounts(msgspec.Struct, rename="camel"):
    prompt_token_count: Count
    tool_use_prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    prompt_tokens_details: list[_Part] | None = None
    candidates_tokens_details: list[_Part] | None = None

    def usage(self) -> Usage:
        # Google counts thoughts apart from what the candidates say.
        thought = self.thoughts_token_count or 0
        asked, said = self.prompt_tokens_details, self.candidates_tokens_details
        return Usage(
            self.prompt_token_count + (self.tool_use_prompt_token_count or 0),
            (self.candidates_token_count or 0) + thought,
            self.cached_content_token_count or 0,
            thought,
            audio_input_tokens=_audio(asked) if asked else 0,
            audio_output_tokens=_audio(said) if said else 0,
        )


def _audio(parts: list[_Part]) -> int:
    tokens = 0
    for part in parts:
        if part.modality == "AUDIO":
            tokens += part.token_count
    return tokens


Counts = ChatCounts | ResponsesCounts | AnthropicCounts | Bedrock | GeminiCounts


class _ChatAnswer(msgspec.Struct, gc=False):
    usage: ChatCounts


class _ResponsesAnswer(msgspec.Struct, gc=False):
    usage: ResponsesCounts


class _AnthropicAnswer(msgspec.Struct, gc=False):
    usage: AnthropicCounts


class _GeminiAnswer(msgspec.Struct, gc=False):
    usage: GeminiCounts = msgspec.field(name="usageMetadata")


_WHOLE: dict[Dialect, Callable[[bytes], Any]] = {
    "openai_chat": msgspec.json.Decoder(_ChatAnswer).decode,
    "openai_completions": msgspec.json.Decoder(_ChatAnswer).decode,
    "openai_embeddings": msgspec.json.Decoder(_ChatAnswer).decode,
    "openai_responses": msgspec.json.Decoder(_ResponsesAnswer).decode,
    "anthropic": msgspec.json.Decoder(_AnthropicAnswer).decode,
    "gemini": msgspec.json.Decoder(_GeminiAnswer).decode,
}


def usage_of(dialect: Dialect, answer: bytes) -> Usage | None:
    """Return what a whole answer says it used; None where it is not one JSON object, or unlike."""
    decode = _WHOLE.get(dialect)
    if decode is None:
        return None
    try:
        usage: Usage = decode(answer).usage.usage()
    except UNREADABLE:
        return None
    return usage


def counted(counts: Any, shape: type[Counts], earlier: Any = None) -> Usage | None:
    """Read counts over `earlier` ones; no number is better than one from a shape not known."""
    if not isinstance(counts, dict):
        return None
    known = earlier if isinstance(earlier, dict) else {}
    given = {name: count for name, count in counts.items() if count is not None}
    try:
        return msgspec.convert(known | given, shape).usage()
    except msgspec.ValidationError:
        return None
