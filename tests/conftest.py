"""Settings of all tests."""

from hypothesis import settings

# kernels compile inside the first example: a deadline would time the compiler
settings.register_profile("gnnhet", deadline=None)
settings.load_profile("gnnhet")
