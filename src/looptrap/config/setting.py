"""The configuration in typed form, and the table of all settings it is read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from looptrap.config.gateway import GATEWAY, GatewaySettings
from looptrap.config.incident import CHANNEL, INCIDENTS, INDICATORS, TRACES
from looptrap.config.kind import MEMORY, StorePlace
from looptrap.config.provider import PROVIDER, ROUTE, ProviderSettings, RouteSettings
from looptrap.dialect.header import SESSION_HEADERS
from looptrap.errors import Problem
from looptrap.incident.setting import (
    ChannelSettings,
    IncidentSettings,
    IndicatorSettings,
    TraceSettings,
)
from looptrap.money.price import PriceSettings
from looptrap.policy import preset
from looptrap.policy.limit import Budget
from looptrap.policy.policy import KillSwitch, Mode, Policy, Project
from looptrap.policy.rule import ToolRule
from looptrap.policy.setting.budget import BUDGET
from looptrap.policy.setting.policy import KILL_SWITCH, PROJECT, TOOL
from looptrap.policy.setting.rule import TOKEN
from looptrap.schema import INVALID, Choice, Field, Listing, Mapped, Number, Table, Text, leaves

_DOLLARS = Number(low=0, high=1_000_000, unit="dollars a million tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PriceTable(Table[PriceSettings]):
    """The price of one model, that knows what a dot in the model's name does to TOML."""

    def read(self, value: object, place: str, problems: list[Problem]) -> Any:
        if isinstance(value, dict) and any(isinstance(item, dict) for item in value.values()):
            problems.append(
                Problem(
                    place,
                    "holds a table, must be a price; the name of a model with a dot in it stands"
                    ' in quotes: [prices."gpt-4.1"]',
                )
            )
            return INVALID
        # Without arguments, super() looks for the class as it was before it had slots.
        return super(_PriceTable, self).read(value, place, problems)


PRICE: Table[PriceSettings] = _PriceTable(
    build=PriceSettings,
    fields=[
        Field(name="input", kind=_DOLLARS, required=True, doc="what input costs"),
        Field(name="output", kind=_DOLLARS, required=True, doc="what output costs"),
        Field(
            name="cached_input",
            kind=_DOLLARS,
            doc="input that is read from the provider's cache; like input where not set",
        ),
        Field(
            name="cache_write",
            kind=_DOLLARS,
            doc="input that is written to that cache; like input where not set",
        ),
        Field(name="audio_input", kind=_DOLLARS, doc="what is heard; like input where not set"),
        Field(name="audio_output", kind=_DOLLARS, doc="what is spoken; like output where not set"),
        Field(
            name="context_window",
            kind=Number(low=1, high=1_000_000_000, whole=True),
            doc="how many tokens fit into one call",
        ),
    ],
)

PRICES = Field(
    name="prices",
    kind=Mapped(Text(form="the name of a model"), PRICE, "models and their prices"),
    default={},
    doc="what models cost, by name or `provider/name`; `*` and `?` are wild; goes before what"
    " providers list",
)

PRICE_FALLBACK = Field(
    name="price_fallback",
    kind=PRICE,
    doc="what every model costs for which no price is known; without it these are unpriced",
)


