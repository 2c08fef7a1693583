# Two commands: `make demo` and `make test`. Each installs what it needs once; a second call installs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0

.PHONY: demo test exhaustive lint bare benchmark clean

demo: $(VENV)/.core
	$(BIN)/eclose search

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

# More cases of what the tests show: further seeds, sizes and signals.
exhaustive: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m exhaustive

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Only the core dependencies: what a user gets from `pip install eclose`.
bare:
	rm -rf .venv-bare
	$(PYTHON) -m venv .venv-bare
	.venv-bare/bin/pip install -q --disable-pip-version-check $(TORCH)
	.venv-bare/bin/pip install -q --disable-pip-version-check .
	cd / && $(CURDIR)/.venv-bare/bin/python -c "import eclose; print(eclose.__version__)"
	.venv-bare/bin/eclose --version
	.venv-bare/bin/eclose doctor
	rm -rf .venv-bare

benchmark: $(VENV)/.dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .venv-bare

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch is named first and exactly: a plain "torch" may bring gigabytes of CUDA libraries.
$(VENV)/.torch: $(BIN)/python
	$(BIN)/pip install -q --disable-pip-version-check $(TORCH)
	touch $@

$(VENV)/.core: $(VENV)/.torch pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e ".[dev]"
	touch $@
