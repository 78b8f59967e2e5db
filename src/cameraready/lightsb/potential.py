"""The adjusted Schrödinger potential as a Gaussian mixture, and all that follows from it."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.distributions import (
    Categorical,
    Distribution,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)
from torch.nn.utils.parametrizations import orthogonal
from typing_extensions import override

__all__ = ["BridgeTerms", "LightSBModule"]


# Weights below exp(-60) of the largest are as good as none, in either precision.
_FLOOR = -60.0


class BridgeTerms(NamedTuple):
    """What a potential says of blocks of points, each block at one time."""

    log_weights: Float[Tensor, "blocks rows components"]
    drift: Float[Tensor, "blocks rows features"]
    divergence: Float[Tensor, "blocks rows"] | None


class _Rest(NamedTuple):
    """The part of a space that is orthogonal to a shared basis, where covariances are spherical."""

    points: Tensor  # (N, B, D)
    means: Tensor  # (K, D)
    log_scales: Tensor  # (K,)
    dim: int


class LightSBModule(nn.Module):
    r"""A potential :math:`v(x) = \sum_k \alpha_k N(x; r_k, \epsilon S_k)` and its bridge.

    With :math:`S_k = U_k \operatorname{diag}(s_k) U_k^\top` and :math:`s_k = \exp(2\,l_k)`, the
    plan is a mixture of Gaussians, :math:`\pi(x_1 \mid x_0) = \sum_k w_k(x_0)
    N(x_1; r_k + S_k x_0, \epsilon S_k)`, and the drift of the bridge is

    .. math::
        g(x, t) = \sum_k w_k(x, t)\, U_k \frac{\rho_k + (s_k - 1) y_k}{1 - t + t s_k},
        \qquad y_k = U_k^\top x,\ \rho_k = U_k^\top r_k,

    which is finite on all of :math:`0 \le t \le 1`.

    Parameters
    ----------
    log_alpha : Tensor of shape (K,)
        Logarithms of the weights, which need not sum to one.
    means : Tensor of shape (K, D)
        The centres r_k.
    log_scales : Tensor
        The logarithms l_k of the square roots of S_k's eigenvalues: component k of v has
        standard deviations sqrt(eps) exp(l_k). Shape (K, D) for diagonal, full and tied
        covariances, (K, 1) for spherical ones, (K, q + 1) for low rank, where the last column
        belongs to all directions orthogonal to the factor.
    eps : float
        Variance rate of the reference process dX = sqrt(eps) dW.
    rotations : Tensor, optional
        None (diagonal, spherical), (K, D, D) (full), (1, D, D) (one rotation for all) or (D, q)
        (an orthonormal factor for all, of low rank). They stay orthogonal while they are trained.

    Raises
    ------
    ValueError
        If shapes do not fit, `eps` is not positive, or `rotations` are not orthogonal.

    Notes
    -----
    Points have shape (B, D); t is one time for all or has shape (B,). With one time, everything
    but full covariances is made of matrix products and needs O(B (K + D)) memory; with a time a
    point it needs O(B K D). The factor of low rank is parameterised by Householder reflections,
    the square rotations by the matrix exponential.

    References
    ----------
    Gushchin, Kholkin, Burnaev, Korotin, Light and Optimal Schrödinger Bridge Matching, ICML 2024;
    Korotin, Gushchin, Burnaev, Light Schrödinger Bridge, ICLR 2024.

    Examples
    --------
    >>> import torch
    >>> module = LightSBModule(torch.zeros(1), torch.ones(1, 2), torch.zeros(1, 2), eps=0.5)
    >>> module.drift(torch.zeros(3, 2), 1.0)[0].tolist()
    [1.0, 1.0]
    """

    log_alpha: Tensor
    means: Tensor
    log_scales: Tensor
    rotations: Tensor | None

    def __init__(
        self,
        log_alpha: Float[Tensor, " components"],
        means: Float[Tensor, "components features"],
        log_scales: Float[Tensor, "components scales"],
        eps: float,
        rotations: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.covariance_type = _covariance_type(log_alpha, means, log_scales, rotations)
        self.eps = float(eps)
        if not (math.isfinite(self.eps) and self.eps > 0):
            raise ValueError(f"eps must be a finite number greater than 0, not {eps!r}")
        self.log_alpha = nn.Parameter(log_alpha.detach().clone())
        self.means = nn.Parameter(means.detach().clone())
        self.log_scales = nn.Parameter(log_scales.detach().clone())
        if rotations is None:
            self.register_parameter("rotations", None)
            return
        self.rotations = nn.Parameter(rotations.detach().clone())
        # A matrix exponential of a tall factor would cost O(D^3); reflections cost O(D q^2).
        if self.covariance_type == "lowrank":
            orthogonal(self, "rotations", "householder", use_trivialization=False)
        else:
            orthogonal(self, "rotations", "matrix_exp")

    @property
    def n_components(self) -> int:
        """K, the number of components."""
        return self.means.shape[0]

    @property
    def dim(self) -> int:
        """D, the number of features."""
        return self.means.shape[1]

    @override
    def extra_repr(self) -> str:
        return (
            f"n_components={self.n_components}, dim={self.dim}, eps={self.eps:g}, "
            f"covariance_type={self.covariance_type!r}"
        )

    def log_v(self, x1: Float[Tensor, "batch features"]) -> Float[Tensor, " batch"]:
        """The potential's logarithm, log v."""
        spread = -0.5 * self.dim * math.log(2 * math.pi * self.eps)
        # Near the origin the squares below lose fewest digits.
        centre = self.means.detach().mean(0)
        x, r = x1 - centre, self.means - centre
        if self.covariance_type == "full":
            return spread + _logsumexp(self.log_alpha + self._full_log_kernel(x, r))
        logits = self.log_alpha
        for points, means, log_scales, count in self._parts(x, r):
            precision = torch.exp(-2 * log_scales) / self.eps
            if count is None:
                quadratic = _quadratic(points, -0.5 * precision, means * precision)
                constant = -0.5 * (means.square() * precision).sum(-1) - log_scales.sum(-1)
            else:
                quadratic = precision * (
                    points @ means.mT - 0.5 * points.square().sum(-1, keepdim=True)
                )
                constant = -0.5 * precision * means.square().sum(-1) - count * log_scales
            logits = logits + quadratic + constant
        return spread + _logsumexp(logits)

    def log_c(self, x0: Float[Tensor, "batch features"]) -> Float[Tensor, " batch"]:
        r"""The logarithm of :math:`\int \exp(\langle x_0, x_1\rangle/\epsilon) v(x_1) dx_1`."""
        if self.covariance_type == "full":
            y, rho = self._full_coordinates(x0), self._full_means()
            inner = torch.exp(2 * self.log_scales) * y.square() + 2 * rho * y
            return _logsumexp(self.log_alpha + inner.sum(-1) / (2 * self.eps))
        logits = self.log_alpha
        for points, means, log_scales, count in self._parts(x0, self.means):
            variance = torch.exp(2 * log_scales) / (2 * self.eps)
            if count is None:
                logits = logits + _quadratic(points, variance, means / self.eps)
            else:
                square = points.square().sum(-1, keepdim=True)
                logits = logits + variance * square + points @ means.mT / self.eps
        return _logsumexp(logits)

    def drift(
        self, x: Float[Tensor, "batch features"], t: float | Tensor
    ) -> Float[Tensor, "batch features"]:
        """The drift g(x, t) of the bridge."""
        return self.blocks(*_as_blocks(x, t)).drift.reshape(x.shape)

    def divergence(
        self, x: Float[Tensor, "batch features"], t: float | Tensor
    ) -> Float[Tensor, " batch"]:
        """The divergence of the drift, the sum of its derivatives dg_d/dx_d."""
        divergence = self.blocks(*_as_blocks(x, t), divergence=True).divergence
        assert divergence is not None
        return divergence.reshape(x.shape[0])

    def log_potential(
        self, x: Float[Tensor, "batch features"], t: float | Tensor
    ) -> Float[Tensor, " batch"]:
        """The potential log phi_t, up to a constant of t: the drift is eps times its gradient.

        It is log c(x) - |x|^2 / (2 eps) at t = 0, and log v(x) + |x|^2 / (2 eps) + D log(2 pi
        eps) / 2 at t = 1.
        """
        return _logsumexp(self.blocks(*_as_blocks(x, t)).log_weights).reshape(x.shape[0])

    def responsibilities(
        self, x: Float[Tensor, "batch features"], t: float | Tensor = 0.0
    ) -> Float[Tensor, "batch components"]:
        """The weights w_k(x, t) of the components; at t = 0 those of the plan."""
        log_weights = self.blocks(*_as_blocks(x, t)).log_weights
        return log_weights.softmax(-1).reshape(x.shape[0], self.n_components)

    def conditional(self, x0: Float[Tensor, "batch features"]) -> MixtureSameFamily:
        """The plan given x0, as a distribution with batch shape (B,).

        `sample_conditional`, `conditional_log_prob` and the moments say the same at less cost
        where covariances are not diagonal.
        """
        log_weights = self.blocks(*_as_blocks(x0, 0.0)).log_weights[0]
        loc = self._conditional_means(x0)
        components: Distribution
        if self.covariance_type in ("diag", "spherical"):
            scale = math.sqrt(self.eps) * self.log_scales.exp()
            components = Independent(
                Normal(loc, scale.expand(loc.shape), validate_args=False), 1, validate_args=False
            )
        else:
            covariance = self.covariances().expand(*loc.shape, self.dim)
            components = MultivariateNormal(loc, covariance, validate_args=False)
        mixture = Categorical(logits=log_weights, validate_args=False)
        return MixtureSameFamily(mixture, components, validate_args=False)

    def conditional_mean(
        self, x0: Float[Tensor, "batch features"]
    ) -> Float[Tensor, "batch features"]:
        """E[x1 | x0], the barycentric map; the drift at t = 0 is how far it goes from x0."""
        return x0 + self.drift(x0, 0.0)

    def conditional_covariance(
        self, x0: Float[Tensor, "batch features"]
    ) -> Float[Tensor, "batch features features"]:
        """Cov[x1 | x0]."""
        weights = self.responsibilities(x0)
        centred = self._conditional_means(x0) - self.conditional_mean(x0)[:, None]
        within = torch.einsum("bk,kij->bij", weights, self.covariances())
        return within + (weights[..., None] * centred).mT @ centred

    def conditional_variance(
        self, x0: Float[Tensor, "batch features"]
    ) -> Float[Tensor, "batch features"]:
        """The diagonal of Cov[x1 | x0], without the rest of it."""
        weights = self.responsibilities(x0)
        centred = self._conditional_means(x0) - self.conditional_mean(x0)[:, None]
        return weights @ self.variances() + (weights[..., None] * centred.square()).sum(1)

    def conditional_log_prob(
        self, x0: Float[Tensor, "batch features"], x1: Float[Tensor, "batch features"]
    ) -> Float[Tensor, " batch"]:
        """Logarithm of the plan's density of x1 given x0, rows paired."""
        log_weights = self.blocks(*_as_blocks(x0, 0.0)).log_weights[0].log_softmax(-1)
        spread = -0.5 * self.dim * math.log(2 * math.pi * self.eps)
        if self.covariance_type == "full":
            s = torch.exp(2 * self.log_scales)
            residual = self._full_coordinates(x1) - self._full_means()
            residual = (residual - s * self._full_coordinates(x0)) * torch.exp(-self.log_scales)
            kernel = -residual.square().sum(-1) / (2 * self.eps) - self.log_scales.sum(-1)
            return spread + _logsumexp(log_weights + kernel)
        for (start, means, log_scales, count), (end, *_) in zip(
            self._parts(x0, self.means), self._parts(x1, self.means), strict=True
        ):
            if count is None:
                residual = end[:, None] - means - torch.exp(2 * log_scales) * start[:, None]
                square = (residual * torch.exp(-log_scales)).square().sum(-1)
                constant = -log_scales.sum(-1)
            else:
                # |x1 - r - s x0|^2 / s, with the squares taken before K comes in.
                s = torch.exp(2 * log_scales)
                gap = torch.cdist(end, means, compute_mode="donot_use_mm_for_euclid_dist").square()
                inner = (end * start).sum(-1, keepdim=True) - start @ means.mT
                square = gap / s - 2 * inner + s * start.square().sum(-1, keepdim=True)
                constant = -count * log_scales
            log_weights = log_weights + constant - square / (2 * self.eps)
        return spread + _logsumexp(log_weights)

    @torch.no_grad()
    def sample_conditional(
        self,
        x0: Float[Tensor, "batch features"],
        n_samples: int = 1,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "batch n_samples features"]:
        """Exact samples of the plan given x0: a component, then a Gaussian."""
        cumulative = self.responsibilities(x0).cumsum(-1)
        u = torch.rand(
            x0.shape[0], n_samples, generator=generator, device=x0.device, dtype=x0.dtype
        )
        # Rounding may leave the last sum below u.
        chosen = torch.searchsorted(cumulative, u * cumulative[:, -1:], right=True)
        chosen = chosen.clamp_(max=self.n_components - 1)
        noise = torch.randn(
            *chosen.shape, self.dim, generator=generator, device=x0.device, dtype=x0.dtype
        )
        moved = self._multiply(chosen, x0[:, None].expand_as(noise), power=2)
        spread = self._multiply(chosen, noise, power=1)
        return self.means[chosen].add_(moved).add_(spread, alpha=math.sqrt(self.eps))

    @torch.no_grad()
    def normalise(self) -> None:
        """Subtract from log alpha what makes the weights sum to one; nothing else changes."""
        self.log_alpha.sub_(self.log_alpha.logsumexp(-1))

    @torch.no_grad()
    def translate(self, shift: Float[Tensor, " features"]) -> None:
        """Become the potential of the same bridge with all points moved by ``shift``."""
        b = shift.to(self.means)
        if self.covariance_type == "full":
            moved = (self.covariances() / self.eps) @ b
        else:
            moved = self._shared_multiply(torch.exp(2 * self.log_scales), b)
        # From equality of r + S x, and of the weights up to a common factor, at x and x + b.
        self.log_alpha.sub_((2 * self.means @ b - moved @ b) / (2 * self.eps))
        self.means.add_(b - moved)

    def covariances(self) -> Float[Tensor, "components features features"]:
        """The covariances eps S_k of the components of v."""
        s = self.eps * torch.exp(2 * self.log_scales)
        eye = torch.eye(self.dim, dtype=s.dtype, device=s.device)
        if self.rotations is None:
            return s[..., None] * eye
        if self.rotations.ndim == 3:
            return (self.rotations * s[:, None, :]) @ self.rotations.mT
        rest = s[:, -1, None]
        within = (self.rotations * (s[:, :-1] - rest)[:, None, :]) @ self.rotations.mT
        return rest[..., None] * eye + within

    def variances(self) -> Float[Tensor, "components features"]:
        """The diagonals of `covariances`."""
        s = self.eps * torch.exp(2 * self.log_scales)
        if self.rotations is None:
            return s.expand(-1, self.dim)
        squares = self.rotations.square()
        if squares.ndim == 3:
            return (squares @ s[..., None]).squeeze(-1)
        return s[:, -1:] + (s[:, :-1] - s[:, -1:]) @ squares.mT

    def blocks(
        self,
        x: Float[Tensor, "blocks rows features"],
        t: Float[Tensor, " blocks"],
        *,
        divergence: bool = False,
    ) -> BridgeTerms:
        """Logarithms of the weights, the drift, and its divergence if asked for.

        Parameters
        ----------
        x : Tensor of shape (N, B, D)
            N blocks of B points.
        t : Tensor of shape (N,)
            The time of each block, from 0 to 1.
        divergence : bool
            Whether the divergence is wanted.

        Returns
        -------
        BridgeTerms
            The log-weights are log(alpha_k) + log of component k of phi_t, up to a constant of t;
            their softmax is w(x, t).
        """
        if self.covariance_type == "full":
            return self._full_blocks(x, t, divergence)
        return self._shared_blocks(x, t, divergence)

    def _shared_blocks(self, x: Tensor, t: Tensor, divergence: bool) -> BridgeTerms:
        # One basis for all components: everything is a matrix product with tables of (t, k, d).
        eps, time = self.eps, t[:, None]
        logits, square = self.log_alpha, None
        tables = rest = None
        for points, means, log_scales, count in self._parts(x, self.means):
            if count is not None:
                rest = _Rest(points, means, log_scales, count)
                continue
            time3 = time[..., None]
            # 1 + t (s - 1) would lose the digits of a small s near t = 1.
            den = (1 - time3) + time3 * torch.exp(2 * log_scales)
            p, r = torch.expm1(2 * log_scales) / den, means / den
            y, tables = points, torch.cat([p, r], -1)
            constant = logits - 0.5 * (den.log() + (time3 / eps) * (means * r)).sum(-1)
            features = torch.cat([y.square(), y], -1)
            table = torch.cat([p * (0.5 / eps), r * (1 / eps)], -1)
            if divergence:
                table = torch.cat([table, torch.cat([p.square(), 2 * p * r], -1)], 1)
                trace = eps * p.sum(-1) + r.square().sum(-1)
                constant = torch.cat([constant, trace], -1)
            both = torch.baddbmm(constant[:, None], features, table.mT)
            logits = both[..., : self.n_components]
            if divergence:
                square = both[..., self.n_components :]
        if rest is None:
            assert tables is not None
            weights = _softmax(logits)
            slope, shift = (weights @ tables).chunk(2, -1)
            drift = torch.addcmul(shift, slope, y)
            total = drift
            if self.rotations is not None:
                drift = drift @ self.rotations[0].mT
        else:
            den = ((1 - time) + time * torch.exp(2 * rest.log_scales))[:, None]
            slopes = torch.expm1(2 * rest.log_scales) / den
            norm, inner = rest.points.square().sum(-1, keepdim=True), rest.points @ rest.means.mT
            radius = rest.means.square().sum(-1)
            bowl = slopes * norm + (2 * inner - time[..., None] * radius) / den
            logits = logits + bowl / (2 * eps) - (0.5 * rest.dim) * den.log()
            if divergence:
                outside = (radius + 2 * den * slopes * inner) / den.square()
                outside = outside + slopes.square() * norm + (eps * rest.dim) * slopes
                square = outside if square is None else square + outside
            weights = _softmax(logits)
            drift = (weights / den) @ rest.means
            drift = drift + (weights * slopes).sum(-1, keepdim=True) * rest.points
            if tables is not None and self.rotations is not None:
                slope, shift = (weights @ tables).chunk(2, -1)
                drift = drift + torch.addcmul(shift, slope, y) @ self.rotations.mT
            total = drift
        if not divergence:
            return BridgeTerms(logits, drift, None)
        assert square is not None
        spread = (weights * square).sum(-1) - total.square().sum(-1)
        return BridgeTerms(logits, drift, spread / eps)

    def _full_blocks(self, x: Tensor, t: Tensor, divergence: bool) -> BridgeTerms:
        rotations, time = self.rotations, t[:, None, None]
        assert rotations is not None
        y = (x @ rotations.permute(1, 0, 2).reshape(self.dim, -1)).unflatten(
            -1, (self.n_components, self.dim)
        )
        rho = self._full_means()
        den = (1 - time) + time * torch.exp(2 * self.log_scales)
        p, r = torch.expm1(2 * self.log_scales) / den, rho / den
        constant = self.log_alpha - 0.5 * (den.log() + (time / self.eps) * (rho * r)).sum(-1)
        p, r = p[:, None], r[:, None]
        inner = torch.addcmul(2 * r, p, y)
        logits = constant[:, None] + (inner * y).sum(-1) / (2 * self.eps)
        weights = _softmax(logits)
        m = inner - r
        mixed = (weights[..., None] * m).flatten(-2)
        drift = mixed @ rotations.permute(0, 2, 1).reshape(-1, self.dim)
        if not divergence:
            return BridgeTerms(logits, drift, None)
        square = m.square().sum(-1) + self.eps * p.sum(-1)
        spread = (weights * square).sum(-1) - drift.square().sum(-1)
        return BridgeTerms(logits, drift, spread / self.eps)

    def _parts(self, x: Tensor, means: Tensor) -> list[tuple[Tensor, Tensor, Tensor, int | None]]:
        """Points, means and log-scales in the shared basis; then in what is orthogonal to it.

        The last entry is None where each coordinate has a scale of its own, and otherwise the
        number of dimensions that share one.
        """
        if self.covariance_type == "diag":
            return [(x, means, self.log_scales, None)]
        if self.covariance_type == "spherical":
            return [(x, means, self.log_scales[:, 0], self.dim)]
        assert self.rotations is not None
        if self.covariance_type == "tied_full":
            rotation = self.rotations[0]
            return [(x @ rotation, means @ rotation, self.log_scales, None)]
        factor = self.rotations
        y, rho = x @ factor, means @ factor
        return [
            (y, rho, self.log_scales[:, :-1], None),
            (
                x - y @ factor.mT,
                means - rho @ factor.mT,
                self.log_scales[:, -1],
                self.dim - factor.shape[1],
            ),
        ]

    def _full_coordinates(self, x: Tensor) -> Tensor:
        """U_k^T x, of shape (B, K, D)."""
        assert self.rotations is not None
        flat = x @ self.rotations.permute(1, 0, 2).reshape(self.dim, -1)
        return flat.unflatten(-1, (self.n_components, self.dim))

    def _full_means(self) -> Tensor:
        assert self.rotations is not None
        return (self.rotations.mT @ self.means[..., None]).squeeze(-1)

    def _full_log_kernel(self, x: Tensor, means: Tensor) -> Tensor:
        assert self.rotations is not None
        rho = (self.rotations.mT @ means[..., None]).squeeze(-1)
        residual = (self._full_coordinates(x) - rho) * torch.exp(-self.log_scales)
        return -residual.square().sum(-1) / (2 * self.eps) - self.log_scales.sum(-1)

    def _conditional_means(self, x0: Tensor) -> Tensor:
        """r_k + S_k x0, of shape (B, K, D)."""
        if self.covariance_type == "full":
            return self.means + torch.einsum("kij,bj->bki", self.covariances() / self.eps, x0)
        scales = torch.exp(2 * self.log_scales)
        return self.means + self._shared_multiply(scales, x0[:, None])

    def _multiply(
        self, chosen: Int[Tensor, "batch n_samples"], x: Tensor, *, power: int
    ) -> Float[Tensor, "batch n_samples features"]:
        """S_k^(power / 2) x, with k chosen for each point."""
        if self.covariance_type != "full":
            return self._shared_multiply(torch.exp(power * self.log_scales)[chosen], x)
        assert self.rotations is not None
        matrices = self.rotations * torch.exp(power * self.log_scales)[:, None, :]
        matrices = matrices @ self.rotations.mT
        product = torch.empty_like(x)
        for k in range(self.n_components):
            rows = chosen == k
            product[rows] = x[rows] @ matrices[k]
        return product

    def _shared_multiply(self, scales: Tensor, x: Tensor) -> Tensor:
        if self.rotations is None:
            return scales * x
        if self.covariance_type == "tied_full":
            return (scales * (x @ self.rotations[0])) @ self.rotations[0].mT
        y, rest = x @ self.rotations, scales[..., -1:]
        return rest * x + ((scales[..., :-1] - rest) * y) @ self.rotations.mT


