"""Bridges on AnnData: what is written, through files, known fates, and bad input."""

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from cameraready.datasets import hsmm
from cameraready.lightsb import LightSBModule, ann
from cameraready.lightsb.anndata_files import write_anndata

FAST = {"n_components": 4, "max_iter": 300, "random_state": 0, "device": "cpu"}


def text(values):
    """Text as plain objects: anndata 0.12.6 cannot write what pandas 3 makes of it."""
    return pd.Index(list(values), dtype=object)


def cells_of(points, day, **columns):
    obs = pd.DataFrame({"day": day, **columns}, index=text(f"cell{i}" for i in range(len(points))))
    none = pd.DataFrame(index=text([]))
    return anndata.AnnData(obs=obs, var=none, obsm={"X_pca": points})


def two_branches():
    """From day 0 to day 1 cells go left or right, the right branch being wider."""
    return LightSBModule(
        torch.zeros(2, dtype=torch.float64),
        torch.tensor([[-4.0, 0.0], [4.0, 0.0]], dtype=torch.float64),
        torch.tensor([[0.02], [0.2]], dtype=torch.float64).log().mul(0.5).expand(2, 2),
        eps=4.0,
    )


def branching(n=400, seed=0):
    """Cells at days 0, 1 and 3, and the chance of each at day 0 to go right."""
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    start, others = rng.normal(size=(2, n, 2))
    later = two_branches().sample_conditional(torch.from_numpy(others), 1, generator)
    later = later[:, 0].numpy()
    # As many on each side as before, so that none has to change.
    last = later + np.sign(later[:, :1]) * [4.0, 0.0] + 0.1 * rng.normal(size=(n, 2))
    points = np.concatenate([start, later, last])
    day = np.repeat([0, 1, 3], n)
    chance = two_branches().responsibilities(torch.from_numpy(start))[:, 1].detach().numpy()
    # Cells of a day do not lie together.
    order = rng.permutation(len(day))
    points, day = points[order], day[order]
    branch = np.where(points[:, 0] > 0, "right", "left")
    adata = cells_of(points, pd.Categorical(day), branch=branch, side=points[:, 0] > 0)
    return adata, pd.Series(chance[order[day == 0]], index=adata.obs_names[day == 0])


def without_day(adata, day):
    """What is left without a day, made anew."""
    left = (adata.obs["day"] != day).to_numpy()
    rest = cells_of(adata.obsm["X_pca"][left], adata.obs["day"].to_numpy()[left])
    rest.uns = adata.uns
    return rest


@pytest.fixture(scope="module")
def fitted():
    adata, chance = branching()
    chain = ann.fit_trajectories(
        adata, "day", sigma2=4.0, scale="none", **{**FAST, "max_iter": 600}
    )
    return adata, chain, chance


@pytest.fixture(scope="module")
def real_cells():
    data = hsmm()
    centred = data["expression"] - data["expression"].mean(0)
    u, s, vt = np.linalg.svd(centred, full_matrices=False)
    adata = anndata.AnnData(
        data["expression"],
        obs=pd.DataFrame({"hours": data["hours"]}, index=text(data["cells"])),
        var=pd.DataFrame(index=text(data["genes"])),
        obsm={"X_pca": (u * s)[:, :5]},
        varm={"PCs": vt[:5].T},
    )
    return adata


@pytest.fixture
def muscle(real_cells):
    return real_cells.copy()


def test_what_is_written(fitted):
    adata, chain, _ = fitted
    velocity = adata.obsm["lightsb_velocity"]
    assert velocity.shape == adata.obsm["X_pca"].shape
    for day in (0, 1, 3):
        mask = (adata.obs["day"] == day).to_numpy()
        np.testing.assert_array_equal(
            velocity[mask], chain.drift(adata.obsm["X_pca"][mask], float(day))
        )
    kept = adata.uns["lightsb"]
    assert (kept["time_key"], kept["basis"]) == ("day", "X_pca")
    assert kept["times"].tolist() == [0, 1, 3]


def test_velocity_is_in_units_of_the_basis_and_of_time():
    # Two points that are far apart and hardly any noise: everything moves at the same speed.
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 2)) * 0.5
    day = np.repeat([2.0, 6.0], 200)
    points[200:] += [30.0, -10.0]
    adata = cells_of(points, day)
    ann.fit_trajectories(adata, "day", **{**FAST, "n_components": 1})
    expected = np.array([30.0, -10.0]) / 4
    assert np.abs(adata.obsm["lightsb_velocity"].mean(0) - expected).max() < 0.3


