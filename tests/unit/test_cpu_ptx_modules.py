"""PTX modules written by hand: directives, parameters, variables, functions, and errors with their places."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_ptx, rig
from virtio_proto.schema import ParamKind

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"

MODULE = (
    HEADER
    + r"""
.file 1 "kernel.cu"
.global .align 4 .u32 counter = 7;
.visible .global .f32 scales[4] = {0f3F800000, 2.0, 0f40400000};
.const .align 8 .b8 bytes[6] = {1, 2, 255, -1};
.global .u64 table[3] = {scales[3], generic(scales)+8, 5};
.global .v2 .u32 pair = {11, 12};
.global .align 1 .b8 $format[23] = {37, 100, 32, 37, 115, 32, 37, 108, 108, 117, 32, 37, 42, 46, 49, 102, 32, 37, 99, 37,
    37, 10, 0};
.global .align 1 .b8 $word[4] = {111, 110, 101, 0};
.global .align 1 .b8 $message[6] = {110, 32, 62, 32, 48, 0};
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .u32 cells[64];
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.extern .func (.param .b64 r) malloc (.param .b64 size);
.extern .func free (.param .b64 memory);
.extern .func nobody_calls (.param .b64 x);
.global .s32 rows[][2] = {{-1}, {7, 0}, {1, 2}};
.weak .global .s32 cubes[2][2][2] = {{{1}, {2}}, {{3, 4}}};
.common .global .v2 .u32 vectors[2] = {{1, 2}, {3}};
.global .b8 split[12] = {5, 0xFF(counter+2), 0xFF00(counter+2), 0xFF0000(counter+2), 0xFF000000(counter+2),
    0xFF00000000(counter+2), 0xFF0000000000(counter+2), 0xFF000000000000(counter+2), 0xFF00000000000000(counter+2), 6};
.weak .func (.param .b32 result) doubled (.param .b32 x);
.visible .func (.param .b32 result) also_doubled (.param .b32 x);
.global .u64 doubles = also_doubled;

.func (.param .b32 result) twice (.param .b32 twice_param_0);

.visible .entry _Z5scalejPf(
    .param .u32 n,
    .param .u64 .ptr .global .align 4 data
)
.maxntid 128, 1, 1
.minnctapersm 2
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<6>;
    .loc 1 3 5
    ld.param.u32 %r1, [n];
    ld.param.u64 %rd1, [data];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra $L_end;
    .loc 1 4 9, function_name $L_info+12, inlined_at 1 3 5
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd4], %f2;
$L_end:
    ret;
}

.visible .entry variables(.param .u64 out)
{
    .reg .b64 %rd<9>;
    .reg .b32 %r<9>;
    .local .align 8 .b8 depot[16];
    ld.param.u64 %rd1, [out];
    ld.global.u32 %r1, [counter];
    add.u32 %r2, %r1, 1;
    st.global.u32 [counter], %r2;
    st.u32 [%rd1], %r1;
    mov.u64 %rd2, scales[1]+4;
    ld.global.u32 %r3, [%rd2+-4];
    st.u32 [%rd1+4], %r3;
    ld.global.u64 %rd3, [table+8];
    ld.u32 %r4, [%rd3];
    st.u32 [%rd1+8], %r4;
    ld.const.u8 %r5, [bytes+2];
    ld.const.s8 %r6, [bytes+3];
    add.s32 %r5, %r5, %r6;
    st.u32 [%rd1+12], %r5;
    mov.u64 %rd4, depot;
    cvta.local.u64 %rd5, %rd4;
    st.local.u32 [depot+4], 77;
    ld.u32 %r7, [%rd5+4];
    st.u32 [%rd1+16], %r7;
    ld.global.v2.u32 {%r7, %r8}, [pair];
    sub.u32 %r8, %r8, %r7;
    st.u32 [%rd1+20], %r8;
    ret;
}

