"""PyTorch's device, memory, kernels, streams and events, in a guest; run by tests/protocol/test_pytorch.py."""

from __future__ import annotations

import torch

BYTES_TOO_MANY = 1 << 40


def properties() -> str:
    found = torch.cuda.get_device_properties(0)
    return f"{torch.cuda.is_available()} {torch.cuda.device_count()} {found.major}.{found.minor} {found.name}"


def copies() -> bool:
    """Whether data come back as they went: pageable and pinned, in a stream, from device to device."""
    sent = torch.arange(100_003, dtype=torch.int64)
    there = sent.cuda()
    stream = torch.cuda.Stream()
    pinned = sent.pin_memory()
    with torch.cuda.stream(stream):
        also = pinned.cuda(non_blocking=True).clone()
    stream.synchronize()
    part = there[1000:2000].cpu()
    return bool(torch.equal(there.cpu(), sent) and torch.equal(also.cpu(), sent) and torch.equal(part, sent[1000:2000]))


def events() -> bool:
    """Whether events of two streams end in order, with a time between."""
    first, second = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.Stream()
    first.record()
    stream.wait_event(first)
    with torch.cuda.stream(stream):
        torch.ones(10, device="cuda").clone()
        second.record()
    second.synchronize()
    return bool(first.query() and second.query() and first.elapsed_time(second) >= 0)


def out_of_memory() -> bool:
    """Whether too much memory is PyTorch's own error, and memory is to be had afterwards."""
    before = torch.cuda.memory_allocated()
    try:
        torch.empty(BYTES_TOO_MANY, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        kept = torch.arange(1000).cuda()
        taken = torch.cuda.memory_allocated() - before
        return bool(torch.equal(kept.cpu(), torch.arange(1000)) and taken == -(-kept.nbytes // 512) * 512)
    return False


def kernels() -> str:
    """Launches of `x * 2 + 1`, and the addresses of the three arrays."""
    x = torch.arange(5000, dtype=torch.float32).cuda()
    product = x * 2
    result = product + 1
    torch.cuda.synchronize()
    return f"{x.data_ptr():x} {product.data_ptr():x} {result.data_ptr():x}"


if __name__ == "__main__":
    print(properties())
    print(copies(), events(), out_of_memory())
    print(kernels())