@pytest.mark.parametrize("backed", [None, "r"])
def test_through_a_file(fitted, tmp_path, backed):
    adata, chain = fitted[0].copy(), fitted[1]
    del adata.obs["branch"]  # see `text`
    ann.fate(adata, "side")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad", backed=backed)
    restored = ann.fitted_chain(again, "cpu")
    assert restored.mass_ratios_ == chain.mass_ratios_
    points = adata.obsm["X_pca"][(adata.obs["day"] == 0).to_numpy()]
    np.testing.assert_array_equal(
        restored.sample_paths(points, [0.5, 2.0], random_state=1),
        chain.sample_paths(points, [0.5, 2.0], random_state=1),
    )
    np.testing.assert_array_equal(
        restored.interpolate(2.0, random_state=1), chain.interpolate(2.0, random_state=1)
    )
    np.testing.assert_array_equal(
        ann.interpolate(again, 2.0, seed=3).obsm["X_pca"],
        ann.interpolate(adata, 2.0, seed=3).obsm["X_pca"],
    )
    np.testing.assert_array_equal(again.obs["lightsb_fate_True"], adata.obs["lightsb_fate_True"])
    np.testing.assert_array_equal(ann.fate(again, "side"), ann.fate(adata, "side"))
    if backed:
        again.file.close()


