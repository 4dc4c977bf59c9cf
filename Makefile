PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL ?= all-minilm-l6-v2
SEED ?= 17
MINUTES ?= 5

CORE := $(wildcard csrc/*.[ch] csrc/levels/*.[ch])
C_FILES := $(filter-out csrc/quantile_table.h, $(CORE)) $(wildcard tests/native/*.c)
SOURCES := pyproject.toml setup.py $(CORE) $(wildcard fastinit/*.pyx)

.PHONY: run test integrations accuracy fuzz sanitize pictures lint bench wheel clean

run: $(VENV)/.built
	mkdir -p run
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
	$(BIN)/python -m mypy.stubtest fastinit._core --mypy-config-file pyproject.toml

bench: $(VENV)/.built-bench
	$(BIN)/python -m pytest bench -q -o addopts= -o python_files='bench_*.py' -o python_functions='bench_*' --benchmark-only

wheel: $(VENV)/.built
	$(BIN)/pip wheel --no-deps --wheel-dir dist .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.built: $(BIN)/python $(SOURCES)
	@echo "compiling the C core for every instruction set of this kind of CPU; it takes some 20 seconds"
	@$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.built-torch-peers: $(VENV)/.built-test $(VENV)/.built-peers tests/integrations/peers.txt
	$(BIN)/python -m pip install --quiet --no-deps -r tests/integrations/peers.txt
	touch $@

$(VENV)/.built-%: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist run *.egg-info fastinit/*.so
