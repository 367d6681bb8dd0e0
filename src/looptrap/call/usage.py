"""Usage: the tokens of a call, counted alike for all dialects."""

from __future__ import annotations

import msgspec

MOST_TOKENS = 1_000_000_000_000
"""More tokens than any call has. A limit that is higher is none, and a count that is higher was not
reported: so every sum and product stays a number that is quick to reckon with."""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens used, counted alike for all dialects."""

    input_tokens: int = 0
    """All of the input, whether cached or not, whether text or not."""
    output_tokens: int = 0
    """All of the output, thoughts included."""
    cached_tokens: int = 0
    """The part of the input that was read from the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that was thought and not said."""
    cache_write_tokens: int = 0
    """The part of the input that was written to the provider's cache."""
    audio_input_tokens: int = 0
    """The part of the input that was heard."""
    audio_output_tokens: int = 0
    """The part of the output that was spoken."""
    is_estimated: bool = False
    """Whether all this was told from sizes, the provider having said nothing."""

    def plus(self, other: Usage) -> Usage:
        """Return both together; what is estimated in part is estimated."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.audio_input_tokens + other.audio_input_tokens,
            self.audio_output_tokens + other.audio_output_tokens,
            self.is_estimated or other.is_estimated,
        )

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return self.input_tokens + self.output_tokens


NO_USAGE = Usage()
