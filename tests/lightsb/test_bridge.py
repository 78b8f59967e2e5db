"""The estimator: right where the answer is known, and orderly at its edges."""

import json
import math
import pickle
import re
import warnings

import numpy as np
import ot
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

from cameraready.lightsb.bridge import LightSB
from cameraready.lightsb.training import Training

RHO = (5**0.5 - 1) / 2


def gaussians(n=20_000, d=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, d))


def two_clusters(n=600, seed=0):
    rng = np.random.default_rng(seed)
    x0 = rng.normal(size=(n, 2)) + 5
    x1 = 0.4 * rng.normal(size=(n, 2)) + np.array([[3.0, 0.0]]) * rng.choice([-1, 1], (n, 1))
    return x0, x1


@pytest.fixture(scope="module")
def fitted():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    bridge = LightSB(4, 0.2, max_iter=200, random_state=0).fit(*two_clusters())
    torch.set_num_threads(before)
    return bridge


def anti_monotone(x0, x1, rng):
    return np.argsort(x0[:, 0]), np.argsort(-x1[:, 0])


@pytest.mark.parametrize("plan", ["independent", anti_monotone, "minibatch", "sinkhorn", "paired"])
def test_every_plan_gives_the_bridge_between_gaussians(plan):
    # The correlation of the bridge between standard normals at eps = 1 is 0.618.
    x0, x1 = gaussians(50_000)
    if plan == "paired":
        x1 = x0[::-1].copy()  # pairs that have nothing to do with the bridge's
    costly = plan in ("minibatch", "sinkhorn")
    bridge = LightSB(
        1,
        1.0,
        plan=plan,
        scale="none",
        max_iter=400 if costly else 1000,
        batch_size=128 if costly else 512,
        polish=0.25,
        random_state=0,
    ).fit(x0, x1)
    # The sample's own bridge is the target of the fit.
    v0, v1 = x0.var(), x1.var()
    slope = (math.sqrt(v0 * v1 + 0.25) - 0.5) / v0
    assert abs(float(bridge.components_.scales[0, 0]) ** 2 - slope) < 0.01
    assert abs(slope - RHO) < 0.01


def test_the_gaussian_oracle_with_a_shift():
    rng = np.random.default_rng(0)
    x0, x1 = rng.normal(size=(50_000, 1)), 2 + 0.5 * rng.normal(size=(50_000, 1))
    bridge = LightSB(
        1, 0.5, scale="none", objective="energy", max_iter=600, dtype="float64", random_state=0
    ).fit(x0, x1)
    mean, variance = bridge.conditional_moments(np.array([[0.0], [1.0]]), diagonal=True)
    slope = 0.309017
    np.testing.assert_allclose(mean[:, 0], [2, 2 + slope], atol=0.01)
    np.testing.assert_allclose(variance, 0.154508, atol=0.005)
    # The same in units in which it is harder to see.
    far = LightSB(
        1,
        0.5,
        objective="energy",
        max_iter=600,
        dtype="float64",
        random_state=0,
    ).fit(1000 + 7 * x0, 1000 + 7 * x1)
    exact = bridge.set_params(eps=far.eps_data_units_ / 49).fit(x0, x1)
    np.testing.assert_allclose(
        far.predict(1000 + 7 * x0[:9]), 1000 + 7 * exact.predict(x0[:9]), atol=0.05
    )
    assert math.isclose(far.eps_data_units_, 0.5 * far.scaling_.scale**2)


