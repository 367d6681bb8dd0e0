"""The dashboard's files: served to any browser, with headers that keep everything else out."""

import re
from pathlib import Path

import pytest
from tests.admin.operating import operating
from tests.admin.test_front import operating as operating_front

from looptrap.admin.server import DASHBOARD_DIR, static_files

IMPORT = re.compile(r"""(?:\bfrom\s*|\bimport\s*\(?\s*)["']([^"'\n]+)["']""")
LOADED = re.compile(r'(?:src|href)="(ui/[^"]+)"')
INLINE = re.compile(
    r"<script(?![^>]*\bsrc=)|\sstyle=|\son[a-z]+=|<style|javascript:", re.IGNORECASE
)

OURS = sorted(name for name in static_files() if not name.startswith("vendor/"))
MODULES = sorted(name for name in static_files() if name.endswith(".js"))


@pytest.fixture
async def operator(tmp_path):
    async with operating(tmp_path) as (_, operator):
        yield operator


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/ui/index.html", "text/html"),
        ("/ui/app/main.js", "text/javascript"),
        ("/ui/style/theme.css", "text/css"),
        ("/ui/mark.svg", "image/svg+xml"),
        ("/ui/vendor/preact/preact.js", "text/javascript"),
    ],
)
async def test_files_come_with_their_type_and_strict_headers(operator, path, kind):
    async with operator.get(path) as answer:
        assert answer.status == 200
        assert (answer.content_type, answer.charset) == (kind, "utf-8")
        assert await answer.read() == (DASHBOARD_DIR / (path[4:] or "index.html")).read_bytes()
        assert answer.headers["Content-Security-Policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
            " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none';"
            " frame-ancestors 'none'"
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-cache"
        assert "Set-Cookie" not in answer.headers


async def test_what_a_browser_has_is_not_sent_again(operator):
    async with operator.get("/") as answer:
        tag = answer.headers["ETag"]
    for given, status in ((tag, 304), (f'W/{tag}, "x"', 304), ('"older"', 200), (None, 200)):
        async with operator.get("/", headers={"If-None-Match": given} if given else {}) as answer:
            assert (answer.status, answer.headers["ETag"]) == (status, tag)
            assert bool(await answer.read()) is (status == 200)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/nothing.js",
        "/ui/",
        "/ui/app",
        "/ui/app/",
        "/ui/../page.py",
        "/ui/..%2fpage.py",
        "/ui/%2e%2e/page.py",
        "/ui/app/..%5c..%5cpage.py",
        "/ui//etc/passwd",
        "/ui/%2fetc%2fpasswd",
        "/ui/index.html%00.js",
        "/ui/app/README.md",
        "/ui/vendor/preact/LICENSE",
    ],
)
async def test_nothing_else_is_found(operator, path):
    async with operator.get(operator._base_url.with_path(path, encoded=True)) as answer:
        assert answer.status == 404


async def test_pages_are_only_read(operator):
    async with operator.post("/", json={}) as answer:
        assert answer.status == 405


@pytest.mark.parametrize("path", ["/", "/ui/app/main.js"])
async def test_a_page_needs_no_token_and_opens_nothing_that_does(tmp_path, path):
    async with operating(tmp_path, token="t0ken") as (_, operator):
        async with operator.get(path) as answer:
            assert answer.status == 200
        for closed in ("/api/v1/incidents", "/metrics", "/ui", "/uix"):
            async with operator.get(closed) as answer:
                assert answer.status == 401


async def test_a_page_under_a_foreign_name_is_not_given_out(operator):
    async with operator.get("/", headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403


async def test_with_workers_the_front_serves_the_pages_itself(tmp_path):
    async with operating_front(tmp_path, "t0ken") as (crew, operator):
        crew.there.clear()
        for path in ("/", "/ui/app/main.js"):
            async with operator.get(path) as answer:
                assert answer.status == 200


@pytest.mark.parametrize("name", MODULES)
def test_modules_import_what_is_there_and_nothing_from_elsewhere(name):
    for wanted in IMPORT.findall((DASHBOARD_DIR / name).read_text()):
        assert wanted.startswith(("./", "../")), wanted
        assert (DASHBOARD_DIR / name).parent.joinpath(wanted).resolve().is_file(), wanted


def test_the_page_loads_what_is_there():
    loaded = LOADED.findall(static_files()["index.html"].content.decode())
    assert len(loaded) > 5
    assert {name.removeprefix("ui/") for name in loaded} <= set(static_files())


@pytest.mark.parametrize("name", OURS)
def test_our_files_name_no_other_origin_and_hold_nothing_inline(name):
    text = static_files()[name].content.decode()
    namespaces = ("http://www.w3.org/2000/svg",)
    named = re.findall(r"https?://[\w.-]+[^\s\"'`]*", text)
    assert [url for url in named if url not in namespaces] == []
    assert "innerHTML" not in text
    if name.endswith((".html", ".svg")):
        assert not INLINE.search(text)


def test_every_vendored_module_has_its_licence():
    for folder in (DASHBOARD_DIR / "vendor").iterdir():
        assert not folder.is_dir() or Path(folder, "LICENSE").is_file()
