"""The page about the library: it names all there is, and runs as it is written."""

import inspect
import re
from pathlib import Path

import openai
import pytest

import looptrap
import looptrap.anthropic
import looptrap.openai
from looptrap import errors
from looptrap.testing import FakeProvider

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
TEXT = PAGE.read_text("utf-8")
NAMED = set(re.findall(r"[\w.]+", " ".join(re.findall(r"`([^`\n]+)`", TEXT))))
REFUSALS = (
    errors.LoopDetectedError,
    errors.BudgetExceededError,
    errors.RateLimitedError,
    errors.KilledError,
)


def is_named(name):
    return any(name in one.split(".") for one in NAMED)


@pytest.mark.parametrize("name", looptrap.__all__)
def test_every_public_name_is_on_the_page(name):
    assert is_named(name)
    assert getattr(looptrap, name)


@pytest.mark.parametrize(
    "module", [looptrap.openai, looptrap.anthropic], ids=lambda one: one.__name__
)
def test_every_name_of_a_door_is_on_the_page(module):
    assert [name for name in module.__all__ if not is_named(name)] == []
    assert {name for name in module.__all__ if name.endswith("Error")} == {
        one.__name__ for one in REFUSALS
    }


@pytest.mark.parametrize("name", inspect.signature(looptrap.guard).parameters)
def test_every_argument_of_guard_is_on_the_page(name):
    assert f"\n| `{name}` |" in TEXT


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_refusal_is_in_its_row(kind):
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{kind.__name__}`"))
    fields = set(inspect.signature(kind).parameters) - {"message"}
    assert {name for name in fields if f"`{name}`" not in row} == set()
    family = row.split("|")[3]
    vendor = re.search(r"`(\w+)`", family)[1]
    for module in (looptrap.openai, looptrap.anthropic):
        ours = getattr(module, kind.__name__)
        assert vendor in {base.__name__ for base in ours.__mro__}


def test_the_first_lines_run(monkeypatch):
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    with FakeProvider.running() as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        names = {"messages": [{"role": "user", "content": "Hello?"}]}
        exec(compile(code, PAGE.name, "exec"), names)
        names["client"].close()
        assert provider.calls == 1
        assert isinstance(names["client"], openai.OpenAI)
