"""mynvcc: launches in device code, which the guest's clang would refuse of overloads and templates."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.cpu_rig import compile_image
from tests.unit.mynvcc_rig import CLANGS, Toolkit, fake_toolkit, toolkit

__all__ = ["fake_toolkit", "toolkit"]

KERNELS: Final = """
__global__ void child(int *p) { *p += 1; }
__global__ void child(int *p, int by) { *p += by; }
namespace inner { template <class T, int N> __global__ void scale(T *p) { *p *= N; } }
"""


@pytest.mark.parametrize("clang", CLANGS)
@pytest.mark.parametrize(
    "launch",
    [
        "child<<<1, 1>>>(p);",
        "if (p) child<<<1, 1>>>(p); else child<<<1, 1>>>(p, 2);",
        "inner::scale<int, 2><<<1, 1>>>(p); ::inner::scale<int, 3> <<< 1, 1 >>> (p);",
        "namespace deep = inner; deep::template scale<int, (3 > 2)><<<1, 1>>>(p);",
        "auto both = [=] __device__ { child<<<1, 1>>>(p, 1'000); }; both();",
        "const char *text = \"child<<<1, 1>>>(p)\"; child<<<1, *text == '<' ? 1 : 2>>>(p); // child<<<1, 1>>>(p)",
        "WITH(child, p);",
    ],
)
def test_device_code_may_launch_overloads_and_templates(toolkit: Toolkit, clang: str, launch: str) -> None:
    macro = "#define WITH(kernel, ...) \\\n    kernel<<<1, 1>>>(__VA_ARGS__)\n"
    toolkit.write(
        a_cu=f"{KERNELS}{macro}__global__ void parent(int *p) {{ {launch}\n}}\n"
        "int main() { parent<<<1, 1>>>(nullptr); WITH(child, nullptr, 5); }\n"
    )
    toolkit.build("-Xcompiler", "-Wall,-Werror,-Wno-unused", "a.cu", environment={"MYNVCC_CLANG": clang})
    assert [line.split()[1] for line in toolkit.output() if line.startswith("launch ")] == [
        "_Z6parentPi",
        "_Z5childPii",
    ]
    image, _log = compile_image(toolkit.text(), [])
    assert b"_Z6parentPi" in image


def test_launches_in_branches_that_are_not_compiled_do_not_hide_others(toolkit: Toolkit) -> None:
    toolkit.write(
        a_cu=KERNELS
        + """
#ifdef NEVER
__global__ void parent(int *p) {
#else
__global__ void parent(int *p, int) {
#endif
    child<<<1, 1>>>(p);
}
__global__ void later(int *p) { child<<<1, 1>>>(p, 1); }
int main() { later<<<1, 1>>>(nullptr); }
"""
    )
    toolkit.build("a.cu")
    assert any(line.startswith("launch _Z5laterPi") for line in toolkit.output())
    compile_image(toolkit.text(), [])


def test_wrong_arguments_of_a_launch_are_errors_in_the_line_of_the_user(toolkit: Toolkit) -> None:
    toolkit.write(
        a_cu=KERNELS + "__global__ void parent(float *p) {\n    child<<<1,\n        1>>>(p);\n}\nint main() {}\n"
    )
    done = toolkit.nvcc("a.cu")
    assert done.returncode != 0
    assert "a.cu:6:" in done.stderr
    assert "no matching function for call to 'child'" in done.stderr


def test_host_code_cannot_launch_through_the_lambdas_of_device_code(toolkit: Toolkit) -> None:
    toolkit.write(
        a_cu=KERNELS + "__device__ void launches(int *p) { child<<<1, 1>>>(p); }\nint main() { launches(nullptr); }\n"
    )
    done = toolkit.nvcc("a.cu")
    assert done.returncode != 0
    assert "a.cu:6:14: error: no matching function for call to 'launches'" in done.stderr