def _as_blocks(x: Tensor, t: float | Tensor) -> tuple[Tensor, Tensor]:
    """One block for one time; a block a row for a time a row."""
    if x.ndim != 2:
        raise ValueError(f"points must have the shape (n, features), not {tuple(x.shape)}")
    time = torch.as_tensor(t, dtype=x.dtype, device=x.device)
    if time.ndim == 0:
        return x[None], time[None]
    if time.shape != x.shape[:1]:
        raise ValueError(
            f"t must be one time or one a row: its shape is {tuple(time.shape)}, "
            f"the points' {tuple(x.shape)}"
        )
    return x[:, None], time


def _softmax(logits: Tensor) -> Tensor:
    """Softmax over the last axis, without the denormal numbers that slow the products after it."""
    return (logits - logits.detach().amax(-1, keepdim=True)).clamp(min=_FLOOR).softmax(-1)


def _logsumexp(logits: Tensor) -> Tensor:
    """Logsumexp over the last axis; its gradient has no denormal numbers either."""
    top = logits.detach().amax(-1, keepdim=True)
    return (logits - top).clamp(min=_FLOOR).logsumexp(-1) + top.squeeze(-1)


def _quadratic(x: Tensor, quadratic: Tensor, linear: Tensor) -> Tensor:
    """Sum over d of quadratic_kd x_d^2 + linear_kd x_d, of shape (B, K), in one product."""
    return torch.cat([x.square(), x], -1) @ torch.cat([quadratic, linear], -1).mT


