"""A tab of a browser, as a person uses it, and what must hold of every page in it."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Locator, Page, expect

ROOT = Path(__file__).parents[2]
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
PICTURES = ROOT / "docs/img"
WAIT = 30_000
"""ms that anything may take on a busy machine."""
SERIOUS = ("serious", "critical")

expect.set_options(timeout=WAIT)


class Tab:
    """One tab; it notes errors and requests to anywhere else."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url, self.page = url, context.new_page()
        self.page.set_default_timeout(WAIT)
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.asked: list[str] = []
        self.keeps = True
        """Whether its pictures are those of the docs."""
        self.page.on("console", lambda said: self._said(said.type, said.text, said.location["url"]))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._requested(request.url))

    def _said(self, kind: str, text: str, where: str) -> None:
        if kind == "error" and "status of 401" not in text:  # a login that failed on purpose
            self.errors.append(f"{text} ({where})")

    def _requested(self, url: str) -> None:
        self.asked.append(url)
        if urlsplit(url).netloc != urlsplit(self.url).netloc and not url.startswith(("data:", "blob:")):
            self.elsewhere.append(url)

    def go(self, path: str = "/") -> Page:
        """Open a path of the dashboard."""
        self.page.goto(self.url + path)
        return self.page

    def another(self) -> Page:
        """Open one more tab of the same browser, and leave it."""
        page = self.page.context.new_page()
        page.set_default_timeout(WAIT)
        page.goto(self.page.url)
        return page

    def log_in(self, token: str, path: str = "/") -> Page:
        """Open a path, and log in where that is asked for."""
        self.go(path)
        self.page.get_by_label("Token", exact=True).fill(token)
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("navigation", name="Views")).to_be_visible()
        return self.page

    def check(self) -> None:
        """No error, no request elsewhere, no token in an address, nothing serious for axe-core."""
        assert not self.errors, self.errors
        assert not self.elsewhere, self.elsewhere
        found = self.findings()
        assert not found, "\n".join([self.page.url, *found])

    def findings(self) -> list[str]:
        """What axe-core finds serious on the page as it is."""
        # Evaluated by the debugger, so that the policy against foreign scripts stays as it is.
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = self.page.evaluate("axe.run().then((found) => found.violations)")
        return [
            f"{each['id']}: {json.dumps(node['target'])} {node['failureSummary']}"
            for each in found
            if each["impact"] in SERIOUS
            for node in each["nodes"]
        ]

    def picture(self, name: str, down_to: Locator | None = None) -> None:
        """Save the page as a picture of the docs, where pictures are asked for."""
        if not self.keeps or not os.environ.get("MUSTER_PICTURES"):
            return
        if down_to is not None:
            self.page.evaluate("scrollTo(0, 0)")
            place = down_to.bounding_box()
            assert place is not None
            self.page.set_viewport_size(
                {"width": 1280, "height": int(place["y"] + place["height"]) + 8}
            )
        self.page.screenshot(path=str(PICTURES / f"page-{name}.png"), scale="css")
