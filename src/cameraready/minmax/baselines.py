"""The methods one would otherwise use, with the same interface as the anchored ones.

Each reports the same certificate |F(z) + c| with c in A(z). Where a method does not evaluate F at
its iterate by itself (ARG, Halpern, alternating GDA), this costs one more evaluation, counted like
any other.
"""

from typing import Any, NamedTuple

from cameraready.minmax.bilinear import Bilinear
from cameraready.minmax.inclusion import Inclusion, TwoPlayer, join
from cameraready.minmax.method import Method, Trial, resolve

__all__ = [
    "ALTERNATING_GDA",
    "ARG",
    "EG",
    "EG_PLUS",
    "GDA",
    "HALPERN",
    "OGDA",
    "PDHG",
    "BaselineState",
]


class BaselineState(NamedTuple):
    """Where a baseline is: the fields of every state, and what it remembers of the past.

    `past` is the previous value of F (OGDA), the previous iterate (ARG), the averaged point
    (Halpern); `anchor` is the starting point.
    """

    z: Any
    value: Any
    correction: Any
    residual: Any
    anchor: Any
    past: Any
    k: int


def init(problem: Inclusion, z: Any) -> BaselineState:
    """The state at the start: one evaluation of F, and c = 0."""
    value = problem.operator(z)
    return BaselineState(z, value, 0.0 * z, value, z, z, 0)


def _ogda_init(problem: Inclusion, z: Any) -> BaselineState:
    state = init(problem, z)
    return state._replace(past=state.value)


def gda_step(
    problem: Inclusion, state: BaselineState, step: float, rho: float
) -> tuple[BaselineState, Trial]:
    """Gradient descent-ascent: z = J(z - step F(z))."""
    new = resolve(problem, state.z - step * state.value, step)
    after = BaselineState(*new, state.anchor, state.past, state.k + 1)
    return after, Trial(state.z, state.value, new[0], new[1])


def alternating_gda_step(
    problem: Inclusion, state: BaselineState, step: float, rho: float
) -> tuple[BaselineState, Trial]:
    """Alternating gradient descent-ascent: y moves after it has seen the new x."""
    if not isinstance(problem, TwoPlayer):
        raise ValueError("alternating GDA needs two players: a min-max problem, not a VI")
    n = problem.split
    before_x = state.z[:n] - step * state.value[:n]
    x = problem.x.prox(before_x, step)
    mixed = join(x, state.z[n:])
    mixed_value = problem.operator(mixed)
    before_y = state.z[n:] - step * mixed_value[n:]
    new = join(x, problem.y.prox(before_y, step))
    problem.n_prox += 1  # half for each player
    value = problem.operator(new)
    correction = (join(before_x, before_y) - new) / step
    after = BaselineState(
        new, value, correction, value + correction, state.anchor, state.past, state.k + 1
    )
    return after, Trial(mixed, mixed_value, new, value)


def eg_step(
    problem: Inclusion, state: BaselineState, step: float, rho: float
) -> tuple[BaselineState, Trial]:
    """Extragradient (Korpelevich 1976): half = J(z - step F(z)), z = J(z - step F(half))."""
    half = problem.resolvent(state.z - step * state.value, step)
    half_value = problem.operator(half)
    new = resolve(problem, state.z - step * half_value, step)
    after = BaselineState(*new, state.anchor, state.past, state.k + 1)
    return after, Trial(state.z, state.value, half, half_value)


def eg_plus_step(
    problem: Inclusion, state: BaselineState, step: float, rho: float
) -> tuple[BaselineState, Trial]:
    """EG+ (Diakonikolas, Daskalakis, Jordan 2021): the second step is half as long."""
    half = problem.resolvent(state.z - step * state.value, step)
    half_value = problem.operator(half)
    new = resolve(problem, state.z - (step / 2.0) * half_value, step / 2.0)
    after = BaselineState(*new, state.anchor, state.past, state.k + 1)
    return after, Trial(state.z, state.value, half, half_value)


