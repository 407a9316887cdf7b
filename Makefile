# Everything that a fresh Debian machine with Python 3.11, git and make needs is set up by the targets themselves.
SHELL := /bin/bash
# Tests start thousands of processes: what was compiled once is kept, whatever the surroundings wish.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CATALOGUE := src/tarrafa/i18n/pt_BR

.PHONY: install demo test test-long check bench relevance orders conformance lock clean

install: $(READY) $(CATALOGUE).mo replay

demo: install
	$(BIN)/tarrafa demo $(ARGS)

# wabac.js (AGPL-3.0-or-later), a program of others that replays archived pages; without it replay is off.
.PHONY: replay
replay: $(READY)
	@$(BIN)/tarrafa get-replay || echo "wabac.js cannot be had: archived pages are shown as text only"

# What fails beside others runs once more alone; what then passes is printed under FLAKY.
test: $(READY) $(CATALOGUE).mo system replay
	$(BIN)/python tests/run_suite.py

# Journeys with kills, soaks and fuzzing: run before a release.
test-long: $(READY) $(CATALOGUE).mo system replay
	$(BIN)/pytest -m long -s

check: $(READY)
	$(BIN)/python tests/run_suite.py check

bench: $(READY)
	$(BIN)/python -m benchmarks.crawl
	$(BIN)/python benchmarks/revisit.py
	$(BIN)/python benchmarks/decisions.py
	PYTHONPATH=. $(BIN)/python benchmarks/frontier.py
	$(BIN)/python benchmarks/graph.py
	$(BIN)/python benchmarks/pagerank.py
	PYTHONPATH=. $(BIN)/python benchmarks/search.py

# What each order of discovery does to the same Web, as a table and as the pictures of docs/crawl-order.md.
orders: $(READY)
	$(BIN)/python benchmarks/orders.py

# The pictures of the search page in docs/images.
.PHONY: screenshots
screenshots: $(READY) system
	$(BIN)/python docs/images/take.py
	$(BIN)/python docs/images/take_console.py

# Does the page that somebody looks for come first? Beside plain BM25, tantivy out of the box and FTS5.
relevance: $(READY)
	PYTHONPATH=. $(BIN)/python benchmarks/relevance.py
	$(BIN)/python -m benchmarks.help_site

# How well the public standards are kept, as a table, beside others.
conformance: $(READY) peers
	$(BIN)/python benchmarks/conformance.py

# Others' programs for comparisons; where they cannot be had, the tables say so.
PEERS := pyRdfa3==3.6.5 extruct==0.18.0
.PHONY: peers structured
peers: $(READY)
	@$(BIN)/python -m pip install --quiet $(PEERS) || echo "not to be installed: $(PEERS)"

# Pages with RDFa a second, beside pyRdfa3.
structured: $(READY) peers
	$(BIN)/python benchmarks/structured.py

# Collect the sentences of the interface into the catalogue; what is new stands there without a translation.
.PHONY: translations
translations: $(READY)
	$(BIN)/python -m tarrafa.i18n.catalogue

$(CATALOGUE).mo: $(CATALOGUE).po $(READY)
	$(BIN)/pybabel --quiet compile -i $(CATALOGUE).po -o $@ -l pt_BR

$(READY): requirements.lock pyproject.toml hatch_build.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# Programs that some tests need; where they cannot be had, those tests say SKIPPED and why.
.PHONY: system
system:
	@missing=""; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing="$$missing postgresql"; \
	command -v ip >/dev/null || missing="$$missing iproute2"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing for the tests:$$missing"; \
	    (apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing) >/dev/null 2>&1 \
	      || echo "they cannot be installed: the tests that need them will be skipped"; \
	  else echo "missing, and not to be installed without root:$$missing; the tests that need them will be skipped"; fi; \
	fi

# Pin everything anew (needs uv).
lock:
	uv pip compile --quiet --all-extras --no-header --no-annotate --python-version 3.11 --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) tarrafa-demo
