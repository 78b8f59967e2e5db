"""Ellipsoids of regression coefficients."""

import change_references as ref
import numpy as np
import pytest
from scipy.optimize import minimize

from cameraready.change_detection import ConfidenceSequenceDetector, cs
from cameraready.change_detection.regression import ellipsoids_disjoint


def rows(seed, count, theta, sigma=0.5):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (count, len(theta)))
    return np.column_stack([x, x @ theta + rng.normal(0, sigma, count)])


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_contrasts_equal_linear_algebra(dimension, nested):
    rng = np.random.default_rng(dimension)
    data = rows(dimension, 60, rng.normal(size=dimension))
    contrasts = rng.normal(size=(3, dimension))
    expected = ref.regression(data, 0.1, 0.5, 2.0, 0.7, contrasts)
    expected = ref.nested(expected) if nested else expected
    sequence = cs.LinearRegression(0.5, 2.0, dimension, 0.7, contrasts, alpha=0.1)
    assert np.allclose(sequence.run(data, nested=nested), expected, atol=1e-8, rtol=0)


def test_without_contrasts_the_coordinates_are_shown():
    data = rows(0, 40, np.array([1.0, -1.0]))
    got = cs.LinearRegression(0.5, 2.0, 2, alpha=0.1).run(data, nested=False)
    expected = ref.regression(data, 0.1, 0.5, 2.0, 1.0, np.eye(2))
    assert np.allclose(got, expected, atol=1e-8, rtol=0)


def test_the_row_of_state_holds_centre_radius_and_precision():
    # Six contrasts determine the ellipsoid of two dimensions: this one, and no other.
    data = rows(1, 200, np.array([0.3, 0.8]))
    fit = ref.ridge(data, 0.05, 0.5, 1.0, 2.0)
    angles = np.linspace(0, np.pi, 6, endpoint=False)
    contrasts = np.column_stack([np.cos(angles), np.sin(angles)])
    sequence = cs.LinearRegression(0.5, 1.0, 2, 2.0, contrasts, alpha=0.05)
    lower, upper = sequence.run(data, nested=False)
    assert np.allclose((lower[-1] + upper[-1]) / 2, contrasts @ fit.centre, atol=1e-9)
    shape = fit.radius**2 * np.linalg.inv(fit.precision)
    half = np.sqrt(np.einsum("ci,ij,cj->c", contrasts, shape, contrasts))
    assert np.allclose((upper[-1] - lower[-1]) / 2, half, atol=1e-9)


def disjoint_by_minimisation(gap, first, second):
    """Whether the least value of the second quadratic form over the first ellipsoid exceeds 1."""
    d = len(gap)
    root = np.linalg.cholesky(first)
    inverse = np.linalg.inv(second)

    def value(u):  # a point gap + root u of the first ellipsoid, |u| <= 1
        point = gap + root @ u
        return point @ inverse @ point

    def slope(u):
        return 2 * root.T @ inverse @ (gap + root @ u)

    found = minimize(
        value,
        np.zeros(d),
        jac=slope,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda u: 1 - u @ u, "jac": lambda u: -2 * u},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.fun


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_disjoint_ellipsoids_are_told_apart(dimension):
    rng = np.random.default_rng(dimension)
    verdicts = []
    for _ in range(150):
        shapes = []
        for _ in range(2):
            factor = rng.normal(size=(dimension, dimension)) * rng.uniform(0.1, 2)
            shapes.append(factor @ factor.T + 1e-3 * np.eye(dimension))
        gap = rng.normal(size=dimension) * rng.uniform(0.2, 6)
        least = disjoint_by_minimisation(gap, *shapes)
        if abs(least - 1) < 1e-3:
            continue  # they touch
        work = np.empty((dimension, dimension + 1))
        for order in (shapes, shapes[::-1]):
            got = ellipsoids_disjoint(gap, order[0].ravel(), order[1].ravel(), work)
            assert got == (least > 1), (gap, shapes)
        verdicts.append(least > 1)
    assert 20 < sum(verdicts) < 130


def test_intervals_are_ellipsoids_of_one_dimension():
    work = np.empty((1, 2))
    for gap, disjoint in ((2.99, False), (3.01, True), (-3.01, True), (0.0, False)):
        got = ellipsoids_disjoint(np.array([gap]), np.array([4.0]), np.array([1.0]), work)
        assert got is disjoint


