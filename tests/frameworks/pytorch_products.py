"""Products of matrices by PyTorch in all its types, in a guest; run by tests/protocol/test_pytorch.py."""

from __future__ import annotations

import torch
from torch import nn

TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64)


def products(dtype: torch.dtype) -> None:
    """Calls of every kind, in one type."""
    a, b, c = (
        torch.ones(64, 32, dtype=dtype).cuda(),
        torch.ones(32, 48, dtype=dtype).cuda(),
        torch.ones(48, dtype=dtype).cuda(),
    )
    (a @ b).sum()
    torch.addmm(c, a, b)
    torch.bmm(a.expand(3, 64, 32), b.expand(3, 32, 48))
    torch.baddbmm(torch.zeros(3, 64, 48, dtype=dtype, device="cuda"), a.expand(3, 64, 32), b.expand(3, 32, 48))
    a.mv(b[:, 0].contiguous())
    torch.dot(c, c)
    if not dtype.is_complex:
        layer = nn.Linear(32, 16, dtype=dtype, device="cuda")
        layer(a.reshape(8, 8, 32)).sum().backward()
    torch.cuda.synchronize()
    print(dtype)


if __name__ == "__main__":
    for one in TYPES:
        products(one)
    torch.linalg.solve(torch.eye(3).cuda(), torch.ones(3, 1).cuda())
    torch.fft.fft(torch.ones(8, 8).cuda())
    torch.cuda.synchronize()
