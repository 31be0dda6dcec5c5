"""Selectors: their matches, and the errors for malformed ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtio_proto.control import selector
from virtio_proto.control.selector import FUNCTIONS, MAX_PES, Selector, SelectorError


def test_empty_selector_matches_everything() -> None:
    every = selector.parse("")
    assert every == selector.parse("  ") == Selector()
    assert every.matches_host("h")
    assert every.matches_gpu("0", "GPU-1")
    assert every.matches_vm("web1")
    assert every.matches_fn("log")
    assert every.pes_of(3) == (0, 1, 2)


def test_selector_of_the_design_page() -> None:
    chosen = selector.parse("gpu=*,pe=0-3,fn=log,vm=web1")
    assert chosen.pes_of(8) == (0, 1, 2, 3)
    assert chosen.one_fn() == "log"
    assert chosen.matches_vm("web1")
    assert not chosen.matches_vm("web2")
    assert not chosen.matches_fn("stdio")


def test_numbers_may_be_named_again_and_again() -> None:
    assert selector.numbers("8|0-3, 2-4|8") == (0, 1, 2, 3, 4, 8)


def test_alternatives_and_wildcards() -> None:
    chosen = selector.parse("host=rack?-*|solo, pe=1|4-5, fn=perf|load, gpu=GPU-ab*")
    assert [chosen.matches_host(name) for name in ("rack1-7", "solo", "rack12", "xsolo")] == [True, True, False, False]
    assert chosen.pes_of(6) == (1, 4, 5)
    assert chosen.matches_gpu("0", "GPU-abc")
    assert not chosen.matches_gpu("0", "GPU-xyz")
    with pytest.raises(SelectorError, match="must name one function"):
        chosen.one_fn()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu", "'gpu'; allowed: key=value with host, gpu, vm, pe, fn"),
        ("core=1", "allowed: key=value with host, gpu, vm, pe, fn"),
        ("vm=a,vm=b", r"vm twice; allowed: once, with alternatives as a\|b"),
        ("vm=", "allowed: letters, digits"),
        ("vm=a b", "allowed: letters, digits"),
        ("vm=a/../b", "allowed: letters, digits"),
        ("pe=x", r"pe='x'; allowed: numbers and ranges below 4096 such as 0-3\|8"),
        ("pe=5-3", "allowed: numbers and ranges"),
        ("pe=-1", "allowed: numbers and ranges"),
        (f"pe={MAX_PES}", "allowed: numbers and ranges"),
        ("pe=99999999999", "allowed: numbers and ranges"),
        ("fn=stdout", "fn='stdout'; allowed: stdio, perf, log"),
        ("pe=0,", "''; allowed: key=value"),
        ("x" * 2000, "selector of 2000 characters; allowed: 1024"),
    ],
)
def test_malformed_selector_says_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(SelectorError, match=said):
        selector.parse(text)


@given(st.text(max_size=60))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        chosen = selector.parse(text)
    except SelectorError:
        return
    assert selector.parse(str(chosen)) == chosen


ranges = st.tuples(st.integers(0, MAX_PES - 1), st.integers(0, MAX_PES - 1)).map(lambda pair: (min(pair), max(pair)))


@given(
    st.lists(ranges, min_size=1, max_size=4),
    st.lists(st.sampled_from(FUNCTIONS), min_size=1, unique=True),
    st.integers(1, MAX_PES),
)
def test_printed_selector_parses_to_the_same(pes: list[tuple[int, int]], fns: list[str], num_pes: int) -> None:
    made = Selector(vm="web1", pe=tuple(pes), fn=tuple(fns))
    assert selector.parse(str(made)) == made
    chosen = {pe for first, last in pes for pe in range(first, last + 1) if pe < num_pes}
    assert set(made.pes_of(num_pes)) == chosen