def ogda_step(
    problem: Inclusion, state: BaselineState, step: float, rho: float
) -> tuple[BaselineState, Trial]:
    """Optimistic GDA, one evaluation: z = J(z - step (2 F(z) - F(previous z)))."""
    new = resolve(problem, state.z - step * (2.0 * state.value - state.past), step)
    after = BaselineState(*new, state.anchor, state.value, state.k + 1)
    return after, Trial(state.z, state.value, new[0], new[1])


def arg_step(
    problem: Inclusion, state: BaselineState, step: float, rho: float
) -> tuple[BaselineState, Trial]:
    """Accelerated reflected gradient (Cai, Zheng 2023).

    w = 2 z_k - z_{k-1} + (z_0 - z_k)/(k+1) - (z_k - z_{k-1})/k,
    z_{k+1} = J(z_k - step F(w) + (z_0 - z_k)/(k+1)).
    """
    z, value, anchor, past, k = state.z, state.value, state.anchor, state.past, state.k
    if k == 0:
        ahead, ahead_value, pull = z, value, 0.0
    else:
        pull = (anchor - z) / (k + 1)
        ahead = z + (1.0 - 1.0 / k) * (z - past) + pull
        ahead_value = problem.operator(ahead)
    new = resolve(problem, z - step * ahead_value + pull, step)
    after = BaselineState(*new, anchor, z, k + 1)
    return after, Trial(ahead, ahead_value, new[0], new[1])


def halpern_step(
    problem: Inclusion, state: BaselineState, step: float, rho: float
) -> tuple[BaselineState, Trial]:
    """Halpern's iteration on the extragradient map T: w = z_0/(k+2) + (k+1)/(k+2) T(w).

    The iterate reported is T(w), which is feasible and has a certificate.
    """
    w, k = state.past, state.k
    value = state.value if k == 0 else problem.operator(w)
    half = problem.resolvent(w - step * value, step)
    half_value = problem.operator(half)
    new = resolve(problem, w - step * half_value, step)
    average = new[0] + (state.anchor - new[0]) / (k + 2)
    return BaselineState(*new, state.anchor, average, k + 1), Trial(w, value, half, half_value)


def pdhg_step(
    problem: Inclusion, state: BaselineState, step: float, rho: float
) -> tuple[BaselineState, Trial]:
    """Primal-dual hybrid gradient (Chambolle, Pock 2011), for bilinear problems.

    x = J(x - step F_x(y)), y = J(y - step F_y(2 x_new - x_old)). F_y is affine, so that one
    evaluation of each half of F is enough for the step and for the certificate.
    """
    if not isinstance(problem, Bilinear):
        raise ValueError("method 'pdhg' needs a Bilinear, MatrixGame or LPSaddle problem")
    n, z, value = problem.split, state.z, state.value
    before_x = z[:n] - step * value[:n]
    x = problem.x.prox(before_x, step)
    value_y = problem.operator_y(x)
    before_y = z[n:] - step * (2.0 * value_y - value[n:])
    y = problem.y.prox(before_y, step)
    problem.n_prox += 1
    problem.n_grad += 1
    new, new_value = join(x, y), join(problem.operator_x(y), value_y)
    correction = (join(before_x, before_y) - new) / step
    after = BaselineState(
        new, new_value, correction, new_value + correction, state.anchor, state.past, state.k + 1
    )
    return after, Trial(z, value, new, new_value)


GDA = Method("gda", init, gda_step, lambda scaled_rho: 0.5)
ALTERNATING_GDA = Method("alternating-gda", init, alternating_gda_step, lambda scaled_rho: 0.5)
EG = Method("eg", init, eg_step, lambda scaled_rho: 0.7)
EG_PLUS = Method("eg+", init, eg_plus_step, lambda scaled_rho: 0.7)
OGDA = Method("ogda", _ogda_init, ogda_step, lambda scaled_rho: 0.45)
ARG = Method("arg", init, arg_step, lambda scaled_rho: 1.0 / 12.0)
HALPERN = Method("halpern", init, halpern_step, lambda scaled_rho: 0.7)
PDHG = Method("pdhg", init, pdhg_step, lambda scaled_rho: 0.99)
