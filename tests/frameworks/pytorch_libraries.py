"""Products, convolutions and transforms by PyTorch beside those of its CPU, in a guest; run by tests/protocol/test_pytorch.py.

Only what the host's libraries compute: on the fake driver, PyTorch's own kernels compute nothing.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 0.2}
FORMATS = (torch.contiguous_format, torch.channels_last)


def compare(name: str, got: torch.Tensor, wanted: torch.Tensor) -> None:
    """Prints whether the largest difference is one of rounding."""
    scale = ROUNDING[got.dtype] * max(1.0, wanted.abs().max().item())
    difference = (got.cpu().double() - wanted.double()).abs().max().item()
    print(name, "right" if difference <= scale else f"wrong by {difference}")


def products(dtype: torch.dtype) -> None:
    """Single products and batches, of matrices as they are and transposed."""
    a, b = (torch.randn(*shape).to(dtype) for shape in ((5, 7), (6, 7)))
    compare(f"product {dtype}", a.cuda() @ b.cuda().T, a.double() @ b.double().T)
    c, d = (torch.randn(*shape).to(dtype) for shape in ((3, 5, 7), (3, 7, 4)))
    compare(f"batch {dtype}", torch.bmm(c.cuda(), d.cuda()), torch.bmm(c.double(), d.double()))


def transforms(dtype: torch.dtype) -> None:
    """Transforms that are not divided by their length, which a kernel of PyTorch's does."""
    real, pair = torch.randn(3, 6, 8, dtype=dtype), torch.randn(3, 6, 8, dtype=dtype.to_complex())
    half = torch.fft.rfft2(real)  # of real numbers, which cuFFT expects
    for name, function, data in (
        ("fft", torch.fft.fft, pair),
        ("ifft", lambda x: torch.fft.ifft(x, norm="forward"), pair),
        ("fft2", torch.fft.fft2, pair),
        ("rfft", torch.fft.rfft, real),
        ("rfft2", torch.fft.rfft2, real),
        ("irfft2", lambda x: torch.fft.irfft2(x, norm="forward"), half),
    ):
        got, wanted = function(data.cuda()).cpu(), function(data)
        if wanted.is_complex():
            got, wanted = torch.view_as_real(got), torch.view_as_real(wanted)
        compare(f"{name} {dtype}", got, wanted)


def convolutions(dtype: torch.dtype, layout: torch.memory_format, *, is_free: bool) -> None:
    """A convolution in groups, and its two gradients; `is_free`: whether any algorithm may be taken."""
    shapes = ((2, 4, 9, 8), (6, 2, 3, 3), (2, 6, 5, 4))
    x, w, g = (torch.randn(*shape).to(dtype).to(memory_format=layout) for shape in shapes)
    name = f"{dtype} {layout} {is_free}"
    y = torch.ops.aten.cudnn_convolution(x.cuda(), w.cuda(), [1, 1], [2, 2], [1, 1], 2, False, not is_free, is_free)
    compare(f"convolution {name}", y, torch.nn.functional.conv2d(x.double(), w.double(), stride=2, padding=1, groups=2))
    rest = ([0], [2, 2], [1, 1], [1, 1], False, [0, 0], 2, [True, True, False])
    torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = not is_free, is_free
    got = torch.ops.aten.convolution_backward(g.cuda(), x.cuda(), w.cuda(), *rest)
    wanted = torch.ops.aten.convolution_backward(g.double(), x.double(), w.double(), *rest)
    compare(f"gradient of images {name}", got[0], wanted[0])
    compare(f"gradient of filters {name}", got[1], wanted[1])


def of_other_axes() -> None:
    """Convolutions of one and three axes of space, and a transposed one."""
    functional = torch.nn.functional
    for name, x, w in (
        ("conv1d", torch.randn(2, 3, 12), torch.randn(4, 3, 3)),
        ("conv3d", torch.randn(1, 2, 5, 6, 4), torch.randn(3, 2, 3, 2, 2)),
        ("conv_transpose2d", torch.randn(1, 3, 4, 4), torch.randn(3, 2, 3, 3)),
    ):
        function = getattr(functional, name)
        compare(name, function(x.cuda(), w.cuda()), function(x, w))


def normalizations(dtype: torch.dtype, layout: torch.memory_format) -> None:
    """Batch normalization in training, its gradients, and by the running numbers that training leaves."""
    x, g = (torch.randn(4, 3, 5, 6).to(dtype).to(memory_format=layout) for _ in range(2))
    here, there = nn.BatchNorm2d(3).double(), nn.BatchNorm2d(3).cuda()
    left, right = x.double().requires_grad_(), x.cuda().requires_grad_()
    wanted, got = here(left), there(right)
    compare(f"normalization {dtype} {layout}", got, wanted)
    wanted.backward(g.double())
    got.backward(g.cuda())
    for name, one, other in (
        ("images", right, left),
        ("factors", there.weight, here.weight),
        ("biases", there.bias, here.bias),
    ):
        compare(f"gradient of {name} {dtype} {layout}", one.grad, other.grad)
    compare(f"running means {dtype} {layout}", there.running_mean, here.running_mean)
    compare(f"running variances {dtype} {layout}", there.running_var, here.running_var)
    compare(f"normalization by them {dtype} {layout}", there.eval()(x.cuda()), here.eval()(x.double()))


if __name__ == "__main__":
    torch.manual_seed(0)
    for each in FORMATS:
        normalizations(torch.float32, each)
        normalizations(torch.float16, each)
    for each in ROUNDING:
        products(each)
    transforms(torch.float32)
    transforms(torch.float64)
    for kind, memory, free in itertools.product((torch.float32, torch.float16, torch.bfloat16), FORMATS, (True, False)):
        convolutions(kind, memory, is_free=free)
    of_other_axes()
    torch.backends.cudnn.benchmark = True
    of_other_axes()