def test_the_barycentric_map_of_pot():
    rng = np.random.default_rng(0)
    x0 = rng.normal(size=(200, 2))
    x1 = rng.normal(size=(200, 2)) * 0.3 + rng.choice([-1.5, 1.5], size=(200, 1))
    eps, uniform = 0.3, np.full(200, 1 / 200)
    plan = ot.sinkhorn(uniform, uniform, ot.dist(x0, x1), reg=2 * eps, numItermax=20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns, rightly, that it follows single rows
        bridge = LightSB(
            200,
            eps,
            objective="energy",
            scale="none",
            validation_fraction=0.0,
            max_iter=800,
            random_state=0,
        ).fit(x0, x1)
    expected = 200 * plan @ x1
    error = np.linalg.norm(bridge.predict(x0) - expected) / np.linalg.norm(expected)
    assert error < 0.05


def test_weights_stand_for_repeated_rows():
    rng = np.random.default_rng(0)
    x0, x1 = rng.normal(size=(4000, 1)), rng.normal(size=(4000, 1))
    # Weights tilt standard normals to N(1, 1) and N(-1, 1).
    bridge = LightSB(1, 1.0, scale="none", objective="energy", max_iter=500, random_state=0)
    bridge.fit(x0, x1, sample_weight0=np.exp(x0[:, 0]), sample_weight1=np.exp(-x1[:, 0]))
    assert abs(float(bridge.predict(np.array([[1.0]]))[0, 0]) + 1) < 0.15
    zero = bridge.fit(x0, x1, sample_weight0=x0[:, 0] > 0)
    assert set(np.flatnonzero(zero.ancestors(x1[:1])[0])) <= set(np.flatnonzero(x0[:, 0] > 0))


def test_samples_agree_with_moments_and_density(fitted):
    x0, _ = two_clusters(3)
    samples = fitted.transform(x0, n_samples=40_000)
    assert samples.shape == (3, 40_000, 2)
    mean, covariance = fitted.conditional_moments(x0)
    _, diagonal = fitted.conditional_moments(x0, diagonal=True)
    assert np.abs(samples.mean(1) - mean).max() < 4 * np.sqrt(covariance.max() / 40_000)
    np.testing.assert_allclose(samples.var(1), diagonal, rtol=0.05)
    np.testing.assert_allclose(np.diagonal(covariance, axis1=1, axis2=2), diagonal, rtol=1e-4)
    np.testing.assert_allclose(fitted.predict(x0) - x0, fitted.drift(x0, 0.0), atol=1e-4)
    # The density integrates to one, in data units.
    axis = np.linspace(-6, 6, 301)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    density = np.exp(fitted.conditional_log_prob(np.repeat(x0[:1], len(grid), 0), grid))
    assert abs(density.sum() * (axis[1] - axis[0]) ** 2 - 1) < 1e-3


def test_the_marginal_density_and_the_density_of_the_plan(fitted):
    x0, x1 = two_clusters(50, seed=1)
    marginal = fitted.marginal_log_prob(x1, x0)
    every = np.array(
        [fitted.conditional_log_prob(x0, np.repeat(x[None], 50, 0)).astype(float) for x in x1]
    )
    np.testing.assert_allclose(marginal, np.log(np.exp(every).mean(1)), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        fitted.plan_log_density(x0, x1, x0), np.diagonal(every) - marginal, rtol=1e-3, atol=2e-3
    )


def test_ancestors_invert_the_plan(fitted):
    x0, x1 = two_clusters(40, seed=1)
    weights = fitted.ancestors(x1, source=x0)
    every = np.array(
        [fitted.conditional_log_prob(x0, np.repeat(x[None], 40, 0)).astype(float) for x in x1]
    )
    expected = np.exp(every - every.max(1, keepdims=True))
    np.testing.assert_allclose(weights, expected / expected.sum(1, keepdims=True), atol=1e-4)
    drawn = fitted.inverse_transform(x1[:2], n_samples=5000, source=x0)
    assert drawn.shape == (2, 5000, 2)
    mean = weights[:2] @ x0
    assert np.abs(drawn.mean(1) - mean).max() < 4 * x0.std() / np.sqrt(5000) + 1e-3
    assert fitted.inverse_transform(x1).shape == x1.shape
    assert fitted.ancestors(x1).shape == (40, 600)


def test_the_ends_of_the_bridge(fitted):
    x0, _ = two_clusters(20)
    np.testing.assert_allclose(fitted.sample_at(x0, 0.0), x0, rtol=1e-6)
    np.testing.assert_allclose(
        fitted.sample_at(x0, 1.0), fitted.transform(x0), rtol=1e-4, atol=1e-4
    )
    paths = fitted.sample_paths(x0, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(paths[:, 0], x0, rtol=1e-6)
    np.testing.assert_allclose(paths[:, 2], fitted.transform(x0), rtol=1e-4, atol=1e-4)
    assert fitted.sample_paths(x0, n_steps=5, method="sde").shape == (20, 6, 2)
    assert fitted.sample_at(x0, np.linspace(0, 1, 20)).shape == (20, 2)


def test_the_divergence_in_data_units(fitted):
    x, step = two_clusters(3)[0], 1e-2
    by_differences = sum(
        (fitted.drift(x + step * e, 0.5) - fitted.drift(x - step * e, 0.5)) @ e / (2 * step)
        for e in np.eye(2)
    )
    np.testing.assert_allclose(fitted.divergence(x, 0.5), by_differences, rtol=2e-2, atol=2e-2)


def test_chunks_change_nothing(fitted):
    x0, x1 = two_clusters(300, seed=1)
    small = pickle.loads(pickle.dumps(fitted)).set_params(max_memory=0.01)
    np.testing.assert_allclose(small.predict(x0), fitted.predict(x0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        small.ancestors(x1[:40]), fitted.ancestors(x1[:40]), rtol=1e-3, atol=1e-6
    )
    t = np.linspace(0, 1, 300)
    np.testing.assert_allclose(small.drift(x0, t), fitted.drift(x0, t), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        small.conditional_log_prob(x0, x1), fitted.conditional_log_prob(x0, x1), rtol=1e-3
    )
    assert small.transform(x0).shape == x0.shape


def test_the_score_does_not_depend_on_the_origin_or_the_scaling():
    x0, x1 = two_clusters()
    settings = {"objective": "energy", "max_iter": 300, "dtype": "float64", "random_state": 0}
    scaled = LightSB(4, 0.2, **settings).fit(x0, x1)
    # The same potential in data units, by hand: its energy is that of the definition.
    k = scaled.module_
    a, b = scaled.scaling_.shift, scaled.scaling_.scale
    eps = scaled.eps_data_units_
    z0, z1 = (torch.from_numpy((x - a) / b) for x in (x0, x1))
    log_v = k.log_v(z1).detach().numpy() - x1 @ a / eps - 2 * math.log(b)
    log_c = k.log_c(z0).detach().numpy() + (x0 - a) @ a / eps
    assert math.isclose(scaled.score(x0, x1), log_v.mean() - log_c.mean(), rel_tol=1e-9)
    paired = x0 * x1
    log_prob = scaled.conditional_log_prob(x0, x1)
    np.testing.assert_allclose(log_prob, paired.sum(1) / eps + log_v - log_c, atol=1e-8)


def test_the_score_ranks_models_of_one_eps():
    x0, x1 = two_clusters()
    held = two_clusters(seed=1)
    scores = [
        LightSB(k, 0.2, objective="energy", max_iter=400, random_state=0).fit(x0, x1).score(*held)
        for k in (1, 4)
    ]
    assert scores[1] > scores[0] + 0.1


def test_single_precision_and_double_precision_agree():
    x0, x1 = two_clusters()
    settings = {"objective": "energy", "max_iter": 300, "random_state": 0}
    single, double = (
        LightSB(2, 0.2, dtype=dtype, **settings).fit(x0, x1) for dtype in ("float32", "float64")
    )
    assert single.predict(x0).dtype == np.float32
    assert double.predict(x0).dtype == np.float64
    assert np.abs(single.predict(x0) - double.predict(x0)).max() < 0.1


@pytest.mark.parametrize("kind", ["full", "spherical", "tied_full", "lowrank"])
def test_covariance_types(kind):
    x0, x1 = two_clusters()
    bridge = LightSB(2, 0.2, covariance_type=kind, rank=1 if kind == "lowrank" else None)
    bridge.set_params(max_iter=150, random_state=0, objective="energy").fit(x0, x1)
    assert bridge.module_.covariance_type == kind
    assert np.abs(bridge.transform(x0).std(0) - x1.std(0)).max() < 0.3


def test_the_same_seed_gives_the_same_fit_and_another_seed_another():
    x0, x1 = two_clusters(200)
    settings = {"n_components": 2, "max_iter": 30}
    a, b, c = (LightSB(random_state=s, **settings).fit(x0, x1) for s in (0, 0, 1))
    assert np.array_equal(a.transform(x0), b.transform(x0))
    assert not np.array_equal(a.transform(x0), c.transform(x0))
    assert np.array_equal(a.transform(x0, random_state=5), b.transform(x0, random_state=5))
    assert not np.array_equal(a.transform(x0), a.transform(x0, random_state=5))
    rng = np.random.default_rng(0)
    assert not np.array_equal(a.transform(x0, random_state=rng), a.transform(x0, random_state=rng))
    old = np.random.RandomState(0)
    assert not np.array_equal(a.transform(x0, random_state=old), a.transform(x0, random_state=old))


@pytest.mark.parametrize("kind", ["diag", "full", "lowrank"])
def test_what_is_saved_gives_the_same_samples(tmp_path, kind):
    x0, x1 = two_clusters(200)
    bridge = LightSB(3, max_iter=30, covariance_type=kind, rank=1, random_state=0).fit(
        x0, x1, sample_weight0=np.arange(200.0) + 1
    )
    bridge.save(tmp_path / "model")
    again = LightSB.load(tmp_path / "model")
    assert np.array_equal(again.transform(x0, 3), bridge.transform(x0, 3))
    assert np.array_equal(again.ancestors(x1), bridge.ancestors(x1))
    assert again.get_params() == {**bridge.get_params(), "device": "auto"}
    assert again.loss_curve_ == bridge.loss_curve_
    assert again.score(x0, x1) == bridge.score(x0, x1)
    assert pickle.loads(pickle.dumps(bridge)).score(x0, x1) == bridge.score(x0, x1)


def test_what_cannot_be_saved_or_read(tmp_path):
    x0, x1 = two_clusters(200)
    bridge = LightSB(2, max_iter=5, plan=anti_monotone, random_state=0).fit(x0, x1)
    with pytest.raises(ValueError, match=r"plan=.* cannot be saved"):
        bridge.save(tmp_path / "model")
    bridge.set_params(plan="independent").save(tmp_path / "model")
    with pytest.raises(FileNotFoundError):
        LightSB.load(tmp_path / "other")
    settings = tmp_path / "model" / "model.json"
    good = settings.read_text()
    settings.write_text(good.replace("LightSB", "Other"))
    with pytest.raises(ValueError, match="holds no LightSB"):
        LightSB.load(tmp_path / "model")
    lacking = json.loads(good)
    del lacking["learned"]
    settings.write_text(json.dumps(lacking))
    with pytest.raises(ValueError, match="holds no LightSB"):
        LightSB.load(tmp_path / "model")
    settings.write_text(good)
    (tmp_path / "model" / "potential.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="holds no LightSB"):
        LightSB.load(tmp_path / "model")


def test_tensors_in_tensors_out(fitted):
    x0, x1 = (torch.from_numpy(x).float() for x in two_clusters(20))
    assert isinstance(fitted.transform(x0), torch.Tensor)
    assert torch.equal(fitted.transform(x0), torch.from_numpy(fitted.transform(x0.numpy())))
    for values in (
        fitted.predict(x0),
        fitted.drift(x0, 0.5),
        fitted.sample_paths(x0, n_steps=3),
        fitted.inverse_transform(x1),
        fitted.conditional_log_prob(x0, x1),
        fitted.marginal_log_prob(x1),
    ):
        assert isinstance(values, torch.Tensor)


def test_scikit_learn(fitted):
    x0, x1 = two_clusters(200)
    pipe = make_pipeline(StandardScaler(), LightSB(2, max_iter=30, random_state=0)).fit(x0, x1)
    assert pipe.transform(x0).shape == x0.shape
    assert np.isfinite(pipe.score(x0, x1))
    search = GridSearchCV(
        LightSB(objective="energy", max_iter=100, random_state=0), {"n_components": [1, 4]}, cv=2
    ).fit(x0, x1)
    assert search.best_params_ == {"n_components": 4}
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(x0)
    assert fitted.n_features_in_ == 2
    assert LightSB(2, max_iter=5, random_state=0).fit_transform(x0, x1).shape == x0.shape


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
)
def test_the_checks_of_scikit_learn_that_need_no_fit(check):
    # The others fit with labels for X1, or none.
    check("LightSB", LightSB())


def test_fit_changes_no_parameter():
    bridge = LightSB(2, max_iter=5, random_state=0)
    before = bridge.get_params()
    bridge.fit(*two_clusters(100))
    assert bridge.get_params() == before


def test_partial_fit():
    rng = np.random.default_rng(0)

    def loader(batches):
        for _ in range(batches):
            yield rng.normal(size=(512, 1)), 3 + 0.5 * rng.normal(size=(512, 1))

    bridge = LightSB(1, 0.1, max_iter=400, random_state=0, objective="energy")
    bridge.partial_fit(loader(200)).partial_fit(loader(200))
    assert bridge.n_iter_ == 400
    x0 = rng.normal(size=(4000, 1))
    assert abs(bridge.transform(x0).mean() - 3) < 0.1
    assert abs(bridge.transform(x0).std() - 0.5) < 0.05
    with pytest.raises(ValueError, match="source must be given"):
        bridge.ancestors(x0[:2])
    assert bridge.inverse_transform(x0[:2], source=x0).shape == (2, 1)
    with pytest.raises(ValueError, match="same shape for both"):
        bridge.partial_fit([(np.ones((3, 1)), np.ones((4, 1)))])
    with pytest.raises(ValueError, match="no batches"):
        LightSB().partial_fit([])
    # What was pickled goes on too, but for the state of Adam.
    again = pickle.loads(pickle.dumps(bridge)).partial_fit(loader(10))
    assert again.n_iter_ == 410
    assert np.abs(again.predict(x0) - bridge.predict(x0)).max() < 0.1


def test_ctrl_c_leaves_a_model(monkeypatch):
    x0, x1 = two_clusters(200)

    def interrupt(progress):
        if progress.iteration >= 20:
            raise KeyboardInterrupt

    bridge = LightSB(2, max_iter=600, random_state=0)
    with pytest.warns(UserWarning, match="interrupted after 20 of 600"):
        bridge.fit(x0, x1, callback=interrupt)
    assert bridge.stopped_ == "interrupted"
    assert bridge.transform(x0).shape == x0.shape


def test_a_callback_sees_training_and_can_end_it():
    seen = []
    bridge = LightSB(2, max_iter=120, random_state=0, tol=None)
    bridge.fit(*two_clusters(200), callback=lambda progress: seen.append(progress))
    assert [progress.iteration for progress in seen] == list(range(2, 121, 2))
    assert seen[-1].energy == bridge.energy_curve_[-1]
    assert bridge.n_iter_ == len(bridge.loss_curve_) == 120
    assert bridge.stopped_ == "finished"
    bridge.fit(*two_clusters(200), callback=lambda progress: progress.iteration >= 10)
    assert (bridge.n_iter_, bridge.stopped_) == (10, "stopped")


def test_training_goes_on_from_a_checkpoint_as_if_nothing_had_happened(tmp_path):
    x0, x1 = two_clusters(300)
    settings = {"n_components": 2, "max_iter": 120, "plan": "sinkhorn", "batch_size": 16}
    whole = LightSB(random_state=0, **settings).fit(x0, x1)
    path = tmp_path / "state.safetensors"

    def interrupt(progress):
        if progress.iteration >= 50:
            raise KeyboardInterrupt

    part = LightSB(random_state=0, **settings)
    with pytest.warns(UserWarning, match="interrupted"):
        part.fit(x0, x1, callback=interrupt, checkpoint=path)
    assert part.n_iter_ == 50
    resumed = LightSB(random_state=0, **settings).fit(x0, x1, checkpoint=path)
    assert resumed.loss_curve_ == whole.loss_curve_
    assert np.array_equal(resumed.transform(x0), whole.transform(x0))
    with pytest.raises(ValueError, match="other data or settings: delete it, or name another"):
        LightSB(random_state=0, **{**settings, "max_iter": 50}).fit(x0, x1, checkpoint=path)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be read"):
        LightSB(random_state=0, **settings).fit(x0, x1, checkpoint=path)


def test_a_plateau_leads_to_the_end_of_the_schedule():
    x0, x1 = gaussians(2000)
    bridge = LightSB(1, 1.0, max_iter=1000, objective="energy", random_state=0).fit(x0, x1)
    assert bridge.stopped_ == "plateau"
    assert 500 <= bridge.n_iter_ < 1000
    assert abs(float(bridge.components_.scales[0, 0]) ** 2 - RHO) < 0.1


def test_overfitting_is_undone(monkeypatch):
    rng = np.random.default_rng(0)
    x0, x1 = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    held0, held1 = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2))
    bridge = LightSB(20, 0.3, objective="energy", max_iter=300, lr=0.05, tol=None, random_state=0)
    bridge.set_params(validation_fraction=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns, rightly, that it follows single rows
        kept = bridge.fit(x0, x1).score(held0, held1)
        assert bridge.energy_curve_[-1] > min(bridge.energy_curve_) + 5
        monkeypatch.setattr(Training, "_keep_the_best", lambda self: None)
        assert kept > bridge.fit(x0, x1).score(held0, held1) + 5


def test_a_loss_that_is_not_finite_stops_training_at_a_finite_state(monkeypatch):
    x0, x1 = two_clusters(200)
    bridge = LightSB(2, max_iter=600, random_state=0)

    def poison(progress):
        if progress.iteration == 40:
            with torch.no_grad():
                bridge.module_.means.mul_(math.nan)

    with pytest.raises(RuntimeError, match=re.escape("not finite at step 40 (learning rate 0.01")):
        bridge.fit(x0, x1, callback=poison)
    assert np.isfinite(bridge.transform(x0)).all()
    assert bridge.n_iter_ == 40


def test_active_components_are_counted():
    x0, x1 = two_clusters()
    bridge = LightSB(2, 0.2, max_iter=200, random_state=0).fit(x0, x1)
    assert bridge.n_active_ == 2
    far = np.concatenate([x1, [[60.0, 60.0]]])
    lost = LightSB(3, 0.2, max_iter=5, random_state=0, validation_fraction=0.0).fit(x0, far)
    assert lost.n_active_ <= 3


def test_few_steps_use_one_thread_and_give_the_others_back():
    torch.set_num_threads(2)
    seen = []
    LightSB(2, max_iter=5, random_state=0).fit(
        *two_clusters(200), callback=lambda progress: seen.append(torch.get_num_threads())
    )
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


X0, X1 = two_clusters(50)
NAN = X0.copy()
NAN[7, 1] = np.nan


@pytest.mark.parametrize(
    ("x0", "x1", "settings", "weights", "error", "message"),
    [
        (X0, X1[:, :1], {}, {}, ValueError, r"\(50, 2\) and \(50, 1\)"),
        (NAN, X1, {}, {}, ValueError, "X0 has NaN or infinity in row 7"),
        (X0, NAN, {}, {}, ValueError, "X1 has NaN or infinity in row 7"),
        (X0[:, 0], X1, {}, {}, ValueError, "X0 must have the shape"),
        (X0[:0], X1, {}, {}, ValueError, "X0 must have the shape"),
        (csr_matrix(X0), X1, {}, {}, TypeError, "X0 is a sparse matrix: reduce it first"),
        ([["a", "b"]], X1, {}, {}, TypeError, "X0 must hold numbers"),
        (X0, X1, {"eps": 0.0}, {}, ValueError, "eps must be"),
        (X0, X1, {"eps": math.inf}, {}, ValueError, "eps must be"),
        (X0, X1, {"n_components": 60}, {}, ValueError, "set n_components to at most 45"),
        (X0, X1, {"n_components": 0}, {}, ValueError, "n_components must be at least 1"),
        (X0, X1, {"n_components": 2.5}, {}, TypeError, "n_components must be a whole number"),
        (X0, X1, {"covariance_type": "round"}, {}, ValueError, "covariance_type must be one of"),
        (X0, X1, {"objective": "x"}, {}, ValueError, "objective must be one of"),
        (X0, X1, {"estimator": "x"}, {}, ValueError, "estimator must be one of"),
        (X0, X1, {"plan": "x"}, {}, ValueError, "plan must be one of"),
        (X0, X1, {"init": "x"}, {}, ValueError, "init must be one of"),
        (X0, X1, {"init_scale": -1.0}, {}, ValueError, "init_scale must be"),
        (X0, X1, {"scale": "x"}, {}, ValueError, "scale must be one of"),
        (X0, X1, {"dtype": "float16"}, {}, ValueError, "dtype must be one of"),
        (X0, X1, {"lr": 0.0}, {}, ValueError, "lr must be"),
        (X0, X1, {"tol": -1.0}, {}, ValueError, "tol must be"),
        (X0, X1, {"polish": 1.5}, {}, ValueError, "polish must be"),
        (X0, X1, {"validation_fraction": 1.0}, {}, ValueError, "validation_fraction must be"),
        (X0, X1, {"max_memory": 0.0}, {}, ValueError, "max_memory must be"),
        (X0, X1, {"covariance_type": "lowrank", "rank": 3}, {}, ValueError, "rank=3 is more"),
        (X0, X1, {"random_state": "x"}, {}, TypeError, "random_state must be"),
        (X0, X1[:40], {"plan": "paired"}, {}, ValueError, "as many rows in X0 as in X1"),
        (X0, X1, {}, {"sample_weight0": -np.ones(50)}, ValueError, "sample_weight0 must be"),
        (X0, X1, {}, {"sample_weight1": np.zeros(50)}, ValueError, "sample_weight1 must be"),
        (X0, X1, {}, {"sample_weight1": np.ones(3)}, ValueError, "sample_weight1 must have one"),
        (
            X0,
            X1,
            {"plan": "paired"},
            {"sample_weight1": np.ones(50)},
            ValueError,
            "sample_weight1 has no meaning",
        ),
        (
            X0,
            X1,
            {"n_components": 5},
            {"sample_weight1": np.arange(50) < 3},
            ValueError,
            "rows of X1 with a positive weight",
        ),
    ],
)
def test_bad_input(x0, x1, settings, weights, error, message):
    with pytest.raises(error, match=message):
        LightSB(**{"n_components": 2, "max_iter": 2, **settings}).fit(x0, x1, **weights)


def test_bad_input_after_the_fit(fitted):
    with pytest.raises(ValueError, match="X has 3 features, but LightSB is expecting 2"):
        fitted.transform(np.ones((4, 3)))
    with pytest.raises(ValueError, match="times"):
        fitted.sample_at(X0, 1.5)
    with pytest.raises(ValueError, match="t must be one time or one a row"):
        fitted.drift(X0, np.zeros(3))
    with pytest.raises(ValueError, match="times must be increasing"):
        fitted.sample_paths(X0, [0.5, 0.1])
    with pytest.raises(ValueError, match="method must be one of"):
        fitted.sample_paths(X0, method="ode")
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        fitted.transform(X0, 0)
    with pytest.raises(ValueError, match="X0 and X1 must have as many rows"):
        fitted.conditional_log_prob(X0, X1[:3])


def test_where_components_start():
    x0, x1 = two_clusters(200)
    once = {"max_iter": 1, "lr": 1e-9, "scale": "none", "dtype": "float64", "random_state": 0}
    bridge = LightSB(3, 0.5, init="random", init_scale=0.3, validation_fraction=0.0, **once)
    start = bridge.fit(x0, x1, sample_weight1=np.arange(200) < 20)
    np.testing.assert_allclose(start.components_.scales**2, 0.3, rtol=1e-6)
    # At the source's mean the conditional means are rows that have a weight.
    moved = start.components_.means + 0.3 * x0.mean(0)
    assert np.abs(moved[:, None] - x1[:20]).sum(2).min(1).max() < 1e-6


def test_weights_tell_the_directions_of_low_rank():
    # The rows with a weight lie along the second axis, the others along the first.
    rng = np.random.default_rng(0)
    x1 = np.concatenate(
        [rng.normal(size=(300, 2)) * [9, 0.1], rng.normal(size=(300, 2)) * [0.1, 1]]
    )
    bridge = LightSB(2, 1.0, covariance_type="lowrank", rank=1, max_iter=1, random_state=0)
    bridge.fit(rng.normal(size=(600, 2)), x1, sample_weight1=np.arange(600) >= 300)
    assert abs(bridge.components_.rotations[:, 0] @ [0, 1]) > 0.99


def test_tensors_of_weights_and_times(fitted):
    weights = np.arange(50.0)
    settings = {"n_components": 2, "max_iter": 5, "random_state": 0}
    one = LightSB(**settings).fit(X0, X1, sample_weight0=weights, sample_weight1=weights)
    given = torch.from_numpy(weights)
    two = LightSB(**settings).fit(X0, X1, sample_weight0=given, sample_weight1=given)
    assert np.array_equal(one.transform(X0), two.transform(X0))
    times = np.array([0.2, 0.7])
    assert np.array_equal(
        fitted.sample_paths(X0, torch.from_numpy(times)), fitted.sample_paths(X0, times)
    )


def test_weights_on_few_rows():
    # Held-out rows without any weight are taken as they are.
    only = (np.arange(50) < 3).astype(float)
    bridge = LightSB(1, max_iter=5, random_state=0).fit(X0, X1, sample_weight0=only)
    assert np.isfinite(bridge.energy_curve_).all()


def test_constant_columns_are_named():
    x0, x1 = (np.column_stack([x, np.full(50, 3.0)]) for x in (X0, X1))
    with pytest.warns(UserWarning, match=r"columns \[2\] are constant"):
        bridge = LightSB(2, max_iter=20, random_state=0).fit(x0, x1)
    assert np.isfinite(bridge.transform(x0)).all()


def test_eps_that_is_too_small_is_named():
    with pytest.warns(UserWarning, match="eps=1e-06 is small .* take eps >="):
        LightSB(2, 1e-6, max_iter=2, random_state=0).fit(X0, X1)


def test_points_far_away_are_named(fitted):
    with pytest.warns(UserWarning, match="more than 6 standard deviations"):
        fitted.transform(X0 + 100)


def test_warnings_point_at_the_line_of_the_caller(fitted):
    constant = np.column_stack([X0, np.full(50, 3.0)])
    bridge = LightSB(2, max_iter=20, random_state=0)
    calls = [
        lambda: fitted.transform(X0 + 100),
        lambda: clone(fitted).set_output(transform="pandas").fit(X0, X1).transform(X0 + 100),
        lambda: make_pipeline(fitted).transform(X0 + 100),
        lambda: bridge.fit(constant, constant),
        lambda: bridge.fit_transform(constant, constant),
        lambda: clone(bridge).partial_fit([(constant, constant)]),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match="standard deviations|constant") as caught:
            call()
        line = call.__code__.co_firstlineno
        assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, line)}


