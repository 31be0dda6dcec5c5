"""Launches in device code: dynamic parallelism."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_image, rig
from virtio_proto.schema import Status

SOURCE = r"""
#define EXPORT extern "C" __global__ void
#define CHILDREN 4

EXPORT add(int *data, int value) { atomicAdd(&data[blockIdx.x * blockDim.x + threadIdx.x], value); }
EXPORT parent(int *data, int *seen) { // children see what was written before, the parent what they have written
    data[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        add<<<2, 32>>>(data, 100);
        add<<<dim3(1), dim3(64)>>>(data, 1000);
        cudaDeviceSynchronize();
    }
    __syncthreads();
    seen[threadIdx.x] = data[63 - threadIdx.x];
}
EXPORT all_launch(int *data) { add<<<1, 32>>>(data + 32 * threadIdx.x, threadIdx.x); }

template <class T, int N> __global__ void scale(T *data, T by) { data[threadIdx.x] *= by + N; }
template <class T> __device__ void scale_all(T *data, int n, T by) {
    if (by > 2) scale<T, 1><<<1, n>>>(data, by);
    else scale<T, 2> << <1, n>> > (data, by); // spaces, as some write
}
EXPORT templates(double *data, int n) { scale_all(data, n, n > 4 ? 3.0 : 1.0); }

struct Whole { int values[100]; };
struct Pair { float a; double b; };
EXPORT take(bool yes, char c, Pair pair, Whole whole, short s, float2 f, double *out) {
    double all[] = {(double)yes, (double)c, pair.a, pair.b, (double)whole.values[99], (double)s, f.x, f.y};
    if (threadIdx.x < 8) out[threadIdx.x] = all[threadIdx.x];
}
EXPORT pass(double *out) {
    Whole whole = {};
    whole.values[99] = 77;
    take<<<1, 8>>>(threadIdx.x == 0, -5, {1.5f, 2.5}, whole, 9, make_float2(3, 4), out);
}

EXPORT tile(const int *in, int *out) { // static and dynamic shared memory of its own
    __shared__ int fixed[32];
    extern __shared__ int asked[];
    fixed[threadIdx.x] = in[threadIdx.x];
    asked[threadIdx.x] = 2 * in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = fixed[31 - threadIdx.x] + asked[(threadIdx.x + 1) % 32];
}
EXPORT shared_parent(const int *in, int *out) {
    __shared__ int mine[96];
    int across = threadIdx.x * 3; // lives across barriers, while children run
    for (int i = threadIdx.x; i < 96; i += 32) mine[i] = i;
    __syncthreads();
    if (threadIdx.x % 8 == 0) tile<<<1, 32, 32 * sizeof(int)>>>(in, out + 4 * threadIdx.x);
    __syncthreads();
    out[128 + threadIdx.x] = mine[across] + __shfl_sync(~0u, across, 31 - threadIdx.x);
}

EXPORT quicksort(unsigned *data, int left, int right, int depth) {
    unsigned *l = data + left, *r = data + right, pivot = data[(left + right) / 2];
    if (depth >= 20 || right - left < 8) {
        for (int i = left; i <= right; i++)
            for (int k = i + 1; k <= right; k++)
                if (data[k] < data[i]) { unsigned old = data[i]; data[i] = data[k]; data[k] = old; }
        return;
    }
    while (l <= r) {
        while (*l < pivot) l++;
        while (*r > pivot) r--;
        if (l <= r) { unsigned old = *l; *l++ = *r; *r-- = old; }
    }
    int nright = r - data, nleft = l - data;
    cudaStream_t s;
    if (left < nright) {
        cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        quicksort<<<1, 1, 0, s>>>(data, left, nright, depth + 1);
        cudaStreamDestroy(s);
    }
    if (nleft < right) quicksort<<<1, 1, 0, cudaStreamFireAndForget>>>(data, nleft, right, depth + 1);
}

