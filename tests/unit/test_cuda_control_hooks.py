"""Hooks in kernels that are compiled from source: places, calls, and no cost in registers."""

from __future__ import annotations

import pytest

from tests.unit.cuda_compile_rig import DRIVER, EMPTY, compile_image, needs_nvcc, needs_nvrtc
from vhost_backend.engines.cuda import cubin, toolchain
from vhost_backend.engines.cuda.compiler import hooks, registers

OURS = "\n".join(f".func {name}()\n{{\n\tret;\n}}" for name in ("__vgc_block_begin", "__vgc_block_end"))
PRINTING = ".func __vgc_vprintf()\n{\n\tcall vprintf, ();\n}\n.func __vgc_trap()\n{\n\tret;\n}"
KERNELS = """
extern "C" __global__ void tiny(int *x) { *x = 1; }
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    y[i] += a * x[i];
}
extern "C" __global__ void tiles(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[16][16], right[16][16];
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        left[threadIdx.y][threadIdx.x] = a[(blockIdx.y * 16 + threadIdx.y) * n + t + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x] = sum;
}
extern "C" __global__ void many(float *x)
{
    float v[48];
    #pragma unroll
    for (int i = 0; i < 48; i++) v[i] = x[i * 32 + threadIdx.x];
    for (int r = 0; r < 1000; r++)
        #pragma unroll
        for (int i = 0; i < 48; i++) v[i] = v[i] * v[(i + 7) % 48] + 1.0f;
    #pragma unroll
    for (int i = 0; i < 48; i++) x[i * 32 + threadIdx.x] = v[i];
}
extern "C" __global__ void __launch_bounds__(1024) bounded(float *x) { x[threadIdx.x] = sqrtf(x[threadIdx.x]); }
"""


def kernel(body: str, head: str = ".visible .entry k()") -> str:
    return f"{head}\n{{\n\t.reg .pred %p<2>;\n{body}\n}}\n"


def hooked(*parts: str) -> str:
    text = hooks.hooked("\n".join(parts).encode(), {})
    assert text is not None
    return text.decode()


def without_hooks(source: str) -> bytes:
    """The cubin as compiled on a host without a control system."""
    return compile_image(source, hooks="off")[0]


def settings(hooks: str = "on") -> dict[str, str]:
    return {"arch": "sm_90", "driver": DRIVER, "compiler": "nvrtc", "hooks": hooks}


