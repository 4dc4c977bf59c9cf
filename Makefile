PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL ?= all-minilm-l6-v2
SEED ?= 17
MINUTES ?= 5

CORE := $(wildcard csrc/*.[ch] csrc/levels/*.[ch])
C_FILES := $(filter-out csrc/quantile_table.h csrc/brief_table.h, $(CORE)) $(wildcard tests/native/*.c)
SOURCES := pyproject.toml setup.py $(CORE) $(wildcard fastinit/*.pyx)
PACKAGE := $(shell find fastinit -type f ! -name '*.so' ! -name '*.pyc')
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test integrations accuracy fuzz sanitize pictures lint bench wheel clean

# Who works on fastinit has an editable install already; who runs it needs none.
run: $(or $(wildcard $(VENV)/.built),$(VENV)/.installed)
	@mkdir -p run
	$(BIN)/fastinit init $(MODEL) --seed $(SEED) --out run/$(MODEL).safetensors --force --compare
	$(BIN)/fastinit verify run/$(MODEL).safetensors

test: $(VENV)/.built-test
	$(BIN)/python -m pytest -q

# Real models of other libraries, an absent one counted as a failure.
integrations: $(VENV)/.built-torch-peers
	FASTINIT_REQUIRE_PEERS=torch,transformers,timm,diffusers,peft,safetensors,accelerate,huggingface_hub,jax,flax,equinox,haiku,keras,zarr,dask,distributed \
	    $(BIN)/python -m pytest -q -n auto tests/integrations

accuracy: $(VENV)/.built-test
	$(BIN)/python tools/accuracy.py

# Mutated files against every reader; findings go to build/fuzz.
fuzz: $(VENV)/.built-test
	$(BIN)/python tools/fuzz.py --minutes $(MINUTES) --seed $(SEED)

# The core and its callers under AddressSanitizer, UBSan and ThreadSanitizer, on every level of this machine.
sanitize: $(VENV)/.built-test
	$(BIN)/python tools/sanitize.py

pictures: $(VENV)/.built-figures
	$(BIN)/python tools/pictures.py

lint: $(VENV)/.built-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	$(BIN)/mypy --strict fastinit
	$(BIN)/mypy --strict fastinit/functions.py # which its stub hides from the line above
	$(BIN)/python -m mypy.stubtest fastinit._core --mypy-config-file pyproject.toml

bench: $(VENV)/.built-bench
	$(BIN)/python -m pytest bench --benchmark-autosave

wheel: $(VENV)/.built
	$(BIN)/pip wheel --no-deps --wheel-dir dist .

$(BIN)/python:
	@echo "making a Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(SOURCES) $(PACKAGE)
	@echo "installing numpy and fastinit there; the C core is compiled for every instruction set of this kind of CPU,"
	@echo "which takes some 20 seconds"
	@$(PIP) .
	@cp $(VENV)/lib/python*/site-packages/fastinit/_core*.so fastinit  # Python started here finds this folder first
	@touch $@

$(VENV)/.built: $(BIN)/python $(SOURCES)
	@echo "installing fastinit from this folder; the C core is compiled, which takes some 20 seconds"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.built-torch-peers: $(VENV)/.built-test $(VENV)/.built-peers tests/integrations/peers.txt
	$(PIP) --no-deps -r tests/integrations/peers.txt
	@touch $@

$(VENV)/.built-%: $(VENV)/.built
	$(PIP) --editable '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) build dist run *.egg-info fastinit/*.so
