"""Write the OpenAPI document of the API: `python -m tools.openapi FILE`."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from muster.api.app import create_app
from muster.api.openapi import describe
from muster.daemon.service.protocol import Service


def main(path: Path) -> None:
    service = cast(Service, SimpleNamespace(identify=None, failed_login=None))
    path.write_text(json.dumps(describe(create_app(service)), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
