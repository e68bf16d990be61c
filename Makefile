# The commands for this tree; `make help` lists them. Needs make, and one of three: the Bun version that package.json
# pins, npm, or any other Bun. With npm or another Bun, the pinned Bun is fetched into .cache/. Nothing is installed
# outside this folder; only npm and Bun keep their caches in the home, and for root `make run` makes a data folder
# outside and the system user `claviger`, who runs its PostgreSQL.

BUN_VERSION := $(shell sed -n 's/.*"packageManager": *"bun@\([^"]*\)".*/\1/p' package.json)

ifeq ($(shell bun --version 2>/dev/null),$(BUN_VERSION))
BUN := bun
BUN_FILE :=
else
BUN_FILE := .cache/bun-$(BUN_VERSION)/bun
BUN := ./$(BUN_FILE)
# Programs that a recipe starts find the pinned Bun first, too.
export PATH := $(CURDIR)/.cache/bun-$(BUN_VERSION):$(PATH)
endif

# The tools of the packages name Node in their first line; --bun runs them without Node.
BIOME := $(BUN) --bun node_modules/.bin/biome
TSC := $(BUN) --bun node_modules/.bin/tsc
INSTALLED := node_modules/.installed

# Never the data folder of a service. For root it is a folder that PostgreSQL's user can enter, so not below /root.
DEMO_DATA := $(if $(filter 0,$(shell id -u)),/var/lib/claviger-demo,./claviger-data)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-as-root test-any-order prove check check-style check-types check-imports guide format postgres build released release client-packages prove-release prove-upgrade prove-faults evidence test-executable test-console node test-node bench bench-start crash-test hostile-input clean

help: ## List the targets.
	@echo 'Usage: make <target> [ARGS="..."]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

run: $(INSTALLED) ## Serve the demo: a PostgreSQL of its own, sample keys and models (ARGS="--port 9000").
	@$(BUN) src/main.ts serve --demo $(if $(findstring --data-dir,$(ARGS)),,--data-dir $(DEMO_DATA)) $(ARGS)

test: $(INSTALLED) ## Run the test suite (ARGS="test/licensing/keys" for a part of it).
	$(BUN) test/support/run_suite.ts $(ARGS)

test-as-root: released ## Run again the files with tests that need root or differ for root, as root (ARGS="test/cli").
	$(BUN) test/support/run_suite.ts --as-root $(ARGS)

test-any-order: $(INSTALLED) ## Run the suite with the tests of each file in a random order (ARGS="--seed=7").
	$(BUN) test/support/run_suite.ts --any-order $(ARGS)

# A part of the proofs is run without the suite.
prove: $(INSTALLED) $(if $(ARGS),,test-any-order) ## Run test-any-order, then the slow proofs (ARGS=--short for those of a minute, or a part).
	$(BUN) test/support/run_suite.ts --proofs $(ARGS)

check: check-style check-types check-imports ## Check format, lint, types and the direction of imports.

check-style: $(INSTALLED) ## Check format and lint only.
	$(BIOME) check --error-on-warnings .

check-types: $(INSTALLED) ## Check types only.
	$(TSC) --project .
	$(TSC) --project src/admin/frame/console/browser

check-imports: $(INSTALLED) ## Check the direction of imports only.
	$(BUN) test ./test/architecture_test.ts

guide: $(INSTALLED) ## Write the pages of the manual that come from tables in the code.
	$(BUN) src/cli/guide/generate.ts

format: $(INSTALLED) ## Format every file and sort its imports.
	$(BIOME) check --write --linter-enabled=false .

# Without it the PostgreSQL of an npm package is inside, so that no compiler is needed.
postgres: $(INSTALLED) ## Build the PostgreSQL inside from its source, into .cache (ARGS=x64; POSTGRES_SOURCE=file of the source).
	$(BUN) src/build/postgres.ts $(or $(ARGS),x64 arm64)

build: dist/claviger ## Compile the one executable, dist/claviger.

