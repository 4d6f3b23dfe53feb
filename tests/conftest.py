"""Settings of all tests."""

import gc

from hypothesis import settings

# A busy machine must not fail a test: none has a limit in milliseconds.
# Every run tries the same examples; `--hypothesis-profile=search` looks for others.
settings.register_profile("muster", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=500)
settings.load_profile("muster")

# Millions of objects are made before the first test, and live as long as the last: nobody needs to look
# through them for garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, among what tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()
