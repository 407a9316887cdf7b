"""For all tests."""

from hypothesis import settings

# Without this, an example that takes 200 ms fails: on a machine where others work, too, any does now and then.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
