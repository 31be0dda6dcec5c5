"""Processors that VMs have to themselves for a while: who gets some, and what that means to all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from vhost_backend.cores.loans import Claim, Loans
from vhost_backend.cores.pool import CorePool
from vhost_backend.errors import HostError

SURE = Claim(elements=1, wanted=0.98, entitled=0.98, sure=1.0)
IDLE = Claim(elements=2, wanted=0.0, entitled=0.0, sure=1.0)
GREEDY = Claim(elements=2, wanted=2.0, entitled=1.0, sure=1.0)


def on(*cores: int) -> frozenset[int]:
    return frozenset(cores)


def looks(loans: Loans[str], count: int, cores: int = 2, **claims: Claim) -> list[set[str]]:
    return [loans.look(claims, cores) for _ in range(count)]


def test_vm_that_always_has_work_gets_processors_that_are_surely_its_own() -> None:
    """It has them already when others begin."""
    loans: Loans[str] = Loans()
    assert looks(loans, 4, a=SURE, b=IDLE) == [set(), set(), {"a"}, {"a"}]
    assert looks(loans, 2, a=SURE, b=GREEDY) == [{"a"}, {"a"}]


def test_vm_of_little_weight_gets_some_while_what_others_leave_is_contended() -> None:
    light = Claim(elements=1, wanted=1.0, entitled=1.0, sure=0.2)
    third = Claim(elements=1, wanted=1.0, entitled=0.9, sure=0.9)
    assert looks(Loans(), 4, cores=4, light=light, b=GREEDY)[-1] == set(), "there is enough for all"
    assert looks(Loans(), 4, cores=4, light=light, b=GREEDY, c=third, d=third)[-1] >= {"light"}
    poor = Claim(elements=1, wanted=1.0, entitled=0.5, sure=0.2)
    assert looks(Loans(), 4, cores=2, poor=poor, b=GREEDY)[-1] == set()


def test_loan_ends_soon_after_the_work_and_not_at_a_pause() -> None:
    loans: Loans[str] = Loans()
    looks(loans, 3, a=SURE)
    pause = Claim(elements=1, wanted=0.5, entitled=0.5, sure=1.0)
    assert looks(loans, 1, a=pause) == [{"a"}]
    assert looks(loans, 1, a=SURE) == [{"a"}]
    assert looks(loans, 2, a=pause) == [set(), set()]
    assert looks(loans, 1) == [set()]
    assert looks(loans, 3, a=SURE) == [set(), set(), {"a"}], "one that was away begins anew"


def test_loan_that_may_not_begin_may_end() -> None:
    loans: Loans[str] = Loans()
    claims = {"a": SURE}
    assert [loans.look(claims, 2, may_begin=False) for _ in range(4)] == [set()] * 4
    assert loans.look(claims, 2) == {"a"}
    assert loans.look(claims, 2, may_begin=False) == {"a"}
    assert [loans.look({}, 2, may_begin=False)] == [set()]


def test_one_processor_stays_for_others() -> None:
    loans: Loans[str] = Loans()
    pairs = {name: Claim(elements=2, wanted=2.0, entitled=2.0, sure=2.0) for name in "abc"}
    (found,) = looks(loans, 3, cores=6, **pairs)[-1:]
    assert len(found) == 2
    assert looks(Loans(), 3, cores=2, a=pairs["a"])[-1] == set()


# ---- pool ----------------------------------------------------------------------------------------


def test_others_keep_off_what_is_lent(tmp_path: Path) -> None:
    pool = CorePool(range(4), tmp_path)
    told: list[frozenset[int]] = []
    with (
        pool.watched(lambda: told.append(pool.shared)),
        pool.place("a", None, 2) as first,
        pool.place("b", None, 4) as second,
    ):
        pool.lend({first: 2})
        assert (first.elements, first.others) == (on(2, 3), on(0, 1, 2, 3))
        assert (second.elements, second.others, pool.shared) == (on(0, 1), on(0, 1), on(0, 1))
        assert pool.competed == 4
        pool.lend({first: 2})
        assert told == [on(0, 1)], "what stays as it is is not told"
        pool.lend({first: 1})
        assert (first.elements, second.elements) == (on(3), on(0, 1, 2))
        pool.lend({})
        assert first.elements == second.elements == on(0, 1, 2, 3)
    assert told == [on(0, 1), on(0, 1, 2), on(0, 1, 2, 3)]


def test_one_processor_at_least_is_not_lent(tmp_path: Path) -> None:
    pool = CorePool(range(3), tmp_path)
    with pool.place("a", None, 1) as first, pool.place("b", None, 2) as second:
        pool.lend({first: 1, second: 2})
        assert (first.elements, second.elements) == (on(2), on(0, 1))
        assert not second.lent


def test_vm_that_leaves_gives_back_what_is_lent(tmp_path: Path) -> None:
    pool = CorePool(range(2), tmp_path)
    with pool.place("a", None, 1) as first:
        pool.lend({first: 1})
        assert pool.shared == on(0)
    assert pool.shared == on(0, 1)


@pytest.mark.parametrize("wanted", [frozenset({2}), "own"])
def test_cores_of_a_vm_s_own_come_before_those_that_are_lent(tmp_path: Path, wanted: frozenset[int] | str) -> None:
    pool = CorePool(range(3), tmp_path)
    with pool.place("a", None, 1) as first:
        pool.lend({first: 1})
        assert first.elements == on(2)
        with pool.place("b", wanted, 1) as second:  # type: ignore[arg-type]
            assert (first.elements, second.own, pool.competed) == (on(0, 1), on(2), 2)
            pool.lend({first: 1})
            assert first.elements == on(1)


def test_vm_that_is_refused_leaves_others_on_processors_that_they_may_use(tmp_path: Path) -> None:
    pool = CorePool(range(3), tmp_path)
    told: list[frozenset[int]] = []
    with pool.watched(lambda: told.append(pool.shared)), pool.place("a", None, 1) as first:
        pool.lend({first: 1})
        with pytest.raises(HostError, match="may not use 7"), pool.place("b", frozenset({7}), 1):
            pass
        assert told[-1] == first.elements == on(0, 1, 2)