dist/claviger: $(INSTALLED) $(shell find src sql -type f) $(wildcard .cache/postgres-*-linux-*/recipe.json)
	$(BUN) src/build/executable.ts --outfile dist/claviger

# The executable as a release has it, with the PostgreSQL that is built from its source. A machine that cannot build it
# says BUILD_POSTGRES=no, and takes what is there.
released: $(INSTALLED)
	$(if $(filter no,$(BUILD_POSTGRES)),,$(BUN) src/build/postgres.ts)
	@$(MAKE) --no-print-directory dist/claviger

release: $(INSTALLED) ## Build a release, dist/release: executables, packages, images, SBOM, sums, notices (ARGS="--sign-key FILE").
	$(BUN) src/build/release.ts --outdir dist/release $(ARGS)

client-packages: $(INSTALLED) ## Make only the packages of the clients for npm and pip, dist/clients.
	$(BUN) src/build/client_packages.ts --outdir dist/clients

prove-release: $(INSTALLED) ## Build a release twice, in two folders, and compare every file byte for byte.
	$(BUN) test/build/prove_release.ts

prove-upgrade: released ## Upgrade an installation of each released version, and compare what it shows (ARGS="0.2.0").
	$(BUN) test/upgrade/main.ts $(ARGS)

prove-faults: $(INSTALLED) ## Plant each known fault, and report those that no test notices (ARGS="m01 src/licensing/keys").
	@$(BUN) test/planted_faults/main.ts $(ARGS)

test-executable: released ## Test the compiled executable, built first if needed (ARGS="test/compiled/x_test.ts").
	$(BUN) test/support/run_suite.ts --path-ignore-patterns= $(or $(ARGS),./test/compiled)

test-console: $(INSTALLED) ## Test the console in a real Chromium, fetched if needed (CHROMIUM=path, SCREENSHOTS=folder).
	@$(BUN) test/console/support/chromium.ts
	$(BUN) test/support/run_suite.ts --path-ignore-patterns= $(or $(ARGS),./test/console)

node: dist/claviger.mjs ## Bundle the program for Node, dist/claviger.mjs.

dist/claviger.mjs: $(INSTALLED) $(shell find src sql -type f)
	$(BUN) src/build/node_bundle.ts --outfile dist/claviger.mjs

test-node: dist/claviger.mjs ## Test both HTTP interfaces on Node, bundled first if needed (ARGS="test/clients/x_test.ts").
	TEST_PLATFORM=node $(BUN) test/support/run_suite.ts $(or $(ARGS),./test/clients ./test/hostile_input/odd_bodies_test.ts ./test/admin/listener_test.ts ./test/admin/console_service_test.ts ./test/admin/upload_service_test.ts ./test/admin/wait_service_test.ts ./test/operators/identity/service_test.ts ./test/models/model_cache_test.ts ./test/base/platform/node_proof.ts)

bench: released ## Measure every speed that is promised (ARGS="--only validate --quick", "--json FILE", "--compare FILE").
	@$(BUN) test/bench/bench.ts $(ARGS)

bench-start: released ## Measure how long the executable takes from start to first answer.
	@$(BUN) test/bench/bench.ts --only start $(ARGS)

crash-test: released ## Test every promise through hundreds of faults under load, in some 19 minutes (ARGS="--seed 1").
	$(BUN) test/crash_test/main.ts $(ARGS)

hostile-input: $(INSTALLED) ## Send a million generated requests and check every answer (ARGS="--requests N --seed S").
	$(BUN) test/hostile_input/long_run.ts $(ARGS)

evidence: $(INSTALLED) ## Run what stands behind all published figures on one commit, and keep it (ARGS="--only PART", "--quick").
	@$(BUN) test/evidence/collect.ts $(ARGS)

clean: ## Remove what was built or fetched: dist (also a demo's data in it), node_modules and .cache (not ./claviger-data).
	rm -rf dist node_modules .cache

