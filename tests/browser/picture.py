"""Pictures of pages: whole ones in a temporary folder, and their upper parts for readers."""


class Pictures:
    """Takes pictures; those that readers see go into the folder that is `wanted`, if one is."""

    def __init__(self, folder, wanted=None):
        self._folder = folder
        self._wanted = wanted

    def take(self, tab, name, height=0, begins="body"):
        """Take the whole page, and for readers so many pixels of it, from where it `begins`."""
        tab.page.evaluate("scrollTo(0, 0)")
        tab.page.mouse.move(0, 0)
        whole = self._folder / f"{name}.png"
        tab.page.screenshot(path=whole, full_page=True)
        assert whole.stat().st_size > 5_000, "an empty page"
        if self._wanted and height:
            self._wanted.mkdir(parents=True, exist_ok=True)
            part = tab.page.locator(begins).bounding_box()
            part["height"] = min(height, part["height"])
            tab.page.screenshot(path=self._wanted / f"{name}.png", full_page=True, clip=part)
