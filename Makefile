# agentd's build. `make help` lists what there is to make; CONTRIBUTING.md says where things lie.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := agentd

# What is built: the release, and the commit for logs and metrics.
RELEASE := $(shell sed -n 's/^const Release = "\(.*\)"$$/\1/p' internal/base/version/version.go)
COMMIT  ?= $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null)

# Options for the server that `make run` starts: make run ARGS="--model my.gguf --port 9000"; and for the
# comparison: make bench ARGS="--quick", ARGS="--loads all" or ARGS="--peers vllm"; and for
# the quality of calls: make quality ARGS="--items 20".
ARGS ?=

# Options of `go test`: make test TESTFLAGS="-run Protocol"
TESTFLAGS ?=

# How long `make nightly` runs each fuzz target, as go's durations: NIGHTLY_TIME=10m
NIGHTLY_TIME ?= 1m

# Parallel compilations of llama.cpp.
JOBS ?= $(shell nproc)

# go caches compiled cgo packages without looking at the headers they include. With the source's name among
# the compiler's flags, another llama.cpp is another build.
export CGO_CPPFLAGS := $(strip $(filter-out -DAGENTD_LLAMA_CPP=%,$(CGO_CPPFLAGS)) -DAGENTD_LLAMA_CPP=$(shell . third_party/common.sh && source_id))
# Gin's MessagePack binding takes longer to compile than all of agentd, which speaks only JSON. Without paths of the
# clone in them, tests, checks and ./agentd share what was compiled.
export GOFLAGS := $(strip $(GOFLAGS) -tags=nomsgpack -trimpath)
export JOBS PIN LLAMA_CPP_DIR LLAMA_CMAKE_FLAGS CUDA_HOME CUDA_ARCHS DIST CUDA CUDA_RUNTIME

##@ Everyday

.PHONY: agentd
agentd: llama.cpp ## build ./agentd and the libraries beside it (the default)
	go build -ldflags "$(GO_LDFLAGS) -X agentd/internal/base/version.commit=$(COMMIT)" -o agentd ./cmd/agentd

.PHONY: agentbench
agentbench: llama.cpp ## build ./agentbench, which measures agentd, llama-server and vLLM
	go build -ldflags "$(GO_LDFLAGS) -X agentd/internal/base/version.commit=$(COMMIT)" -o agentbench ./cmd/agentbench

.PHONY: run
run: agentd ## build everything and start the server; ARGS="..." are its options
	exec ./agentd $(ARGS)

.PHONY: example
example: agentd ## a run with coaching, from the first decision to the last
	@third_party/prereqs.sh python3
	python3 -B examples/coaching/demo.py python3 -B examples/coaching/orchestrator.py $(ARGS)

.PHONY: eval
eval: llama.cpp ## how many decisions of a model are right in the simulated household; ARGS="--episodes 20 --model FILE"
	go run ./cmd/household eval $(ARGS)

.PHONY: example-rl
example-rl: agentd ## GRPO with TRL on decisions of the default model; installs 6 GB; ARGS="--out DIR ..."
	@third_party/prereqs.sh pip
	examples/rl/run.sh $(ARGS)
.PHONY: vet
vet: llama.cpp ## compile all packages, and go vet
	go vet ./...

# Go vet has seen the tests. As many packages as there are processors are tested at once: with one more, the longest one,
# cmd/agentd, waits for the others, and its databases answer too late. The longest begin first, so that none is left alone.
# Fewer collections of garbage take less time. Programs of tests, and those that tests build, need no tables for debuggers.
TEST := GOGC=$${GOGC:-400} GOFLAGS="$$GOFLAGS -ldflags=-w" go test -vet=off -timeout 30m
# Tests that only compute, in one goroutine, would take up to ten times as long under the race detector. They run beside
# those of a device. Of them cmd/internal/check mostly waits, for a minute, so one package more is tested. It begins first,
# and then third_party/patch, which compiles.
computing = $(shell grep -rl '^//go:build !race' --include='*_test.go' . | sort)

.PHONY: test test-computing test-some-device
test: vet native-test ## build llama.cpp, then the C++ tests, go vet and all tests, most under the race detector
	@third_party/prereqs.sh chromium python3 postgres
	GORACE="atexit_sleep_ms=10 $${GORACE:-}" $(TEST) -race -p $(shell nproc) $(TESTFLAGS) ./cmd/agentd ./inference/live ./internal/http/webpage/browser_test ./scheduler ./server ./...
	@$(MAKE) -j2 test-computing test-some-device
