# Each target does all of its set-up: virtual environment, packages, Java runtime, broker.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Twice as many as the cores that suffice: tests on brokers mostly wait.
JOBS   ?= 4
# Tests side by side, in the groups and the order of tests/conftest.py.
BESIDE := --dist loadgroup --no-loadscope-reorder
# Of each process that tests start, a third of the first second is the compiler's without this.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo wheel test test-deploy test-faults nightly chaos soak check lint types layers unit setup docs picture clean bench-archive bench-ask bench-stream bench-accuracy bench-families bench-fingerprint bench-index bench-pages bench-pairs bench-replay bench-rules bench-scale bench-week chromium
.DEFAULT_GOAL := help

help:  ## this list of targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# Makes the environment if it is absent, and installs neardup with some extras into it.
define install
	@command -v $(PYTHON) >/dev/null || { echo "python3 is missing: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "neardup needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V): make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "the venv module is missing: apt-get install python3-venv"; exit 1; }
	@echo "Installing neardup and what it needs into $(VENV), once: $(2)."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c deploy/constraints.txt -e '.[$(1)]'
	@touch $@
endef

# An environment of another Python than the one that is asked for.
define check_python
	@[ "$(origin PYTHON)" = file ] || [ "$$($(BIN)/python -V)" = "$$($(PYTHON) -V)" ] || { echo "$(VENV) is of $$($(BIN)/python -V), PYTHON is $$($(PYTHON) -V): add VENV=.venv-other to the command, or make clean"; exit 1; }
endef

$(VENV)/.ready: pyproject.toml deploy/constraints.txt
	$(call install,dev,some 150 packages in one to three minutes)

# Whatever the demo runs is in an environment that is ready for the tests.
DEMO_READY := $(firstword $(wildcard $(VENV)/.ready) $(VENV)/.ready-demo)

$(VENV)/.ready-demo: pyproject.toml deploy/constraints.txt
	$(call install,broker,some 50 packages in a minute or two)

setup: $(VENV)/.ready  ## the virtual environment with everything that demo and tests need
	$(check_python)

demo: $(DEMO_READY)  ## a sample crawl through Kafka and three workers, with a summary
	$(check_python)
	$(BIN)/neardup demo $(DEMO)