def test_the_kind_of_the_input_does_not_matter(fitted):
    # Numbers that every kind holds.
    whole = np.round(X0)
    expected = fitted.transform(whole)
    kinds = [whole.tolist(), whole.astype(int), whole.astype(np.float16), whole.astype(np.float32)]
    for points in [*kinds, np.asfortranarray(whole), whole[::-1][::-1]]:
        assert np.array_equal(fitted.transform(points), expected)
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        drawn = fitted.transform(torch.from_numpy(whole).to(dtype))
        assert np.array_equal(drawn.numpy(), expected)
    for dtype in (torch.float16, torch.int64):
        small = torch.from_numpy(np.round(X1)).to(dtype)
        model = LightSB(2, max_iter=5, random_state=0).fit(whole.astype(int), small)
        assert np.isfinite(model.transform(whole)).all()
    with pytest.raises(ValueError, match=r"with n > 0, not \(0, 2\)"):
        fitted.transform(X0[:0])
    with pytest.raises(ValueError, match=r"not \(2,\)\. Reshape your data"):
        fitted.transform(X0[0])


def test_tables_keep_their_names(tmp_path):
    table0, table1 = (pd.DataFrame(x, columns=["a", "b"]) for x in (X0, X1))
    table0.index = [f"cell{i}" for i in range(50)]
    bridge = LightSB(2, max_iter=20, random_state=0).set_output(transform="pandas")
    drawn = bridge.fit(table0, table1).transform(table0)
    assert bridge.get_feature_names_out().tolist() == ["a", "b"]
    assert drawn.columns.tolist() == ["a", "b"]
    assert drawn.index.tolist() == table0.index.tolist()
    plain = clone(bridge).set_output(transform="default").fit(X0, X1)
    assert np.array_equal(drawn, plain.transform(X0))
    assert plain.get_feature_names_out().tolist() == ["x0", "x1"]
    assert isinstance(bridge.predict(table0), np.ndarray)
    # The names go along, and arrays need none.
    bridge.save(tmp_path / "model")
    again = LightSB.load(tmp_path / "model")
    assert again.get_feature_names_out().tolist() == ["a", "b"]
    assert np.array_equal(again.transform(X0), drawn)
    with pytest.raises(ValueError, match=r"X must have the columns of X0 in fit.*\['b', 'a'\]"):
        again.transform(table0[["b", "a"]])
    with pytest.raises(ValueError, match="X1 must have the columns of X0 in fit"):
        bridge.fit(table0, table1[["b", "a"]])
    with pytest.raises(ValueError, match="x1 must have the columns of X0 in fit"):
        again.partial_fit([(table0, table1[["b", "a"]])])
    assert not hasattr(bridge.fit(X0, table1), "feature_names_in_")


