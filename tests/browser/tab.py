"""A tab of the browser, which notes what goes wrong in it and where it sends requests."""

from urllib.parse import urlsplit

from playwright.sync_api import expect


class Tab:
    """The dashboard as a person has it before them."""

    def __init__(self, page, url, *, is_expecting_failures=False):
        self.page = page
        self.url = url
        self.requests = []
        self.wrong = []
        self._is_expecting_failures = is_expecting_failures
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.wrong.append(f"uncaught: {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"a dialog: {dialog.message}"))

    def _hear(self, message):
        if message.type not in ("error", "warning"):
            return
        # The browser itself says so of every answer of 400 and above, and of a lost connection.
        is_told = message.text.startswith("Failed to load resource")
        if not (is_told and self._is_expecting_failures):
            self.wrong.append(f"{message.type}: {message.text}")

    def go(self, place):
        """Open a page of the dashboard by its address; one that is open is loaded anew."""
        address = f"{self.url}/#{place}"
        if self.page.url == address:
            self.page.reload()
        else:
            self.page.goto(address)
        expect(self.page.locator("main h1, main .empty, dialog").first).to_be_visible()

    def check(self):
        """Fail if anything went wrong, or a request left the origin."""
        assert not self.wrong, self.wrong
        origin = urlsplit(self.url).netloc
        elsewhere = [one for one in self.requests if urlsplit(one).netloc not in (origin, "")]
        assert not elsewhere, elsewhere
        assert self.requests, "no request was noted"

    def button(self, name):
        return self.page.get_by_role("button", name=name)

    def heading(self, name):
        return self.page.get_by_role("heading", name=name)

    def section(self, name):
        """Return a part of the page by its heading."""
        return self.page.get_by_role("region", name=name)
