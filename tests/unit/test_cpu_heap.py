"""malloc(), free(), new and delete in kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_image, rig
from virtio_proto.schema import Status

SOURCE = r"""
extern "C" {
__device__ char *kept[4096];

__global__ void build(int n, long long *sums) { // a list of each thread, of blocks of growing size
    struct Node { Node *next; int value, size; int rest[]; };
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    Node *head = nullptr;
    for (int i = 0; i < n; i++) {
        int size = (t + i) % 40;
        Node *node = (Node *)malloc(sizeof(Node) + size * sizeof(int));
        if (node == nullptr) return;
        node->next = head; node->value = t + i; node->size = size;
        for (int k = 0; k < size; k++) node->rest[k] = t ^ k;
        head = node;
    }
    long long sum = 0;
    while (head != nullptr) {
        Node *next = head->next;
        sum += head->value;
        for (int k = 0; k < head->size; k++) sum += head->rest[k] != (t ^ k);
        free(head);
        head = next;
    }
    sums[t] = sum;
}
__global__ void keep(int size) {
    char *p = (char *)malloc(size);
    for (int i = 0; i < size; i++) p[i] = (char)(threadIdx.x + i);
    kept[threadIdx.x] = p;
}
__global__ void give_back(int size, int *bad) {
    char *p = kept[threadIdx.x];
    for (int i = 0; i < size; i++) bad[threadIdx.x] += p[i] != (char)(threadIdx.x + i);
    free(p);
}
__global__ void fill(unsigned long long size, int *count) { // takes blocks until there is no room, and gives them back
    void **last = nullptr;
    int taken = 0;
    for (void **p; (p = (void **)malloc(size)) != nullptr; taken++) { *p = last; last = p; }
    while (last != nullptr) { void **next = (void **)*last; free(last); last = next; }
    *count = taken;
}
__global__ void align(unsigned long long *out) {
    for (int i = 0; i < 20; i++) {
        void *odd = malloc(24 + i), *p = __nv_aligned_device_malloc(3 << i, 1ull << i);
        out[i] = (unsigned long long)p;
        out[20 + i] = (unsigned long long)odd;
        free(odd); free(p);
    }
    out[40] = (unsigned long long)__nv_aligned_device_malloc(64, 3);
    out[41] = (unsigned long long)malloc(0);
    free(nullptr);
}
__global__ void stray(char *p) { free(p); }
__global__ void inside() { char *p = (char *)malloc(64); free(p + 1); }
__global__ void twice() { char *p = (char *)malloc(100000); free(p); free(p); }
__global__ void twice_small() { char *p = (char *)malloc(64), *q = (char *)malloc(64); free(p); free(p); free(q); }
__global__ void never_given() { char *p = (char *)malloc(64); free(p + 640); }
__global__ void spoil() { // writes where the heap keeps its lists, and goes on
    char *p = (char *)malloc(16);
    for (char *at = (char *)((unsigned long long)p & ~4095ull) - 40000; at < p + 4080; at += 8) *(long long *)at = -1;
    for (int i = 0; i < 100; i++) malloc(16 << i % 8);
}
__global__ void zeroed(int *out) {
    int *p = (int *)calloc(1000, sizeof(int));
    for (int i = 0; i < 1000; i++) out[i] = p[i];
    free(p);
    out[1000] = calloc(1ull << 62, 8) == nullptr;
}
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


def most(gpu: Rig, size: int) -> int:
    count = gpu.array(1, np.int32)
    gpu.launch("fill", 1, 1, np.uint64(size), count)
    return int(count[0])


def test_lists_of_all_threads_are_built_and_given_back(gpu: Rig) -> None:
    before = most(gpu, 4096)
    sums = gpu.array(16 * 128, np.int64)
    gpu.launch("build", 16, 128, np.int32(10), sums)
    assert np.array_equal(sums, np.arange(16 * 128) * 10 + 45)
    assert most(gpu, 4096) == before, "every page came back"


def test_memory_outlives_the_launch_that_took_it(gpu: Rig) -> None:
    bad = gpu.array(256, np.int32)
    gpu.launch("keep", 1, 256, np.int32(333))
    gpu.launch("give_back", 1, 256, np.int32(333), bad)
    assert not bad.any()


@pytest.mark.parametrize("size", [16, 100, 2048, 5000, 1 << 20])
def test_a_full_heap_gives_null_and_everything_can_be_taken_again(gpu: Rig, size: int) -> None:
    first = most(gpu, size)
    whole = 1 << (max(size, 16) - 1).bit_length() if size <= 2048 else -(-size // 4096) * 4096
    assert 0.97 * (8 << 20) / whole - 1 <= first <= (8 << 20) / whole
    assert most(gpu, 4096) >= 0.97 * 2048
    assert most(gpu, size) == first


def test_no_size_is_too_large_to_be_refused(gpu: Rig) -> None:
    for size in (8 << 20, 1 << 40, (1 << 64) - 1, (1 << 64) - 4096):
        assert most(gpu, size) == 0


def test_blocks_are_aligned(gpu: Rig) -> None:
    out = gpu.array(42, np.uint64)
    gpu.launch("align", 1, 1, out)
    assert all(out[i] != 0 and out[i] % (1 << i) == 0 for i in range(20))
    assert all(address != 0 and address % 16 == 0 for address in out[20:40])
    assert list(out[40:]) == [0, 0]


def test_calloc_gives_zeroes(gpu: Rig) -> None:
    most(gpu, 64)
    out = gpu.array(1001, np.int32, 7)
    gpu.launch("zeroed", 1, 1, out)
    assert list(out) == [0] * 1000 + [1]


@pytest.mark.parametrize(
    ("kernel", "arguments"), [("stray", 1), ("inside", 0), ("twice", 0), ("twice_small", 0), ("never_given", 0)]
)
def test_what_malloc_has_not_given_cannot_be_freed(gpu: Rig, kernel: str, arguments: int) -> None:
    with pytest.raises(
        LaunchError, match=rf"free\(\) of 0x[0-9a-f]+, which malloc.* in kernel '{kernel}', block"
    ) as error:
        gpu.launch(kernel, 1, 1, *[gpu.array(16, np.uint8)] * arguments)
    assert error.value.status is Status.FAULT


def test_a_heap_that_a_kernel_spoils_harms_nobody_else() -> None:
    with rig() as other:
        program = other.load(SOURCE)
        other.load(SOURCE)  # functions are now those of the second one
        spoiler = next(function for function in program.functions if function.short_name == "spoil")
        other.functions["spoil"] = spoiler
        other.launch("spoil", 1, 1)
        assert most(other, 1 << 20) == 7


OBJECTS = r"""
struct Shape {
    __device__ virtual ~Shape() {}
    __device__ virtual float area() const = 0;
    __device__ virtual int sides() const { return 0; }
};
struct Circle : Shape {
    float r;
    __device__ Circle(float r) : r(r) {}
    __device__ float area() const override { return 3.0f * r * r; }
};
__device__ int ended;
struct Square : Shape {
    float a;
    __device__ Square(float a) : a(a) {}
    __device__ ~Square() override { atomicAdd(&ended, 1); }
    __device__ float area() const override { return a * a; }
    __device__ int sides() const override { return 4; }
};
struct alignas(256) Wide { char bytes[300]; __device__ Wide() { bytes[0] = 1; } };
extern "C" {
__global__ void make(Shape **shapes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) shapes[i] = i % 3 == 0 ? (Shape *)new Circle((float)i) : new Square((float)i);
}
__global__ void measure(Shape **shapes, float *areas, int *sides) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    areas[i] = shapes[i]->area();
    sides[i] = shapes[i]->sides();
}
__global__ void end(Shape **shapes) { delete shapes[blockIdx.x * blockDim.x + threadIdx.x]; }
__global__ void arrays(unsigned long long *out) {
    Wide *wide = new Wide[3];
    out[0] = (unsigned long long)wide % 256;
    out[1] = wide[2].bytes[0];
    delete[] wide;
    int *zeroes = new int[100]();
    for (int i = 0; i < 100; i++) out[2] |= zeroes[i];
    delete[] zeroes;
    struct Huge { char bytes[64 << 20]; __device__ Huge() { bytes[0] = 1; } };
    out[3] = new Huge == nullptr;
}
}
"""


def test_objects_with_virtual_functions_live_across_launches() -> None:
    with rig() as gpu:
        gpu.load(OBJECTS)
        shapes, areas, sides = gpu.array(96, np.uint64), gpu.array(96, np.float32), gpu.array(96, np.int32)
        gpu.launch("make", 3, 32, shapes, np.int32(96))
        gpu.launch("measure", 3, 32, shapes, areas, sides)
        index = np.arange(96)
        circles = index % 3 == 0
        assert np.array_equal(areas, np.where(circles, 3.0, 1.0) * index.astype(np.float32) ** 2)
        assert np.array_equal(sides, np.where(circles, 0, 4))
        gpu.launch("end", 3, 32, shapes)
        assert gpu.variable("ended").view(np.int32)[0] == 64


def test_calling_what_a_class_leaves_to_others_ends_the_launch() -> None:
    """Classes with pure virtual functions, destroyed as such."""
    with rig(pes=1) as gpu:
        gpu.load(
            """struct Base { __device__ virtual int sides() const = 0; __device__ void call() const { out = sides(); }
                             __device__ ~Base() { if (out == 7) call(); } static __device__ int out; };
               __device__ int Base::out;
               struct Square : Base { __device__ int sides() const override { return 4; } };
               extern "C" __global__ void f(int *x, int first) {
                   Base::out = first;
                   { Square square; square.call(); if (first) Base::out = first; }
                   x[0] = Base::out;
               }"""
        )
        out = gpu.array(1, np.int32)
        gpu.launch("f", 1, 1, out, np.int32(0))
        assert out[0] == 4
        with pytest.raises(LaunchError, match="trap"):
            gpu.launch("f", 1, 1, out, np.int32(7))


def test_new_gives_aligned_arrays_and_null_without_room() -> None:
    with rig() as gpu:
        gpu.load(OBJECTS)
        out = gpu.array(4, np.uint64)
        gpu.launch("arrays", 1, 1, out)
        assert list(out) == [0, 1, 0, 1]


def test_the_heap_is_as_large_as_the_program_asks_and_is_charged() -> None:
    with rig() as gpu:
        small = gpu.load(SOURCE, ["--malloc-heap-size=131072"])
        assert 16 <= most(gpu, 4096) <= 32
        large = gpu.load(SOURCE, ["--malloc-heap-size", str(64 << 20)])
        assert most(gpu, 1 << 20) == 63
        assert large.charged_bytes - small.charged_bytes == (64 << 20) - 131072
        plain = gpu.load("__global__ void k(int *p) { *p = 1; }")
        assert plain.charged_bytes < 1 << 20, "no heap without malloc()"


def test_the_heap_is_no_variable_of_the_program() -> None:
    with rig() as gpu:
        assert [variable.name for variable in gpu.load(SOURCE).globals] == ["kept"]


@pytest.mark.parametrize("size", ["", "x", "65535", "-1", str(1 << 41), "99999999999999999999999"])
def test_impossible_sizes_of_the_heap_are_refused(size: str) -> None:
    with pytest.raises(CompileError, match=r"--malloc-heap-size=.* \(allowed: 65536 to 1073741824 bytes\)"):
        compile_image("__global__ void k() {}", [f"--malloc-heap-size={size}"])
