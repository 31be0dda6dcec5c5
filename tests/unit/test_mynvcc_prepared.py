"""mynvcc: precompiled headers, which are kept per user; what is compiled with one is what would be compiled without."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.mynvcc_rig import CLANGS, Toolkit, fake_toolkit, toolkit

__all__ = ["fake_toolkit", "toolkit"]

PROGRAM: Final = """
#include <cuda_runtime.h>
__global__ void kernel(int *a) { *a = 1; }
int main() {
    kernel<<<1, 32>>>(nullptr);
    printf("factor %d\\n", FACTOR);
}
"""


def kept(folder: Path) -> dict[str, int]:
    """Precompiled headers with the times they were made at."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.pch")}


@pytest.mark.parametrize("clang", CLANGS)
def test_header_is_made_once_for_all_macros_of_programs(toolkit: Toolkit, clang: str) -> None:
    cache = toolkit.folder / "cache"
    environment = {"MYNVCC_CLANG": clang, "MYNVCC_CACHE": str(cache)}
    toolkit.write(main_cu=PROGRAM)
    toolkit.build("-DFACTOR=3", "main.cu", environment=environment)
    made = kept(cache)
    assert len(made) == 1
    assert "factor 3" in toolkit.output()
    toolkit.build("-DFACTOR=4", "-I.", "main.cu", environment=environment)
    assert kept(cache) == made
    assert "factor 4" in toolkit.output()


def test_options_that_headers_depend_on_get_headers_of_their_own(toolkit: Toolkit) -> None:
    cache = toolkit.folder / "cache"
    toolkit.write(main_cu=PROGRAM)
    for options in ((), ("-std=c++14",), ("-O3",), ("-DNDEBUG",), ("-Xcompiler", "-fopenmp")):
        toolkit.build("-c", "-DFACTOR=3", *options, "main.cu", environment={"MYNVCC_CACHE": str(cache)})
    assert len(kept(cache)) == 5


def test_changed_toolkit_gets_a_new_header(toolkit: Toolkit) -> None:
    top = toolkit.folder / "toolkit"
    shutil.copytree(toolkit.top, top)
    changed = Toolkit(top, toolkit.folder)
    environment = {"MYNVCC_CACHE": str(toolkit.folder / "cache")}
    changed.write(main_cu=PROGRAM)
    changed.build("-c", "-DFACTOR=3", "main.cu", environment=environment)
    with (top / "include" / "vgc_host_api.h").open("a") as header:
        header.write("\nconstexpr int added_later = 5;\n")
    changed.build("-DFACTOR=added_later", "main.cu", environment=environment)
    assert "factor 5" in changed.output()


def test_program_is_built_where_nothing_can_be_kept(toolkit: Toolkit) -> None:
    toolkit.write(main_cu=PROGRAM)
    for folder in ("", "relative", "/proc/1/no-such-folder"):
        toolkit.build("-DFACTOR=3", "main.cu", environment={"MYNVCC_CACHE": folder})
        assert "factor 3" in toolkit.output()


def test_headers_of_the_program_in_the_place_of_the_systems_count(toolkit: Toolkit) -> None:
    (toolkit.folder / "own").mkdir()
    (toolkit.folder / "own" / "time.h").write_text("#include_next <time.h>\n#define FACTOR 6\n")
    toolkit.write(main_cu=PROGRAM)
    toolkit.build("-Iown", "main.cu")
    assert "factor 6" in toolkit.output()


def test_headers_of_the_installation_serve_all_users(toolkit: Toolkit) -> None:
    top = toolkit.folder / "toolkit"
    shutil.copytree(toolkit.top, top)
    subprocess.run([top / "bin" / "mynvcc", "--prepare"], check=True, timeout=HANGS_AFTER_S)
    made = kept(top / "prepared")
    assert len(made) == 4
    cache = toolkit.folder / "cache"
    installed = Toolkit(top, toolkit.folder)
    installed.write(main_cu=PROGRAM)
    for folder in (str(cache), ""):
        for options in ((), ("-O2",), ("-O3", "-DNDEBUG")):
            installed.build("-DFACTOR=7", *options, "main.cu", environment={"MYNVCC_CACHE": folder})
            assert "factor 7" in installed.output()
    assert (kept(top / "prepared"), kept(cache)) == (made, {})


def test_headers_of_the_installation_that_are_out_of_date_are_not_used(toolkit: Toolkit) -> None:
    top = toolkit.folder / "toolkit"
    shutil.copytree(toolkit.top, top)
    subprocess.run([top / "bin" / "mynvcc", "--prepare"], check=True, timeout=HANGS_AFTER_S)
    with (top / "include" / "vgc_host_api.h").open("a") as header:
        header.write("\nconstexpr int added_later = 5;\n")
    changed = Toolkit(top, toolkit.folder)
    changed.write(main_cu=PROGRAM)
    changed.build("-O2", "-DFACTOR=added_later", "main.cu")
    assert "factor 5" in changed.output()


def test_damaged_list_is_replaced(toolkit: Toolkit) -> None:
    cache = toolkit.folder / "cache"
    toolkit.write(main_cu=PROGRAM)
    for _ in range(2):
        toolkit.build("-c", "-DFACTOR=3", "main.cu", environment={"MYNVCC_CACHE": str(cache)})
        (path,) = cache.glob("*.list")
        assert path.stat().st_size > 100
        path.write_text("")


def test_few_are_kept(toolkit: Toolkit) -> None:
    cache = toolkit.folder / "cache"
    toolkit.write(main_cu=PROGRAM)
    cache.mkdir()
    for number in range(20):
        (cache / f"{number}.pch").touch()
    toolkit.build("-c", "-DFACTOR=3", "main.cu", environment={"MYNVCC_CACHE": str(cache)})
    assert len(kept(cache)) == 16


def test_macros_of_cuda_choose_a_programs_headers(toolkit: Toolkit) -> None:
    header = "#pragma once\n#define FACTOR 8\n__global__ void chosen(int *a) { *a = 1; }\n"
    toolkit.write(
        new_h=header, main_cu='#if CUDART_VERSION >= 12000 && defined(__NVCC__)\n#include "new.h"\n#endif\n' + PROGRAM
    )
    toolkit.build("main.cu")
    assert "void chosen(" in toolkit.text()