CaptureForm = Literal["off", "digests", "content"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that can be set, as it is in effect."""

    preset: str | None = None
    """Where the policies come from; None when the file has its own."""
    mode: Mode = "enforce"
    policies: tuple[Policy, ...] = ()
    projects: tuple[Project, ...] = ()
    kill_switches: tuple[KillSwitch, ...] = ()
    tools: Mapping[str, ToolRule] = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()
    prices: Mapping[str, PriceSettings] = field(default_factory=dict)
    price_fallback: PriceSettings | None = None
    session_headers: tuple[str, ...] = ()
    capture: CaptureForm = "off"
    block_status: int = 429
    history: str = "looptrap.db"
    store: str = MEMORY
    store_timeout: float = 0.05
    on_store_error: Literal["allow", "block"] = "allow"
    max_fingerprints: int = 1_000_000
    incidents: IncidentSettings = field(default_factory=IncidentSettings)
    indicators: IndicatorSettings = field(default_factory=IndicatorSettings)
    channels: tuple[ChannelSettings, ...] = ()
    traces: TraceSettings = field(default_factory=TraceSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    providers: tuple[ProviderSettings, ...] = ()
    routes: tuple[RouteSettings, ...] = ()
    warnings: tuple[str, ...] = ()
    """What works otherwise than one might think, a sentence each."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each value came from, by its place: `default`, `preset aisg`, a file, a variable."""

    def effective(self) -> Iterator[tuple[str, Any, str]]:
        """Yield every value in effect: its place, the plain value and where it came from."""
        for place, value in leaves(CONFIG, CONFIG.plain(self)):
            yield place, value, self.origins.get(place, "default")


CONFIG: Table[Config] = Table(
    build=Config,
    fields=[
        Field(
            name="preset",
            kind=Text(form="the name of a preset", into=preset.known),
            doc="the policies to start from; without it and without policies, `default`",
        ),
        Field(
            name="mode",
            kind=Choice(get_args(Mode)),
            default="enforce",
            doc="`shadow` puts every policy and budget into shadow mode: all is counted and"
            " reported, and nothing is refused but by kill switches",
        ),
        Field(
            name="session_headers",
            kind=Listing(Text(form="the name of a header", pattern=TOKEN), "header names"),
            default=SESSION_HEADERS,
            doc="where a client may name its session; of several, the first in this list counts",
        ),
        Field(
            name="capture",
            kind=Choice(get_args(CaptureForm)),
            default="off",
            doc="what is written down of judged calls: nothing, digests of all texts, or all as it"
            " was sent; with a `gateway.capture_dir` and nothing said here, digests",
        ),
        Field(
            name="history",
            kind=Text(form='the path of a file, or "" to keep nothing', pattern=r"(?s).*"),
            default="looptrap.db",
            doc='the SQLite file with incidents and alerts; with "" they end with the process',
        ),
        Field(
            name="block_status",
            kind=Choice([400, 403, 422, 429]),
            default=429,
            doc="the HTTP status of a refused loop",
        ),
        Field(
            name="store",
            kind=StorePlace(),
            default=MEMORY,
            doc="who counts: `memory` inside this process; a Redis or Valkey (`redis://`,"
            " `rediss://`, `unix://`, `redis+cluster://`) for all instances together",
        ),
        Field(
            name="store_timeout",
            kind=Number(low=0.001, high=10, unit="seconds"),
            default=0.05,
            doc="how long a shared store may take to answer before this instance counts alone",
        ),
        Field(
            name="on_store_error",
            kind=Choice(["allow", "block"]),
            default="allow",
            doc="what is done about calls while a shared store is away: `allow` judges them by what"
            " this instance counts alone, `block` refuses them with 503",
        ),
        Field(
            name="max_fingerprints",
            kind=Number(low=1_000, high=100_000_000, whole=True),
            default=1_000_000,
            doc="how many fingerprints are tracked inside this process; beyond it, the oldest go",
        ),
        preset.POLICIES,
        Field(
            name="projects",
            kind=Listing(PROJECT, "tables", unique="name"),
            default=(),
            doc="groups of callers with settings of their own",
        ),
        Field(
            name="kill_switches",
            kind=Listing(KILL_SWITCH, "tables"),
            default=(),
            doc="calls that are refused whatever they do",
        ),
        Field(
            name="tools",
            kind=Mapped(Text(form="the name of a tool"), TOOL, "tools and what is known of them"),
            default={},
            doc="tools with thresholds of their own for what is read from histories",
        ),
        Field(
            name="budgets",
            kind=Listing(BUDGET, "tables", unique="name"),
            default=(),
            doc="what calls may cost, whose, and in which time",
        ),
        PRICES,
        PRICE_FALLBACK,
        Field(
            name="incidents",
            kind=INCIDENTS,
            default=IncidentSettings(),
            doc="when an incident is over, and how long it is kept",
        ),
        Field(
            name="indicators",
            kind=INDICATORS,
            default=IndicatorSettings(),
            doc="what tends to come before an incident",
        ),
        Field(
            name="channels",
            kind=Listing(CHANNEL, "tables"),
            default=(),
            doc="where people are told of events",
        ),
        Field(
            name="traces",
            kind=TRACES,
            default=TraceSettings(),
            doc="OpenTelemetry, a span a request; needs `looptrap[otel]`",
        ),
        Field(
            name="gateway",
            kind=GATEWAY,
            default=GatewaySettings(),
            doc="where the gateway listens and what it accepts",
        ),
        Field(
            name="providers",
            kind=Listing(PROVIDER, "tables", unique="name"),
            default=(),
            doc="places that answer calls, beside the well-known ones",
        ),
        Field(
            name="routes",
            kind=Listing(ROUTE, "tables"),
            default=(),
            doc="which calls go to which provider, the first that binds deciding",
        ),
    ],
)

SCALARS = [one for one in CONFIG.fields if not isinstance(one.kind, Listing | Mapped | Table)]
"""Settings that an environment variable or a flag can give as well …"""

GATEWAY_SCALARS = [one for one in GATEWAY.fields if not isinstance(one.kind, Listing)]
"""… those of the gateway among them, without its name before theirs."""


def variable(setting: Field) -> str:
    """Return the name of the environment variable for a setting."""
    return f"LOOPTRAP_{setting.name.upper()}"


def flag(setting: Field) -> str:
    """Return the name of the command line flag for a setting."""
    return f"--{setting.name.replace('_', '-')}"
