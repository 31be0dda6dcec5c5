# Everything a developer runs. `make` alone says what there is. Needs nothing but python3 and, for missing
# packages, apt: `make demo` and `make test` start from a bare machine.

PYTHON := .venv/bin/python
STAMPS := build/stamps
SOURCES := setup.py virtio_proto vhost_backend guest_driver control_center vgc_kubernetes vgc_libvirt tools tests bench examples
PYTHON_SOURCES = $(wildcard $(SOURCES))
C_FILES = git ls-files -- '*.c' '*.h' '*.cpp' '*.cu' '*.cuh'
PYTEST := $(PYTHON) -m pytest
# A process that crashes ends the run: xdist, which would start another, then waits for ever for the last tests.
EXCEPT_PASSED := -p tests.passed --except-passed build/asan-passed
SIDE_BY_SIDE := -n auto --maxprocesses 8 --dist loadfile --max-worker-restart 0

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMPS)/setup  ## install what the project needs: Debian packages, Python environment

$(STAMPS)/setup: pyproject.toml tools/setup.py
	python3 -m tools.setup
	@mkdir -p $(@D) && touch $@

.PHONY: build
build: setup  ## compile the C parts (only what changed)
	@$(PYTHON) -m tools.build

.PHONY: image
image: build  ## fetch QEMU if the system has none that fits, and make the guest image
	@$(PYTHON) -m tools.qemu
	@$(PYTHON) -m tools.image

.PHONY: check
check: lint unit  ## style, types, generated code, unit tests

.PHONY: lint
lint: build
	$(PYTHON) -m ruff check $(PYTHON_SOURCES)
	$(PYTHON) -m ruff format --check $(PYTHON_SOURCES)
	$(PYTHON) -m mypy
	$(C_FILES) | xargs -r clang-format-19 --dry-run --Werror
	$(PYTHON) -m virtio_proto.codegen --check
	$(PYTHON) -m tools.protobufs --check
	$(PYTHON) -m tools.support --check
	$(PYTHON) -m tools.functions --check
	$(PYTHON) -m tools.web.lint
	git ls-files -z | xargs -0 -r $(PYTHON) -m codespell_lib
	$(PYTHON) -m tools.docstrings

.PHONY: unit
unit: build
	$(PYTEST) -q $(SIDE_BY_SIDE) tests/unit

.PHONY: test
test: lint image test-asan  ## every test: on sanitized C code, the others on ordinary code; fuzzing in brief, VM boots
	@$(PYTHON) -m tools.image --development
	$(PYTEST) $(SIDE_BY_SIDE) $(EXCEPT_PASSED) tests/unit tests/protocol tests/hostile
	$(PYTEST) $(SIDE_BY_SIDE) tests --ignore=tests/unit --ignore=tests/protocol --ignore=tests/hostile

.PHONY: nightly
nightly: EXCEPT_PASSED :=
nightly: export VGC_TAKEOVERS = 100
nightly: export VGC_SYSTEMD = 1
nightly: export VGC_CLOUD = 1
nightly: export VGC_FRONTENDS = 1
nightly: export VGC_RISCV64 = 1
nightly: export VGC_NVDIMMS = 1
nightly: HOURS := 4
nightly: frameworks test test-guests ptx fuzz  ## as test, test-guests, ptx and fuzz, and tests that have run on sanitized code on ordinary code, too

# CUDA programs are left out: their libraries are written for x86-64.
DRIVERS_TESTS := $(addprefix tests/vm/test_,$(addsuffix .py,boot control device_visible end_to_end guest_driver migration \
	shadow shared_ram takeover worker_death))

.PHONY: test-guests
test-guests: image  ## the tests of the guest's driver, in emulated guests of another machine (MACHINE, default aarch64)
	VGC_GUEST_MACHINE=$(or $(MACHINE),aarch64) $(PYTEST) $(SIDE_BY_SIDE) $(DRIVERS_TESTS)

.PHONY: frameworks
frameworks: build  ## install Triton, numba, tinygrad and PyCUDA (2 GB) for tests that run them or compile their kernels anew
	@$(PYTHON) -m tools.frameworks

.PHONY: frameworks-further
frameworks-further: build  ## install Taichi, and wheels of Warp and CuPy (1 GB), for the tests that run them
	@$(PYTHON) -m tools.further_frameworks

.PHONY: frameworks-cupy
frameworks-cupy: build  ## build CuPy from its sources (0.5 GB, ten minutes) for the tests that run it
	@$(PYTHON) -m tools.cupy

