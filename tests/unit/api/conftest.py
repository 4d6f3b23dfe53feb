"""An API for each test."""

from collections.abc import Iterator

import pytest

from tests.unit.api.harness import Api, running_api


@pytest.fixture
def api() -> Iterator[Api]:
    with running_api() as found:
        yield found
