"""Settings of all tests."""

from hypothesis import settings

# A busy machine must not fail a test: none has a limit in milliseconds.
settings.register_profile("muster", deadline=None, max_examples=60)
settings.load_profile("muster")
