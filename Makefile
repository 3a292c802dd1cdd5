# The first hour in one command: `make run`. The same commands run in CI.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOME_DIR ?= .signoff
# Three on two cores: a third of the suite waits for other processes.
WORKERS ?= 3

.PHONY: run test check fmt bench-retrieval bench-search-scale bench-fifty bench-month bench-kill bench-chaos bench-load bench-slack-latency bench-slack-render bench-feishu-render bench-feishu-start bench-documents bench-quality bench-telemetry bench-canary clean

run: $(VENV)/.run
	$(BIN)/signoff up --home $(HOME_DIR)

test: $(VENV)/.dev
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fmt: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Signoff needs Python 3.11 or newer: make run PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.run

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	touch $@

bench-retrieval: $(VENV)/.bench .venv-peers/.done
	$(BIN)/python -m bench.retrieval speed
	$(BIN)/python -m bench.retrieval

bench-search-scale: $(VENV)/.bench
	$(BIN)/python -m bench.scale

.venv-peers/.done: bench/peers.txt | $(VENV)/bin/python
	$(BIN)/python -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r bench/peers.txt
	touch $@

bench-kill: $(VENV)/.dev
	$(BIN)/python -m bench.kill

bench-chaos: $(VENV)/.bench
	$(BIN)/python -m bench.chaos

bench-slack-render: $(VENV)/.dev
	$(BIN)/python -m bench.slack_render

bench-feishu-start: $(VENV)/.dev
	$(BIN)/python -m bench.feishu_start

bench-feishu-render: $(VENV)/.dev
	$(BIN)/python -m bench.feishu_render

bench-load: $(VENV)/.bench
	$(BIN)/python -m bench.load

bench-slack-latency: $(VENV)/.dev
	$(BIN)/python -m bench.slack_latency

bench-decision: $(VENV)/.bench
	$(BIN)/python -m bench.decision

# When a variant that is tried goes back: exactly, and by simulated runs.
bench-canary: $(VENV)/.bench
	$(BIN)/python -m bench.canary

bench-month: $(VENV)/.bench
	$(BIN)/python -m bench.month

# What a verified answer serves, and how fast it is found among 100,000.
bench-verified: $(VENV)/.bench
	$(BIN)/python -m bench.near_misses
	$(BIN)/python -m bench.verified

bench-fifty: $(VENV)/.bench
	$(BIN)/python -m bench.fifty

# Formats, chunkers, speed; chunking embeds for an hour on one core the first time (its vectors are kept).
bench-documents: $(VENV)/.bench
	$(BIN)/python -m bench.parse_docs
	$(BIN)/python -m bench.ingest
	$(BIN)/python -m bench.chunking --characters 200000

bench-quality: $(VENV)/.bench
	$(BIN)/python -m bench.quality

# What a question costs more because it is recorded, counted and logged.
bench-telemetry: $(VENV)/.bench
	$(BIN)/python -m bench.telemetry

clean:
	rm -rf $(VENV) .venv-peers build *.egg-info .mypy_cache .ruff_cache .pytest_cache
