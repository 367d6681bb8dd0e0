"""Every block of code on every page is run, or read by what would read it, or marked as not run.

The README, the tutorial and the pages on Python and on retries are run elsewhere.
"""

import json
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from tests.docs.serving import served
from tests.docs.test_readme import PAGES, README, ROOT, TUTORIAL, Block, Reader, blocks

from looptrap.cli import main
from looptrap.config.setting import CONFIG
from looptrap.schema import read
from looptrap.testing import FakeProvider

ELSEWHERE = {README, TUTORIAL, ROOT / "docs" / "retry.md", ROOT / "docs" / "python.md"}
PROSE = {"text", "http", "promql"}
"""Languages in which there is nothing to run."""
RUN = ("python", "sh", "console")


def unmarked(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.why is None and block.language not in PROSE]


READ = [page for page in PAGES if page not in ELSEWHERE and unmarked(page)]


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_what_it_claims_to_be(page, tmp_path, find_part):
    for block in unmarked(page):
        match block.language:
            case "toml":
                read(CONFIG, tomllib.loads(block.text))
            case "json":
                json.loads(block.text)
            case "yaml":
                assert list(yaml.safe_load_all(block.text))
            case "js":
                _parse_javascript(block.text, tmp_path, find_part(["node"], "nodejs"))
            case other:
                assert other in RUN, f"a block of {other!r} is neither run nor marked"
    if any(block.language in RUN for block in unmarked(page)):
        _follow(unmarked(page), tmp_path)


def _follow(shown: list[Block], folder: Path) -> None:
    """Do what a page says, in a folder that holds the files it has shown so far."""
    for name in ("gateway", "reader"):
        (folder / name).mkdir()
    with FakeProvider.running() as provider, served(provider.url, folder / "gateway") as url:
        reader = Reader(url, folder / "reader")
        for example in sorted((ROOT / "examples").glob("*.toml")):
            shutil.copy(example, reader.folder)
        for block in shown:
            if block.language == "json":
                (reader.folder / "bundle.json").write_text(block.text, "utf-8")
            elif block.language in (*RUN, "toml"):
                reader.follow(block)


def commands(page: Path) -> list[list[str]]:
    """Return the calls of `looptrap` that a page shows, also in blocks that are not run."""
    lines = [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.language in ("sh", "console")
        for line in block.text.replace("\\\n", " ").splitlines()
    ]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("looptrap ")]


SHOWN = [
    pytest.param(words, id=f"{page.relative_to(ROOT)}: {' '.join(words)}")
    for page in PAGES
    for words in commands(page)
]


@pytest.mark.parametrize("words", SHOWN)
def test_every_command_that_a_page_shows_exists(words):
    command: click.Command = main
    for word in words[1:]:
        if isinstance(command, click.Group):
            assert word in command.commands, word
            command = command.commands[word]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    used = {word.partition("=")[0] for word in own if word.startswith("--")}
    assert used <= known | {"--help"}


def _parse_javascript(text: str, folder: Path, node: str) -> None:
    file = folder / "block.mjs"
    file.write_text(text, "utf-8")
    done = subprocess.run([node, "--check", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
