"""The dashboard: one page and what it loads, files that hold nothing of anybody."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from aiohttp import web
from aiohttp.web_response import ContentCoding

FOLDER = Path(__file__).with_name("dashboard")
PREFIX = "/ui/"

KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
"""What is served; other files of the folder are for those who work on it."""

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "font-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
"""Nothing inline, nothing from elsewhere, and no page around this one."""

HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is sent."""

    kind: str
    content: bytes
    tag: str


def is_page(path: str) -> bool:
    """Return whether a path belongs to the dashboard: it is served without a token."""
    return path == "/" or path.startswith(PREFIX)


def routes() -> list[web.RouteDef]:
    """Return what is answered, and how."""
    files()  # now, so that no call waits for a disk later
    return [web.get("/", _page), web.get(PREFIX + "{name:.+}", _file)]


async def _page(request: web.Request) -> web.Response:
    return _sent(request, files()["index.html"])


async def _file(request: web.Request) -> web.Response:
    # Looked up by name among what was read at first: no path leads out of the folder.
    found = files().get(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound(text="There is no such file.\n", headers=HEADERS)
    return _sent(request, found)


def _sent(request: web.Request, file: File) -> web.Response:
    headers = {**HEADERS, "ETag": f'"{file.tag}"', "Vary": "Accept-Encoding"}
    if any(tag.value in (file.tag, "*") for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    answer = web.Response(
        body=file.content, content_type=file.kind, charset="utf-8", headers=headers
    )
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        answer.enable_compression(ContentCoding.gzip)
    return answer


@cache
def files() -> dict[str, File]:
    """Return the files of the dashboard by their names, read once."""
    found = [path for path in FOLDER.rglob("*") if path.suffix in KINDS and path.is_file()]
    return {path.relative_to(FOLDER).as_posix(): _read(path) for path in found}


def _read(path: Path) -> File:
    content = path.read_bytes()
    return File(KINDS[path.suffix], content, blake2b(content, digest_size=12).hexdigest())
