"""The trailer of parameter kinds behind a cubin: written from PTX, read as possibly forged by a guest."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vhost_backend.engines.cuda import kinds
from vhost_backend.engines.cuda.compiler import ptx, trailer
from vhost_backend.engines.cuda.kinds import TrailerError
from virtio_proto.schema import ParamKind

UNKNOWN, INTEGER, FLOAT, POINTER, OTHER = ParamKind
IMAGE = b"\x7fELF and more"
SAXPY = b"""
.visible .entry saxpy(
	.param .u32 saxpy_param_0,
	.param .f32 saxpy_param_1,
	.param .u64 .ptr .align 1 saxpy_param_2,
	.param .align 8 .b8 saxpy_param_3[24]
)
.maxntid 128, 1, 1
{
	ret;

}
"""
USED = b"""
.entry one(.param .u64 a, .param .u64 b) {
	ld.param.u64 	%rd1, [a];
	ld.param.u64 	%rd2, [b];
	cvta.to.global.u64 	%rd3, %rd2;
}
.func helper() { cvta.to.global.u64 %rd4, %rd1; }
.entry two(.param .u64 c) {
	cvta.to.global.u64 	%rd3, %rd1;
}
"""


def end(size: int, version: int = trailer.VERSION) -> bytes:
    return struct.pack("<II8s", size, version, b"VGCKINDS")


def read(text: bytes) -> dict[str, str]:
    """Kinds that the engine reads from a trailer made of PTX."""
    image, declared = kinds.split(trailer.with_kinds(IMAGE, text))
    assert image == IMAGE
    return dict(declared)


# ---- PTX ---------------------------------------------------------------------------------------------


def test_kinds_come_from_declarations_in_ptx() -> None:
    assert read(SAXPY) == {"saxpy": "i4 f4 p8 o24"}


def test_pointers_are_recognised_in_the_kernels_body() -> None:
    assert read(USED) == {"one": "u8 p8", "two": "u8"}


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("", ""),
        (".param .s8 a, .param .u16 b, .param .s32 c, .param .s64 d", "i1 i2 i4 u8"),
        (".param .f16 a, .param .f32 b, .param .f64 c", "f2 f4 f8"),
        (".param .b8 a, .param .b32 b, .param .b64 c", "u1 u4 u8"),
        (".param .u64 .ptr .global .align 16 a, .param .b64 .ptr b", "p8 p8"),
        (".param .align 4 .b8 a [ 12 ], .param .f32 b[3]", "o12 o12"),
        (".param .align 2 .b8 a[2], .param .align 1 .b8 b[2], .param .align 16 .b8 c[16]", "u2 o2 u16"),
        (".param .u32 xu32, .param .f32 ptr", "i4 f4"),
    ],
)
def test_types_of_ptx_have_kinds(declared: str, words: str) -> None:
    assert read(f".entry k({declared}) {{}}".encode()) == {"k": words}


@pytest.mark.parametrize(
    "declared", [".param .texref t", ".param .v4 .f32 v", ".reg .f32 r", "hello", ".param .b8 a[n]"]
)
def test_kernels_in_an_unexpected_form_are_left_out(declared: str) -> None:
    assert read(f".entry odd({declared}) {{}}\n.entry k(.param .f32 a) {{}}".encode()) == {"k": "f4"}


def test_ambiguous_names_are_left_out() -> None:
    assert read(b".entry k(.param .f32 a) {}\n// .entry k(.param .u32 a) {}\n") == {}


def test_entries_beyond_the_trailers_size_are_left_out() -> None:
    kernels = "".join(f".entry {'k' * 1000}{number}() {{}}\n" for number in range(1100))
    assert read(kernels.encode()) == {}


PUNCTUATION = st.sampled_from(["(", ")", "{", "}", "\n}", ",", ";", "[", "]", " ", "\u00e9", "k", " 4 ", " 999999 "])
WORDS = st.sampled_from([".entry ", ".func", ".param", " .u64 ", " .f32 ", " .b8 ", " .ptr", " .align"])
STATEMENTS = st.sampled_from(["ld.param.u64 %rd1, [k]", "ld.param.", "cvta.to.global.u64 %r, %rd1", "cvta.to.global."])


@given(st.lists(PUNCTUATION | WORDS | STATEMENTS, max_size=40).map("".join))
def test_any_text_gives_a_readable_trailer(text: str) -> None:
    for name, words in read(text.encode()).items():
        assert ptx.kernels(text.encode())[name] == words.split()


# ---- the trailer -------------------------------------------------------------------------------------


def test_an_image_without_a_trailer_is_a_plain_cubin() -> None:
    assert kinds.split(IMAGE) == (IMAGE, {})
    assert kinds.split(b"VGCKINDS") == (b"VGCKINDS", {})


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (end(0, version=2), "of version 2; allowed: 1"),
        (end(1), "claims 1 bytes; allowed: 0"),
        (b"k f4\n" + end(6), "claims 6 bytes; allowed: 5"),
        (bytes(2 << 20) + end((1 << 20) + 1), "allowed: 1048576"),
        (b"k f4" + end(4), "ends in the middle of a line"),
        (b"\xff\n" + end(2), "not ASCII text"),
    ],
)
def test_damaged_trailers_are_refused(image: bytes, words: str) -> None:
    with pytest.raises(TrailerError, match=words):
        kinds.split(image)


@given(st.binary(max_size=200), st.integers(0, 250), st.integers(0, 2), st.text("abifpou0123 \n", max_size=40))
def test_random_bytes_are_refused_or_read(content: bytes, size: int, version: int, text: str) -> None:
    for image in (content + end(size, version), text.encode() + end(len(text), version), content):
        try:
            cubin, declared = kinds.split(image)
        except TrailerError:
            continue
        assert image.startswith(cubin)
        for name in declared:
            assert len(kinds.param_kinds(name, (4, 8), declared)) in (0, 2)


# ---- precedence --------------------------------------------------------------------------------------


def test_kinds_that_fit_the_cubin_are_used() -> None:
    declared = {"k": "i4 f4 p8 o24 u8"}
    assert kinds.param_kinds("k", (4, 4, 8, 24, 8), declared) == (INTEGER, FLOAT, POINTER, OTHER, UNKNOWN)
    assert kinds.param_kinds("other", (4,), declared) == ()


@pytest.mark.parametrize("words", ["i4", "i4 f8", "i4 f4 f4", "f4 x4", "i4 4", "i4 f", "p4 f4", "i4 f٤", "i4 f0000004"])
def test_kinds_that_do_not_fit_the_cubin_are_dropped(words: str) -> None:
    assert kinds.param_kinds("k", (4, 4), {"k": words}) == ()


def test_kinds_with_impossible_sizes_are_dropped() -> None:
    assert kinds.param_kinds("k", (3,), {"k": "i3"}) == ()
    assert kinds.param_kinds("k", (1,), {"k": "f1"}) == ()
    assert kinds.param_kinds("k", (3,), {"k": "o3"}) == (OTHER,)


def test_kinds_from_a_mangled_name_take_precedence() -> None:
    """The trailer fills in the rest: a name does not distinguish a struct from an enumeration."""
    name = "_Z1kPfl4Modef"
    assert kinds.param_kinds(name, (8, 8, 4, 4), {}) == (POINTER, INTEGER, UNKNOWN, FLOAT)
    assert kinds.param_kinds(name, (8, 8, 4, 4), {name: "u8 p8 i4 i4"}) == (POINTER, INTEGER, INTEGER, FLOAT)
    assert kinds.param_kinds(name, (8, 8, 4, 4), {name: "u8"}) == (POINTER, INTEGER, UNKNOWN, FLOAT)