def test_a_pipeline_transforms_the_source_only():
    scaled = StandardScaler().fit_transform(X0)
    settings = {"n_components": 2, "max_iter": 20, "random_state": 0}
    pipe = make_pipeline(StandardScaler(), LightSB(**settings)).fit(X0, X1)
    expected = LightSB(**settings).fit(scaled, X1).transform(scaled)
    assert np.array_equal(pipe.transform(X0), expected)
    assert pipe.get_feature_names_out().tolist() == ["x0", "x1"]


def test_partial_fit_far_from_the_origin():
    # Without a scale nothing but the estimator itself takes the distance away.
    def fitted_at(origin):
        rng = np.random.default_rng(0)

        def loader():
            for _ in range(150):
                yield origin + rng.normal(size=(256, 1)), origin + 3 + rng.normal(size=(256, 1)) / 2

        bridge = LightSB(1, 0.5, scale="none", objective="energy", dtype="float64", random_state=0)
        return bridge.set_params(max_iter=300).partial_fit(loader()).partial_fit(loader())

    near, far = fitted_at(0.0), fitted_at(1e3)
    x = np.linspace(-2, 2, 5)[:, None]
    np.testing.assert_allclose(far.predict(1e3 + x) - 1e3, near.predict(x), atol=1e-6)
    assert abs(float(near.predict(np.zeros((1, 1)))[0, 0]) - 3) < 0.1


