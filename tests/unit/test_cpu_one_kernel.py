"""The CPU engine's compiler is asked for one kernel of a source: the image has it, and what it uses, alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, compile_image, rig

SOURCE = """
__device__ const int TABLE[4] = {5, 6, 7, 8};
__device__ int counter;
__device__ int missing(int);
template <typename T> __device__ __noinline__ T look_up(T i) { return TABLE[i]; }
extern "C" __global__ void add(int *x) { x[threadIdx.x] += look_up<int>(threadIdx.x); }
extern "C" __global__ void count(int *x) { x[threadIdx.x] = atomicAdd(&counter, 1); }
extern "C" __global__ void count_twice(int *x) { x[threadIdx.x] = atomicAdd(&counter, 2); }
extern "C" __global__ void allocate(int **x) { x[threadIdx.x] = (int *)malloc(8); }
extern "C" __global__ void uses_missing(int *x) { x[threadIdx.x] = missing(1); }
template <typename T> __global__ void scale(T *x) { __shared__ T factor; factor = 3; __syncthreads(); x[threadIdx.x] *= factor; }
template __global__ void scale<float>(float *);
template __global__ void scale<double>(double *);
extern "C" __global__ void parent(int *x) { add<<<1, 4>>>(x); }
"""


def log_of(name: str) -> str:
    with pytest.raises(CompileError) as caught:
        compile_image(SOURCE, (f"--kernel={name}",))
    return str(caught.value)


def test_kernel_computes_without_the_others() -> None:
    """The source as a whole does not compile, as one of its kernels calls what nothing defines."""
    with pytest.raises(CompileError, match="missing"):
        compile_image(SOURCE)
    with rig(pes=1) as gpu:
        program = gpu.load(SOURCE, ("--kernel=add",))
        assert [function.name for function in program.functions] == ["add"]
        values = gpu.array(4, np.int32, [10, 20, 30, 40])
        gpu.launch("add", 1, 4, values)
        assert values.tolist() == [15, 26, 37, 48]


def test_instance_of_a_template_is_named_as_the_linker_calls_it() -> None:
    with rig(pes=1) as gpu:
        gpu.load(SOURCE, ("--kernel", "_Z5scaleIfEvPT_"))
        assert "_Z5scaleIdEvPT_" not in gpu.functions
        values = gpu.array(2, np.float32, [1, 2])
        gpu.launch("_Z5scaleIfEvPT_", 1, 2, values)
        assert values.tolist() == [3, 6]


def test_kernels_that_it_launches_stay() -> None:
    with rig(pes=1) as gpu:
        gpu.load(SOURCE, ("--kernel=parent",))
        values = gpu.array(4, np.int32, [0, 0, 0, 0])
        gpu.launch("parent", 1, 1, values)
        assert values.tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "--kernel=none: the source has no such kernel"),
        ("count", "--kernel: the kernel uses 'counter', which it may share with others"),
        ("allocate", "--kernel: the kernel uses the heap, which it may share with others"),
        ("uses_missing", "missing"),
    ],
)
def test_kernels_that_cannot_stand_alone_are_refused(name: str, says: str) -> None:
    assert says in log_of(name)
