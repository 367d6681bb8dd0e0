"""`looptrap cost`: what would a loop cost, with Looptrap and without?"""

from __future__ import annotations

import time
from math import isnan
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click
import msgspec

from looptrap.cli.config import config_option, load_config, policy_source, preset_option
from looptrap.cli.output import print_table
from looptrap.dialect.model import Usage
from looptrap.errors import ConfigError, Problem
from looptrap.money.price import NANO_PER_TOKEN, Price, Prices, PriceSettings
from looptrap.schema.wording import listed, quoted

if TYPE_CHECKING:
    from looptrap.config import Config
    from looptrap.replay.projection import AnswerTimeCost, LoopCost

MIN_RPS, MAX_RPS = 0.0001, 50.0
"""Calls a second: in simulated calls of a faster loop there would not be several cooldowns."""

HEADINGS = ("A LOOP OF A", "#CALLS", "#COSTS", "#PASSED", "#WITH LOOPTRAP", "#SAVED")

ANSWER_HEADINGS = ("ANSWERS TAKE", "#CALLS", "#COSTS", "#REFUSED FROM", "#WITH LOOPTRAP")

TEXT_WIDTH = 80


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


PRICE = FiniteRange(0, 1_000_000)
TOKENS = click.IntRange(0, 100_000_000)


@click.command(short_help="Estimate what a loop costs.")
@click.option("--model", metavar="NAME", required=True, help="The model that is called.")
@click.option(
    "--provider", metavar="NAME", default="", help="The provider whose price is used: openai, …."
)
@click.option("--tokens", metavar="N", type=TOKENS, required=True, help="Input tokens a call.")
@click.option("--output", metavar="N", type=TOKENS, default=500, show_default=True,
              help="Output tokens a call.")  # fmt: skip
@click.option("--rps", metavar="R", type=FiniteRange(MIN_RPS, MAX_RPS), required=True,
              help="Calls a second; 0.2 is one every 5 seconds.")  # fmt: skip
@click.option("--input-price", metavar="USD", type=PRICE, help="Dollars a million input tokens.")
@click.option("--output-price", metavar="USD", type=PRICE, help="Dollars a million output tokens.")
@config_option
@preset_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def cost(
    model: str,
    provider: str,
    tokens: int,
    output: int,
    rps: float,
    input_price: float | None,
    output_price: float | None,
    file: str | None,
    preset: str | None,
    as_json: bool,
) -> None:
    """Estimate what a loop of equal calls costs: a minute, an hour, a night, a weekend.

    The cost with Looptrap is that of the calls which the policies let pass in a simulation of the
    loop. Nothing is sent anywhere.

    \b
    Example: looptrap cost --model gpt-4o --tokens 20000 --rps 0.2
    """
    from looptrap.replay.projection import (
        MAX_SPAN_S,
        LoopCost,
        costs_by_answer_time,
        project_loop,
    )
    from looptrap.replay.ruleset import Ruleset

    config = load_config(file, preset)
    if (input_price is None) != (output_price is None):
        message = "needs --output-price beside it, and the other way round"
        raise ConfigError([Problem("--input-price", message)])
    if input_price is not None and output_price is not None:
        price = Price.from_settings(PriceSettings(input=input_price, output=output_price))
    else:
        price = _find_price(config, model, provider)
    rules, usage = Ruleset.of(config), Usage(tokens, output)
    loop = project_loop(rules, model=model, rps=rps, seconds=MAX_SPAN_S)
    bill, source = LoopCost(loop, rps, usage, price), policy_source(config, file)
    by_answer_time = list(costs_by_answer_time(rules, model=model, usage=usage, price=price))
    if not as_json:
        click.echo(f"{fill(_describe_call(model, bill), TEXT_WIDTH)}\n")
        print_table(HEADINGS, _rows(bill))
        click.echo(f"\n{fill(_describe_refusal(bill, source), TEXT_WIDTH)}\n")
        click.echo("An hour of it, each call sent as soon as the one before is answered:\n")
        print_table(ANSWER_HEADINGS, [_answer_time_row(one) for one in by_answer_time])
        return
    fields = {
        "model": model,
        "input_tokens": tokens,
        "output_tokens": output,
        "rps": rps,
        "call_usd": bill.usd(1),
        "policies": source,
        "rule": loop.rule or None,
        "first_refused": loop.first_refused,
        "until_refused_usd": bill.until_refused_usd,
        "followed_seconds": loop.seconds,
        "spans": list(bill.spans()),
        "by_answer_time": by_answer_time,
    }
    click.echo(msgspec.json.encode(fields))


def _find_price(config: Config, model: str, provider: str) -> Price:
    prices, now = Prices(config.prices, config.price_fallback), time.time()
    price = prices.of(model, provider, now)
    if price is not None:
        return price
    close = listed(prices.close_to(model, now), "or")
    message = (
        f"no price is known for {quoted(model)}"
        + (f", did you mean {close}?" if close else ";")
        + " --input-price and --output-price give one, in dollars a million tokens"
    )
    raise ConfigError([Problem("--model", message)])


def _describe_call(model: str, bill: LoopCost) -> str:
    usage, rates = bill.usage, bill.price.rates_for(bill.usage.input_tokens)
    return (
        f"{model}, {bill.rps:g} calls a second of {usage.input_tokens:,} tokens in and"
        f" {usage.output_tokens:,} out: ${bill.usd(1):,.4f} a call, at"
        f" {_dollars(rates.input / NANO_PER_TOKEN)} a million tokens of input and"
        f" {_dollars(rates.output / NANO_PER_TOKEN)} of output."
    )


def _rows(bill: LoopCost) -> list[tuple[str, ...]]:
    return [
        (
            span.span,
            f"{span.calls:,}",
            _dollars(span.cost_usd),
            f"{span.passed:,}",
            _dollars(span.with_looptrap_usd),
            _dollars(span.saved_usd),
        )
        for span in bill.spans()
    ]


def _answer_time_row(cost: AnswerTimeCost) -> tuple[str, ...]:
    return (
        f"{cost.seconds} s",
        f"{cost.calls:,}",
        _dollars(cost.cost_usd),
        f"call {cost.first_refused}" if cost.first_refused is not None else "never",
        _dollars(cost.with_looptrap_usd),
    )


def _describe_refusal(bill: LoopCost, source: str) -> str:
    loop, spent = bill.loop, bill.until_refused_usd
    if spent is None:
        what = "only slow it down" if bill.is_slowed else "let all of it pass"
        return f"The policies of {source} {what}: none refuses equal calls at this rate."
    return (
        f"{loop.rule} of {source} refuses call {loop.first_refused}: an agent that ends there has"
        f" spent {_dollars(spent)}. The table is for one that goes on regardless, and tries"
        " again after every cooldown."
    )


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}"
