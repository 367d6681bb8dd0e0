"""`looptrap init`: write a first configuration from three answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from looptrap.errors import ConfigError, Problem

DEFAULT_FILE = "looptrap.toml"

STRICTNESS = {
    "block": "it is refused with an error",
    "stop": "it gets a final message, for agents that handle no errors",
    "notify": "it passes with a warning, and is reported",
    "shadow": "it passes, and is reported: nothing is refused, not even by budgets",
}
"""What happens to a loop, by answer."""

PLACEHOLDER_URLS = {
    "azure": "https://RESOURCE.openai.azure.com/openai/v1",
    "bedrock": "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
    "vertex": "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION"
    "/endpoints/openapi",
}
"""Addresses that only the operator knows."""

BY_PATH = ("openai", "anthropic", "gemini")
"""Providers that calls go to by their path, without a route."""

MODELS = {
    "google": ["gemini-*"],
    "openrouter": ["*/*"],
    "groq": ["llama-*", "openai/gpt-oss-*"],
    "mistral": ["mistral-*", "codestral-*", "devstral-*"],
    "deepseek": ["deepseek-*"],
    "xai": ["grok-*"],
    "ollama": ["*:*"],
    "vllm": ["local-*"],
    "azure": ["azure-*"],
    "bedrock": ["openai.*", "us.*", "eu.*"],
    "vertex": ["google/*"],
}
"""Models whose calls go to a provider, where several speak OpenAI's dialect."""

ALERT_VARIABLES = {
    "none": (),
    "slack": ("SLACK_WEBHOOK_URL",),
    "webhook": ("ALERT_WEBHOOK_URL", "ALERT_WEBHOOK_SECRET"),
    "apprise": ("APPRISE_URL",),
}
"""Variables that a channel of each kind needs."""

EXAMPLE_VALUES = {
    "SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/…",
    "ALERT_WEBHOOK_URL": "https://ops.example.com/looptrap",
    "ALERT_WEBHOOK_SECRET": "whsec_$(openssl rand -base64 32)",
    "APPRISE_URL": "discord://…",
}

CLIENT_VARIABLES = {"anthropic": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}
"""Where clients of these providers read the gateway's address; all others speak OpenAI's API."""

AGENTS = {"anthropic": "claude", "openai": "codex", "gemini": "gemini"}
"""A program for `looptrap setup`, by the provider that its calls go to."""


class ProviderNames(click.ParamType[tuple[str, ...]]):
    """Names of well-known providers; these are imported only when they are needed."""

    name = "provider"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = read_names(value)
        if not names:
            self.fail("is empty", param, ctx)
        for name in names:
            if name not in known_kinds():
                self.fail(f"{name!r} is none of {', '.join(known_kinds())}", param, ctx)
        return names

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(one) for one in known_kinds() if one.startswith(incomplete)]


def read_names(text: str) -> tuple[str, ...]:
    """Return the names in a text, each once, with commas or spaces between them."""
    return tuple(dict.fromkeys(text.lower().replace(",", " ").split()))


