.PHONY: check lint types test bounds
check: lint types test

lint:
	ruff format --check .
	ruff check .

types:
	mypy

test:
	pytest

bounds: # kernels against their twins, with every index checked by numba
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/numba-bounds pytest -m "not slow" tests/samplers tests/storage tests/ops
