"""Settings of all tests."""

from hypothesis import settings

# A busy machine must not fail a test: none has a limit in milliseconds.
settings.register_profile("muster", deadline=None)
settings.load_profile("muster")
