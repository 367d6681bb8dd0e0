"""Usage: the tokens of a call, counted alike for all dialects."""

from __future__ import annotations

import msgspec


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

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return self.input_tokens + self.output_tokens


NO_USAGE = Usage()