def test_an_alarm_by_ellipsoids_has_disjoint_ellipsoids_as_witnesses():
    # A change along (1, -1) between correlated regressors: no single coordinate shows it as soon.
    alarms = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(600, 2)) @ np.array([[1.0, 0.9], [0.0, 0.45]])
        theta = np.where(np.arange(600)[:, None] < 300, [0.5, 0.5], [1.2, -0.2])
        data = np.column_stack([x, (x * theta).sum(axis=1) + rng.normal(0, 0.3, 600)])
        arl = 100.0
        pairs = ConfidenceSequenceDetector(cs.LinearRegression(0.3, 1.5, 2, 0.1), arl=arl)
        alone = ConfidenceSequenceDetector(
            cs.LinearRegression(0.3, 1.5, 2, 0.1, contrasts=np.eye(2)), arl=arl
        )
        result = pairs.detect(data)
        assert result.alarm
        separate = alone.detect(data)
        assert result.index <= (separate.index or 601), seed
        if (pairs.lower_ > pairs.upper_).any():
            continue  # the intervals had it as soon
        alarms += 1
        (a, b), (c, d) = result.detection.witness
        assert 1 <= a <= b < c <= d == result.index
        first = ref.ridge(data[a - 1 : b], 1 / arl, 0.3, 1.5, 0.1)
        second = ref.ridge(data[c - 1 : d], 1 / arl, 0.3, 1.5, 0.1)
        shapes = [fit.radius**2 * np.linalg.inv(fit.precision) for fit in (first, second)]
        gap = first.centre - second.centre
        assert disjoint_by_minimisation(gap, *shapes) > 1
    assert alarms >= 1


def test_the_pairs_that_are_promised_are_all_compared():
    # Exact engine: the first sequence at every earlier time against every later start.
    n, s_values = 45, np.linspace(0.005, 0.995, 199)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        theta = np.where(np.arange(n)[:, None] < 25, [1.0, 0.0], [-1.0, 2.0])
        x = rng.normal(size=(n, 2))
        data = np.column_stack([x, (x * theta).sum(axis=1) + rng.normal(0, 0.1, n)])
        detector = ConfidenceSequenceDetector(
            cs.LinearRegression(0.1, 2.5, 2), arl=20, engine="exact"
        )
        result = detector.detect(data)
        fits, shapes = {}, {}
        low, high, expected = np.full(2, -np.inf), np.full(2, np.inf), None
        for t in range(1, n + 1):
            for s in range(1, t + 1):
                fit = fits[s, t] = ref.ridge(data[s - 1 : t], 0.05, 0.1, 2.5, 1.0)
                shape = shapes[s, t] = fit.radius**2 * np.linalg.inv(fit.precision)
                low = np.maximum(low, fit.centre - np.sqrt(np.diag(shape)))
                high = np.minimum(high, fit.centre + np.sqrt(np.diag(shape)))
            found = (low > high).any()
            for s in range(2, t + 1):
                for end in range(1, s):
                    gap = fits[1, end].centre - fits[s, t].centre
                    if found or gap @ fits[s, t].precision @ gap <= fits[s, t].radius ** 2:
                        continue
                    first, second = shapes[1, end], shapes[s, t]
                    mixed = first / s_values[:, None, None] + second / (1 - s_values[:, None, None])
                    solved = np.linalg.solve(mixed, np.broadcast_to(gap[:, None], (199, 2, 1)))
                    found = found or (solved[:, :, 0] @ gap).max() > 1
            if found:
                expected = t
                break
        assert expected is not None
        assert result.index == expected


@pytest.mark.parametrize("dimension", [1, 3])
def test_coverage_of_contrasts(dimension):
    # Regressors that depend on the past: each is the last noise's sign, times chance.
    rng = np.random.default_rng(5)
    theta = np.full(dimension, 0.5)
    noise = rng.choice([-1.0, 1.0], (2000, 60))
    x = rng.uniform(0.5, 2, (2000, 60, dimension)) * np.roll(noise, 1, axis=1)[..., None]
    streams = np.concatenate([x, (x @ theta + noise)[..., None]], axis=-1)
    contrasts = np.concatenate([np.eye(dimension), np.ones((1, dimension))])
    sequence = cs.LinearRegression(1.0, 1.0, dimension, contrasts=contrasts, alpha=0.2)
    assert ref.misses(sequence, streams, contrasts @ theta) <= ref.most_misses(2000, 0.2)