@needs_nvrtc
def test_no_kernel_takes_more_registers_than_threads_have_room_for() -> None:
    """Registers are allocated in units of eight, and every thread of a full processing element can have 32."""
    image, log = compile_image(KERNELS)
    plain = registers.of_kernels(without_hooks(KERNELS))
    found = registers.of_kernels(image)
    assert log == ""
    assert plain["many"] > 40  # otherwise the test shows nothing
    for name in ("tiny", "saxpy", "tiles", "many", "bounded"):
        assert found[name] <= max(32, -(-plain[name] // 8) * 8), (name, plain[name], found[name])


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_kernels_of_every_architecture_have_hooks(arch: str) -> None:
    source = '#include <vgc.h>\n__global__ void k(int n) { vgc_printf("%d", n); assert(n); printf("%s", "x"); }'
    image = compile_image(source, arch=arch)[0]
    found = cubin.parse(image)
    assert found.hooks is not None
    assert found.hooks.constants[found.hooks.names_at :].startswith(b"_Z1ki\0")
    assert f".text.{cubin.CLOCK_KERNEL}\0".encode() in image
    assert [kernel.name for kernel in found.kernels] == ["_Z1ki"]  # hidden from the guest


SAYING = """
#include <vgc.h>
extern "C" __global__ void k(int n, char *to) {
    vgc_printf("%d", n); vgc_log(VGC_INFO, "x"); vgc_fault(1, "y"); vgc_event("e"); vgc_count("c"); vgc_gauge("g", 1);
    if (vgc_poll()) vgc_read(to, 8);
}
"""


@pytest.mark.parametrize("compiler", [pytest.param("nvrtc", marks=needs_nvrtc), pytest.param("nvcc", marks=needs_nvcc)])
def test_programs_without_hooks_may_call_vgc_h_without_effect(compiler: str) -> None:
    image, log = compile_image(SAYING, compiler=compiler, hooks="off")
    assert log == ""
    assert cubin.parse(image).hooks is None
    assert b"__vgc_ctl" not in image


def test_with_and_without_hooks_are_different_images() -> None:
    jobs = [toolchain.compile_job("CUDA_SOURCE", b"", (), settings(which)) for which in ("on", "off")]
    assert jobs[0].identity != jobs[1].identity


def test_unknown_setting_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="hooks 'maybe' is unknown; allowed: on, off"):
        toolchain.compile_job("CUDA_SOURCE", b"", (), settings("maybe"))


@needs_nvcc
def test_programs_compiled_by_nvcc_have_hooks() -> None:
    source = '#include <cstdio>\n__global__ void k(int n) { printf("%d", n); }\nint main() { k<<<1, 1>>>(1); }'
    assert cubin.parse(compile_image(source, compiler="nvcc")[0]).hooks is not None


@needs_nvrtc
def test_variables_of_the_control_system_are_hidden_from_the_guest() -> None:
    assert cubin.parse(compile_image("__device__ int mine; __global__ void k() { mine = 1; }")[0]).variables == (
        cubin.Variable("mine", 4),
    )


@needs_nvcc
def test_binaries_of_the_guest_are_unchanged() -> None:
    image, _ = compile_image(without_hooks(EMPTY), kind="CUBIN")
    assert cubin.parse(image).hooks is None


@needs_nvrtc
def test_program_that_cannot_be_assembled_with_hooks_has_none_and_a_warning() -> None:
    source = "__constant__ char full[65536]; __global__ void k(char *x) { *x = full[threadIdx.x]; }"
    image, log = compile_image("#include <vgc.h>\n" + source)
    assert "the control system will not see this program" in log
    assert cubin.parse(image).hooks is None


def test_identity_of_an_image_depends_on_the_control_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache finds programs by their identity."""
    before = toolchain.compile_job("CUDA_SOURCE", b"", (), settings()).identity
    toolchain._own_digest.cache_clear()
    monkeypatch.setattr(toolchain, "CONTROL_DIRS", toolchain.CONTROL_DIRS[:1])
    after = toolchain.compile_job("CUDA_SOURCE", b"", (), settings()).identity
    toolchain._own_digest.cache_clear()
    assert before != after


def test_text_without_our_functions_gets_no_hooks() -> None:
    assert hooks.hooked(kernel("\tret;").encode(), {}) is None
    assert hooks.hooked(OURS.encode(), {}) is None


def test_an_unbound_hook_loads_one_word_of_the_area() -> None:
    text = hooked(OURS, kernel("\tret;"))
    unbound = text[text.index(".visible .entry k()") : text.index("call (vgc_began)")]
    assert unbound.count("ld.relaxed.gpu.global") == 1
    assert "ld.global" not in unbound
    assert "%nsmid" not in unbound  # numbers beyond the area's count of elements are skipped
    assert "setp.ge.u32 %vgc_out, %vgc_pe, %vgc_pes;" in unbound


@pytest.mark.parametrize(
    ("body", "ends"),
    [
        ("\tret;", 1),
        ("\t@%p1 bra $a;\n\tret;\n$a:\n\texit;", 2),
        ("\t{ .reg .pred q; @q exit; }\n\tret;", 2),
        ("\t@!%p1 ret;\n\tret.uni;", 2),
        ("\t// exit; is not here\n\tret;", 1),
    ],
)
def test_every_end_of_a_kernel_has_its_hook(body: str, ends: int) -> None:
    assert hooked(OURS, kernel(body)).count("call __vgc_block_end") == ends


def test_a_conditional_end_is_hooked_under_the_same_condition() -> None:
    text = hooked(OURS, kernel("\t@%p1 ret;\n\t@!%p1 exit;\n\tret;"))
    assert text.count("@!%p1 bra $vgc_over_") == 1
    assert text.count("\t@%p1 bra $vgc_over_") == 1


def test_device_functions_have_hooks_at_traps_but_not_at_returns() -> None:
    helper = ".func helper()\n{\n\t@%p1 trap;\n\tret;\n}"
    text = hooked(OURS, PRINTING, helper, kernel("\tret;"))
    inside = text[text.index(".func helper") : text.index(".visible .entry")]
    assert "__vgc_block_end" not in inside
    assert inside.index("call __vgc_trap;") < inside.index("\ttrap;")


def test_printing_calls_our_vprintf_which_calls_the_drivers() -> None:
    text = hooked(OURS, PRINTING, kernel("\tcall.uni (r),\n\tvprintf,\n\t(a, b);\n\tret;"))
    assert text.count("\tvprintf,") == 0
    assert text.count("call vprintf, ();") == 1
    assert "\t__vgc_vprintf,\n" in text


def test_kernels_are_named_in_a_table() -> None:
    text = hooked(OURS, kernel("\tret;"), kernel("\tret;", ".weak .entry other(\n\t.param .u32 p\n)"))
    names = b"k\0other\0"
    assert f"__vgc_kernels[{len(names)}] = {{{', '.join(map(str, names))}}};" in text
    assert "add.u64 %vgc_row, %vgc_row, 0;" in text
    assert "add.u64 %vgc_row, %vgc_row, 2;" in text


@pytest.mark.parametrize(
    ("body", "small"),
    [
        ("\t.reg .b32 %r<29>;\n\tret;", True),
        ("\t.reg .b32 %r<30>;\n\tret;", False),
        ("\t.reg .b64 %rd<15>;\n\tret;", True),
        ("\t.reg .b32 %r<3>;\n\t.reg .b64 %rd<15>;\n\tret;", False),
        ("\t.reg .b64 a, b, c;\n\t.reg .pred %q<99>;\n\tret;", True),
        ("$a:\n\tbra.uni $a;\n\tret;", False),
        ("\tbra.uni $a;\n$a:\n\tret;", True),
        ("\tcall.uni helper, ();\n\tret;", False),
        ("\tbrx.idx %r1, $table;\n\tret;", False),
    ],
)
def test_kernels_are_counted_only_where_they_may_take_more_than_is_free(body: str, small: bool) -> None:
    assert hooks.is_small(kernel(body).encode()) == small
    assert hooks.is_small((kernel(body) + kernel("\t.reg .b32 %r<99>;\n\tret;")).encode()) is False


def test_register_limits_of_the_source_are_kept() -> None:
    text = hooked(OURS, kernel("\tret;", ".visible .entry k()\n.maxnreg 24"), kernel("\tret;", ".visible .entry j()"))
    assert text.count(".maxnreg 24") == 1
    assert text.count(".maxnreg 32") == 1