.PHONY: frameworks-pytorch
frameworks-pytorch: build  ## install PyTorch with NVIDIA's CUDA libraries (6 GB) for the tests that run it
	@$(PYTHON) -m tools.pytorch

.PHONY: ptx
ptx: build  ## many random kernels as CUDA C, as PTX and in a reference interpreter (PTX_PROGRAMS, PTX_SEED)
	$(PYTHON) -m tests.ptx_reference --programs $(or $(PTX_PROGRAMS),2000) --seed $(or $(PTX_SEED),0)

.PHONY: drill
drill: build  ## kill, stop and slow down a host's processes while three guests compute (FAULTS, SEED)
	$(PYTHON) -m tests.drill --faults $(or $(FAULTS),200) --seed $(or $(SEED),0)

.PHONY: fuzz
fuzz: build  ## all fuzzers, for HOURS=0.1 in all, one on each processor at a time; make nightly runs them for 4 hours
	$(PYTHON) -m tools.fuzz --hours $(or $(HOURS),0.1)

.PHONY: test-asan
test-asan: build  ## unit and protocol tests on C code with ASan and UBSan
	$(PYTHON) -m tools.sanitized

.PHONY: soak
soak: build  ## all that happens on a host, mixed, for HOURS (default 0.1): does anything grow, is anything lost?
	@$(PYTHON) -m tests.soak --hours $(or $(HOURS),0.1)

.PHONY: bench
bench: image  ## run the benchmarks; results in bench/out/
	@$(PYTHON) -m bench.install
	$(PYTHON) -m bench

.PHONY: gpu
gpu:  ## on a machine with an NVIDIA GPU: its tests and benchmarks, figures in bench/results/
	@$(if $(wildcard $(PYTHON)),$(PYTHON),python3) -m tools.gpu $(GPU_OPTIONS)

.PHONY: pycuda
pycuda: setup  ## build pycuda's wheel with the parts of a toolkit that wheels bring, and install it: a reference for tests on a GPU
	@$(PYTHON) -m tools.pycuda

.PHONY: gpu-kit
gpu-kit: setup  ## what such a machine lacks, to carry there: wheels and headers in build/gpu-kit/
	@$(PYTHON) -m tools.gpu.kit $(GPU_KIT_OPTIONS)

.PHONY: demo
demo: image  ## a guest works on a photograph; pictures in build/demo/
	$(PYTHON) -m tools.demo

.PHONY: vm
vm: image  ## a shell in a guest with the device; DEV=1: with compilers for CUDA programs; FRAMEWORKS=1: with frameworks in Python, too; FILES: what to copy there; MACHINE=aarch64: such a guest; IMAGE: a disk image for clouds instead
	$(PYTHON) -m tools.vm $(if $(filter-out 0,$(DEV)),--development) $(if $(filter-out 0,$(FRAMEWORKS)),--frameworks) $(if $(FILES),--files $(FILES)) $(if $(MACHINE),--machine $(MACHINE)) \
		$(if $(IMAGE),--image '$(IMAGE)')

.PHONY: windows
windows:  ## vgc.dll and its import library for Windows guests, with mingw-w64; in guest_driver/libvgc/build/windows/
	$(MAKE) -C guest_driver/libvgc windows

.PHONY: install-guest
install-guest:  ## in a guest: install libvgc, vgc, mynvcc (PREFIX, DESTDIR; NVCC=1: as nvcc, too)
	@python3 -m tools.installation $(if $(PREFIX),--prefix '$(PREFIX)') $(if $(DESTDIR),--destdir '$(DESTDIR)') \
		$(if $(filter-out 0,$(NVCC)),--nvcc)

.PHONY: deb
deb: build  ## Debian packages of hosts and guests, in build/packages/
	@$(PYTHON) -m tools.debs

.PHONY: guest-wheel
guest-wheel: build  ## the guest's driver as a Python wheel, in build/packages/
	@$(PYTHON) -m tools.guest_wheel

.PHONY: centre
centre: image  ## two guests compute, and the control centre's page shows it
	$(PYTHON) -m tools.centre

.PHONY: clean
clean:  ## remove what was built here
	rm -rf build/asan build/initramfs.* build/demo build/hashes bench/out .mypy_cache .ruff_cache .pytest_cache
	git clean -fdXq -- '*.so' '*.o' virtio_proto vhost_backend guest_driver

.PHONY: distclean
distclean: clean  ## and the environment, and the cache of downloads
	python3 -c 'import shutil; from tools.common import cache_folder; shutil.rmtree(cache_folder(), ignore_errors=True)'
	rm -rf build .venv