.visible .entry reversed(.param .u64 out)
.reqntid 64
{
    .reg .b64 %rd<6>;
    .reg .b32 %r<9>;
    .shared .align 4 .b8 own[256];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, cells;
    add.s32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    mov.u64 %rd2, own;
    cvta.shared.u64 %rd3, %rd2;
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd3, %rd3, %rd4;
    st.u32 [%rd3], %r2;
    mov.u32 %r5, dynamic;
    add.s32 %r5, %r5, %r2;
    st.shared.u32 [%r5], 1000;
    bar.sync 0;
    xor.b32 %r6, %r2, 252;
    add.s32 %r7, %r3, %r6;
    ld.shared.u32 %r7, [%r7];
    cvta.to.shared.u64 %rd3, %rd3;
    ld.shared.u32 %r8, [%rd3];
    add.s32 %r7, %r7, %r8;
    ld.shared.u32 %r8, [dynamic+252];
    add.s32 %r7, %r7, %r8;
    add.s64 %rd1, %rd1, %rd4;
    st.global.u32 [%rd1], %r7;
    ret;
}

.func (.param .b32 result) twice (.param .b32 twice_param_0)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [twice_param_0];
    shl.b32 %r2, %r1, 1;
    st.param.b32 [result], %r2;
    ret;
}

.alias doubled, twice;
.alias also_doubled, twice;

.entry calls_aliases(.param .u64 out)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    .param .b32 argument;
    .param .b32 result;
    ld.param.u64 %rd1, [out];
    st.param.b32 [argument], 42;
    call (result), doubled, (argument);
    ld.param.b32 %r1, [result];
    st.u32 [%rd1], %r1;
    ld.global.u64 %rd2, [doubles];
    st.param.b32 [argument], 21;
    call (result), %rd2, (argument), prototype;
    prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
    ld.param.b32 %r1, [result];
    targets: .calltargets doubled;
    call (result), %rd2, (argument), targets;
    st.u32 [%rd1+4], %r1;
    ret;
}

.func (.reg .u32 sum) add_all (.reg .u32 a, .reg .u32 b)
{
    .reg .pred p;
    add.u32 sum, a, b;
    setp.gt.u32 p, sum, 1000;
    @!p bra done;
    mov.u32 sum, 1000;
    ret.uni;
done:
}

.func (.param .align 4 .b8 swapped[8]) swap (.param .align 4 .b8 given[8])
{
    .reg .b32 x, y;
    ld.param.v2.u32 {x, y}, [given];
    st.param.u32 [swapped+0], y;
    st.param.u32 [swapped+4], x;
    ret;
}

.func (.param .b64 result) fibonacci (.param .b64 n)
{
    .reg .b64 %rd<9>;
    .reg .pred p;
    ld.param.u64 %rd1, [n];
    mov.u64 %rd2, %rd1;
    setp.lt.u64 p, %rd1, 2;
    @p bra known;
    { .param .b64 param0; .param .b64 retval0;
        sub.s64 %rd3, %rd1, 1;
        st.param.b64 [param0], %rd3;
        call.uni (retval0), fibonacci, (param0);
        ld.param.b64 %rd4, [retval0];
    }
    { .param .b64 param0; .param .b64 retval0;
        sub.s64 %rd3, %rd1, 2;
        st.param.b64 [param0], %rd3;
        call.uni (retval0), fibonacci, (param0);
        ld.param.b64 %rd5, [retval0];
    }
    add.s64 %rd2, %rd4, %rd5;
known:
    st.param.b64 [result], %rd2;
    ret;
}

.visible .entry calls(.param .u64 out, .param .align 4 .b8 struct[12])
{
    .reg .b64 %rd<9>;
    .reg .b32 %r<9>;
    ld.param.u64 %rd1, [out];
    { // callseq 0, 0
        .param .b32 param0;
        st.param.b32 [param0+0], 21;
        .param .b32 retval0;
        call.uni (retval0), twice, (param0);
        ld.param.b32 %r1, [retval0+0];
    } // callseq 0
    st.global.u32 [%rd1], %r1;
    call (%r2), add_all, (%r1, 5);
    st.global.u32 [%rd1+4], %r2;
    call (%r2), add_all, (%r1, 5000);
    st.global.u32 [%rd1+8], %r2;
    {
        .param .align 4 .b8 param0[8];
        .param .align 4 .b8 retval0[8];
        ld.param.u32 %r3, [struct+4];
        ld.param.u32 %r4, [struct+8];
        st.param.u32 [param0], %r3;
        st.param.u32 [param0+4], %r4;
        call.uni (retval0), swap, (param0);
        ld.param.v2.u32 {%r3, %r4}, [retval0];
    }
    st.global.v2.u32 [%rd1+16], {%r3, %r4};
    mov.u64 %rd2, twice;
    {
        .param .b32 param0;
        .param .b32 retval0;
        st.param.b32 [param0], 50;
        prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
        call (retval0), %rd2, (param0), prototype_0;
        ld.param.b32 %r5, [retval0];
    }
    st.global.u32 [%rd1+12], %r5;
    mov.b64 %rd3, struct;
    cvta.param.u64 %rd3, %rd3;
    ld.u32 %r6, [%rd3];
    st.global.u32 [%rd1+24], %r6;
    {
        .param .b64 param0; .param .b64 retval0;
        st.param.b64 [param0], 10;
        call.uni (retval0), fibonacci, (param0);
        ld.param.b64 %rd4, [retval0];
    }
    st.global.u32 [%rd1+28], %rd4;
    ret;
}

