"""Descriptors with an owner: closed exactly once, on every path."""

from __future__ import annotations

import os
import socket

import pytest

from vhost_backend.fds import Fd, FdBag


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_fd_is_closed_at_the_end_of_its_block() -> None:
    with Fd(os.eventfd(0)) as fd:
        number = fd.fileno()
        assert is_open(number)
    assert not is_open(number)


def test_closed_fd_has_no_number() -> None:
    fd = Fd(os.eventfd(0))
    fd.close()
    with pytest.raises(ValueError, match="closed"):
        fd.fileno()


def test_second_close_does_not_close_a_successor() -> None:
    fd = Fd(os.eventfd(0))
    number = fd.fileno()
    fd.close()
    successor = os.eventfd(0)
    assert successor == number, "the lowest free number is taken"
    fd.close()
    assert is_open(successor)
    os.close(successor)


def test_detached_fd_stays_open() -> None:
    number = Fd(os.eventfd(0)).release()
    assert is_open(number)
    os.close(number)


def test_forgotten_fd_is_closed() -> None:
    fd = Fd(os.eventfd(0))
    number = fd.fileno()
    del fd
    assert not is_open(number)


def test_bag_closes_descriptors_that_were_not_taken() -> None:
    numbers = [os.eventfd(0) for _ in range(3)]
    with FdBag(numbers) as bag:
        taken = bag.take()
        assert len(bag) == 2
    assert [is_open(number) for number in numbers] == [True, False, False]
    taken.close()


def test_kinds_of_descriptors_are_told_apart() -> None:
    with Fd(os.eventfd(0)) as event, Fd(os.memfd_create("file")) as file:
        os.ftruncate(file.fileno(), 42)
        assert (event.is_eventfd(), file.is_eventfd()) == (True, False)
        assert (event.file_size(), file.file_size()) == (None, 42)
        assert not event.is_unix_stream()


def test_sockets_that_linger_are_told_from_those_of_this_host() -> None:
    one, two = socket.socketpair()
    with one, two, Fd(os.dup(one.fileno())) as stream:
        assert stream.is_unix_stream()
    for family, kind in [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM)]:
        with socket.socket(family, kind) as other, Fd(os.dup(other.fileno())) as fd:
            assert not fd.is_unix_stream()