def test_the_sets_shrink():
    data = rows(2, 2000, np.array([0.5, -0.5]))
    lower, upper = cs.LinearRegression(0.5, 1.0, 2).run(data)
    assert (upper[-1] - lower[-1] < 0.15).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("engine", ["geometric", "window", "exact"])
def test_a_change_of_slope_is_seen_soon(seed, engine):
    before, after = np.array([1.0, 0.5]), np.array([1.0, -0.5])
    data = np.concatenate([rows(seed, 150, before), rows(seed + 20, 150, after)])
    detector = ConfidenceSequenceDetector(
        cs.LinearRegression(0.5, 2.0, 2), arl=1000, engine=engine, window=60
    )
    result = detector.detect(data)
    assert result.alarm
    assert 150 < result.index < (290 if engine == "window" else 230)
    assert abs(result.change_point - 150) <= 12
    assert result.detection.before == pytest.approx(before, abs=0.25)


def test_no_alarm_without_a_change():
    for seed in range(5):
        data = rows(seed, 400, np.array([1.0, 0.5]))
        detector = ConfidenceSequenceDetector(cs.LinearRegression(0.5, 2.0, 2), arl=20)
        assert not detector.detect(data).alarm


def test_the_geometric_engine_alarms_no_earlier_than_the_exact_one():
    for seed in range(8):
        data = np.concatenate(
            [rows(seed, 80, np.array([1.0, 0.5])), rows(seed + 20, 80, np.array([0.2, -0.5]))]
        )
        index = {}
        for engine in ("exact", "geometric", "window"):
            detector = ConfidenceSequenceDetector(
                cs.LinearRegression(0.5, 2.0, 2), arl=100, engine=engine, window=25
            )
            index[engine] = detector.detect(data).index or 10_000
        assert index["exact"] <= min(index["geometric"], index["window"])


def test_one_slope_can_be_watched_in_one_direction():
    data = np.concatenate(
        [
            rows(0, 200, np.array([0.0])),
            rows(1, 200, np.array([2.0])),
            rows(2, 300, np.array([0.0])),
        ]
    )
    make = cs.LinearRegression(0.5, 3.0, 1)
    up = ConfidenceSequenceDetector(make, arl=100, direction="up").detect(data)
    down = ConfidenceSequenceDetector(make, arl=100, direction="down").detect(data)
    assert 200 < up.index < 260
    assert 400 < down.index < 460


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"sigma": 0.0, "bound": 1.0}, "sigma"),
        ({"sigma": 1.0, "bound": 0.0}, "bound"),
        ({"sigma": 1.0, "bound": 1.0, "ridge": -1.0}, "ridge"),
        ({"sigma": 1.0, "bound": 1.0, "dimension": 0}, "dimension"),
        ({"sigma": 1.0, "bound": 1.0, "dimension": 2, "contrasts": [[1.0]]}, "contrasts"),
        ({"sigma": 1.0, "bound": 1.0, "dimension": 2, "contrasts": [1.0, 0.0]}, "contrasts"),
    ],
)
def test_bad_arguments_are_named(given, named):
    with pytest.raises(ValueError, match=named):
        cs.LinearRegression(**given)


def test_contrasts_must_be_finite_and_at_least_one():
    for contrasts in (np.zeros((0, 2)), [[np.nan, 0.0]]):
        with pytest.raises(ValueError, match="contrasts"):
            cs.LinearRegression(1.0, 1.0, 2, contrasts=contrasts)


def test_rows_of_the_wrong_length_are_refused():
    detector = ConfidenceSequenceDetector(cs.LinearRegression(1.0, 1.0, 2))
    for wrong in (1.0, [1.0, 2.0], [1.0] * 4):
        with pytest.raises(ValueError, match=r"\(observations, 3\)"):
            detector.update(wrong)
