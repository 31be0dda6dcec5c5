"""CUDA's features on hardware: the kernels and the tests of the CPU engine.

Left out are promises of the CPU engine alone: x86 assembly, deadlocks told from hangs, where and how a failed launch
ended (see ``test_faults``), and how printed text is cut up and counted (``test_printf`` in here).
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest

import guest_driver as vgc
from bench.cuda.gpu import Gpu
from tests.gpu.feature_rig import SOURCE, GpuRig, features
from tests.gpu.gpu_host import gpu_host, vm
from tests.unit.test_cpu_engine import (  # noqa: F401  collected here, with the fixtures of this module
    random,
    test_atomics_of_all_types,
    test_barrier_in_a_loop,
    test_barriers_that_count,
    test_block_reduction_that_ends_in_one_warp,
    test_bodies_attract_each_other,
    test_conversions_saturate,
    test_cooperative_groups,
    test_device_and_constant_variables,
    test_directed_rounding,
    test_double_precision_math,
    test_dynamic_shared_memory,
    test_function_pointers,
    test_function_table_tells_offsets_and_sizes,
    test_functors,
    test_grid_stride_loop,
    test_half_precision,
    test_integer_intrinsics,
    test_last_block_sums_up,
    test_launch_bounds_are_in_the_table,
    test_local_array_lives_across_barriers,
    test_loop_of_another_length_in_each_thread,
    test_loop_of_the_same_length_in_all_threads,
    test_loop_over_what_the_thread_itself_writes,
    test_loop_that_ends_early,
    test_masks_keep_branches_apart,
    test_math_functions,
    test_nested_loops,
    test_parameters_of_every_shape,
    test_printf,
    test_recursion,
    test_reductions_over_a_warp,
    test_saxpy,
    test_shared_variable_of_a_device_function,
    test_shuffles,
    test_shuffles_of_a_partial_warp,
    test_static_shared_memory,
    test_template_instantiations,
    test_threads_know_their_position,
    test_threads_that_ended_do_not_hold_barriers,
    test_tiled_matrix_product,
    test_timers_and_special_registers,
    test_unsigned_index_that_wraps,
    test_variables_may_be_called_like_builtins,
    test_vector_types,
    test_virtual_functions,
    test_votes,
    test_warp_reduction,
)
from tests.vm.vgcd import VmSettings

LARGE_SHARED = """
extern "C" __global__ void reverse(int *data)
{
    extern __shared__ int tile[];
    for (int i = threadIdx.x; i < %d; i += blockDim.x)
        tile[i] = data[i];
    __syncthreads();
    for (int i = threadIdx.x; i < %d; i += blockDim.x)
        data[i] = tile[%d - 1 - i];
}
"""


@pytest.fixture(scope="module", params=[pytest.param("real_gpu", marks=pytest.mark.gpu), "cpu"])
def whole_gpu(request: pytest.FixtureRequest) -> Iterator[GpuRig]:
    """A whole GPU; or the CPU engine below the same stack, which shows that the rig is right."""
    output = io.StringIO()
    if request.param == "cpu":
        settings, source = VmSettings("a", extra={"engine": "cpu", "sandbox": "best-effort"}), SOURCE.read_text()
    else:
        gpu: Gpu = request.getfixturevalue(request.param)
        settings, source = vm(gpu, engine=gpu.engine(hooks="on")), features()  # the engine may not be available
    with gpu_host(settings) as host:
        yield GpuRig(host.open(output=output), output, source)


@pytest.fixture
def gpu(whole_gpu: GpuRig) -> Iterator[GpuRig]:
    """The fixture under the name that the CPU engine's tests use."""
    yield whole_gpu
    whole_gpu.forget()


@pytest.mark.gpu
def test_more_dynamic_shared_memory_than_48_kib(real_gpu: Gpu) -> None:
    count = real_gpu.max_shared_bytes // 4
    with gpu_host(vm(real_gpu)) as host:
        dev = host.open()
        data = dev.to_device(np.arange(count, dtype=np.int32))
        kernel = dev.compile(LARGE_SHARED % (count, count, count))["reverse"]
        kernel.launch(1, 256, data, shared_bytes=4 * count)
        assert np.array_equal(data.get(), np.arange(count)[::-1])
        with pytest.raises(vgc.VgcError, match="shared"):
            kernel.launch(1, 256, data, shared_bytes=4 * count + 4096)
        kernel.launch(1, 256, data, shared_bytes=4 * count)  # nothing was lost by the refusal


@pytest.mark.gpu
def test_unicode_and_long_lines_are_printed(real_gpu: Gpu) -> None:
    output = io.StringIO()
    source = r'extern "C" __global__ void prints(int n) { for (int i = 0; i < n; i++) printf("grüße %d\n", i); }'
    with gpu_host(vm(real_gpu)) as host:
        host.open(output=output).compile(source)["prints"].launch(1, 1, np.int32(100))
    assert output.getvalue().splitlines() == [f"grüße {number}" for number in range(100)]
