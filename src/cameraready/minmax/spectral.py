"""Functions of a symmetric matrix's eigenvalues in torch, with gradients where they are equal too.

Differentiating through `torch.linalg.eigh` divides by differences of eigenvalues. The map
V f(Λ) Vᵀ has a derivative all the same (Daleckii and Krein): H ↦ V (Γ ∘ Vᵀ H V) Vᵀ with the divided
differences Γ_ij = (f(λ_i) - f(λ_j)) / (λ_i - λ_j), and f' where the two are equal.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from typing_extensions import override

__all__ = ["positive_semidefinite_part", "shrink_singular_values"]


def positive_semidefinite_part(matrix: Tensor) -> Tensor:
    """The symmetric matrices, (..., n, n), with negative eigenvalues set to zero."""
    return _Shrunk.apply(matrix, None)[0]


def shrink_singular_values(matrix: Tensor, limit: Any) -> Tensor:
    """The matrices, (..., rows, columns), with ``limit`` taken off their singular values.

    Where a gradient is asked for, by the eigenvalues ±σ of [[0, Z], [Zᵀ, 0]].
    """
    if not (matrix.requires_grad and torch.is_grad_enabled()):
        u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
        return (u * (s - limit).relu()[..., None, :]) @ vt
    rows, columns = matrix.shape[-2:]
    top = torch.cat([matrix.new_zeros((*matrix.shape[:-2], rows, rows)), matrix], dim=-1)
    low = torch.cat([matrix.mT, matrix.new_zeros((*matrix.shape[:-2], columns, columns))], dim=-1)
    return _Shrunk.apply(torch.cat([top, low], dim=-2), limit)[0][..., :rows, rows:]


def _shrink(values: Tensor, limit: Any) -> tuple[Tensor, Tensor]:
    """Positive part, or soft thresholding by ``limit``, of the eigenvalues; and its slope."""
    if limit is None:
        return values.relu(), (values > 0).to(values.dtype)
    kept = values.abs() > limit
    return values.sign() * (values.abs() - limit).relu(), kept.to(values.dtype)


class _Shrunk(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    @override
    def forward(matrix: Tensor, limit: Any) -> tuple[Tensor, Tensor, Tensor]:
        values, vectors = torch.linalg.eigh(matrix)
        shrunk, _ = _shrink(values, limit)
        return (vectors * shrunk[..., None, :]) @ vectors.mT, values, vectors

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        _, values, vectors = output
        ctx.mark_non_differentiable(values, vectors)
        ctx.save_for_backward(values, vectors)
        ctx.limit = inputs[1]

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor, None]:
        values, vectors = ctx.saved_tensors
        shrunk, slope = _shrink(values, ctx.limit)
        difference = values[..., :, None] - values[..., None, :]
        near = difference.abs() <= 1e-3 * torch.finfo(values.dtype).eps ** 0.5 * values.abs().amax(
            -1
        )[..., None, None].clamp_min(torch.finfo(values.dtype).tiny)
        quotient = (shrunk[..., :, None] - shrunk[..., None, :]) / torch.where(near, 1, difference)
        mean_slope = (slope[..., :, None] + slope[..., None, :]) / 2
        gamma = torch.where(near, mean_slope, quotient)
        symmetric = (gradient + gradient.mT) / 2
        return vectors @ (gamma * (vectors.mT @ symmetric @ vectors)) @ vectors.mT, None
