"""What calls used, what that cost, and what refusals saved."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from looptrap.admin.metrics.verdict import NONE
from looptrap.admission import Tally
from looptrap.incident.saving import usd

KINDS = ("input", "output", "cached", "reasoning", "audio")
"""Of tokens: cached ones are part of the input, those of reasoning of the output."""


def metrics(tally: Tally, saved: int) -> Iterator[Metric]:
    """Yield tokens and dollars; `saved` is in nano-dollars."""
    of_model = ["provider", "model"]
    tokens = CounterMetricFamily(
        "looptrap_tokens", "Tokens that calls used.", labels=[*of_model, "kind"]
    )
    cost = CounterMetricFamily("looptrap_cost_usd", "What calls cost, in dollars.", labels=of_model)
    unpriced = CounterMetricFamily(
        "looptrap_unpriced_calls", "Calls that used what has no price.", labels=of_model
    )
    estimated = CounterMetricFamily(
        "looptrap_estimated_calls",
        "Calls that were told by their size what they used.",
        labels=of_model,
    )
    for (provider, model), used in list(tally.used.items()):
        named = [provider or NONE, model or NONE]
        for kind in KINDS:
            tokens.add_metric([*named, kind], getattr(used, f"{kind}_tokens"))
        cost.add_metric(named, usd(used.cost))
        unpriced.add_metric(named, used.unpriced)
        estimated.add_metric(named, used.estimated)
    yield from (tokens, cost, unpriced, estimated)
    callers = CounterMetricFamily(
        "looptrap_caller_cost_usd",
        "What calls cost, in dollars, by caller and project.",
        labels=["caller", "project"],
    )
    for (caller, project), (nano,) in list(tally.caller_costs.items()):
        callers.add_metric([caller or NONE, project or NONE], usd(nano))
    yield callers
    yield CounterMetricFamily(
        "looptrap_saved_usd",
        "What calls that were refused for a loop would have cost, in dollars.",
        value=usd(saved),
    )
