"""`looptrap cost`: what would a loop cost, with Looptrap and without?"""

from __future__ import annotations

import time
from math import isnan
from typing import TYPE_CHECKING, Any, NoReturn

import click

from looptrap.cli.check import load_config
from looptrap.cli.output import fail
from looptrap.errors import ConfigError, Problem

if TYPE_CHECKING:
    from looptrap.config import Config
    from looptrap.money.price import Price

MAX_RPS = 50.0
"""Calls a second, at most: the simulated calls must span several cooldowns."""

MIN_RPS = 0.0001


class _Amount(click.FloatRange):
    """A range of numbers without NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        amount: float = super().convert(value, param, ctx)
        if isnan(amount):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return amount


_PRICE = _Amount(0, 1_000_000)


@click.command(short_help="Estimate what a loop costs.")
@click.option("--model", metavar="NAME", required=True, help="The model that is called.")
@click.option("--provider", metavar="NAME", default="", help="Whose price counts: openai, ….")
@click.option(
    "--tokens",
    metavar="N",
    type=click.IntRange(0, 100_000_000),
    required=True,
    help="Tokens of input a call.",
)
@click.option(
    "--output",
    metavar="N",
    type=click.IntRange(0, 100_000_000),
    default=500,
    show_default=True,
    help="Tokens of output a call.",
)
@click.option(
    "--rps",
    metavar="R",
    type=_Amount(MIN_RPS, MAX_RPS),
    required=True,
    help="Calls a second; 0.2 is one every 5 seconds.",
)
@click.option("--input-price", metavar="USD", type=_PRICE, help="Dollars a million input tokens.")
@click.option("--output-price", metavar="USD", type=_PRICE, help="Dollars a million output tokens.")
@click.option("--config", metavar="FILE", type=click.Path(), help="TOML, or a bundle.")
@click.option("--preset", metavar="NAME", help="Start from this preset.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def cost(
    model: str,
    provider: str,
    tokens: int,
    output: int,
    rps: float,
    input_price: float | None,
    output_price: float | None,
    config: str | None,
    preset: str | None,
    as_json: bool,
) -> None:
    """Estimate what a loop of equal calls costs: a minute, an hour, a night, a weekend.

    The cost with Looptrap is that of the calls which the policies let pass in a simulation of the
    loop. Nothing is sent anywhere.

    \b
    Example: looptrap cost --model gpt-4o --tokens 20000 --rps 0.2
    """
    from looptrap.cli import cost_output
    from looptrap.dialect.model import Usage
    from looptrap.replay.projection import project_loop

    found = load_config(config, preset)
    if (input_price is None) != (output_price is None):
        _refuse("--input-price", "needs --output-price beside it, and the other way round")
    price = _price(found, model, provider, input_price, output_price)
    loop = project_loop(
        found.policies,
        model=model,
        rps=rps,
        seconds=cost_output.MAX_SPAN_S,
        tools=found.tools,
    )
    bill = cost_output.LoopCost(
        model=model,
        usage=Usage(tokens, output),
        price=price,
        rps=rps,
        loop=loop,
        source=f"preset {found.preset}" if found.preset else str(config),
    )
    if as_json:
        click.echo(bill.as_json())
    else:
        bill.show()


def _price(
    config: Config, model: str, provider: str, input_usd: float | None, output_usd: float | None
) -> Price:
    """Return the price from the command line, or the known one."""
    from looptrap.money.price import Price, Prices, PriceSettings

    if input_usd is not None and output_usd is not None:
        return Price.from_settings(PriceSettings(input=input_usd, output=output_usd))
    prices, now = Prices(config.prices, config.price_fallback), time.time()
    price = prices.of(model, provider, now)
    if price is None:
        from looptrap.schema.wording import listed, quoted

        close = listed(prices.close_to(model, now), "or")
        _refuse(
            "--model",
            f"no price is known for {quoted(model)}"
            + (f", did you mean {close}?" if close else ";")
            + " --input-price and --output-price give one, in dollars a million tokens",
        )
    return price


def _refuse(place: str, message: str) -> NoReturn:
    fail(ConfigError([Problem(place, message)]))
