# What CI runs, by name; `.ci/run` does all of it from an empty environment.
PYTHON ?= python

.PHONY: docs test lint

docs:  ## the site, in docs/_build/html; warnings are errors
	$(PYTHON) -m sphinx -W --keep-going -j auto -q -b html docs docs/_build/html

test:
	$(PYTHON) -m pytest -n 2

lint:
	ruff format --check && ruff check && pyright && lint-imports