.visible .entry prints(.param .u32 x)
{
    .local .align 8 .b8 packed[48];
    .reg .b64 %rd<5>;
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [x];
    st.local.u32 [packed], %r1;
    mov.u64 %rd1, $word;
    st.local.u64 [packed+8], %rd1;
    st.local.u64 [packed+16], 12345678901;
    st.local.u32 [packed+24], 6;
    st.local.f64 [packed+32], 0d3FF8000000000000;
    st.local.u32 [packed+40], 33;
    mov.u64 %rd2, packed;
    cvta.local.u64 %rd2, %rd2;
    mov.u64 %rd3, $format;
    {
        .param .b64 param0; .param .b64 param1; .param .b32 retval0;
        st.param.b64 [param0], %rd3;
        st.param.b64 [param1], %rd2;
        call.uni (retval0), vprintf, (param0, param1);
    }
    ret;
}

.visible .entry asserts()
{
    .reg .b64 %rd<5>;
    mov.u64 %rd1, $message;
    mov.u64 %rd2, $word;
    { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
      st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; st.param.b32 [c], 12; st.param.b64 [d], %rd2; st.param.b64 [e], 1;
      call.uni __assertfail, (a, b, c, d, e); }
    ret;
}

.visible .entry allocates(.param .u64 out)
{
    .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .pred p;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    { .param .b64 a; .param .b64 r; st.param.b64 [a], 64; call.uni (r), malloc, (a); ld.param.b64 %rd2, [r]; }
    st.u32 [%rd2+60], %r1;
    bar.sync 0;
    ld.u32 %r2, [%rd2+60];
    { .param .b64 a; st.param.b64 [a], %rd2; call.uni free, (a); }
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd1, %rd1, %rd3;
    st.global.u32 [%rd1], %r2;
    setp.lt.u32 p, %r1, 5;
    @p exit;
    st.global.u32 [%rd1], 1;
    ret;
}

.visible .entry jumps(.param .u64 out)
{
    .reg .b64 a; .reg .b32 i, r;
    ld.param.u64 a, [out]; mov.u32 i, %tid.x; mad.wide.u32 a, i, 4, a;
    targets: .branchtargets first, second, second, first;
    brx.idx i, targets;
first:
    mov.u32 r, 1; bra.uni done;
second:
    mov.u32 r, 2;
done:
    st.global.u32 [a], r;
}

.visible .entry short_addresses(.param .u64 out)
{
    .local .align 8 .b8 depot[32];
    .reg .b64 %SP; .reg .b32 %SPL;
    .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred p;
    mov.b32 %SPL, depot;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd1, %r1, 8, %rd1;
    mov.u32 %r2, %SPL;
    mov.u32 %r3, 0;
fill:
    st.local.u32 [%r2], %r1;
    add.u32 %r2, %r2, 4;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 p, %r3, 8;
    @p bra fill;
    bar.sync 0;
    shl.b32 %r4, %r1, 2;
    and.b32 %r4, %r4, 28;
    add.u32 %r5, %SPL, %r4;
    st.local.u32 [%r5], 100;
    add.u32 %r6, %SPL, 4;
    cvt.u64.u32 %rd2, %r6;
    cvta.local.u64 %SP, %rd2;
    ld.u32 %r7, [%SP+4];
    st.global.u32 [%rd1], %r7;
    cvt.u32.u64 %r7, %rd1;
    cvt.u64.u32 %rd3, %r7;
    shr.u64 %rd4, %rd1, 32;
    shl.b64 %rd4, %rd4, 32;
    or.b64 %rd3, %rd3, %rd4;
    ld.local.u32 %r8, [%SPL+28];
    st.u32 [%rd3+4], %r8;
    ret;
}