def _covariance_type(
    log_alpha: Tensor, means: Tensor, log_scales: Tensor, rotations: Tensor | None
) -> str:
    if means.ndim != 2:
        raise ValueError(f"means must have the shape (K, D), not {tuple(means.shape)}")
    k, d = means.shape
    if log_alpha.shape != (k,):
        raise ValueError(f"log_alpha must have the shape ({k},), not {tuple(log_alpha.shape)}")
    shape = tuple(log_scales.shape)
    if rotations is None:
        kind, fits = ("diag", True) if shape == (k, d) else ("spherical", shape == (k, 1))
    elif rotations.ndim == 2:
        q = rotations.shape[1]
        fits = rotations.shape[0] == d and 1 <= q <= d and shape == (k, q + 1)
        kind = "lowrank"
    else:
        kind = "full" if rotations.shape == (k, d, d) else "tied_full"
        fits = shape == (k, d) and tuple(rotations.shape) in ((k, d, d), (1, d, d))
    if not fits:
        other = None if rotations is None else tuple(rotations.shape)
        raise ValueError(
            f"log_scales of shape {shape} and rotations of shape {other} do not fit means of "
            f"shape {(k, d)}: see LightSBModule for the shapes of each kind of covariance"
        )
    if rotations is not None:
        gram = rotations.detach().mT @ rotations.detach()
        eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        if not torch.allclose(gram, eye.expand_as(gram), atol=1e-4):
            raise ValueError("rotations must have orthonormal columns; take a QR decomposition")
    return kind
