"""Estimates of what a call will use at most, made before it is sent."""

from __future__ import annotations

from math import ceil

from looptrap.dialect.model import Call, Usage
from looptrap.dialect.output_limit import max_output
from looptrap.money.price import Price, Prices

BYTES_A_TOKEN = 3
"""Fewer than a JSON request has in most languages: reserve too much rather than too little."""


class UsageEstimate:
    """What one call will use at most; each part is computed on first use."""

    __slots__ = ("_call", "_input_count", "_max_output", "_now", "_price", "_prices")

    def __init__(self, call: Call, prices: Prices, now: float) -> None:
        self._call = call
        self._prices = prices
        self._now = now
        self._input_count = -1
        self._price: Price | None = None
        self._max_output: dict[tuple[int, bool], int] = {}  # by what is assumed

    def tokens(self, output_tokens: int, *, is_typical: bool = False) -> int:
        """Return all tokens; `output_tokens` is assumed where the call sets no limit.

        Of a typical answer, it is assumed where the call sets a higher limit, too.
        """
        return self._input_tokens() + self._output_tokens(output_tokens, is_typical)

    def cost(self, output_tokens: int, *, is_typical: bool = False) -> int | None:
        """Return the cost of these tokens in nano-dollars; None where no price is known."""
        input_tokens = self._input_tokens()
        if self._price is None:
            return None
        return self._price.cost(Usage(input_tokens, self._output_tokens(output_tokens, is_typical)))

    @property
    def may_be_priced(self) -> bool:
        """Whether there may be a price once the provider is known."""
        return self._prices.has_providers

    def _input_tokens(self) -> int:
        if self._input_count < 0:
            price = self._prices.of(self._call.model, "", self._now)
            if price is None and self._call.is_opaque:
                price = self._prices.dearest
            self._price = price
            self._input_count = ceil(len(self._call.request.body) / BYTES_A_TOKEN)
            if price is not None and price.context_window is not None:
                # An image has many bytes and few tokens: no more than the model can read.
                self._input_count = min(self._input_count, price.context_window)
        return self._input_count

    def _output_tokens(self, assumed: int, is_typical: bool) -> int:
        tokens = self._max_output.get((assumed, is_typical))
        if tokens is None:
            window = self._price.context_window if self._price is not None else None
            if is_typical:
                window = assumed if window is None else min(window, assumed)
            tokens = max_output(self._call, assumed, window)
            self._max_output[assumed, is_typical] = tokens
        return tokens


def is_charged(call: Call) -> bool:
    """Return whether a call uses tokens that are paid for, and shows how many."""
    costs = call.generates or call.is_opaque or call.dialect == "openai_embeddings"
    return costs and not call.request.lacks_body