$(INSTALLED): package.json bun.lock $(wildcard src/database/*.patch) | $(BUN_FILE)
	$(BUN) install --frozen-lockfile
	@touch $@

# Bun comes from the package registry as the plain binary of this platform, so that no install script has to
# run. It appears under its name only when it is complete and answers with the right version.
.cache/bun-$(BUN_VERSION)/bun:
	@sh -c "$$FETCH_BUN" fetch-bun '$(BUN_VERSION)' '$@'

define FETCH_BUN
set -eu
version=$$1 target=$$2
fail() { echo "Cannot fetch Bun $$version: $$1" >&2; exit 1; }

case "$$(uname -s)" in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) fail "there is none for $$(uname -s); put bun $$version on the PATH" ;;
esac
case "$$(uname -m)" in
  x86_64 | amd64) arch=x64 ;;
  aarch64 | arm64) arch=aarch64 ;;
  *) fail "there is none for $$(uname -m); put bun $$version on the PATH" ;;
esac
libc=
if [ $$os = linux ] && ldd --version 2>&1 | grep -qi musl; then libc=-musl; fi
cpu=
if [ $$arch = x64 ]; then
  if [ $$os = linux ]; then
    grep -qw avx2 /proc/cpuinfo || cpu=-baseline
  else
    sysctl -n machdep.cpu.leaf7_features 2>/dev/null | grep -qw AVX2 || cpu=-baseline
  fi
fi
package=@oven/bun-$$os-$$arch$$libc$$cpu

mkdir -p .cache
folder=$$(mktemp -d .cache/fetch.XXXXXX)
trap 'rm -rf "$$folder"' EXIT
trap 'exit 1' HUP INT TERM
# npm or Bun compares the package with the digest in the lock file, and keeps no package that differs.
integrity=$$(awk -v name="$$package@$$version" '$$1 == name { print $$2 }' src/build/integrity.txt)
[ -n "$$integrity" ] || fail "src/build/integrity.txt has no digest of $$package@$$version"
wanted="\"dependencies\": { \"$$package\": \"$$version\" }"
echo "{ \"private\": true, $$wanted }" > "$$folder/package.json"
if npm --version > /dev/null 2>&1; then
  echo "Fetching Bun $$version ($$package) with npm"
  echo "{ \"lockfileVersion\": 3, \"packages\": { \"\": { $$wanted }, \"node_modules/$$package\": {
    \"version\": \"$$version\", \"integrity\": \"$$integrity\" } } }" > "$$folder/package-lock.json"
  client="npm ci --no-audit --no-fund --loglevel=error"
elif bun --version > /dev/null 2>&1; then
  echo "Fetching Bun $$version ($$package) with bun $$(bun --version)"
  echo "{ \"lockfileVersion\": 1, \"workspaces\": { \"\": { $$wanted } }, \"packages\": {
    \"$$package\": [\"$$package@$$version\", \"\", {}, \"$$integrity\"] } }" > "$$folder/bun.lock"
  client="bun install --frozen-lockfile"
else
  fail "neither npm nor bun is on the PATH; install either, or put bun $$version itself there"
fi
# The cache starts empty, because Bun does not compare packages that are in its cache already.
(cd "$$folder" && BUN_INSTALL_CACHE_DIR="$$PWD/cache" $$client --ignore-scripts) > "$$folder/log" 2>&1 || {
  cat "$$folder/log" >&2
  if grep -qi integrity "$$folder/log"; then
    fail "the registry sent another $$package than src/build/integrity.txt names; it was thrown away"
  fi
  fail "$$client could not install $$package"
}
cp "$$folder/node_modules/$$package/bin/bun" "$$folder/bun" || fail "$$package holds no bin/bun"
chmod 755 "$$folder/bun"
got=$$("$$folder/bun" --version) || fail "the binary of $$package does not run on this machine"
[ "$$got" = "$$version" ] || fail "$$package says it is $$got"
mkdir -p "$$(dirname "$$target")"
mv "$$folder/bun" "$$target"
endef
export FETCH_BUN
