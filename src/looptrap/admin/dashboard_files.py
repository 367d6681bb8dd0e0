"""The dashboard: one page and what it loads, files without data of anybody."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from aiohttp import web
from aiohttp.web_response import ContentCoding

DASHBOARD_DIR = Path(__file__).with_name("dashboard")
DASHBOARD_PREFIX = "/ui/"

CONTENT_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
"""Served suffixes; other files of the folder are for developers."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""Nothing inline, nothing from elsewhere, and no frame around the page."""

DASHBOARD_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class StaticFile(NamedTuple):
    """A file, its content type and its ETag."""

    content_type: str
    content: bytes
    etag: str


def is_dashboard_path(path: str) -> bool:
    """Return whether a path belongs to the dashboard: it is served without a token."""
    return path == "/" or path.startswith(DASHBOARD_PREFIX)


def dashboard_routes() -> list[web.RouteDef]:
    """Return the routes of the dashboard."""
    static_files()  # now, so that no request waits for the disk later
    return [web.get("/", _page), web.get(DASHBOARD_PREFIX + "{name:.+}", _file)]


async def _page(request: web.Request) -> web.Response:
    return _file_response(request, static_files()["index.html"])


async def _file(request: web.Request) -> web.Response:
    # A name among the files read at the start: no path leads out of the folder.
    found = static_files().get(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound(text="There is no such file.\n", headers=DASHBOARD_HEADERS)
    return _file_response(request, found)


def _file_response(request: web.Request, file: StaticFile) -> web.Response:
    headers = {**DASHBOARD_HEADERS, "ETag": f'"{file.etag}"', "Vary": "Accept-Encoding"}
    if any(tag.value in (file.etag, "*") for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    response = web.Response(
        body=file.content, content_type=file.content_type, charset="utf-8", headers=headers
    )
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response.enable_compression(ContentCoding.gzip)
    return response


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files of the dashboard by name, read once."""
    found: dict[str, StaticFile] = {}
    for path in DASHBOARD_DIR.rglob("*"):
        if path.suffix in CONTENT_TYPES and path.is_file():
            content, name = path.read_bytes(), path.relative_to(DASHBOARD_DIR).as_posix()
            etag = blake2b(content, digest_size=12).hexdigest()
            found[name] = StaticFile(CONTENT_TYPES[path.suffix], content, etag)
    return found