.entry exp(.param .u64 out) { .reg .b64 a; ld.param.b64 a, [out]; st.u32 [a], 3; }
.visible .entry empty() { }
.section .debug_str { $L_info: .b8 1, 2, 3 }
"""
)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as made:
        made.load_ptx(MODULE)
        yield made


def test_kernel_with_parameters(gpu: Rig) -> None:
    data = gpu.array(1000, np.float32, np.arange(1000))
    gpu.launch("scale", 8, 128, np.uint32(999), data)
    assert np.array_equal(data[:999], 2 * np.arange(999))
    assert data[999] == 999


def test_properties_of_kernels(gpu: Rig) -> None:
    scale = gpu.functions["_Z5scalejPf"]
    assert scale.short_name == "scale"
    assert scale.params == ((0, 4), (8, 8))
    assert scale.param_kinds == (ParamKind.INTEGER, ParamKind.POINTER)
    assert gpu.functions["calls"].params == ((0, 8), (8, 12))
    assert gpu.functions["calls"].param_kinds == (ParamKind.UNKNOWN, ParamKind.OTHER)


def test_kernel_takes_no_more_threads_than_it_says(gpu: Rig) -> None:
    assert gpu.functions["scale"].max_threads == 128
    assert gpu.functions["reversed"].max_threads == 64


def test_variables(gpu: Rig) -> None:
    out = gpu.array(6, np.uint32)
    gpu.launch("variables", 1, 1, out)
    two, three = np.array([2, 3], np.float32).view(np.uint32)
    assert list(out) == [7, two, three, 254, 77, 1]
    assert gpu.variable("counter").view(np.uint32)[0] == 8
    assert list(gpu.variable("scales").view(np.float32)) == [1, 2, 3, 0]


def test_rows_of_an_initialiser_need_not_be_full(gpu: Rig) -> None:
    def values(name: str) -> list[int]:
        return [int(value) for value in gpu.variable(name).view(np.int32)]

    assert values("rows") == [-1, 0, 7, 0, 1, 2]
    assert values("cubes") == [1, 0, 2, 0, 3, 4, 0, 0]
    assert values("vectors") == [1, 2, 3, 0]


def test_bytes_of_an_address_in_an_initialiser(gpu: Rig) -> None:
    [counter] = [g.address for program in gpu.programs for g in program.globals if g.name == "counter"]
    raw = gpu.variable("split").tobytes()
    assert raw == b"\x05" + struct.pack("<Q", counter + 2) + b"\x06" + bytes(2)


def test_further_name_of_a_function(gpu: Rig) -> None:
    out = gpu.array(2, np.uint32)
    gpu.launch("calls_aliases", 1, 1, out)
    assert list(out) == [84, 42]


def test_local_memory_by_addresses_of_32_bits(gpu: Rig) -> None:
    out = gpu.array((64, 2), np.uint32)
    gpu.launch("short_addresses", 1, 64, out)
    index = np.arange(64)
    assert np.array_equal(out[:, 0], np.where(index % 8 == 2, 100, index))
    assert np.array_equal(out[:, 1], np.where(index % 8 == 7, 100, index))


def test_shared_memory_by_offsets_and_addresses(gpu: Rig) -> None:
    out = gpu.array(64, np.uint32)
    gpu.launch("reversed", 1, 64, out, shared=256)
    index = np.arange(64)
    assert np.array_equal(out, 63 - index + 4 * index + 1000)


def test_calls_of_functions(gpu: Rig) -> None:
    out = gpu.array(8, np.uint32)
    gpu.launch("calls", 1, 1, out, np.array([9, 3, 4], np.uint32).tobytes())
    assert list(out) == [42, 47, 1000, 100, 4, 3, 9, 55]


def test_formatted_output(gpu: Rig) -> None:
    gpu.launch("prints", 1, 1, np.uint32(5))
    assert gpu.take_output()[0] == "5 one 12345678901    1.5 !%\n"


def test_assertion_ends_the_launch(gpu: Rig) -> None:
    with pytest.raises(LaunchError, match=r"one:12: one: block: .* Assertion `n > 0` failed"):
        gpu.launch("asserts", 1, 1)


def test_memory_of_malloc_and_threads_that_leave(gpu: Rig) -> None:
    out = gpu.array(32, np.uint32)
    gpu.launch("allocates", 1, 32, out)
    assert list(out) == [0, 1, 2, 3, 4] + [1] * 27


def test_jumps_by_index(gpu: Rig) -> None:
    out = gpu.array(4, np.uint32)
    gpu.launch("jumps", 1, 4, out)
    assert list(out) == [1, 2, 2, 1]
    with pytest.raises(LaunchError, match="__trap"):
        gpu.launch("jumps", 1, 5, gpu.array(5, np.uint32))


def test_kernel_may_have_the_name_of_a_function_of_the_runtime(gpu: Rig) -> None:
    out = gpu.array(1, np.uint32)
    gpu.launch("exp", 1, 1, out)
    assert out[0] == 3
    gpu.launch("empty", 1, 1)


def entry(body: str, parameters: str = "") -> str:
    """Module with one kernel."""
    return f"{HEADER}.entry k({parameters})\n{{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "1:1: the module has no '.version'"),
        ("float4 x;", "1:1: expected a directive, not 'float4'"),
        (".target sm_80", "1:1: expected '.version', not '.target'"),
        (".version 8.0\n.target nothing", "2:9: expected an architecture such as sm_80 after '.target', not 'nothing'"),
        (".version 8.0\n.target sm_80, 5", "2:16: expected a property of the target, not '5'"),
        (".version 8.0\n.address_size 32", "2:15: expected 64 after '.address_size', not '32'"),
        (HEADER + ".alias f, g;", "4:8: 'f' is no function without a body"),
        (HEADER + ".func f(); .alias f, g;", "4:19: 'g' is no function with a body"),
        (HEADER + ".func f() { } .func g(); .alias f, g;", "4:33: 'f' is no function without a body"),
        (HEADER + ".func f(); .func g(); .alias f, g;", "4:30: 'g' is no function with a body"),
        (HEADER + ".func f(); .entry g() { } .alias f, g;", "4:34: 'g' is no function with a body"),
        (HEADER + ".func f(.param .b32 x); .func g() { } .alias f, g;", "4:46: 'f' and 'g' are not declared alike"),
        (HEADER + ".func f(); .func g() { } .alias f, g; .alias f, g;", "4:46: 'f' and 'g' are not declared alike"),
        (HEADER + ".alias f;", "4:9: expected ',' after the function's name, not ';'"),
        (HEADER + ".extern .func f() { ret; }", "4:15: function 'f' of another module has a body"),
        (HEADER + ".visible .weak .func f() { ret; }", "4:10: expected a function or a variable, not '.weak'"),
        (HEADER + ".common .shared .u32 x;", "4:9: expected '.global' after '.common', not '.shared'"),
        (HEADER + ".entry k(", "4:10: expected '.param' or '.reg', not the end"),
        (HEADER + ".entry k(.param .u99 x) { }", "4:22: '.u99' is no type of variables"),
        (HEADER + ".entry k(.param .u32 x, .param .u32 x) { }", "4:37: parameter 'x' is there twice"),
        (HEADER + ".entry k() { }\n.entry k() { }", "5:8: function 'k' is defined twice"),
        (HEADER + ".func f() { }\n.func f(.param .b32 x) { }", "5:7: 'f' is declared as something else before"),
        (HEADER + ".entry k() .quick { }", "4:12: expected a body or a property of the function, not '.quick'"),
        (HEADER + ".entry k(.param .b8 x[40000]) { }", "4:21: kernel 'k' has more than"),
        (HEADER + ".global .b8 x[3000000000];", "4:25: expected at most 2147483648 elements, not ']'"),
        (HEADER + ".global .b64 x[2000000000];", "4:14: variable 'x' is larger than"),
        (HEADER + ".global .u32 x[2] = {1, 2, 3};", "4:28: expected at most 2 elements, not '3'"),
        (HEADER + ".global .u32 x[2][2] = {{1, 2, 3}};", "4:32: expected at most 2 elements, not '3'"),
        (HEADER + ".global .u32 x[2][2] = {1, {2}};", "4:29: expected a number or a name in the midst of a row"),
        (HEADER + ".global .u32 x[2] = {{1}};", "4:25: expected a number or a name before, not '}'"),
        (HEADER + ".global .u32 x[2][] = {1};", "4:19: expected a number of elements, not ']'"),
        (HEADER + ".global .u32 x" + "[1]" * 17 + ";", "4:65: expected at most 16 dimensions, not ']'"),
        (HEADER + ".global .u32 x[][65536][65536] = {1};", "4:30: expected at most 2147483648 elements, not ']'"),
        (HEADER + ".global .b8 x[8] = {0xFFF(x)};", "4:26: expected a mask of one byte, such as 0xFF00, before"),
        (HEADER + ".global .b8 x[8] = {0x1FE(x)};", "4:26: expected a mask of one byte, such as 0xFF00, before"),
        (HEADER + ".global .b8 x[8] = {0xFF(1)};", "4:27: expected a name before, not ')'"),
        (HEADER + ".global .b8 x[8] = {0xFF(0xFF(x))};", "4:30: expected a name before, not '('"),
        (HEADER + ".global .b8 x[8] = {0xFF(x), 1};", "4:26: of an address, all eight bytes must follow one another"),
        (HEADER + ".global .b8 x[8] = {0xFF(x), 0xFF00(x+1)};", "4:26: of an address, all eight bytes"),
        (HEADER + ".global .b32 x[8] = {0xFF(x)};", "4:27: masks of addresses are for elements of 8 bits"),
        (HEADER + ".global .u64 x = nobody;", "4:18: there is no variable or function 'nobody'"),
        (HEADER + ".global .u32 y; .global .u32 x = y;", "4:34: an address has 64 bits"),
        (HEADER + ".shared .u32 y; .global .u64 x = y;", "4:34: the address of shared variable 'y' is no constant"),
        (HEADER + ".shared .u32 y = 1;", "4:14: shared variable 'y' has an initialiser"),
        (HEADER + ".extern .global .u32 x;", "4:22: variable 'x' is not defined in this module"),
        (HEADER + ".global .u32 x; .global .u32 x;", "4:30: 'x' is defined twice"),
        (HEADER + ".local .u32 x;", "4:13: a local variable must be in a function"),
        (HEADER + ".global .align 3 .u32 x;", "4:16: expected a power of two"),
        (HEADER + ".func f();\n.entry k() { call f; }", "4:7: function 'f' is called and not defined"),
        (entry("  bra nowhere;"), "6:7: there is no label 'nowhere'"),
        (entry("  .reg .b32 i; brx.idx i, nowhere;"), "6:27: expected a label with '.branchtargets'"),
        (entry("  frobnicate.u32 x;"), "6:3: PTX instruction 'frobnicate.u32' is not known"),
        (
            entry("  wgmma.fence.sync.aligned;"),
            "6:3: PTX instruction 'wgmma.fence.sync.aligned': not supported by the CPU engine",
        ),
        (
            entry("  tcgen05.wait::ld.sync.aligned;"),
            "6:3: PTX instruction 'tcgen05.wait::ld.sync.aligned': not supported by the CPU engine",
        ),
        (
            entry(".reg .b64 p; alloca.u64 p, 8, 3;"),
            "6:14: PTX instruction 'alloca.u64': expected a type of 64 bits, and",
        ),
        (entry("  mov.u32 %r1, 5;"), "6:11: register '%r1' is not declared"),
        (entry(".reg .b32 a; mov.u32 a, x;", ".param .u32 x"), "6:25: the address of 'x' has 64 bits"),
        (entry(".reg .b32 a; add.u32 a, a+4, 1;"), "6:25: a number is added to a register"),
        (entry(".reg .b32 a; add.u32 a, a[1], 1;"), "6:25: a number is added to a register"),
        (entry(".reg .b32 a<200000>;"), "6:13: expected a number of registers, 1 to 13107"),
        (entry(".reg .b64 a; .reg .b32 r; atom.add.u8 r, [a], 1;"), "6:27: PTX instruction 'atom.add.u8' is not known"),
        (entry("call nothing;"), "6:6: there is no function 'nothing'"),
        (entry("call k;"), "6:6: 'k' is a kernel, which cannot be called"),
        (entry(".reg .b64 a; mov.u64 a, k;"), "6:25: the address of kernel 'k' is not possible"),
        (HEADER + ".global .u64 x = k; .entry k() { }", "4:18: the address of kernel 'k' is not possible"),
        (
            HEADER + ".func (.param .b64 r) f() { ret; }\n.entry k() { .param .b32 a; call (a), f; }",
            "5:35: the result has 64 bits, its variable 32",
        ),
        (entry(".reg .b32 a; ld.local.u32 a, [a];"), "6:31: an address of 32 bits in local memory, where"),
        (entry("ret"), "7:1: expected ';' after 'ret'"),
        (entry("{ {"), "8:1: expected '}' after"),
        (
            HEADER + ".func (.param .b32 r) f() { ret; }\n.entry k() { call f; }",
            "5:14: PTX instruction 'call': the function's",
        ),
        (
            HEADER + ".func f(.param .b32 r) { ret; }\n.entry k() { call f; }",
            "5:14: PTX instruction 'call': the function has 1",
        ),
        (
            HEADER + ".func f(.param .b32 r) { ret; }\n.entry k() { .param .b8 a[4]; call f, (a); }",
            "5:40: the argument is not of the parameter's type",
        ),
        (
            HEADER + ".func f(.param .b32 r) { ret; }\n.entry k() { .param .b16 a; call f, (a); }",
            "5:38: the argument is smaller than the parameter",
        ),
    ],
)
def test_errors_name_line_and_column(text: str, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_ptx(text)
    assert f"module.ptx:{words}" in str(caught.value)


def test_a_line_before_the_module_names_its_file() -> None:
    with pytest.raises(CompileError, match=r"error: my/file\.ptx:6:1: PTX instruction 'bogus' is not known"):
        compile_ptx('#line 1 "my/file.ptx"\n' + entry("bogus;"))
    with pytest.raises(CompileError, match=r"error: module\.ptx:1:1: "):
        compile_ptx("#line 2 elsewhere\n" + entry("ret;"))


@pytest.mark.parametrize("before", ["", "// a comment\n", '#line 1 "my/file.ptx"\n'])
def test_a_version_that_is_not_known_is_no_error_but_explains_those_that_there_are(before: str) -> None:
    newer = before + entry("ret;").replace(".version 8.0", ".version /* of 2030 */ 12.10")
    compile_ptx(newer)
    with pytest.raises(
        CompileError, match=r"'bogus' is not known.* \(Unsupported \.version 12\.10; this compiler knows 9\.5\)"
    ):
        compile_ptx(newer.replace("ret;", "bogus;"))
    with pytest.raises(CompileError) as caught:
        compile_ptx(before + entry("bogus;").replace("8.0", "9.5"))
    assert "Unsupported" not in str(caught.value)


def test_kernel_may_take_blocks_of_one_size_only() -> None:
    with rig(pes=1) as gpu:
        gpu.load_ptx(HEADER + ".entry k()\n.reqntid 32\n{ ret; }")
        gpu.launch("k", 1, 32)
        words = "blocks of just 32 x 1 x 1 threads (.reqntid), not of 16 x 1 x 1"
        with pytest.raises(LaunchError, match=re.escape(words)):
            gpu.launch("k", 1, 16)


def test_text_may_end_with_a_zero_byte() -> None:
    compile_ptx(entry("ret;") + "\0\0")


def test_lines_of_a_fault_are_those_of_the_text() -> None:
    with rig(pes=1) as gpu:
        gpu.load_ptx(entry(".reg .b64 a;\nmov.u64 a, 8;\n\ntrap;\nret;"), ["-lineinfo"])
        with pytest.raises(LaunchError, match=r"__trap\(\) at module\.ptx:9"):
            gpu.launch("k", 1, 1)


def test_lines_of_a_fault_are_those_of_the_source_if_the_text_names_them() -> None:
    with rig(pes=1) as gpu:
        body = ".reg .b64 a;\n.loc 1 41 3\nmov.u64 a, 8;\n.loc 1 42 5, function_name name+3, inlined_at 1 7 9\ntrap;"
        gpu.load_ptx(entry(body) + '.file 1 "kernel.cu"\n', ["-lineinfo"])
        with pytest.raises(LaunchError, match=r"__trap\(\) at kernel\.cu:42"):
            gpu.launch("k", 1, 1)


FORMATS = [
    ("%5.*lf|%-4d|%c", [3, 0, 2.5, -7, 65], "2.500|-7  |A"),
    ("%lld %hhd %zu %x", [2**40, 300, 2**33, 255], "1099511627776 44 8589934592 ff"),
    ("100%% %", [], "100% %"),
    ("%***d", [1, 2, 3, 4], "%***d"),
    ("%d" * 33, [1] * 33, "%d" * 33),
    ("%%%%" + "%d" * 32, [1] * 32, "%%" + "1" * 32),
    ("%2000000d", [1], ""),
]


@pytest.mark.parametrize(("text", "values", "printed"), FORMATS)
def test_formats_of_vprintf(text: str, values: list[float], printed: str) -> None:
    packed = b""
    for value in values:
        raw = struct.pack("<i" if abs(value) < 2**31 and value == int(value) else "<q" if value > 9 else "<d", value)
        packed += bytes(-len(packed) % len(raw)) + raw
    arrays = {"text": text.encode() + b"\0", "packed": packed + bytes(8)}
    variables = "".join(
        f".global .align 8 .b8 {name}[{len(raw)}] = {{{', '.join(map(str, raw))}}};\n" for name, raw in arrays.items()
    )
    declared = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
    body = (
        ".reg .b64 a<2>; .param .b64 p0, p1; .param .b32 r; mov.u64 a0, text; mov.u64 a1, packed;\n"
        "st.param.b64 [p0], a0; st.param.b64 [p1], a1; call.uni (r), vprintf, (p0, p1);"
    )
    with rig(pes=1) as gpu:
        gpu.load_ptx(HEADER + variables + declared + entry(body).removeprefix(HEADER))
        gpu.launch("k", 1, 1)
        assert gpu.take_output()[0] == printed


def test_vprintf_may_be_declared_without_its_result() -> None:
    """Taichi's code generator declares the function so."""
    variables = ".global .b8 text[3] = {104, 105, 0};\n.extern .func vprintf (.param .b64 a, .param .b64 b);\n"
    body = (
        ".reg .b64 a<2>; .param .b64 p0, p1; mov.u64 a0, text; mov.u64 a1, 0;\n"
        "st.param.b64 [p0], a0; st.param.b64 [p1], a1; call.uni vprintf, (p0, p1);"
    )
    with rig(pes=1) as gpu:
        gpu.load_ptx(HEADER + variables + entry(body).removeprefix(HEADER))
        gpu.launch("k", 1, 1)
        assert gpu.take_output()[0] == "hi"


