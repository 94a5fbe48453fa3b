# `make test` and `make demo` work on a machine that has Python 3.11 or later, make and a network; nothing else needs to
# be installed. PYTHON=... names the interpreter, VENV=... the environment to build or use.

VENV ?= .venv
BIN := $(abspath $(VENV))/bin
PYTEST_ARGS ?=
BENCH_ARGS ?=
MATRIX_ARGS ?=
URL ?=
SECONDS ?= 600
SIMULATE_ARGS ?=
FUZZ_ARGS ?=
SOAK_ARGS ?=

# Tests start hundreds of processes: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

# Workers must run the Python that has our dependencies; Java is looked up as slatespark does it.
WITH_SPARK = PYSPARK_PYTHON="$(BIN)/python" JAVA_HOME="$$("$(BIN)/python" -m slatespark.spark.java)"

# Left out of `make quick`: long tests, what starts a JVM or a server, and the folders that take half of the time.
QUICK_MARKS = not slow and not spark and not cluster and not s3
QUICK_PATHS = tests/unit $(patsubst %,--ignore=tests/unit/table/%,read write commit rows transaction retention compaction gc verify)

# Object stores that tests run on, where they are: `make servers` builds them.
SERVERS ?= .servers
WITH_SERVERS = PATH="$(abspath $(SERVERS))/bin:$$PATH"

.PHONY: help venv servers lint test quick test-long simulate fuzz soak wheel test-wheel test-matrix test-bounds demo bench docs clean

help:
	@echo "make test        lint, type-check, check imports, run every test"
	@echo "make quick       unit tests that take less than a minute together, without lint"
	@echo "make test-long   make test with forty times as many random examples, others in each run"
	@echo "make simulate    many processes on one table, with faults, for SECONDS=600; SIMULATE_ARGS=..."
	@echo "make fuzz        hostile bytes for every decoder, guided by coverage, for SECONDS=600; FUZZ_ARGS=..."
	@echo "make soak        everybody on one table of a real S3 server for SECONDS=600; SOAK_ARGS=..."
	@echo "make test-wheel  install the wheel alone into a fresh environment, and run the main paths there"
	@echo "make test-matrix the Spark tests against PySpark 4.1, 4.2 and 4.3; MATRIX_ARGS=... (--help says which)"
	@echo "make test-bounds the main tests with everything as old as setup.cfg accepts"
	@echo "make demo        load a year of flights into a SlateDB database with Spark, step by step"
	@echo "make lint        the checks of make test without its tests"
	@echo "make wheel       build the wheel in dist/; URL=... is the address of the repository, for links of a release"
	@echo "make docs        build the site of the documentation in build/site; every warning is an error"
	@echo "make bench       compare with other formats and with the SlateDB client; BENCH_ARGS=..."
	@echo "make servers     build the object stores that tests run on, in $(SERVERS); without them those are skipped"
	@echo "make venv        only build the environment, in $(VENV)"

# Where the kernels cannot be compiled ahead of time, each process compiles them: the reason is printed. And where the
# classes of Spark cannot be archived, each JVM of a test loads them by itself. Spark's Python processes import pyspark from
# an archive of sources, and each compiles what it imports; without it they take the installed pyspark, with its byte code.
venv:
	@sh tools/venv.sh "$(VENV)"
	@"$(BIN)/python" -m slatespark.kernels.build || true
	@$(WITH_SPARK) "$(BIN)/python" -m tests.support.spark_classes >/dev/null 2>&1 || true
	@rm -f "$(VENV)"/lib/python3.*/site-packages/pyspark/python/lib/pyspark.zip

servers:
	@sh tools/servers.sh "$(SERVERS)"

lint: venv
	"$(BIN)/ruff" format --check .
	"$(BIN)/ruff" check .
	"$(BIN)/mypy"
	"$(BIN)/lint-imports" --config setup.cfg

# The kernels that the tests run: those that `make venv` compiled, or it is an error.
KERNELS ?= prebuilt

# Tests that share a Spark session form one group, so that one worker starts one session; the others fill the rest.
PYTEST = SLATESPARK_KERNELS="$(KERNELS)" "$(BIN)/python" -m pytest -n 2 --dist loadgroup

test: lint
	$(WITH_SERVERS) $(WITH_SPARK) $(PYTEST) --durations=30 $(PYTEST_ARGS)

quick: venv
	$(PYTEST) -m "$(QUICK_MARKS)" $(QUICK_PATHS) $(PYTEST_ARGS)

# A single test may take an hour here, which is no reason to suspect that it hangs.
test-long: lint
	HYPOTHESIS_PROFILE=thorough $(WITH_SERVERS) $(WITH_SPARK) $(PYTEST) -o faulthandler_timeout=7200 --durations=30 $(PYTEST_ARGS)

simulate: venv
	"$(BIN)/python" -m tests.simulation --seconds $(SECONDS) $(SIMULATE_ARGS)

fuzz: venv
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -e ".[fuzz]"
	"$(BIN)/python" -m tests.fuzz --seconds $(SECONDS) $(FUZZ_ARGS)

soak: venv
	$(WITH_SERVERS) $(WITH_SPARK) "$(BIN)/python" -m tests.soak --seconds $(SECONDS) $(SOAK_ARGS)

# setuptools would put whatever an earlier build left in build/ into the wheel as well.
wheel: venv
	rm -rf build dist
	SLATESPARK_URL="$(URL)" "$(BIN)/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	rm -rf build
	@ls dist/*.whl

# As a release has it: with an address.
test-wheel: URL = https://example.org/slatespark
test-wheel: wheel
	sh tools/test_wheel.sh "$(BIN)/python" .matrix/wheel dist/*.whl

test-matrix: venv
	"$(BIN)/python" tools/spark_matrix.py $(MATRIX_ARGS)

test-bounds: venv
	$(WITH_SERVERS) "$(BIN)/python" tools/spark_matrix.py --bounds $(MATRIX_ARGS)

demo: venv
	$(WITH_SPARK) "$(BIN)/slatespark" demo

bench: venv
	$(WITH_SPARK) "$(BIN)/python" -m benchmarks $(BENCH_ARGS)

# The variable quiets an advertisement for a successor of mkdocs.
docs: venv
	NO_MKDOCS_2_WARNING=1 "$(BIN)/python" -m mkdocs build --strict --quiet
	@echo "Open build/site/index.html; search needs a server: $(BIN)/python -m http.server -d build/site"

clean:
	rm -rf .venv .fuzz .matrix .servers .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info
