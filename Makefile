# The only door to the project: `make help` lists what is behind it.

CARGO  ?= cargo
PREFIX ?= /usr/local
DIST   ?= dist
TEST_ARM_MACHINES ?= armv7 aarch64

target := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
binary := $(target)/release/qinglet
skips  := $(abspath $(target))/skips

.PHONY: help demo test test-clock test-limits test-power test-arm storm fuzz check fmt clippy build cross envelope bench bench-peers install ipk bundle clean tools

help:
	@echo 'make demo                 build, run one task from beginning to end in a throw-away state'
	@echo 'make test                 every test; prints those that were skipped'
	@echo 'make storm                500 kills of the daemon at random moments under load (some ten minutes);'
	@echo '                          QINGLET_STORM_SEED=N has one again, QINGLET_STORM_KILLS=N is how many'
	@echo 'make fuzz                 a minute of fuzzing on every reader of outside bytes (some ten minutes; needs a C++ compiler);'
	@echo '                          FUZZ_SECONDS=N is how long, FUZZ="cron zone" which'
	@echo 'make test-clock           the wall clock set by decades inside an emulated machine of its own (minutes)'
	@echo 'make test-limits          limits by control groups of version 2, inside such a machine (minutes)'
	@echo 'make test-power           such a machine with a disk: its clock set and its power cut under running tasks (minutes)'
	@echo 'make check                format, lints with warnings denied, every test'
	@echo 'make build                the release binary, $(binary)'
	@echo 'make cross                static release binaries for x86_64, aarch64 and armv7 in $(DIST)/, with their sizes'
	@echo 'make test-arm             unit tests and the main job on armv7 and aarch64, emulated (minutes)'
	@echo 'make envelope             a working day of the release binary in 128 MiB and 64 process ids (needs root), and on an armv7 machine'
	@echo 'make bench                what a run costs beside the least it could, into bench/RESULTS.md (some ten minutes);'
	@echo '                          BENCH="latency flash" has only those parts, BENCH_FULL=1 a million past runs'
	@echo 'make bench-peers          qinglet beside pueue, task-spooler, nq, s6, supervisord, pm2 and crond, in one run (ten minutes;'
	@echo '                          the first time also installs them below bench/peers); into bench/peers/RESULTS.md'
	@echo 'make install DESTDIR=DIR  build and put it to DIR$(PREFIX)/bin (PREFIX=/usr/local)'
	@echo 'make ipk                  OpenWrt packages from the binaries in dist/, one for each line of targets/openwrt/arches'
	@echo 'make bundle               for any other Linux: archives with a binary and its install.sh, in dist/'
	@echo 'make clean                remove what was built'

tools:
	@sh targets/tools.sh

demo: build
	@bash targets/demo.sh '$(binary)'

# The skips are printed whether the tests pass or not; either can fail the run.
test: tools
	@mkdir -p '$(dir $(skips))' && rm -f '$(skips)'
	@QINGLET_SKIPS='$(skips)' $(CARGO) test --locked --no-fail-fast; tests=$$?; \
	sh targets/skips.sh '$(skips)' tests/skips.allow && exit $$tests

# Not part of `test`: it needs qemu and downloads a kernel, and builds a static binary.
test-clock: tools
	@CARGO='$(CARGO)' bash tests/box/run.sh clock

# The same for limits by control groups of version 2, with all of root's rights.
test-limits: tools
	@CARGO='$(CARGO)' CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 bash tests/box/run.sh limits

# Built static, because the machine has nothing but it and busybox; without the link-time optimisation,
# which takes minutes and changes nothing that is looked at there.
test-power: tools
	@RUSTFLAGS='-C target-feature=+crt-static' CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	$(CARGO) build --locked --release --bin qinglet --target x86_64-unknown-linux-gnu --target-dir '$(target)/power/cargo'
	@python3 -B targets/box/clock.py '$(target)/power' '$(target)/power/cargo/x86_64-unknown-linux-gnu/release/qinglet'

# The debug binary, because only that one has the crash points.
storm: tools
	QINGLET_STORM_KILLS=$${QINGLET_STORM_KILLS:-500} $(CARGO) test --locked --test storm -- --nocapture no_kill

# Not part of `test`, which runs the kept inputs through the same targets without a fuzzer.
fuzz: tools
	@fuzzer=$$(CARGO='$(CARGO)' sh tests/fuzz/build.sh '$(abspath $(target))/fuzz') && \
	sh tests/fuzz/run.sh "$$fuzzer" '$(abspath $(target))/fuzz/out' '$(or $(FUZZ_SECONDS),60)' $(FUZZ)

check: fmt clippy test

fmt: tools
	$(CARGO) fmt --check

clippy: tools
	$(CARGO) clippy --locked --all-targets -- -D warnings

build: tools
	$(CARGO) build --locked --release --bin qinglet

# Bytes each may have: a router's flash is small, and what grows unseen is never made small again.
ceilings := x86_64-unknown-linux-musl=2097152 aarch64-unknown-linux-musl=1887436 armv7-unknown-linux-musleabihf=1677721

CROSS ?= x86_64-unknown-linux-musl aarch64-unknown-linux-musl armv7-unknown-linux-musleabihf

cross: tools
	@CARGO='$(CARGO)' sh targets/cross.sh '$(DIST)' $(filter $(addsuffix =%,$(CROSS)),$(ceilings))

test-arm: tools
	@TEST_ARM_MACHINES='$(TEST_ARM_MACHINES)' CARGO='$(CARGO)' sh targets/test-arm.sh '$(abspath $(target))'

envelope: cross
	@bash targets/envelope.sh '$(DIST)/qinglet-x86_64-unknown-linux-musl'
	@bash tests/box/run.sh main armv7

# The static binary is what people install, so it is what is measured.
bench: CROSS = x86_64-unknown-linux-musl
bench: cross
	@QINGLET='$(abspath $(DIST))/qinglet-x86_64-unknown-linux-musl' $(CARGO) bench --locked --bench bench -- $(BENCH) $(if $(BENCH_FULL),--full) $(if $(BENCH),,--out bench/RESULTS.md)

bench-peers: CROSS = x86_64-unknown-linux-musl
bench-peers: cross
	@bench/peers/install
	@QINGLET='$(abspath $(DIST))/qinglet-x86_64-unknown-linux-musl' python3 -B bench/peers/run.py

install: build
	@sh targets/static/install.sh --init none --unverified --binary '$(binary)' --prefix '$(PREFIX)' --root '$(DESTDIR)'

# Both from the binaries of `make cross`, and the same bytes whenever the commit is the same.
epoch = SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}

ipk:
	@$(epoch) sh targets/openwrt/ipk.sh '$(DIST)' '$(DIST)'

bundle:
	@$(epoch) sh targets/static/bundle.sh '$(DIST)' '$(DIST)'

clean:
	$(CARGO) clean
