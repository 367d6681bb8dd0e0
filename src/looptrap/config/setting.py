"""The configuration in typed form, and the table of all settings it is read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from looptrap.config.gateway import GATEWAY, TRACES, GatewaySettings, TraceSettings
from looptrap.config.kind import MEMORY, BaseUrl, HistoryPlace, StorePlace
from looptrap.config.provider import (
    PROVIDER,
    ROUTE,
    WELL_KNOWN,
    ProviderSettings,
    RouteSettings,
)
from looptrap.dialect.agent import AUTO, BlockStatus
from looptrap.dialect.descriptor import SESSION_HEADERS
from looptrap.errors import ConfigError
from looptrap.incident.setting import (
    CHANNEL,
    INCIDENTS,
    INDICATORS,
    ChannelSettings,
    IncidentSettings,
    IndicatorSettings,
)
from looptrap.money.price import PriceSettings
from looptrap.policy.budget import BUDGET, Budget
from looptrap.policy.kind import TOKEN
from looptrap.policy.policy import KILL_SWITCH, PROJECT, KillSwitch, Mode, Policy, Project
from looptrap.policy.preset import BLOCK_STATUS, POLICIES, known
from looptrap.policy.rule import RULE_CHANGE, TOOL, RuleChange, ToolRule
from looptrap.schema import (
    Field,
    Listing,
    Mapped,
    Number,
    Size,
    Table,
    Text,
    leaves,
    setting,
    settings,
)
from looptrap.usage.call_log import CALL_LOG, CallLogSettings


def _without_tables(given: dict[str, Any]) -> dict[str, Any]:
    """Return the price of a model; say what a dot in the model's name does to TOML."""
    if any(isinstance(item, dict) for item in given.values()):
        raise ConfigError(
            "holds a table, must be a price; the name of a model with a dot in it stands"
            ' in quotes: [prices."gpt-4.1"]'
        )
    return given


PRICE = Table.of(PriceSettings, prepare=_without_tables)

CaptureForm = Literal["off", "digests", "content"]

OnLoop = Literal["block", "stop", "notify"]


