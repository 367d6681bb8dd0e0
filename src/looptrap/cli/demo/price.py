"""What tokens cost."""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A model's list price at a date: dollars a million tokens, without any discount."""

    model: str
    input: float
    output: float
    listed: str

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return dollars."""
        return (input_tokens * self.input + output_tokens * self.output) / MILLION

    def __str__(self) -> str:
        return (
            f"List price of {self.model}, {self.listed}: ${self.input:.2f} a million input tokens,"
            f" ${self.output:.2f} output"
        )


PRICE = Price(model="gpt-5.4", input=2.50, output=15.00, listed="October 2026")
"""The model that the demo's agent asks for."""