def test_a_column_of_text_and_a_table(fitted):
    table = pd.DataFrame(X0, columns=["a", "b"])
    assert np.array_equal(fitted.transform(table), fitted.transform(X0))
    with pytest.raises(TypeError, match="X must hold numbers"):
        fitted.transform(table.assign(b="text"))


def test_memory_that_runs_out_halves_the_chunks():
    from cameraready.lightsb.points import in_chunks

    sizes = []

    def work(part):
        sizes.append(part.stop - part.start)
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError("too much")
        return torch.arange(part.start, part.stop)

    assert in_chunks(work, 10, 1, 8).tolist() == list(range(10))
    assert sizes == [8, 4, 2, 2, 2, 2, 2]

    def never(part):
        raise torch.OutOfMemoryError("too much")

    with pytest.raises(torch.OutOfMemoryError):
        in_chunks(never, 10, 1, 8)


def test_weights_on_one_row_are_never_all_held_out() -> None:
    rng = np.random.default_rng(0)
    x0, x1 = rng.standard_normal((2, 100, 1))
    weight = np.zeros(100)
    weight[17] = 1.0
    for seed in range(8):  # the row would be held out in some of them
        bridge = LightSB(1, 0.5, max_iter=5, validation_fraction=0.5, random_state=seed)
        bridge.fit(x0, x1, sample_weight0=weight)
        assert np.isfinite(bridge.predict(x0)).all()
