"""What the README and the tutorial show is run as it stands there, or is marked as not run."""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.serving import LOOPTRAP, clean_environment, served
from tests.test_architecture import LAYERS

from looptrap.config.gateway import ADMIN, LISTEN
from looptrap.testing import FakeProvider

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

DEFAULT_URL = f"http://{LISTEN}"
ANYTHING = "…"
"""Stands in shown output for what differs each time, or is left out."""

BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code in a page, and why it is not run, if it is not."""

    language: str
    text: str
    why: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = [Block(m["language"], m["text"], m["why"]) for m in BLOCK.finditer(text)]
    assert len(found) == text.count("\n```") // 2  # none has escaped
    return found


class Reader:
    """Does what a page says, block after block, in a folder of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.env = {
            **clean_environment(),
            "PATH": f"{LOOPTRAP.parent}{os.pathsep}{os.environ['PATH']}",
            "LOOPTRAP_URL": url,
            "OPENAI_API_KEY": "sk-test",
            "ANTHROPIC_API_KEY": "sk-ant-test",
        }

    def follow(self, block: Block) -> None:
        """Run a block; fail when it does not do what the page says."""
        text = block.text.replace(DEFAULT_URL, self.url)
        match block.language:
            case "python":
                self._run([sys.executable, "-W", "error", "-c", text])
            case "sh":
                self._run(["bash", "-euc", text])
            case "console":
                command, _, shown = text.partition("\n")
                printed = self._run(["bash", "-uc", command.removeprefix("$ ")])
                pattern = re.escape(shown.strip("\n")).replace(ANYTHING, ".*?")
                assert re.fullmatch(pattern, printed.strip("\n"), re.DOTALL), printed
            case "toml":
                tomllib.loads(text)
                (self.folder / "looptrap.toml").write_text(text, "utf-8")
            case other:
                pytest.fail(f"a block of {other!r} is neither run nor marked as not run")

    def _run(self, command: list[str]) -> str:
        result = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            input="\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, ""), command
        return result.stdout.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("page", "calls"),
    [
        pytest.param(README, 3, id="README: each client once"),
        pytest.param(TUTORIAL, 5 + 5, id="tutorial: two loops of five"),
    ],
)
def test_every_block_does_what_the_page_says(page, calls, tmp_path, needs):
    needs("curl", "curl")
    gateway_folder, folder = tmp_path / "gateway", tmp_path / "reader"
    gateway_folder.mkdir()
    folder.mkdir()
    with FakeProvider.running() as provider, served(provider.url, gateway_folder) as url:
        reader = Reader(url, folder)
        for block in blocks(page):
            if block.why is None:
                reader.follow(block)
    assert provider.calls == calls


def test_the_reader_notices_what_is_not_so(tmp_path):
    reader = Reader("http://127.0.0.1:9", tmp_path)
    reader.follow(Block("console", "$ echo one two\none …\n", None))
    for wrong in (
        Block("console", "$ echo one\ntwo\n", None),
        Block("console", "$ exit 3\n", None),
        Block("sh", "false\n", None),
        Block("python", "raise SystemExit(1)\n", None),
    ):
        with pytest.raises(AssertionError):
            reader.follow(wrong)
    with pytest.raises(pytest.fail.Exception):
        reader.follow(Block("js", "f()\n", None))


def test_the_make_targets_that_pages_name_exist():
    text = README.read_text("utf-8") + (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    targets = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE))
    assert targets >= {"serve", "test", "demo"}
    for target in targets:
        subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)


def test_the_readme_names_the_addresses_that_are_in_effect():
    named = set(re.findall(r"127\.0\.0\.1:\d+", README.read_text("utf-8")))
    assert named == {str(LISTEN), str(ADMIN)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for link in LINK.findall(page.read_text("utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in map(slug, HEADING.findall(target.read_text("utf-8"))), link


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/threat-model.md"])
def test_every_file_that_is_named_exists(name):
    named = re.findall(r"`([\w/.-]+/(?:[\w.-]+\.\w+)?)`", (ROOT / name).read_text("utf-8"))
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "src" / "looptrap" / path).exists(), path


def test_the_architecture_page_shows_the_arrow_of_imports_as_it_is():
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| (`\w+`(?: · `\w+`)*) \|", page, re.MULTILINE)
    shown = [set(re.findall(r"\w+", row)) for row in rows]
    rooms = {path.stem for path in (ROOT / "src" / "looptrap").iterdir()}
    assert shown == [layer & rooms for layer in reversed(LAYERS) if layer & rooms]


def test_every_page_is_in_the_navigation_and_there_is_nothing_else_in_it():
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    assert set(leaves(site["nav"])) == pages


def leaves(nav: object) -> list[str]:
    match nav:
        case str():
            return [nav]
        case dict():
            return [leaf for part in nav.values() for leaf in leaves(part)]
        case list():
            return [leaf for part in nav for leaf in leaves(part)]
    raise AssertionError(nav)