EXPORT deeper(int *depths) {
    depths[0]++;
    deeper<<<1, 1>>>(depths);
    cudaError_t peeked = cudaPeekAtLastError(), error = cudaGetLastError();
    if (error != cudaSuccess) { depths[1] = error; depths[2] = peeked; depths[3] = cudaGetLastError(); }
}
EXPORT separated(int *out, int n) {
    if (n < 1'000) { out[0] = 0x1'F; }
    add<<<1, 1'0>>>(out, 1); // '
}
EXPORT careless() { careless<<<1, 2000>>>(); } // an error that it does not look at
EXPORT unconcerned(int *errors) {
    careless<<<1, 1>>>();
    errors[blockIdx.x] = cudaGetLastError();
}
EXPORT stacked(int *depths) {
    volatile char kept[60000];
    kept[depths[0]++] = 1;
    stacked<<<1, 1>>>(depths);
    cudaDeviceSynchronize(); // the child runs above this frame
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) depths[1] = error;
    depths[2] += kept[--depths[3]];
}

__device__ int line[64], length;
EXPORT note(int what) { if (threadIdx.x == 0) line[atomicAdd(&length, 1)] = what; }
EXPORT tail_of(int what) {
    note<<<1, 32, 0, cudaStreamTailLaunch>>>(what + 1);
    note<<<1, 32>>>(what);
}
EXPORT tails() { // as the guide orders them: grids at once, then tails, each with its own tails
    tail_of<<<1, 1, 0, cudaStreamTailLaunch>>>(10);
    note<<<1, 1, 0, cudaStreamTailLaunch>>>(20);
    note<<<1, 1>>>(2);
    line[atomicAdd(&length, 1)] = 1;
}
EXPORT tail_parent() {
    tails<<<1, 1>>>();
    cudaDeviceSynchronize();
    line[atomicAdd(&length, 1)] = 30;
}
EXPORT again(int *left, int *blocks) { // launches itself behind itself, over and over
    atomicAdd(blocks, 1);
    if (blockIdx.x == 0 && threadIdx.x == 0 && --*left > 0) again<<<3, 1, 0, cudaStreamTailLaunch>>>(left, blocks);
}
EXPORT too_many(int *out) {
    int launched = 0;
    while (launched < 5000) {
        add<<<1, 1, 0, cudaStreamTailLaunch>>>(out, 1);
        if (cudaGetLastError() == cudaErrorLaunchPendingCountExceeded) break;
        launched++;
    }
    out[1] = launched;
}
__device__ int wait_behind(int *out, int count) {
    int launched = 0;
    while (launched < count) {
        add<<<1, 1, 0, cudaStreamTailLaunch>>>(out, 1);
        if (cudaGetLastError() != cudaSuccess) break;
        launched++;
    }
    return launched;
}
EXPORT inner_tails(int *out) { out[1] += wait_behind(out, 1500); }
EXPORT nested_tails(int *out) {
    out[1] = wait_behind(out, 1500);
    inner_tails<<<1, 1>>>(out);
    inner_tails<<<1, 1>>>(out);
}
EXPORT impossible(int *errors) {
    dim3 grids[] = {{0}, {1}, {1}, {1, 1 << 16}, {1u << 31}, {1}};
    dim3 blocks[] = {{1}, {1025}, {0}, {1}, {1}, {64, 64}};
    for (int i = 0; i < 6; i++) { add<<<grids[i], blocks[i]>>>(errors, 1); errors[i] = cudaGetLastError(); }
    add<<<1, 1, 1 << 20>>>(errors, 1);
    errors[6] = cudaGetLastError();
}
EXPORT fails(int *p, int how) {
    if (how == 0) __trap();
    if (how == 1) assert(p == nullptr);
    if (how == 2) { if (threadIdx.x < 16) p[0] = __shfl_sync(~0u, 1, 0); else __syncthreads(); }
}
EXPORT launches_failing(int *p, int how) { fails<<<2, 32>>>(p, how); cudaDeviceSynchronize(); p[0] = 1; }
EXPORT launches_tail(int *p, int how) { fails<<<2, 32, 0, cudaStreamTailLaunch>>>(p, how); p[0] = 1; }
EXPORT copies(int *data, const int *from) {
    cudaMemcpyAsync(data, from, 40, cudaMemcpyDeviceToDevice, 0);
    cudaMemsetAsync(data + 10, 1, 8, 0);
    int *own;
    if (cudaMalloc((void **)&own, 400) == cudaSuccess) {
        own[99] = 5;
        data[12] = own[99];
        cudaFree(own);
    }
}
EXPORT prints() { printf("child %d\n", threadIdx.x); }
EXPORT print_parent() { printf("parent\n"); prints<<<1, 2>>>(); cudaDeviceSynchronize(); printf("end\n"); }