wheel: $(DEMO_READY)  ## a wheel with machine code, for this system and Python and any processor of 2013 and newer: dist/
	$(check_python)
	$(BIN)/python -m worker.devkit.machine_code build/machine_code
	MACHINE_CODE=build/machine_code $(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

test: setup  ## all tests, including those on a real Apache Kafka
	$(BIN)/python -m pytest -n $(JOBS) $(BESIDE) -m "not nightly" $(TESTS)

test-faults: setup  ## every row of the fault table, on a real Apache Kafka
	$(BIN)/python -m pytest -n $(JOBS) $(BESIDE) -m faults $(TESTS)

test-deploy: setup  ## build and run the image, scrape a group with Prometheus, check panels and alerts, run the archive on JVM Spark and the pages' groups (as root, on Debian)
	$(BIN)/python -m pytest tests/deploy/check_image.py tests/deploy/check_prometheus.py tests/deploy/check_archive.py tests/deploy/check_pages.py $(TESTS)

nightly: export NEARDUP_EXAMPLES ?= 200
nightly: export NEARDUP_HISTORIES ?= 1000
nightly: setup  ## random tests with many more examples than `make test`, and the combinations and long tests that it leaves out: NEARDUP_EXAMPLES=n NEARDUP_HISTORIES=n
	$(BIN)/python -m pytest -n $(JOBS) $(BESIDE) -m "random or nightly" --timeout 7200 $(TESTS)

chaos: setup  ## random faults over a random crawl on three brokers: RUNS=n SEED=s MINUTES=m
	$(BIN)/python -m tests.faults.chaos $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(CHAOS)

soak: setup  ## a long run in short: three workers, one killed every minute: DOCUMENTS=n MINUTES=m
	$(BIN)/python -m tests.faults.soak $(if $(DOCUMENTS),--documents $(DOCUMENTS)) $(if $(MINUTES),--minutes $(MINUTES))

docs: setup  ## write the page of settings and the tables of figures from the program and the kept results
	$(BIN)/python -m tests.generated

picture: setup  ## make the picture of a report that the README shows (needs Chromium: make chromium)
	$(BIN)/python -m tests.report.picture

check: lint types layers unit  ## before each commit: lint, types, layers, and all tests without Kafka

lint: setup  ## ruff: its rules and its format
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup  ## mypy, strict
	$(BIN)/mypy

layers: setup  ## import-linter: imports point down only
	$(BIN)/lint-imports

unit: setup  ## tests without Kafka: TESTS=a file or folder
	$(BIN)/python -m pytest -n auto $(BESIDE) -m "not kafka and not slow and not nightly" -q $(TESTS)

$(VENV)-quix/.ready:  # Quix Streams wants a Kafka client of its own
	$(PYTHON) -m venv $(VENV)-quix
	$(VENV)-quix/bin/python -m pip install --quiet --disable-pip-version-check quixstreams==3.28.1 gaoya==0.2.2
	@touch $@

# What is deployed is compiled for x86-64-v3 (deploy/Dockerfile), so benchmarks measure that. VECTORS=
# measures this machine's widest; with AVX-512 its results have a folder and a column of their own.
ifeq ($(shell uname -m),x86_64)
VECTORS ?= x86-64-v3
endif
ifneq ($(VECTORS),)
bench-%: export NUMBA_CPU_NAME = $(VECTORS)
bench-%: export NUMBA_CPU_FEATURES =
endif

bench-stream: setup $(VENV)-quix/.ready  ## throughput and latency on Kafka, compared with a bare loop and Quix Streams
	$(BIN)/python -m tests.benchmarks.bench_stream --quix-python $(VENV)-quix/bin/python $(BENCH)

bench-accuracy: setup $(VENV)-peers/.ready  ## recall and false positives, compared with ClickHouse, gaoya, simhash and datasketch (labelled corpus, generated crawl): BENCH=--quick
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c deploy/constraints.txt matplotlib
	$(BIN)/python -m tests.benchmarks.bench_accuracy --peers-python $(VENV)-peers/bin/python $(BENCH)

bench-families: setup  ## families in a stream: copies between advertisements found, pages of templates called copies, by threshold: BENCH=--quick
	$(BIN)/python -m tests.benchmarks.bench_families $(BENCH)

$(VENV)-peers/.ready: Makefile  # whichever can be installed; the benchmark tells which is absent
	$(PYTHON) -m venv $(VENV)-peers
	$(VENV)-peers/bin/python -m pip install --quiet --disable-pip-version-check numpy psutil
	for peer in gaoya==0.2.2 chdb==4.4.0 rensa==0.5.0 faiss-cpu==1.15.1 datasketch==2.0.0 simhash==2.1.2; do \
	  $(VENV)-peers/bin/python -m pip install --quiet --disable-pip-version-check $$peer || echo "absent: $$peer"; done
	@touch $@

bench-fingerprint: setup $(VENV)-peers/.ready  ## the fingerprint, compared with ClickHouse, gaoya, rensa, datasketch and simhash: BENCH=--quick
	$(BIN)/python -m tests.benchmarks.bench_fingerprint --peers-python $(VENV)-peers/bin/python $(BENCH)

bench-index: setup $(VENV)-peers/.ready  ## the permuted index, compared with gaoya, faiss, datasketch and simhash: BENCH=--quick
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c deploy/constraints.txt matplotlib
	$(BIN)/python -m tests.benchmarks.bench_index --peers-python $(VENV)-peers/bin/python $(BENCH)

bench-pages: setup  ## pages to text, compared with resiliparse, selectolax and trafilatura; quality on reviewed pages: BENCH=--quick
	$(BIN)/python -m pip install --quiet --disable-pip-version-check trafilatura==2.3.1 lxml_html_clean
	$(BIN)/python -m tests.benchmarks.bench_pages $(BENCH)

bench-pairs: setup  ## all pairs of a million and of ten million fingerprints: seconds and memory
	$(BIN)/python -m tests.benchmarks.bench_pairs $(BENCH)

$(VENV)-datatrove/.ready: Makefile  # 790 MB: what its readers and tokenizers want
	$(PYTHON) -m venv $(VENV)-datatrove
	$(VENV)-datatrove/bin/python -m pip install --quiet --disable-pip-version-check 'datatrove[io,processing]==0.10.1' spacy==3.8.18
	@touch $@

bench-archive: setup $(VENV)-datatrove/.ready  ## batch deduplication by step, compared with datatrove's MinHash pipeline: BENCH=--quick
	$(BIN)/python -m tests.benchmarks.bench_archive --datatrove-python $(VENV)-datatrove/bin/python $(BENCH)

bench-rules: setup  ## copies that rules of directed search find, and their cost, by the number of originals: BENCH=--quick
	$(BIN)/python -m tests.benchmarks.bench_rules $(BENCH)

bench-scale: setup  ## documents per second of a group of 1 to 64 workers, calculated from the measured parts of one
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c deploy/constraints.txt matplotlib
	$(BIN)/python -m tests.benchmarks.bench_scale $(BENCH)

bench-replay: setup  ## a start from a log of 10 M rows and from a snapshot: time, memory, pauses
	$(BIN)/python -m tests.benchmarks.bench_replay $(BENCH)

bench-week: setup  ## a group of three for forty minutes: kills, renewed logs, retention; disk and memory: MINUTES=m DOCUMENTS=n BENCH=--no-save
	$(BIN)/python -m tests.benchmarks.bench_week $(if $(DOCUMENTS),--documents $(DOCUMENTS)) $(if $(MINUTES),--minutes $(MINUTES)) $(BENCH)

bench-ask: setup  ## questions to a worker at full speed: how long they wait, and how much they slow it down: BENCH=--quick
	$(BIN)/python -m tests.benchmarks.bench_ask $(BENCH)

chromium:  ## install Debian's Chromium, in which tests then open the report
	apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium

clean:  ## remove the environments, caches and builds
	rm -rf $(VENV) $(VENV)-quix $(VENV)-peers $(VENV)-datatrove .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