@pytest.mark.parametrize("covariance_type", ["full", "lowrank", "spherical", "tied_full"])
def test_every_kind_of_potential_goes_through_a_file(tmp_path, covariance_type):
    adata, _ = branching(60)
    settings = {**FAST, "n_components": 2, "max_iter": 10, "covariance_type": covariance_type}
    chain = ann.fit_trajectories(adata, "day", **settings)
    del adata.obs["branch"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    restored = ann.fitted_chain(anndata.read_h5ad(tmp_path / "cells.h5ad"), "cpu")
    points = adata.obsm["X_pca"]
    np.testing.assert_array_equal(restored.drift(points, 2.0), chain.drift(points, 2.0))


def test_what_comes_of_a_file_can_be_written(muscle, tmp_path):
    # As it is read, text is of pandas 3's type, which anndata 0.12 does not write.
    muscle.obs["kind"] = pd.Categorical(np.where(np.arange(muscle.n_obs) % 2, "odd", "even"))
    write_anndata(tmp_path / "cells.h5ad", muscle)
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad")
    ann.fit_trajectories(adata, "hours", **{**FAST, "max_iter": 10})
    made = {"drawn": ann.interpolate(adata, 36.0, genes=True, seed=0)}
    made |= {str(i): coupling for i, coupling in enumerate(ann.to_couplings(adata).values())}
    for name, one in made.items():
        one.write_h5ad(tmp_path / f"{name}.h5ad")
        again = anndata.read_h5ad(tmp_path / f"{name}.h5ad")
        np.testing.assert_array_equal(again.X, one.X)
        for side in ("obs", "var"):
            pd.testing.assert_frame_equal(
                *(getattr(x, side) for x in (again, one)),
                check_dtype=False,
                check_categorical=False,
                check_index_type=False,
            )


def test_what_is_added_to_cells_can_be_written(tmp_path):
    adata, _ = branching(60)
    adata.obs["mass"] = 1.0
    adata.obs["branch"] = adata.obs["branch"].astype(object)
    ann.fit_trajectories(adata, "day", weight_key="mass", **{**FAST, "max_iter": 10})
    table = ann.fate(adata, "branch")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    for name in table:
        np.testing.assert_array_equal(again.obs[f"lightsb_fate_{name}"], table[name])
    np.testing.assert_array_equal(again.obsm["lightsb_velocity"], adata.obsm["lightsb_velocity"])
    assert ann.fitted_chain(again, "cpu").sigma2 == ann.fitted_chain(adata, "cpu").sigma2


def test_ctrl_c_leaves_the_cells_and_the_fit_goes_on(tmp_path):
    adata, _ = branching(60)
    settings = {**FAST, "n_components": 2, "max_iter": 20}

    def interrupt(interval, progress):
        if progress.iteration == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ann.fit_trajectories(adata, "day", callback=interrupt, checkpoint=tmp_path, **settings)
    assert "lightsb" not in adata.uns
    assert "lightsb_velocity" not in adata.obsm
    seen = []
    ann.fit_trajectories(
        adata, "day", callback=lambda *given: seen.append(given), checkpoint=tmp_path, **settings
    )
    assert (seen[0][0], seen[0][1].iteration) == (0, 11)
    resumed = adata.obsm["lightsb_velocity"].copy()
    ann.fit_trajectories(adata, "day", **settings)
    np.testing.assert_array_equal(adata.obsm["lightsb_velocity"], resumed)


def test_fates_that_are_known(fitted):
    adata, _, chance = fitted
    found = ann.fate(adata, "branch", t_from=0)
    assert found.columns.tolist() == ["left", "right"]
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    right = found["right"].to_numpy()
    truth = chance[found.index].to_numpy()
    assert np.abs(right - truth).mean() < 0.06
    assert np.corrcoef(right, truth)[0, 1] > 0.98
    # Over all cells it is the share of the branch.
    share = (adata.obs["branch"][adata.obs["day"] == 3] == "right").mean()
    assert abs(right.mean() - share) < 0.02
    written = adata.obs["lightsb_fate_right"]
    assert written.notna().sum() == len(found)
    np.testing.assert_array_equal(written[found.index], right)


def test_fates_of_all_days(fitted):
    adata, _, _ = fitted
    found = ann.fate(adata, "branch")
    assert len(found) == adata.n_obs
    day, side = adata.obs["day"], (adata.obs["branch"] == "right").astype(float)
    np.testing.assert_array_equal(found["right"][day == 3], side[day == 3])
    # On day 1 the branches are apart already, and nobody changes.
    assert np.abs(found["right"] - side)[day == 1].mean() < 0.05


def test_cells_without_a_group_are_in_none(fitted):
    adata = fitted[0].copy()
    adata.obs["end"] = adata.obs["branch"].where(adata.obs["branch"] == "right")
    found = ann.fate(adata, "end", t_from=0)
    assert found.columns.tolist() == ["right"]
    both = ann.fate(adata, "branch", t_from=0)
    np.testing.assert_allclose(found["right"], both["right"], rtol=1e-6)


def test_descendants_and_ancestors(fitted):
    adata, _, _ = fitted
    day, branch = adata.obs["day"], adata.obs["branch"]
    later = ann.descendants(adata, (day == 1) & (branch == "left"), 3)
    assert later.sum() == pytest.approx(1, rel=1e-5)
    assert later[branch[later.index] == "left"].sum() > 0.95
    earlier = ann.ancestors(adata, (day == 3) & (branch == "left"), 0)
    assert earlier.sum() == pytest.approx(1, rel=1e-5)
    first = pd.Series(adata.obsm["X_pca"][:, 0], index=adata.obs_names)
    assert (earlier * first[earlier.index]).sum() < first[earlier.index].mean() - 0.2
    # A population's own time gives the population.
    same = ann.descendants(adata, day == 0, 0)
    np.testing.assert_allclose(same, 1 / 400)
    # Bayes: fates of day 0 and descendants of its cells say the same.
    fates = ann.fate(adata, "branch", t_from=0)
    down = ann.descendants(adata, day == 0, 3)
    assert down[branch[down.index] == "right"].sum() == pytest.approx(
        fates["right"].mean(), rel=1e-4
    )


def test_interpolation(fitted, tmp_path):
    adata, _, _ = fitted
    drawn = ann.interpolate(adata, 2.0, seed=0)
    drawn.write_h5ad(tmp_path / "between.h5ad")
    assert drawn.n_obs == 400
    assert (drawn.obs["day"] == 2).all()
    assert drawn.obs_names.is_unique
    assert (adata.obs.loc[drawn.obs["source_cell"], "day"] == 1).all()
    # The branches are half way between days 1 and 3.
    away = np.abs(drawn.obsm["X_pca"][:, 0]).mean()
    assert away == pytest.approx(6.0, abs=0.3)
    assert ann.interpolate(adata, 2.0, n_cells=7, seed=0).n_obs == 7
    start = ann.interpolate(adata, 1.0, seed=0)
    origin = adata.obs_names.get_indexer(start.obs["source_cell"])
    np.testing.assert_allclose(start.obsm["X_pca"], adata.obsm["X_pca"][origin], rtol=1e-9)
    assert (adata.obs.loc[ann.interpolate(adata, 3.0).obs["source_cell"], "day"] == 1).all()


def test_weights_stand_for_cells():
    adata, _ = branching(200)
    day, branch = adata.obs["day"], adata.obs["branch"]
    adata.obs["mass"] = np.where(branch == "right", 3.0, 1.0) * (1 + (day == 3).to_numpy())
    chain = ann.fit_trajectories(adata, "day", weight_key="mass", **FAST)
    totals = adata.obs.groupby("day", observed=True)["mass"].sum()
    np.testing.assert_allclose(chain.mass_ratios_, totals.to_numpy()[1:] / totals.to_numpy()[:-1])
    assert ann.fitted_chain(adata).bridges_[1].source_weights_.sum() == pytest.approx(1)
    # The later right cells count three times.
    share = adata.obs["mass"][(day == 3) & (branch == "right")].sum() / totals[3]
    found = ann.fate(adata, "branch", t_from=1)["right"]
    weights = adata.obs["mass"][found.index]
    assert np.average(found, weights=weights) == pytest.approx(share, abs=0.04)
    drawn = ann.interpolate(adata, 1.0, n_cells=4000, seed=0).obs["source_cell"]
    of_day = adata.obs["mass"][(day == 1) & (branch == "right")].sum() / totals[1]
    assert (branch[drawn] == "right").mean() == pytest.approx(of_day, abs=0.03)


def test_couplings(fitted):
    adata, _, _ = fitted
    couplings = ann.to_couplings(adata)
    assert list(couplings) == [(0, 1), (1, 3)]
    categories = adata.obs["day"].cat.categories
    for (source, target), coupling in couplings.items():
        assert source in categories
        assert target in categories
        assert coupling.obs_names.tolist() == adata.obs_names[adata.obs["day"] == source].tolist()
        assert coupling.var_names.tolist() == adata.obs_names[adata.obs["day"] == target].tolist()
        np.testing.assert_allclose(coupling.X.sum(1), 1 / 400, rtol=1e-4)
        np.testing.assert_allclose(coupling.X.sum(), 1, rtol=1e-4)
        # The other side is met as well as the bridge was fitted.
        assert np.abs(400 * coupling.X.sum(0) - 1).mean() < 0.2
    # One step after the other is what fates are made of.
    steps = [400 * coupling.X for coupling in couplings.values()]
    right = (adata.obs["branch"] == "right").to_numpy()[(adata.obs["day"] == 3).to_numpy()]
    np.testing.assert_allclose(
        ann.fate(adata, "branch", t_from=0)["right"], steps[0] @ steps[1] @ right, atol=1e-4
    )


def test_real_cells_in_gene_space(muscle, tmp_path):
    ann.fit_trajectories(muscle, "hours", **{**FAST, "max_iter": 30})
    drawn = ann.interpolate(muscle, 36.0, genes=True, seed=0)
    drawn.write_h5ad(tmp_path / "between.h5ad")
    assert drawn.shape == (74, 1000)
    assert drawn.var_names.tolist() == muscle.var_names.tolist()
    expected = drawn.obsm["X_pca"] @ muscle.varm["PCs"].T + muscle.X.mean(0)
    np.testing.assert_allclose(drawn.X, expected, atol=1e-3)


def test_all_components_of_a_part_of_the_cells_give_their_genes():
    rng = np.random.default_rng(0)
    expression = rng.normal([0, 1, 2, 3], size=(90, 4))
    centred = expression - expression.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    part = np.arange(90) % 5 != 0
    day = np.arange(90) % 3
    adata = anndata.AnnData(
        expression[part],
        obs=pd.DataFrame({"day": day[part]}, index=text(f"cell{i}" for i in np.flatnonzero(part))),
        obsm={"X_pca": (centred @ axes.T)[part]},
        varm={"PCs": axes.T},
    )
    ann.fit_trajectories(adata, "day", **{**FAST, "max_iter": 10})
    cells = ann.interpolate(adata, 1.0, genes=True)
    expected = adata.X[adata.obs_names.get_indexer(cells.obs["source_cell"])]
    np.testing.assert_allclose(cells.X, expected, atol=1e-9)


def test_genes_without_loadings_are_left_out(muscle):
    muscle.varm["PCs"][500:] = 0
    muscle.X = sp.csr_matrix(muscle.X)
    ann.fit_trajectories(muscle, "hours", **{**FAST, "max_iter": 30})
    drawn = ann.interpolate(muscle, 0.0, genes=True)
    assert drawn.shape == (69, 500)
    del muscle.varm["PCs"]
    with pytest.raises(KeyError, match="PCs"):
        ann.interpolate(muscle, 0.0, genes=True)


def test_bad_input(fitted):
    adata, _, _ = fitted
    with pytest.raises(KeyError, match=r"no column 'hour'.*day"):
        ann.fit_trajectories(adata, "hour")
    with pytest.raises(KeyError, match=r"no basis 'X_umap'.*X_pca"):
        ann.fit_trajectories(adata, "day", "X_umap")
    with pytest.raises(KeyError, match="no column 'growth'"):
        ann.fit_trajectories(adata, "day", weight_key="growth")
    with pytest.raises(ValueError, match="single time 1"):
        ann.fit_trajectories(cells_of(np.zeros((9, 2)), np.ones(9)), "day")
    with pytest.raises(TypeError, match="must hold numbers"):
        ann.fit_trajectories(adata, "branch")
    with pytest.raises(TypeError, match="must hold numbers"):
        ann.fit_trajectories(cells_of(np.zeros((2, 2)), ["0h", "24h"]), "day")
    with pytest.raises(ValueError, match="sigma2"):
        ann.fit_trajectories(adata, "day", sigma2=-1.0)
    with pytest.raises(ValueError, match="random_state"):
        ann.fit_trajectories(adata, "day", random_state=np.random.default_rng(0))
    with pytest.raises(TypeError, match="n_component"):
        ann.fit_trajectories(adata, "day", n_component=3)
    other = adata.copy()
    other.obs["day"] = other.obs["day"].astype(float)
    other.obs.iloc[5, other.obs.columns.get_loc("day")] = np.nan
    with pytest.raises(ValueError, match=f"no time for the cell '{other.obs_names[5]}'"):
        ann.fit_trajectories(other, "day")
    other = adata.copy()
    other.obsm["sparse"] = sp.csr_matrix(other.obsm["X_pca"])
    with pytest.raises(TypeError, match="sparse"):
        ann.fit_trajectories(other, "day", "sparse")
    other.obsm["X_pca"] = other.obsm["X_pca"].copy()
    other.obsm["X_pca"][3, 0] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        ann.fit_trajectories(other, "day")
    other = adata.copy()
    other.obs["mass"] = -1.0
    with pytest.raises(ValueError, match="mass"):
        ann.fit_trajectories(other, "day", weight_key="mass")


def test_bad_questions(fitted):
    adata = fitted[0].copy()
    with pytest.raises(ValueError, match="t must be from 0 to 3"):
        ann.interpolate(adata, 3.5)
    with pytest.raises(ValueError, match="n_cells"):
        ann.interpolate(adata, 1.0, n_cells=0)
    with pytest.raises(ValueError, match=r"t_to must be .* one of 0, 1, 3"):
        ann.fate(adata, "branch", t_to=2.0)
    with pytest.raises(ValueError, match="t_from=3 must not be after"):
        ann.fate(adata, "branch", t_from=3, t_to=1)
    with pytest.raises(KeyError, match="type"):
        ann.fate(adata, "type")
    adata.obs["none"] = np.nan
    with pytest.raises(ValueError, match="no cell at time 3"):
        ann.fate(adata, "none")
    day = adata.obs["day"]
    with pytest.raises(ValueError, match="one snapshot"):
        ann.descendants(adata, day != 1, 3)
    with pytest.raises(ValueError, match="without any cell"):
        ann.descendants(adata, day == 7, 3)
    with pytest.raises(ValueError, match="True or False"):
        ann.descendants(adata, [1, 2], 3)
    with pytest.raises(ValueError, match="before the population"):
        ann.descendants(adata, day == 1, 0)
    with pytest.raises(ValueError, match="after the population"):
        ann.ancestors(adata, day == 1, 3)
    with pytest.raises(ValueError, match="no cells left at time 1"):
        ann.to_couplings(without_day(adata, 1))
    with pytest.raises(ValueError, match="no cells left at time 1, where the way to 2 starts"):
        ann.interpolate(without_day(adata, 1), 2.0)
    adata.varm["PCs"] = np.zeros((0, 1))
    with pytest.raises(ValueError, match="has 1 components, the basis 2"):
        ann.interpolate(adata, 2.0, genes=True)
    adata.obs["mass"] = (day != 1).astype(float)
    adata.uns["lightsb"]["weight_key"] = "mass"
    with pytest.raises(ValueError, match="weights are all zero"):
        ann.descendants(adata, day == 1, 3)
    adata.uns["lightsb"]["version"] = 99
    with pytest.raises(ValueError, match="version 99"):
        ann.to_couplings(adata)
    del adata.uns["lightsb"]
    with pytest.raises(KeyError, match="fit_trajectories"):
        ann.fitted_chain(adata)


def test_what_is_kept_may_be_damaged(fitted):
    adata = fitted[0].copy()
    del adata.uns["lightsb"]["bridges"]["1"]["parameters"]["means"]
    with pytest.raises(ValueError, match="fit it again"):
        ann.fitted_chain(adata)