def known_kinds() -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of well-known providers, by name."""
    from looptrap.config.provider import KINDS

    return KINDS


@click.command(short_help="Write a first configuration.")
@click.option(
    "--provider",
    "providers",
    metavar="NAME",
    type=ProviderNames(),
    multiple=True,
    help="A provider that calls go to: openai, azure, vllm, …; may be repeated.",
)
@click.option(
    "--strictness",
    type=click.Choice([*STRICTNESS], case_sensitive=False),
    help="What happens to a loop: an error, a final message, a warning, or only a report.",
)
@click.option(
    "--alert",
    type=click.Choice([*ALERT_VARIABLES], case_sensitive=False),
    help="Who gets alerts.",
)
@click.option("--yes", is_flag=True, help="Ask nothing: defaults for what no flag says.")
@click.option(
    "--output", metavar="FILE", default=DEFAULT_FILE, help="The file to write.  [looptrap.toml]"
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def init(
    providers: Sequence[tuple[str, ...]],
    strictness: str | None,
    alert: str | None,
    yes: bool,
    output: str,
    force: bool,
) -> None:
    """Write a commented looptrap.toml, and say what to do next.

    Asks which providers calls go to, how strict the gateway is, and who gets alerts. Flags answer
    without a question; where there is no terminal, nothing is asked.

    \b
    Examples: looptrap init
              looptrap init --provider openai --provider anthropic --alert slack
              looptrap init --yes --strictness shadow --output /etc/looptrap/looptrap.toml
    """
    path = Path(output)
    if not output or path.is_dir():
        raise ConfigError([Problem("--output", f"is {output!r}, must be the path of a file")])
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if path.exists() and not force:
        if not asks:
            raise ConfigError([Problem(output, "exists: --force replaces it")])
        click.confirm(f"{output} exists. Replace it?", abort=True)
    answers = Answers(
        tuple(dict.fromkeys(name for names in providers for name in names))
        or (_ask_providers() if asks else ("openai", "anthropic")),
        strictness or (_ask_strictness() if asks else "block"),
        alert or (_ask_alert() if asks else "none"),
    )
    try:
        path.write_text(toml_of(answers), "utf-8")
    except OSError as error:
        message = f"cannot write there: {(error.strerror or str(error)).lower()}"
        raise ConfigError([Problem(output, message)]) from None
    click.echo(f"Wrote {output}.")
    for number, step in enumerate(next_steps(answers, output), 1):
        click.echo(f"\n{number}. {step}")


def _ask_providers() -> tuple[str, ...]:
    click.echo("Which providers do calls go to? One or more of")
    names = ", ".join(known_kinds())
    click.echo(click.wrap_text(names, initial_indent="  ", subsequent_indent="  "))
    click.echo("(google is Gemini in the dialect of OpenAI)")

    def read(text: str) -> tuple[str, ...]:
        names = read_names(text)
        unknown = [name for name in names if name not in known_kinds()]
        if unknown or not names:
            raise click.UsageError(f"not in the list: {', '.join(unknown) or 'nothing'}")
        return names

    chosen: tuple[str, ...] = click.prompt("Providers", default="openai anthropic", value_proc=read)
    return chosen


def _ask_strictness() -> str:
    click.echo("How strict? What happens to a loop:")
    for name, meaning in STRICTNESS.items():
        click.echo(f"  {name.ljust(8)}{meaning}")
    chosen: str = click.prompt(
        "Strictness",
        default="block",
        type=click.Choice([*STRICTNESS], case_sensitive=False),
        show_choices=False,
    )
    return chosen


def _ask_alert() -> str:
    kind = click.Choice([*ALERT_VARIABLES], case_sensitive=False)
    chosen: str = click.prompt("Who gets alerts?", default="none", type=kind)
    return chosen


class Answers(NamedTuple):
    """The answers to the three questions."""

    providers: Sequence[str]
    strictness: str
    alert: str


def toml_of(answers: Answers) -> str:
    """Return the file."""
    return "\n".join([*_general(answers), *_providers(answers), *_channels(answers), ""])


def _general(answers: Answers) -> Iterator[str]:
    yield "# Looptrap. `looptrap check FILE` says what this file means; a running gateway reads it"
    yield "# again on SIGHUP. Every setting: docs/reference/configuration.md"
    yield ""
    yield f"# What happens to a loop: {STRICTNESS[answers.strictness]}."
    if answers.strictness == "shadow":
        yield 'mode = "shadow"                     # "enforce" acts, once the reports look right'
    else:
        others = [f'"{one}"' for one in STRICTNESS if one not in (answers.strictness, "shadow")]
        yield (f'on_loop = "{answers.strictness}"'.ljust(36) + f"# or {', '.join(others)}")
        yield '# mode = "shadow"                   # only report, to begin with'
    yield ""
    yield 'history = "looptrap.db"             # incidents, alerts and spending'
    yield '# store = "redis://127.0.0.1:6379"  # counts shared by several gateways'
    yield ""
    yield "# To change one of the default rules:"
    yield '# [rules."no-progress"]'
    yield "# thresholds = { warn = 3, block = 8 }"
    yield ""
    yield "# What a caller may spend in a day:"
    yield "# [[budgets]]"
    yield '# name = "daily"'
    yield '# by = ["caller"]'
    yield "# limit_usd = 20"
    yield '# period = "1d"'
    yield ""
    yield "[gateway]"
    yield 'listen = "127.0.0.1:4100"           # where clients connect'
    yield 'admin = "127.0.0.1:4101"            # dashboard, API and metrics'
    yield 'state = "looptrap.state"            # digest secret and gateway keys; keep it private'


def _providers(answers: Answers) -> Iterator[str]:
    yield ""
    yield "# Callers use their own provider keys. Those with a gateway key (`looptrap keys`) use"
    yield "# yours, from the variables that are named here."
    for name in answers.providers:
        known = known_kinds()[name]
        yield from ("", "[[providers]]", f'name = "{name}"', f'kind = "{name}"')
        if name in PLACEHOLDER_URLS:
            yield f'base_url = "{PLACEHOLDER_URLS[name]}"  # put yours here'
        else:
            yield f'# base_url = "{known["base_url"]}"'
        if "api_key_env" in known:
            yield f'api_key_env = "{known["api_key_env"]}"'
    yield from _routes([name for name in answers.providers if name not in BY_PATH], answers)


def _routes(names: Sequence[str], answers: Answers) -> Iterator[str]:
    if not names:
        return
    yield ""
    yield "# Which calls go where; the first route that matches decides."
    if len(answers.providers) == 1:
        yield from ("[[routes]]", f'provider = "{names[0]}"')
        return
    for at, name in enumerate(names):
        if at:
            yield ""
        models = ", ".join(f'"{model}"' for model in MODELS[name])
        yield "[[routes]]"
        yield f"select = {{ models = [{models}] }}  # the models that you use there"
        yield f'provider = "{name}"'


def _channels(answers: Answers) -> Iterator[str]:
    yield ""
    if answers.alert == "none":
        yield "# Who gets alerts:"
        yield from ("# [[channels]]", '# kind = "slack"', '# url_env = "SLACK_WEBHOOK_URL"')
        return
    url, *secret = ALERT_VARIABLES[answers.alert]
    yield "# Alerts: budgets, loops, failing providers. The URL is secret, so a variable has it."
    yield from ("[[channels]]", f'name = "{answers.alert}"', f'kind = "{answers.alert}"')
    yield f'url_env = "{url}"'
    if secret:
        yield f'secret_env = "{secret[0]}"'


def next_steps(answers: Answers, file: str) -> Iterator[str]:
    """Yield what to do with the file, in order."""
    if unknown := [name for name in answers.providers if name in PLACEHOLDER_URLS]:
        yield f"Put your addresses into {file}: base_url of {', '.join(unknown)}."
    needed = ALERT_VARIABLES[answers.alert]
    if needed:
        lines = [f"   export {name}={EXAMPLE_VALUES[name]}" for name in needed]
        if answers.alert == "apprise":
            lines.insert(0, "   pip install 'looptrap[apprise]'")
        yield "\n".join(["Set what alerts need:", *lines])
    keys = [known_kinds()[name].get("api_key_env") for name in answers.providers]
    exports = [f"   export {key}=…" for key in dict.fromkeys(keys) if key]
    if exports:
        yield "\n".join(["Set your provider keys, if callers are to use gateway keys:", *exports])
    yield f"See whether all is well:\n   looptrap doctor --config {file}"
    yield f"Start the gateway:\n   looptrap serve --config {file}"
    agent = next((AGENTS[name] for name in AGENTS if name in answers.providers), "opencode")
    others = "or codex, cursor, …" if agent == "claude" else "or cursor, aider, …"
    clients = ["Point a client at it:", f"   looptrap setup {agent} --write, {others}"]
    if any(name not in CLIENT_VARIABLES for name in answers.providers):
        clients.append("   OPENAI_BASE_URL=http://127.0.0.1:4100/v1")
    for name, variable in CLIENT_VARIABLES.items():
        if name in answers.providers:
            clients.append(f"   {variable}=http://127.0.0.1:4100")
    yield "\n".join(clients)