EXPORT halves(int *data, int *sum, int n) { // no barrier before the launch: a GPU's is so late that it works
    int half = n / 2;
    if (n == 2 && threadIdx.x == 0) { *sum = data[0] + data[1]; return; }
    if (half > 1 && threadIdx.x < half) {
        data[threadIdx.x] += data[threadIdx.x + half];
        if (threadIdx.x == 0) halves<<<1, half>>>(data, sum, half);
    }
}
EXPORT copy(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x]; }
EXPORT apart(int *data, int *seen) { // the same, where warps go their own ways
    if (threadIdx.x == 0) copy<<<1, 64>>>(data, seen);
    if (threadIdx.x < 32) __syncwarp();
    data[threadIdx.x] = threadIdx.x + 1;
}
struct Wide { int values[2000]; };
EXPORT add_wide(int *data, Wide wide) { data[threadIdx.x] += wide.values[1999]; }
EXPORT many(int *data) { // more parameters than may wait
    for (int i = 1; i <= 20; i++) {
        Wide wide;
        wide.values[1999] = i;
        add_wide<<<1, 32>>>(data, wide);
    }
}
EXPORT doubles(int *data) { data[threadIdx.x] *= 2; }
EXPORT copies_behind(int *data) {
    doubles<<<1, 32>>>(data);
    cudaMemcpyAsync(data + 32, data, 128, cudaMemcpyDeviceToDevice, 0);
    doubles<<<1, 32>>>(data);
    cudaMemsetAsync(data, 0, 64, 0);
    doubles<<<1, 64>>>(data);
}
void host_side(int *data) { // host code is parsed, not compiled
    scale<int, 7><<<1, 32>>>(data, 2);
    add<<<1, 32, 0, 0>>>(data, 1);
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


def test_children_see_their_parents_writes_and_parents_theirs(gpu: Rig) -> None:
    data, seen = gpu.array(64, np.int32), gpu.array(64, np.int32)
    gpu.launch("parent", 1, 64, data, seen)
    assert np.array_equal(data, np.arange(64) + 1100)
    assert np.array_equal(seen, data[::-1])


def test_every_thread_may_launch(gpu: Rig) -> None:
    data = gpu.array((4, 256, 32), np.int32)
    gpu.launch("all_launch", 4, 256, data)
    assert np.array_equal(data[0], np.repeat(np.arange(256)[:, None] * 4, 32, 1))


def test_children_see_what_their_block_writes_up_to_its_wait(gpu: Rig) -> None:
    data, total = gpu.array((2, 512), np.int32, 1), gpu.array(1, np.int32)
    gpu.launch("halves", 1, 512, data, total, np.int32(512))
    assert total[0] == 512


def test_children_see_what_warps_that_are_apart_write(gpu: Rig) -> None:
    data, seen = gpu.array(64, np.int32), gpu.array(64, np.int32)
    gpu.launch("apart", 1, 64, data, seen)
    assert seen.tolist() == list(range(1, 65))


def test_children_run_in_order_however_many_wait(gpu: Rig) -> None:
    data = gpu.array(32, np.int32)
    gpu.launch("many", 3, 1, data)
    assert data.tolist() == [3 * 210] * 32


def test_copies_and_fills_stand_behind_the_grids_before_them(gpu: Rig) -> None:
    data = gpu.array(64, np.int32, np.arange(64))
    gpu.launch("copies_behind", 1, 1, data)
    assert data.tolist() == [*[0] * 16, *range(16 * 8, 32 * 8, 8), *range(0, 32 * 4, 4)]


@pytest.mark.parametrize(("n", "by"), [(8, 4), (4, 3)])
def test_templates_are_launched_by_templates(gpu: Rig, n: int, by: int) -> None:
    data = gpu.array(8, np.float64, 1)
    gpu.launch("templates", 1, 1, data, np.int32(n))
    assert list(data) == [by] * n + [1] * (8 - n)
    assert "_Z5scaleIiLi7EEvPT_S0_" in gpu.functions, "instantiated by host code"


def test_parameters_of_every_kind_arrive(gpu: Rig) -> None:
    out = gpu.array(8, np.float64)
    gpu.launch("pass", 1, 1, out)
    assert list(out) == [1, -5, 1.5, 2.5, 77, 9, 3, 4]


def test_shared_memory_and_kept_values_of_the_parent_stay(gpu: Rig) -> None:
    given = np.random.default_rng(3).integers(0, 1000, 32).astype(np.int32)
    out = gpu.array(160, np.int32)
    gpu.launch("shared_parent", 1, 32, gpu.array(32, np.int32, given), out)
    assert np.array_equal(out[:128].reshape(4, 32), np.tile(given[::-1] + 2 * np.roll(given, -1), (4, 1)))
    assert np.array_equal(out[128:], 3 * np.arange(32) + 3 * (31 - np.arange(32)))


def test_recursive_quicksort(gpu: Rig) -> None:
    values = np.random.default_rng(4).integers(0, 1 << 32, 3000, np.uint32)
    data = gpu.array(3000, np.uint32, values)
    gpu.launch("quicksort", 1, 1, data, np.int32(0), np.int32(2999), np.int32(0))
    assert np.array_equal(data, np.sort(values))


def test_depth_is_limited(gpu: Rig) -> None:
    depths = gpu.array(4, np.int32)
    gpu.launch("deeper", 1, 1, depths)
    assert list(depths) == [25, 65, 65, 0]


def test_numbers_with_separators(gpu: Rig) -> None:
    out = gpu.array(12, np.int32)
    gpu.launch("separated", 1, 1, out, np.int32(5))
    assert list(out) == [0x20, *[1] * 9, 0, 0]


def test_errors_are_those_of_the_grid_that_launched(gpu: Rig) -> None:
    errors = gpu.array(4, np.int32, -1)
    gpu.launch("unconcerned", 4, 1, errors)
    assert list(errors) == [0, 0, 0, 0]


def test_grids_that_need_too_much_stack_are_not_launched(gpu: Rig) -> None:
    depths = gpu.array(4, np.int32, [0, 0, 0, 100])
    gpu.launch("stacked", 1, 1, depths)
    assert 5 < depths[0] < 25
    assert depths[1] == 2
    assert depths[3] == 100 - depths[0]


@pytest.mark.parametrize(("kernel", "last"), [("tails", []), ("tail_parent", [30])])
def test_tails_run_behind_their_grid_in_order(gpu: Rig, kernel: str, last: list[int]) -> None:
    length, line = gpu.variable("length").view(np.int32), gpu.variable("line").view(np.int32)
    length[0] = 0
    gpu.launch(kernel, 1, 1)
    assert list(line[: length[0]]) == [1, 2, 10, 11, 20, *last]


def test_a_grid_may_follow_itself_without_end(gpu: Rig) -> None:
    left, blocks = gpu.array(1, np.int32, 5000), gpu.array(1, np.int32)
    gpu.launch("again", 1, 1, left, blocks)
    assert (left[0], blocks[0]) == (0, 1 + 3 * 4999)


def test_waiting_grids_are_limited(gpu: Rig) -> None:
    out = gpu.array(2, np.int32)
    gpu.launch("too_many", 1, 1, out)
    assert list(out) == [2048, 2048]


def test_waiting_grids_are_limited_over_all_grids_of_a_launch(gpu: Rig) -> None:
    out = gpu.array(2, np.int32)
    gpu.launch("nested_tails", 1, 1, out)
    assert list(out) == [1500 + 2 * 548] * 2, "those of the first inner grid have run before the second begins"


def test_impossible_launches_are_errors_of_the_thread(gpu: Rig) -> None:
    errors = gpu.array(7, np.int32)
    gpu.launch("impossible", 1, 1, errors)
    assert list(errors) == [9] * 7


@pytest.mark.parametrize("parent", ["launches_failing", "launches_tail"])
@pytest.mark.parametrize(("how", "status"), [(0, Status.FAULT), (1, Status.ASSERT), (2, Status.DEADLOCK)])
def test_failures_of_children_end_the_launch_and_name_the_child(
    gpu: Rig, parent: str, how: int, status: Status
) -> None:
    data = gpu.array(1, np.int32)
    with pytest.raises(LaunchError, match=r"kernel 'fails'|void fails\(int \*, int\)") as error:
        gpu.launch(parent, 1, 1, data, np.int32(how))
    assert error.value.status is status
    assert data[0] == (parent == "launches_tail"), "a parent that has failed does not go on"
    gpu.launch("all_launch", 1, 1, data)
    assert data[0] == (parent == "launches_tail"), "the element works again"


def test_copies_fills_and_memory(gpu: Rig) -> None:
    data = gpu.array(13, np.int32)
    gpu.launch("copies", 1, 1, data, gpu.array(10, np.int32, np.arange(10)))
    assert list(data) == [*range(10), 0x01010101, 0x01010101, 5]


def test_children_print_in_their_place(gpu: Rig) -> None:
    gpu.launch("print_parent", 1, 1)
    assert gpu.take_output()[0] == "parent\nchild 0\nchild 1\nend\n"


def test_programs_that_launch_are_charged_for_their_depth() -> None:
    with rig() as gpu:
        launching = gpu.load(SOURCE).charged_bytes
        plain = gpu.load("__global__ void k(int *p) { *p = 1; }").charged_bytes
        assert launching - plain > 24 * 2 * (96 << 10)


def test_child_in_strips_leaves_its_parent_as_it_was() -> None:
    source = """
    __global__ void child(int *out, int value) { out[blockIdx.x * blockDim.x + threadIdx.x] += value; }
    extern "C" __global__ void parent(int *out) { if (threadIdx.x % 2) child<<<9, 7>>>(out, threadIdx.y + 1); }
    """
    with rig(pes=1) as cpu:
        cpu.load(source)
        out = cpu.array(63, np.int32)
        cpu.launch("parent", 3, (4, 2), out)
        assert out.tolist() == [18] * 63


def test_macros_may_launch() -> None:
    source = r"""
    #define LAUNCH(kernel, ...) \
        kernel<<<1, 32>>>(__VA_ARGS__)
    __global__ void add(int *to) { to[threadIdx.x] += 1; }
    __global__ void add(int *to, int value) { to[threadIdx.x] += value; }
    extern "C" __global__ void parent(int *to) { LAUNCH(add, to); LAUNCH(add, to, 5); }
    """
    with rig(pes=1) as cpu:
        cpu.load(source)
        out = cpu.array(32, np.int32)
        cpu.launch("parent", 1, 1, out)
        assert out.tolist() == [6] * 32


def test_other_branches_of_the_preprocessor_hide_no_launches() -> None:
    source = """
    __global__ void add(int *to) { *to += 1; }
    #ifdef NEVER
    extern "C" __global__ void parent(int *to, int) {
    #else
    extern "C" __global__ void parent(int *to) {
    #endif
        *to = 1; }
    extern "C" __global__ void later(int *to) { add<<<1, 1>>>(to); }
    """
    with rig(pes=1) as cpu:
        cpu.load(source)
        out = cpu.array(1, np.int32)
        cpu.launch("later", 1, 1, out)
        assert out[0] == 1


ERRORS = [
    (
        "__global__ void k(int); __global__ void p() { void (*f)(int) = k; f<<<1, 1>>>(1); }",
        "or one through a pointer",
    ),
    ("__global__ void k(int *p) { *p = 1; } __global__ void p(int *p) { k(p); k<<<1, 1>>>(p); }", "without <<<...>>>"),
    ("__global__ void k(int); __global__ void p() { k<<<1, 1>>>(1); }", "a kernel that this source does not define"),
    ("void h(); __global__ void k() {} __global__ void p() { h(); k<<<1, 1>>>(); }", "h"),
    (
        "__global__ void k(int) {} __global__ void p(int *q) { k<<<1, 1>>>(q); }",
        "no known conversion|no matching function",
    ),
]


@pytest.mark.parametrize(("source", "message"), ERRORS)
def test_launches_that_cannot_be_are_refused(source: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_image(source)


def test_lines_of_errors_are_those_of_the_source() -> None:
    source = "__global__ void k(int *p) { *p = 1; }\n__global__ void p(int *p) {\n  k<<<1,\n    1>>>\n  (p);\n  q;\n}\n"
    with pytest.raises(CompileError, match=r"source\.cu:6:3: error"):
        compile_image(source)