test-computing:
	$(TEST) -p $$(($(shell nproc) + 1)) -run "^($$(sed -nE 's/^func ((Test|Fuzz)\w+)\(.*/\1/p' $(computing) | paste -sd '|'))$$" $(TESTFLAGS) ./cmd/internal/check ./third_party/patch $(sort $(dir $(computing)))
test-some-device:
	@CACHED_ONLY=$${CACHED_ONLY-yes} third_party/test-device.sh

.PHONY: test-device
test-device: llama.cpp ## all tests on a device: DEVICE=CUDA0, or by default the first Vulkan device, Mesa's CPU driver included
	@third_party/test-device.sh all

.PHONY: test-arm
test-arm: llama.cpp ## compile ggml and its patch for ARM, and run the tests of products under qemu
	@third_party/test-arm.sh

.PHONY: generate
generate: llama.cpp ## write the generated files: docs/options.md, the schema of the Helm values
	go generate ./cmd/agentd

.PHONY: check
check: vet ## format, vet, lint, generated files, links, spelling, vulnerabilities
	@third_party/prereqs.sh python3 pip npm
	.ci/check

.PHONY: verify
verify: test check ## all that a change must pass

.PHONY: nightly
nightly: agentd peers ## what is too long for each change: 100,000 schema pairs, 10,000 operations on stores, kills, 10,000 logprobs in each case, 2,000 decisions of SmolLM2 under each load, 10 items of each category of BFCL, the clients of trainers, 5 minutes of GRPO and a round with TRL's client, all fuzz targets, race stress
	@third_party/prereqs.sh cc postgres python3 pip npm unzip
	AGENTD_LAW_PAIRS=100000 go test -count=1 -timeout 60m -run Law -v ./agent/internal/schema
	AGENTD_STORE_OPERATIONS=10000 go test -count=1 -run MatchesModel -v ./coaching/store ./coaching/postgres ./coaching/console
	AGENTD_CHAOS_SEED=$$RANDOM AGENTD_CHAOS_ROUNDS=10 go test -count=1 -timeout 30m -run KillingEveryPart -v ./cmd/agentd
	AGENTD_ROLLOUTS=200 AGENTD_ROLLOUT_KILLS=50 go test -count=1 -timeout 30m -run RolloutsOfKilledServers -v ./cmd/agentd
	go test -count=1 -timeout 30m -run EachDefect -v ./cmd/internal/check -defects
	AGENTD_CHAIN_TURNS=2500 go test -count=1 -run PromptsGoOn ./agent
	AGENTD_SCORED_TOKENS=10000 go test -count=1 -timeout 60m -run 'ForwardPass' ./scheduler ./inference/live
	model=$$(third_party/smollm2.sh); AGENTD_SAME_BYTES=$$model go test -count=1 -timeout 60m -run SameBytesUnderAnyLoad -v ./cmd/agentd
	third_party/models.sh 0.5b && go test -count=1 -run RealSmallModel -v ./cmd/agentd
	third_party/test-trainers.sh
	bench/quality/run.sh all --items 10
	out=$$(mktemp -d); trap 'rm -r '$$out EXIT; examples/rl/run.sh --out $$out/rl --rounds 100 --minutes 5; examples/rl/run.sh --out $$out/trl --client trl --rounds 1
	@for p in $$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -rhoE '^func Fuzz\w+' $$p/*_test.go | cut -c6-); do \
			echo "agentd: $$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(NIGHTLY_TIME) $$p || exit; \
		done; \
	done
	go test -race -count=10 -timeout 60m ./scheduler/... ./agent ./coaching/...

.PHONY: test-vllm
test-vllm: llama.cpp ## run the tests that need a real vLLM, on this CPU; installs 6 GB into the cache the first time
	@third_party/prereqs.sh python3 pip npm curl tcmalloc
	third_party/test-vllm.sh

.PHONY: test-trainers
test-trainers: llama.cpp ## run the released clients of trainers (TRL, verifiers, SkyRL, NeMo Gym); installs them and vLLM into the cache, 6.5 GB
	@third_party/prereqs.sh python3 pip npm
	third_party/test-trainers.sh

.PHONY: bench
bench: agentd agentbench peers ## compare agentd with llama-server, into bench/results, in at most 15 minutes; ARGS="--peers vllm" adds vLLM
	$(if $(findstring vllm,$(ARGS)),@third_party/prereqs.sh python3 pip tcmalloc && third_party/vllm.sh install)
	./agentbench suite $(ARGS)

.PHONY: quality
quality: agentd peers ## how often tool calls are right, on the benchmark BFCL with two real models (1.6 GB, once); ARGS="--items 20" is short
	@third_party/prereqs.sh python3 pip unzip
	bench/quality/run.sh all $(ARGS)

.PHONY: clean
clean: ## remove what was built here (the cache outside the clone stays)
	rm -rf agentd agentbench bench/bin lib dist

##@ llama.cpp

.PHONY: llama.cpp
llama.cpp: ## fetch llama.cpp and build it for this CPU, unless the cache has it
	@third_party/prereqs.sh go git c++ cc cmake flock tar 'ninja?' $(if $(LLAMA_CPP_DIR),,python3 pip curl)
	@third_party/fetch.sh
	@third_party/build.sh cpu
	@third_party/native.sh

.PHONY: native-test
native-test: llama.cpp ## run the C++ tests of llama/native
	@third_party/native.sh test

.PHONY: sanitize
sanitize: llama.cpp ## run the C++ tests under the address and undefined behaviour sanitizers
	@third_party/native.sh sanitize

.PHONY: bump
bump: ## try another version of llama.cpp and move the pin if all tests pass: make bump LLAMA=[PACKAGE@]VERSION [PIN=no]
	@third_party/prereqs.sh go git c++ cc cmake flock tar strip jq curl python3 pip 'ninja?'
	@third_party/bump.sh "$(LLAMA)"

.PHONY: peers
peers: llama.cpp ## build llama-server and llama-batched-bench into bench/bin, on the same libraries
	@third_party/prereqs.sh c++ cc cmake flock strip 'ninja?'
	@third_party/build.sh peers

.PHONY: cuda
cuda: agentd ## add lib/libggml-cuda.so for NVIDIA GPUs; CUDA_HOME and CUDA_ARCHS choose
	@third_party/prereqs.sh git c++ cc cmake flock 'ninja?'
	@home=$$(third_party/cuda-toolkit.sh --find) || { \
		echo "agentd: no CUDA toolkit. Give yours as CUDA_HOME=/path/to/cuda, or let 'make cuda-toolkit' install one into the cache." >&2; exit 1; }; \
	archs=$${CUDA_ARCHS:-$$(third_party/cuda-toolkit.sh --archs)}; \
	CUDA_HOME=$$home CUDA_ARCHS=$$archs third_party/build.sh cuda

.PHONY: cuda-toolkit
cuda-toolkit: ## install nvcc, cudart, cuBLAS and CCCL of CUDA 13.0 into the cache, without root
	@third_party/prereqs.sh python3 pip cc flock
	@third_party/cuda-toolkit.sh

.PHONY: vulkan
vulkan: agentd ## add lib/libggml-vulkan.so for AMD, Intel and NVIDIA GPUs without CUDA; VULKAN_SDK chooses another glslc than the system's
	@third_party/prereqs.sh git c++ cc cmake flock glslc vulkan-headers spirv-headers 'ninja?'
	@third_party/build.sh vulkan

##@ Distribution

.PHONY: dist
dist: ## make dist/agentd-RELEASE-linux-amd64 and its archive, which run on other machines; CUDA=on adds the plugin
	@third_party/prereqs.sh go git c++ cc cmake flock tar gzip jq python3 readelf strip 'ninja?' $(if $(filter on,$(CUDA)),patchelf) $(if $(LLAMA_CPP_DIR),,pip curl)
	@third_party/fetch.sh
	@third_party/native.sh
	@third_party/dist.sh "$(RELEASE)" "$(COMMIT)"

.PHONY: wheel
wheel: dist ## make dist, and a wheel for pip that holds that tree and puts agentd on PATH
	@python3 -B third_party/wheel.py "$(or $(DIST),dist)"

.PHONY: dist-test
dist-test: llama.cpp ## run what `make dist` and `make wheel` made last elsewhere, and ask it the README's request
	AGENTD_DIST="$$(realpath $(or $(DIST),dist)/agentd).tar.gz" go test -count=1 -run '^Test(Dist|Wheel)[A-Z]' -v ./cmd/agentd
	AGENTD_VARIANTS="$(CURDIR)/dist/.lib" go test -count=1 -run '^TestVariants' -v ./third_party/patch

##@ Help

.PHONY: help
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z.-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Variables: LLAMA_CPP_DIR (own llama.cpp checkout), LLAMA_CMAKE_FLAGS, JOBS, COMMIT, NIGHTLY_TIME, DIST, CUDA, CUDA_RUNTIME, XDG_CACHE_HOME (the cache's home)"