@settings
class Config:
    """Everything that can be set, as it is in effect."""

    preset: str | None = setting(
        "the policies to start from; without it and without policies, `default`",
        Text(form="the name of a preset", into=known),
        default=None,
    )
    """Where the policies come from; None when the file has its own."""
    mode: Mode = setting(
        "`shadow` puts every policy and budget into shadow mode: all is counted and reported, and"
        " nothing is refused but by kill switches",
        default="enforce",
    )
    session_headers: tuple[str, ...] = setting(
        "where a client may name its session; of several, the first in this list counts; without"
        " one, the session that a known agent names by itself; an empty list turns both off",
        Listing(Text(form="the name of a header", pattern=TOKEN), "header names"),
        default=SESSION_HEADERS,
    )
    capture: CaptureForm = setting(
        "what is captured of judged calls: nothing, digests of all texts, or all as it was sent;"
        " where only `gateway.capture_dir` is set, digests",
        default="off",
        restart=True,
    )
    history: str = setting(
        "where incidents, alerts and spending are kept: a SQLite file; or a PostgreSQL that several"
        ' instances share (`postgresql://`); with "" they are lost when the process ends',
        HistoryPlace(),
        default="looptrap.db",
        restart=True,
    )
    history_timeout: float = setting(
        "how long PostgreSQL may take to answer; no call waits for it",
        Number(low=0.5, high=60, unit="seconds"),
        default=5.0,
        restart=True,
    )
    history_spool: str = setting(
        "the folder where what is recorded waits for PostgreSQL; it is there after a crash too",
        Text(form="the path of a folder"),
        default="looptrap-spool",
        restart=True,
    )
    history_spool_size: int = setting(
        "how much waits there for each process while PostgreSQL is away; beyond it, the latest"
        " waits in memory, which is bounded, and is lost when the process ends",
        Size(1 << 20, 1 << 40),
        default=256 << 20,
        restart=True,
    )
    public_url: str | None = setting(
        "where people reach the dashboard, for links in alerts and for the users of a proxy:"
        " `https://looptrap.example.com`",
        BaseUrl(),
        default=None,
        restart=True,
    )
    block_status: BlockStatus = setting(
        "the HTTP status of a refused loop; `auto` is the one that ends a recognised agent at once,"
        " and 429 for all other clients",
        BLOCK_STATUS,
        default=AUTO,
    )
    on_loop: OnLoop = setting(
        "the severest action against a loop: `block` leaves it to each rule, `stop` sends a final"
        " message in place of an error, `notify` only warns",
        default="block",
    )
    store: str = setting(
        "where hits are counted: `memory` inside this process; a Redis or Valkey (`redis://`, `rediss://`,"
        " `unix://`, `redis+cluster://`, `redis+sentinel://`) for all instances together",
        StorePlace(),
        default=MEMORY,
        restart=True,
    )
    store_timeout: float = setting(
        "how long a shared store may take to answer before this instance counts alone",
        Number(low=0.001, high=10, unit="seconds"),
        default=0.05,
        restart=True,
    )
    on_store_error: Literal["allow", "block"] = setting(
        "what is done about calls while a shared store is away: `allow` judges them by what this"
        " instance counts alone, `block` refuses them with 503",
        default="allow",
        restart=True,
    )
    max_fingerprints: int = setting(
        "how many fingerprints are tracked inside this process; beyond it, the oldest are dropped",
        Number(low=1_000, high=100_000_000, whole=True),
        default=1_000_000,
        restart=True,
    )
    policies: tuple[Policy, ...] = setting(
        "the policies; written in a file, they replace those of the preset",
        POLICIES,
        default=(),
        default_doc="–",
    )
    rules: Mapping[str, RuleChange] = setting(
        "what is different in single rules, by name: of the preset, or of the policies",
        Mapped(Text(form="the name of a rule"), RULE_CHANGE, "rules and what is different"),
        default={},
    )
    projects: tuple[Project, ...] = setting(
        "groups of callers with settings of their own",
        Listing(PROJECT, "tables", unique="name"),
        default=(),
    )
    kill_switches: tuple[KillSwitch, ...] = setting(
        "calls that are refused whatever they do", Listing(KILL_SWITCH, "tables"), default=()
    )
    tools: Mapping[str, ToolRule] = setting(
        "tools with thresholds of their own for what is read from histories",
        Mapped(Text(form="the name of a tool"), TOOL, "tools and what is known of them"),
        default={},
    )
    budgets: tuple[Budget, ...] = setting(
        "what calls may cost, whose, and in which time",
        Listing(BUDGET, "tables", unique="name"),
        default=(),
    )
    prices: Mapping[str, PriceSettings] = setting(
        "what models cost, by name or `provider/name`; `*` and `?` are wildcards; goes before"
        " listed prices",
        Mapped(Text(form="the name of a model"), PRICE, "models and their prices"),
        default={},
    )
    price_fallback: PriceSettings | None = setting(
        "what every model costs for which no price is known; without it these are unpriced",
        PRICE,
        default=None,
    )
    incidents: IncidentSettings = setting(
        "when an incident is over, and how long it is kept",
        INCIDENTS,
        default=IncidentSettings(),
        restart=True,
    )
    call_log: CallLogSettings = setting(
        "whether calls are logged one by one, how many, and for how long",
        CALL_LOG,
        default=CallLogSettings(),
        restart=True,
    )
    indicators: IndicatorSettings = setting(
        "when leading indicators of incidents fire",
        INDICATORS,
        default=IndicatorSettings(),
        restart=True,
    )
    channels: tuple[ChannelSettings, ...] = setting(
        "where events are sent", Listing(CHANNEL, "tables"), default=(), restart=True
    )
    traces: TraceSettings = setting(
        "OpenTelemetry, a span a request; needs `looptrap[otel]`",
        TRACES,
        default=TraceSettings(),
        restart=True,
    )
    gateway: GatewaySettings = setting(
        "where the gateway listens and what it accepts", GATEWAY, default=GatewaySettings()
    )
    providers: tuple[ProviderSettings, ...] = setting(
        "places that answer calls, beside the well-known ones",
        Listing(PROVIDER, "tables", unique="name"),
        default=(),
    )
    routes: tuple[RouteSettings, ...] = setting(
        "which calls go to which provider, the first that binds deciding",
        Listing(ROUTE, "tables"),
        default=(),
    )
    warnings: tuple[str, ...] = ()
    """Settings that have no effect, or not the one a reader expects; a sentence each."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each value came from, by its place: `default`, `preset aisg`, a file, a variable."""

    def known_providers(self) -> dict[str, ProviderSettings]:
        """Return all providers by name: those of the file in the place of the well-known."""
        return {**WELL_KNOWN, **{provider.name: provider for provider in self.providers}}

    def effective(self) -> Iterator[tuple[str, Any, str]]:
        """Yield every value in effect: its place, the plain value and where it came from."""
        for place, value in leaves(CONFIG, CONFIG.plain(self)):
            yield place, value, self.origins.get(place, "default")

    def after_reload(self, new: Config) -> Config:
        """Return the new configuration, with this one's values where a change needs a restart."""
        gateway = GATEWAY.override(new.gateway, GATEWAY.restart_values(self.gateway))
        return replace(new, gateway=gateway, **CONFIG.restart_values(self))

    def pending_restart(self, new: Config) -> list[str]:
        """Return the settings of the new configuration that need a restart to take effect."""
        return [
            f"{place}{name}"
            for place, before, after in (
                ("gateway.", GATEWAY.restart_values(self.gateway), GATEWAY.values(new.gateway)),
                ("", CONFIG.restart_values(self), CONFIG.values(new)),
            )
            for name, value in before.items()
            if value != after[name]
        ]


CONFIG = Table.of(Config)

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
