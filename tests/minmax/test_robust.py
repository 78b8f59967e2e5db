import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cameraready.minmax import DRO, KL, ChiSquare, CVaR, LogisticLosses, Simplex, solve

KINDS = [CVaR(0.3), KL(0.2), ChiSquare(0.2)]


def divergence(kind, q):
    n = len(q)
    if isinstance(kind, CVaR):
        return q.max() * n * kind.share - 1
    if isinstance(kind, KL):
        return (q[q > 0] * np.log(n * q[q > 0])).sum() - kind.radius
    return n * ((q - 1 / n) ** 2).sum() / 2 - kind.radius


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 100.0]))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_the_projection_is_in_the_set_and_no_point_of_it_is_nearer(kind, seed, size):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    project = kind.ambiguity(n).prox
    z = size * rng.normal(size=n)
    q = project(z, 1.0)
    assert q.min() >= 0
    assert q.sum() == pytest.approx(1, abs=1e-9)
    assert divergence(kind, q) <= 1e-7
    for _ in range(5):
        other = Simplex().project(rng.normal(size=n))
        while divergence(kind, other) > 0:
            other = (other + 1 / n) / 2
        # The variational inequality of a projection.
        assert (z - q) @ (other - q) <= 1e-6 * (1 + size)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_the_projection_equals_cvxpy(kind):
    cvxpy = pytest.importorskip("cvxpy")
    z = 2 * np.random.default_rng(0).normal(size=8)
    q = cvxpy.Variable(8)
    sets = [q >= 0, cvxpy.sum(q) == 1]
    if isinstance(kind, CVaR):
        sets.append(q <= 1 / (8 * kind.share))
    elif isinstance(kind, KL):
        sets.append(-cvxpy.sum(cvxpy.entr(q)) + np.log(8) <= kind.radius)
    else:
        sets.append(8 * cvxpy.sum_squares(q - 1 / 8) / 2 <= kind.radius)
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(q - z)), sets).solve(solver="CLARABEL")
    np.testing.assert_allclose(kind.ambiguity(8).prox(z, 1.0), q.value, atol=1e-5)


def data():
    rng = np.random.default_rng(0)
    features = np.c_[rng.normal(size=(40, 3)), np.ones(40)]
    labels = (features @ [1, -2, 0.5, 0.2] + rng.normal(size=40) > 0).astype(int)
    return features, labels


def test_the_pull_back_is_the_gradient():
    losses = LogisticLosses(*data())
    rng = np.random.default_rng(1)
    theta, q = rng.normal(size=4), rng.random(40)
    values, pull = losses.vjp(theta)
    np.testing.assert_allclose(values, losses(theta))
    slope = [(q @ (losses(theta + h) - losses(theta - h))) / 2e-6 for h in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(pull(q), slope, rtol=1e-6)
    assert np.isfinite(losses(1e6 * theta)).all()


def test_torch_losses_give_the_same_problem():
    torch = pytest.importorskip("torch")
    features, labels = data()
    signed = torch.tensor((2 * labels - 1)[:, None] * features)

    def losses(theta):
        return torch.nn.functional.softplus(-(signed @ theta))

    own = DRO(LogisticLosses(features, labels), np.zeros(4), KL(0.1))
    for start in (np.zeros(4), torch.zeros(4, dtype=torch.float64)):
        other = DRO(losses, start, KL(0.1))
        a, b = (solve(p, step=0.3, tol=0, max_iter=20) for p in (own, other))
        np.testing.assert_allclose(np.asarray(b.z), a.z, atol=1e-9)


def test_robust_training_lowers_the_worst_tenth():
    losses = LogisticLosses(*data())
    problem = DRO(losses, np.zeros(4), CVaR(0.1))
    result = solve(problem, tol=1e-3, max_iter=50_000)
    assert result.converged
    worst = np.sort(losses(result.x))[-4:].mean()
    assert problem.worst_case(result.x) == pytest.approx(worst, abs=1e-6)
    plain = solve(DRO(losses, np.zeros(4), CVaR(1.0)), tol=1e-3, max_iter=50_000).x
    assert worst < problem.worst_case(plain) - 0.1


def test_bad_arguments_get_one_clear_sentence():
    with pytest.raises(ValueError, match="share must be at most 1"):
        CVaR(1.5)
    with pytest.raises(ValueError, match="radius must be a finite number greater than 0"):
        KL(0.0)
    with pytest.raises(ValueError, match="labels must hold two classes, not 3"):
        LogisticLosses(np.ones((3, 1)), [0, 1, 2])
    with pytest.raises(ValueError, match="one row for each label"):
        LogisticLosses(np.ones((3, 1)), [0, 1])
    with pytest.raises(TypeError, match="losses must be a function"):
        DRO(3, np.ones(1))
    with pytest.raises(TypeError, match="uncertainty must be CVaR, KL or ChiSquare"):
        DRO(LogisticLosses(*data()), np.zeros(4), 0.1)
    with pytest.raises(ValueError, match="losses must be finite at theta0"):
        DRO(LogisticLosses(np.full((2, 1), np.inf), [0, 1]), np.ones(1))
