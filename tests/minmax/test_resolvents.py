"""Projections and proximal maps, against cvxpy, pyproximal, their own properties and each other."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cameraready.minmax import resolvents as r

torch = pytest.importorskip("torch")
cp = pytest.importorskip("cvxpy")

RNG = np.random.default_rng(0)
SIZE = 6
NORMAL = RNG.normal(size=SIZE)
EQUATIONS, RIGHT = RNG.normal(size=(2, SIZE)), RNG.normal(size=2)
EDGES = np.vstack([RNG.normal(size=(8, SIZE)), np.eye(SIZE), -np.eye(SIZE)])
BOUNDS = np.concatenate([np.ones(8), np.full(2 * SIZE, 1.5)])
LOW, HIGH = -RNG.random(SIZE), RNG.random(SIZE)
CAPS = np.linspace(0.1, 0.6, SIZE)
GROUPS = [[0, 3], [5, 1, 2]]
GROUP_WEIGHTS = np.array([0.7, 1.4])


def matrix(x, rows, columns):
    return cp.reshape(x, (rows, columns), order="C")


def psd(x):
    square = matrix(x, 3, 3)
    return [square >> 0, square == square.T]


# Resolvent, the size of a vector, the set as constraints, the function, a projection or not.
CASES = {
    "box": (r.Box(LOW, HIGH), SIZE, lambda x: [x >= LOW, x <= HIGH], None),
    "box of numbers": (r.Box(-0.5, np.inf), SIZE, lambda x: [x >= -0.5], None),
    "ball": (r.Ball(0.8, NORMAL), SIZE, lambda x: [cp.norm(x - NORMAL) <= 0.8], None),
    "halfspace": (r.Halfspace(NORMAL, -0.3), SIZE, lambda x: [NORMAL @ x <= -0.3], None),
    "affine set": (r.AffineSet(EQUATIONS, RIGHT), SIZE, lambda x: [EQUATIONS @ x == RIGHT], None),
    "non-negative": (r.Nonnegative(), SIZE, lambda x: [x >= 0], None),
    "second-order cone": (r.SecondOrderCone(), SIZE, lambda x: [cp.norm(x[1:]) <= x[0]], None),
    "psd cone": (r.PSDCone(), 9, psd, None),
    "simplex": (r.Simplex(2.0), SIZE, lambda x: [x >= 0, cp.sum(x) == 2.0], None),
    "capped simplex": (
        r.CappedSimplex(1.0, 0.3),
        SIZE,
        lambda x: [x >= 0, x <= 0.3, cp.sum(x) == 1.0],
        None,
    ),
    "capped simplex, own caps": (
        r.CappedSimplex(1.5, CAPS),
        SIZE,
        lambda x: [x >= 0, x <= CAPS, cp.sum(x) == 1.5],
        None,
    ),
    "l1 ball": (r.L1Ball(1.3), SIZE, lambda x: [cp.norm1(x) <= 1.3], None),
    "polytope": (r.Polytope(EDGES, BOUNDS), SIZE, lambda x: [EDGES @ x <= BOUNDS], None),
    "free space": (r.FreeSpace(), SIZE, lambda x: [], None),
    "l1": (r.L1(CAPS), SIZE, lambda x: [], lambda x: CAPS @ cp.abs(x)),
    "l2 squared": (r.L2Squared(1.7), SIZE, lambda x: [], lambda x: 0.85 * cp.sum_squares(x)),
    "group l2": (
        r.GroupL2(GROUPS, GROUP_WEIGHTS),
        SIZE,
        lambda x: [],
        lambda x: sum(w * cp.norm(x[g]) for w, g in zip(GROUP_WEIGHTS, GROUPS, strict=True)),
    ),
    "nuclear": (
        r.Nuclear((2, 3), 0.9),
        SIZE,
        lambda x: [],
        lambda x: 0.9 * cp.normNuc(matrix(x, 2, 3)),
    ),
    "product": (
        r.Product([(r.Simplex(), 3), (r.L1(0.4), 1), (None, 2)]),
        SIZE,
        lambda x: [x[:3] >= 0, cp.sum(x[:3]) == 1.0],
        lambda x: 0.4 * cp.abs(x[3]),
    ),
}
PROJECTIONS = [name for name, case in CASES.items() if case[3] is None]
BY_NUMPY = {"polytope"}


def points(size, count, seed=1):
    return np.random.default_rng(seed).normal(scale=1.5, size=(count, size))


# Clarabel is asked for more than it can always promise; the comparison is the judge.
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_cvxpy_finds(name):
    resolvent, size, constraints, function = CASES[name]
    step = 0.6
    x, z = cp.Variable(size), cp.Parameter(size)
    objective = cp.sum_squares(x - z) / (2 * step)
    if function is not None:
        objective = objective + function(x)
    problem = cp.Problem(cp.Minimize(objective), constraints(x))
    for point in points(size, 6):
        z.value = point
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        assert np.abs(resolvent.prox(point, step) - x.value).max() < 1e-6


@pytest.fixture
def pyproximal():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pyproximal")


@pytest.mark.parametrize(
    "name", ["box", "ball", "halfspace", "affine", "simplex", "l1 ball", "l1", "l2", "nuclear"]
)
def test_it_is_what_pyproximal_finds(pyproximal, name):
    import pylops

    ours, theirs = {
        "box": lambda: (r.Box(-0.2, 0.7), pyproximal.Box(-0.2, 0.7)),
        "ball": lambda: (r.Ball(0.8, NORMAL), pyproximal.EuclideanBall(NORMAL, 0.8)),
        "halfspace": lambda: (r.Halfspace(NORMAL, 0.1), pyproximal.HalfSpace(NORMAL, 0.1)),
        "affine": lambda: (
            r.AffineSet(EQUATIONS, RIGHT),
            pyproximal.AffineSet(pylops.MatrixMult(EQUATIONS), RIGHT, niter=50),
        ),
        "simplex": lambda: (r.Simplex(1.0), pyproximal.Simplex(SIZE, 1.0, engine="numpy")),
        "l1 ball": lambda: (r.L1Ball(1.3), pyproximal.L1Ball(SIZE, 1.3, xtol=1e-10)),
        "l1": lambda: (r.L1(0.4), pyproximal.L1(0.4)),
        "l2": lambda: (r.L2Squared(0.4), pyproximal.L2(sigma=0.4)),
        "nuclear": lambda: (r.Nuclear((2, 3), 0.4), pyproximal.Nuclear((2, 3), 0.4)),
    }[name]()
    for point in points(SIZE, 10):
        assert np.allclose(ours.prox(point, 0.7), theirs.prox(point, 0.7), atol=1e-6, rtol=0)
    # The operator itself serves as a resolvent, for batches and tensors too.
    wrapped, batch = r.as_resolvent(theirs), points(SIZE, 4)
    assert np.allclose(wrapped.prox(batch, 0.7), ours.prox(batch, 0.7), atol=1e-6, rtol=0)
    tensor = wrapped.prox(torch.tensor(batch, dtype=torch.float32), 0.7)
    assert tensor.dtype == torch.float32
    assert np.allclose(tensor, ours.prox(batch, 0.7), atol=1e-5, rtol=0)


def pair_of_vectors(size):
    entries = st.floats(-5, 5, allow_subnormal=False)
    return arrays(np.float64, (2, size), elements=entries)


@pytest.mark.parametrize("name", CASES)
def test_firm_nonexpansiveness(name):
    resolvent, size, *_ = CASES[name]

    @settings(max_examples=30, deadline=None, database=None)
    @given(pair_of_vectors(size), st.floats(0.01, 3.0))
    def check(z, step):
        image = np.stack([resolvent.prox(z[0], step), resolvent.prox(z[1], step)])
        moved, gone = image[0] - image[1], z[0] - z[1]
        assert moved @ moved <= moved @ gone + 1e-7

    check()


@pytest.mark.parametrize("name", PROJECTIONS)
def test_a_projection_is_idempotent_and_independent_of_the_step(name):
    resolvent, size, *_ = CASES[name]

    @settings(max_examples=30, deadline=None, database=None)
    @given(pair_of_vectors(size))
    def check(z):
        image = resolvent.prox(z[0], 1.0)
        assert np.allclose(resolvent.prox(image, 0.1), image, atol=1e-8, rtol=0)
        assert np.allclose(resolvent.prox(z[0], 7.0), image, atol=1e-8, rtol=0)

    check()


@pytest.mark.parametrize("name", CASES)
def test_batches_and_tensors_equal_one_array_at_a_time(name):
    resolvent, size, *_ = CASES[name]
    tolerance = 1e-7 if name in BY_NUMPY else 1e-12
    batch = points(size, 12, seed=2).reshape(3, 4, size)
    single = np.stack([resolvent.prox(row, 0.8) for row in batch.reshape(-1, size)])
    single = single.reshape(batch.shape)
    assert np.allclose(resolvent.prox(batch, 0.8), single, atol=tolerance, rtol=0)
    tensor = torch.tensor(batch)
    image = resolvent.prox(tensor, 0.8)
    assert image.dtype == torch.float64
    assert np.allclose(image, single, atol=tolerance, rtol=0)
    assert np.allclose(tensor, batch, atol=0, rtol=0)
    for kind in (torch.float32, torch.bfloat16):
        image = resolvent.prox(tensor.to(kind), 0.8)
        assert image.dtype == kind
        slack = 1e-5 if kind == torch.float32 else 0.1
        assert np.allclose(image.double(), single, atol=slack, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_a_step_for_each_vector_of_a_batch(name):
    resolvent, size, *_ = CASES[name]
    batch, steps = points(size, 3), np.array([0.1, 1.0, 2.5])
    single = np.stack([resolvent.prox(z, float(s)) for z, s in zip(batch, steps, strict=True)])
    assert np.allclose(resolvent.prox(batch, steps), single, atol=1e-7, rtol=0)
    image = resolvent.prox(torch.tensor(batch), torch.tensor(steps))
    assert np.allclose(image, single, atol=1e-7, rtol=0)
    with pytest.raises(ValueError, match="step"):
        resolvent.prox(batch, steps[:2])


@pytest.mark.parametrize("name", [name for name in CASES if name not in BY_NUMPY])
def test_gradients_where_the_map_is_smooth(name):
    resolvent, size, *_ = CASES[name]
    batch = torch.tensor(points(size, 5, seed=3), requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: resolvent.prox(z, 0.6), batch)


@pytest.mark.parametrize(
    ("resolvent", "point"),
    [
        (r.Ball(1.0), np.zeros(3)),
        (r.SecondOrderCone(), np.array([1.0, 0.0, 0.0])),
        (r.SecondOrderCone(), np.array([-1.0, 0.0, 0.0])),
        (r.PSDCone(), np.eye(3).ravel()),
        (r.PSDCone(), np.diag([1.0, 1.0, -1.0]).ravel()),
        (r.GroupL2([[0, 1]], 1.0), np.zeros(3)),
        (r.Nuclear((2, 2), 1.0), np.zeros(4)),
        (r.Nuclear((2, 2), 1.0), 3 * np.eye(2).ravel()),
        (r.Nuclear((2, 3), 0.5), np.array([2.0, 0.0, 0.0, 0.0, -2.0, 0.0])),
    ],
)
def test_gradients_are_right_where_a_formula_would_divide_by_zero(resolvent, point):
    z = torch.tensor(point, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: resolvent.prox(z, 1.0), z)


def test_spectral_gradients_under_transforms():
    batch = torch.tensor(points(9, 4))
    for resolvent in (r.PSDCone(), r.Nuclear((3, 3), 0.5)):

        def total(z, resolvent=resolvent):
            return (resolvent.prox(z, 1.0) ** 3).sum()

        mapped = torch.func.vmap(torch.func.grad(total))(batch)
        z = batch.clone().requires_grad_()
        total(z).backward()
        assert torch.allclose(mapped, z.grad)


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("shift", [0.0, 1e6, -1e6])
def test_simplices_of_any_size_far_from_zero(size, shift):
    z = RNG.normal(size=size) + shift
    near = RNG.normal(size=size)
    for resolvent in (r.Simplex(), r.CappedSimplex(1.0, 1.5)):
        assert resolvent.prox(z, 1.0).sum() == pytest.approx(1.0, abs=1e-7)
        image = resolvent.prox(near, 1.0)
        assert image.sum() == pytest.approx(1.0, abs=1e-12)
        assert image.min() >= 0
    assert np.allclose(
        r.CappedSimplex(1.0, 1.5).prox(near, 1.0), r.Simplex().prox(near, 1.0), atol=1e-12, rtol=0
    )


def test_a_capped_simplex_of_one_point():
    assert np.allclose(r.CappedSimplex(1.0, 0.25).prox(NORMAL[:4], 1.0), 0.25)


def test_matrices_may_keep_their_shape():
    batch = points(6, 4)
    flat = r.Nuclear((2, 3), 0.5).prox(batch, 1.0)
    assert np.allclose(r.Nuclear((2, 3), 0.5).prox(batch.reshape(4, 2, 3), 1.0).reshape(4, 6), flat)
    batch = points(9, 4)
    flat = r.PSDCone().prox(batch, 1.0)
    assert np.allclose(r.PSDCone(3).prox(batch, 1.0), flat)
    assert np.allclose(r.PSDCone(3).prox(batch.reshape(4, 3, 3), 1.0).reshape(4, 9), flat)


def test_dependent_equations():
    doubled = r.AffineSet(np.vstack([EQUATIONS, EQUATIONS[0] * 2]), np.append(RIGHT, RIGHT[0] * 2))
    assert np.allclose(doubled.prox(NORMAL, 1.0), r.AffineSet(EQUATIONS, RIGHT).prox(NORMAL, 1.0))


def test_whole_numbers_and_lists():
    assert r.Simplex().prox([2, 0], 1).tolist() == [1.0, 0.0]
    assert r.Simplex().prox(torch.tensor([2, 0]), 1).tolist() == [1.0, 0.0]
    assert r.Box(0, 1).project([-1, 3]).tolist() == [0.0, 1.0]


def test_functions_and_objects_serve_as_resolvents():
    class Half:
        def prox(self, z, step):
            return z / (1 + step)

    for operator in (Half(), Half().prox, lambda v, step: v / (1 + step)):
        assert np.array_equal(r.as_resolvent(operator).prox(np.ones(2), 1.0), [0.5, 0.5])
        assert r.as_resolvent(operator).prox(torch.ones(2), 1.0).tolist() == [0.5, 0.5]
    assert isinstance(r.as_resolvent(None), r.FreeSpace)
    for wrong in (3, "box", r.Simplex):
        with pytest.raises(TypeError, match=r"A must be an object with prox\(z, step\)"):
            r.as_resolvent(wrong)
    for shorter in (lambda z, step: z[:-1], lambda z, step: 1.0):
        with pytest.raises(ValueError, match="keep the shape"):
            r.as_resolvent(shorter).prox(np.ones(3), 1.0)


def test_a_polytope_has_no_gradient_but_takes_tensors():
    polytope, z = CASES["polytope"][0], torch.tensor(points(SIZE, 2))
    assert np.allclose(polytope.prox(z, 1.0), polytope.prox(z.numpy(), 1.0), atol=1e-8)
    with pytest.raises(ValueError, match="gradient"):
        polytope.prox(z.requires_grad_(), 1.0)
    with torch.no_grad():
        polytope.prox(z, 1.0)


def test_nan_is_handed_on():
    broken = np.array([np.nan, 0.0, 1.0, 0.0, 0.0, 0.0])
    for name, (resolvent, size, *_) in CASES.items():
        if size == SIZE and name not in {"nuclear", "product"}:
            assert np.isnan(resolvent.prox(broken, 1.0)).any(), name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: r.Box(1, 0), "low must not exceed high"),
        (lambda: r.Box([0, 1], [1, 0.5]), "low must not exceed high"),
        (lambda: r.Box(np.nan, 1), "low"),
        (lambda: r.Box([0, 0], [1, 1, 1]), "low and high"),
        (lambda: r.Box(np.inf, np.inf), "low"),
        (lambda: r.Box("a", 1), "low"),
        (lambda: r.Ball(0), "radius"),
        (lambda: r.Ball(-1), "radius"),
        (lambda: r.Ball(1, [np.nan]), "centre"),
        (lambda: r.Ball(1, [[1.0]]), "centre"),
        (lambda: r.Halfspace([0.0, 0.0], 1), "a must not be zero"),
        (lambda: r.Halfspace([], 1), "a must be"),
        (lambda: r.Halfspace([1.0], np.inf), "b must be"),
        (lambda: r.AffineSet([[1.0, 1.0], [1.0, 1.0]], [0.0, 1.0]), "solution"),
        (lambda: r.AffineSet([1.0], [0.0]), "A must be 2-dim"),
        (lambda: r.AffineSet([[1.0]], [0.0, 1.0]), "b must have 1"),
        (lambda: r.PSDCone(0), "size"),
        (lambda: r.Simplex(0), "total"),
        (lambda: r.CappedSimplex(1.0, [0.2, 0.2]), "cap allows"),
        (lambda: r.CappedSimplex(1.0, -1.0), "cap must be"),
        (lambda: r.CappedSimplex(0.0, 1.0), "total"),
        (lambda: r.L1Ball(np.inf), "radius"),
        (lambda: r.L1(-1), "weight"),
        (lambda: r.L2Squared(np.inf), "weight"),
        (lambda: r.GroupL2([[0], [0, 1]]), "overlap"),
        (lambda: r.GroupL2([]), "groups"),
        (lambda: r.GroupL2([[0.5]]), "groups"),
        (lambda: r.GroupL2([[0], [1]], [1.0, 1.0, 1.0]), "weight"),
        (lambda: r.Nuclear((2, 0)), "shape"),
        (lambda: r.Nuclear(4), "shape"),
        (lambda: r.Nuclear((2, 2), [1.0, 1.0]), "weight"),
        (lambda: r.Polytope([[1.0], [-1.0]], [0.0, -1.0]), "G z <= h must have a solution"),
        (lambda: r.Polytope([[1.0]], [0.0, 1.0]), "h must have 1"),
        (lambda: r.Polytope([[np.nan]], [0.0]), "G must be"),
        (lambda: r.Product([]), "blocks"),
        (lambda: r.Product([r.Simplex()]), "blocks"),
        (lambda: r.Product([(r.Simplex(), 0)]), "blocks"),
    ],
)
def test_arguments_that_make_no_set_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("resolvent", "shape"),
    [
        (r.Box([0, 0], 1), (3,)),
        (r.Ball(1.0, [0.0, 0.0]), (3,)),
        (r.Halfspace([1.0, 1.0], 0), (3,)),
        (r.AffineSet([[1.0, 1.0]], [0.0]), (3,)),
        (r.SecondOrderCone(), (1,)),
        (r.PSDCone(), (5,)),
        (r.PSDCone(2), (9,)),
        (r.Simplex(), ()),
        (r.Simplex(), (0,)),
        (r.CappedSimplex(1.0, 0.1), (9,)),
        (r.CappedSimplex(1.0, [0.5, 0.6]), (3,)),
        (r.L1([1.0, 1.0]), (3,)),
        (r.GroupL2([[4]]), (3,)),
        (r.Nuclear((2, 2)), (5,)),
        (r.Polytope([[1.0, 1.0]], [0.0]), (3,)),
        (r.Product([(r.Simplex(), 2), (None, 2)]), (3,)),
    ],
)
def test_vectors_of_another_shape_are_refused(resolvent, shape):
    for z in (np.ones(shape), torch.ones(shape)):
        with pytest.raises(ValueError, match=r"z must|cap allows"):
            resolvent.prox(z, 1.0)


@pytest.mark.parametrize("step", [0.0, -1.0, np.nan])
def test_steps_that_are_not_positive_are_refused(step):
    with pytest.raises(ValueError, match="step"):
        r.Simplex().prox(np.ones(2), step)


def test_numpy_users_do_not_pay_for_torch():
    code = (
        "import sys; from cameraready.minmax.resolvents import PSDCone; import numpy as np; "
        "PSDCone().prox(np.eye(2).ravel(), 1.0); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