def test_module_may_be_empty() -> None:
    """Taichi loads one for a kernel whose code has nothing to do."""
    with rig(pes=1) as gpu:
        gpu.load_ptx(HEADER)


@pytest.mark.parametrize(
    "options",
    [
        "-maxrregcount=32 --maxrregcount 255 -O0 -O3 --opt-level=1 --opt-level 0 -arch=sm_80",
        "--fmad=true -fmad=false -prec-div=false -prec-sqrt=false",
        "-dlcm=ca -dlcm cg --def-load-cache=cv -dscm=wb --def-store-cache cs -Xptxas -v --ptxas-options=-dlcm=cg",
        "--warn-on-spills --warn-on-local-memory-usage --verbose -lineinfo -G -w -rdc=true",
    ],
)
def test_options_of_ptxas_are_accepted(options: str) -> None:
    compile_ptx(entry("ret;"), options.split())


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--options-file=/etc/passwd", "option '--options-file=/etc/passwd' is not allowed"),
        ("-fmad=perhaps", "unknown value 'perhaps' of option '-fmad'"),
        ("--name-expression=f<1>", "--name-expression=f<1> is for CUDA C, and 'module.ptx' is PTX"),
    ],
)
def test_options_without_a_meaning_for_ptx_are_refused_by_name(option: str, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_ptx(entry("ret;"), (option,))
    assert words in str(caught.value)


@pytest.mark.parametrize(("options", "expected"), [((), 2e-39), (("-ftz=true",), 0)])
def test_denormals_are_flushed_if_an_option_asks_for_that(options: tuple[str, ...], expected: float) -> None:
    body = """
        .reg .b64 d; .reg .f32 f;
        ld.param.u64 d, [out]; ld.global.f32 f, [d]; add.f32 f, f, f; st.global.f32 [d], f; ret;"""
    with rig(pes=1) as gpu:
        gpu.load_ptx(entry(body, ".param .u64 out"), options)
        out = gpu.array(1, np.float32, 1e-39)
        gpu.launch("k", 1, 1, out)
        assert out[0] == np.float32(expected)
