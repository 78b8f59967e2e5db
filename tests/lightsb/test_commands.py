"""The verbs on real files, in this process and in one of their own."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest

from cameraready.app import run
from cameraready.lightsb import LightSB, comparison
from cameraready.lightsb.anndata_files import write_anndata
from cameraready.lightsb.comparison import SOLVERS, compare_solvers
from cameraready.lightsb.mixtures import make_eot_mixture

FAST = ("--max-iter", 60, "--components", 2, "--device", "cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files of two samples, cells at three times, and a fitted model."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    source = pd.DataFrame(rng.normal(size=(120, 2)), columns=["height", "weight"])
    source.insert(0, "id", [f"p{i}" for i in range(120)])
    source.to_csv(folder / "a.csv", index=False)
    target = pd.DataFrame(rng.normal(size=(150, 2)) * 0.3 + 2, columns=["weight", "height"])
    target.to_parquet(folder / "b.parquet", index=False)
    day = np.repeat([0, 2, 4], 60)
    points = rng.normal(size=(180, 3)) + day[:, None] * rng.choice([-1, 1], (180, 1))
    obs = pd.DataFrame(
        {"day": day, "side": np.where(points[:, 0] > 0, "right", "left")},
        index=[f"cell{i}" for i in range(180)],
    )
    write_anndata(folder / "cells.h5ad", anndata.AnnData(obs=obs, obsm={"X_pca": points}))
    before = Path.cwd()
    os.chdir(folder)
    try:
        code = run(
            ["lightsb", "fit", "--source", "a.csv", "--target", "b.parquet", "--out", "model",
             "--columns", "height,weight", *map(str, FAST)]
        )  # fmt: skip
    finally:
        os.chdir(before)
    assert code == 0
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A folder with those files, in which commands run."""
    for path in made.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(capsys):
    """Run a verb: exit code, what it printed as JSON, standard error."""

    def call(*tokens):
        capsys.readouterr()
        code = run(["lightsb", *map(str, tokens)])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, json.loads(printed.out) if printed.out else None, printed.err

    return call


@pytest.fixture
def refused(call, folder):
    """Run a verb on bad input; its sentence. Nothing may be written."""

    def refused(*tokens):
        before = sorted(folder.rglob("*"))
        code, out, err = call(*tokens)
        assert (code, out) == (2, None), err
        assert sorted(folder.rglob("*")) == before
        *_, last = err.splitlines()
        assert last.startswith("cameraready: ")
        return last.removeprefix("cameraready: ")

    return refused


FIT = ("fit", "--source", "a.csv", "--target", "b.parquet", "--columns", "height,weight", *FAST)


# fit.


def test_what_fit_says_and_saves(folder, call):
    code, out, err = call(*FIT, "--eps", 0.5, "--out", "new")
    assert (code, err) == (0, "")
    assert out["status"] in ("finished", "plateau")
    assert (out["source_rows"], out["target_rows"], out["features"]) == (120, 150, 2)
    assert out["eps"] == 0.5
    bridge = LightSB.load("new")
    assert bridge.eps_data_units_ == out["eps_data_units"]
    assert bridge.verbose == 0
    names = json.loads(Path("new/columns.json").read_text())
    assert names == {"columns": ["height", "weight"]}
    # The columns of both files in one order, whatever theirs is.
    target = pd.read_parquet("b.parquet")[["height", "weight"]].mean()
    source = pd.read_csv("a.csv")[["height", "weight"]].to_numpy()
    assert np.abs(bridge.predict(source).mean(0) - target).max() < 0.5


def test_the_fit_is_that_of_the_library(folder, call):
    call(*FIT, "--out", "new")
    source = pd.read_csv("a.csv")[["height", "weight"]].to_numpy()
    target = pd.read_parquet("b.parquet")[["height", "weight"]].to_numpy()
    bridge = LightSB(2, 0.1, max_iter=60, random_state=0, device="cpu").fit(source, target)
    np.testing.assert_array_equal(
        LightSB.load("new").transform(source, random_state=1),
        bridge.transform(source, random_state=1),
    )


def test_weights_count(folder, call):
    x = np.concatenate([np.zeros(50), np.full(50, 10.0)])
    noise = np.random.default_rng(0).normal(size=100) * 0.1
    pd.DataFrame({"x": noise, "w": 1.0}).to_csv("a1.csv", index=False)
    pd.DataFrame({"x": x + noise, "w": (x > 5) * 1.0}).to_csv("b1.csv", index=False)
    code, _, _ = call(
        "fit", "--source", "a1.csv", "--target", "b1.csv", "--weights", "w", "--out", "new",
        "--max-iter", 300, "--components", 2,
    )  # fmt: skip
    assert code == 0
    assert LightSB.load("new").predict(noise[:, None]).mean() == pytest.approx(10, abs=1)


def test_a_fit_goes_on_from_its_checkpoint(folder, call, monkeypatch):
    whole = call(*FIT, "--out", "whole")[1]
    # As Ctrl-C: the callback is run at each check.
    shown = LightSB._progress

    def interrupted(self, callback):
        def stop(progress):
            if progress.iteration == 20:
                raise KeyboardInterrupt

        return shown(self, stop)

    monkeypatch.setattr(LightSB, "_progress", interrupted)
    code, out, err = call(*FIT, "--out", "part")
    assert (code, out["status"]) == (130, "interrupted")
    assert "note: training was interrupted after" in err
    assert 0 < LightSB.load("part").n_iter_ < 60
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    code, out, err = call(*FIT, "--out", "part", "--resume")
    assert (code, out["status"], out["steps"]) == (0, whole["status"], whole["steps"])
    assert "going on from" in err
    for name in ("potential.safetensors", "model.json"):
        assert Path("part", name).read_bytes() == Path("whole", name).read_bytes()
    # Without --resume it starts at the beginning; with other settings it cannot go on.
    code, out, err = call(*FIT, "--out", "part")
    assert (code, err) == (0, "")
    code, _, err = call(*FIT, "--out", "part", "--resume", "--eps", 0.7)
    assert code == 2
    assert "other data or settings: delete it, or name another" in err


def test_resume_without_a_checkpoint_says_so(folder, call):
    code, _, err = call(*FIT, "--out", "new", "--resume")
    assert code == 0
    assert "starting at the beginning" in err


def test_a_fit_that_diverges_keeps_its_last_state(folder, call, monkeypatch):
    from cameraready.lightsb import training

    real, steps = training.training_step, []

    def step(objective, optimizer, x0, x1):
        steps.append(real(objective, optimizer, x0, x1))
        return steps[-1] * (float("nan") if len(steps) > 30 else 1.0)

    monkeypatch.setattr(training, "training_step", step)
    code, out, err = call(*FIT, "--out", "new")
    assert out is not None, err
    assert (code, out["status"]) == (1, "not finite")
    assert "the loss is not finite at step 30 (learning rate" in err
    assert LightSB.load("new").n_iter_ == 30
    monkeypatch.setattr(training, "training_step", lambda *_: torch_nan())
    code, out, err = call(*FIT, "--out", "other")
    assert (code, out) == (2, None)
    assert not Path("other").exists()


def torch_nan():
    import torch

    return torch.tensor(float("nan"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--source", "nowhere.csv"], "nowhere.csv: no such file or directory"),
        (["--columns", "height,age"], "a.csv has no column 'age'; it has id, height, weight"),
        (["--columns", "id"], "a.csv: row 0, column 'id' is 'p0', not a finite number"),
        (["--columns", "height,,id"], "--columns must be names"),
        (["--source", "b.parquet", "--target", "three.npy"], "must have the same features: "),
        (["--weights", "mass"], "a.csv has no column 'mass'"),
        (["--weights", "id"], "a.csv: row 0, column 'id' is 'p0'"),
        (["--weights", "zero", "--source", "w.csv", "--target", "w.csv"], "sample_weight0"),
        (["--weights", "minus", "--source", "w.csv", "--target", "w.csv"], "sample_weight0"),
        (["--eps", "0"], "eps must be"),
        (["--eps", "nan"], "eps must be"),
        (["--eps", "large"], "--eps"),
        (["--components", "500"], "n_components=500 is more than"),
        (["--plan", "paired"], "as many rows"),
        (["--plan", "best"], "--plan"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--polish", "2"], "polish must be"),
        (["--lr", "0"], "lr must be"),
        (["--device", "abacus"], "device 'abacus' is not there"),
        (["--covariance", "lowrank", "--rank", "5"], "rank=5"),
        (["--out", "a.csv"], "--out must be a folder, but a.csv is a file"),
        (["--out", "nowhere/model"], "--out: there is no folder nowhere"),
        (["--out", "other"], "--out: other holds other files"),
    ],
)
def test_wrong_fits(change, said, folder, refused):
    np.save("three.npy", np.zeros((60, 3)))
    table = pd.DataFrame({"height": [1.0, 2, 3], "weight": [3.0, 4, 4]})
    table.assign(zero=0.0, minus=-1.0).to_csv("w.csv", index=False)
    Path("other").mkdir()
    Path("other/mine.txt").touch()
    tokens = dict(zip(FIT[1::2], FIT[2::2], strict=True)) | {"--out": "new"}
    tokens |= dict(zip(change[::2], change[1::2], strict=True))
    if tokens["--source"] == "b.parquet":
        del tokens["--columns"]
    assert said in refused("fit", *(word for pair in tokens.items() for word in pair))


def test_warnings_are_notes(folder, call):
    rng = np.random.default_rng(0)
    np.save("a.npy", np.column_stack([rng.normal(size=50), np.ones(50)]))
    np.save("b.npy", np.column_stack([rng.normal(size=50), np.ones(50)]))
    code, _, err = call(
        "fit", "--source", "a.npy", "--target", "b.npy", "--eps", 1e-6, "--out", "new", *FAST
    )
    assert code == 0
    constant, narrow = err.splitlines()
    assert constant == "note: columns [1] are constant in both X0 and X1"
    assert narrow.startswith("note: eps=1e-06 is small against")


# Ctrl-C, as it comes.


def test_ctrl_c_on_a_terminal(folder):
    script = "from cameraready.app import main; main()"
    given = ["30000" if word == FAST[1] else str(word) for word in FIT]
    command = [sys.executable, "-c", script, "lightsb", *given]
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*command, "--out", "new"],
        stdout=subprocess.PIPE,
        stderr=follower,
        env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
    )
    os.close(follower)
    seen, end = b"", time.monotonic() + 120
    # A bar with the energy, and the time that is left.
    while not (b"energy" in seen and b"0:" in seen) and time.monotonic() < end:
        if select.select([leader], [], [], 1.0)[0]:
            try:
                seen += os.read(leader, 4096)
            except OSError:
                break
    assert b"energy" in seen, seen
    process.send_signal(signal.SIGINT)
    # What it still says has to be read, or it would wait.
    while process.poll() is None and time.monotonic() < end:
        if select.select([leader], [], [], 0.2)[0]:
            try:
                seen += os.read(leader, 4096)
            except OSError:
                break
    out, _ = process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 130, seen
    assert json.loads(out)["status"] == "interrupted"
    bridge = LightSB.load("new")
    assert 0 < bridge.n_iter_ < 30000
    assert bridge.transform(np.zeros((3, 2))).shape == (3, 2)
    assert sorted(path.name for path in Path("new").iterdir()) == [
        "checkpoint.safetensors",
        "columns.json",
        "model.json",
        "potential.safetensors",
    ]


# transform.


def test_samples_go_to_a_table(folder, call):
    code, out, err = call(
        "transform", "--model", "model", "--input", "a.csv", "--samples", 5, "--out", "m.parquet"
    )
    assert (code, err, out["rows"]) == (0, "", 120)
    table = pd.read_parquet("m.parquet")
    assert list(table) == ["row", "sample", "height", "weight"]
    assert table["row"].tolist() == np.repeat(range(120), 5).tolist()
    assert table["sample"].tolist() == list(range(5)) * 120
    source = pd.read_csv("a.csv")[["height", "weight"]].to_numpy()
    expected = LightSB.load("model").transform(source, 5, random_state=0).reshape(-1, 2)
    np.testing.assert_array_equal(table[["height", "weight"]], expected)


def test_the_same_seed_gives_the_same_bits_in_every_format(folder, call):
    given = ("transform", "--model", "model", "--input", "a.csv")
    for name in ("m.npy", "n.npy", "m.csv"):
        assert call(*given, "--seed", 3, "--out", name)[0] == 0
    assert Path("m.npy").read_bytes() == Path("n.npy").read_bytes()
    table = pd.read_csv("m.csv", dtype=np.float32)[["height", "weight"]]
    np.testing.assert_array_equal(table, np.load("m.npy"))
    call(*given, "--seed", 4, "--out", "n.npy")
    assert Path("m.npy").read_bytes() != Path("n.npy").read_bytes()


def test_the_mean_is_exact(folder, call):
    code, _, _ = call(
        "transform", "--model", "model", "--input", "a.csv", "--mean", "--out", "m.npy"
    )
    assert code == 0
    source = pd.read_csv("a.csv")[["height", "weight"]].to_numpy()
    np.testing.assert_array_equal(np.load("m.npy"), LightSB.load("model").predict(source))


def test_an_array_takes_the_models_names(folder, call):
    np.save("new.npy", np.zeros((4, 2)))
    call("transform", "--model", "model", "--input", "new.npy", "--out", "m.csv")
    assert list(pd.read_csv("m.csv")) == ["row", "sample", "height", "weight"]


def test_a_model_of_the_library_has_no_names(folder, call):
    LightSB.load("model").save("bare")
    code, _, _ = call("transform", "--model", "bare", "--input", "b.parquet", "--out", "m.csv")
    assert code == 0
    assert list(pd.read_csv("m.csv")) == ["row", "sample", "weight", "height"]


def test_far_rows_are_noted(folder, call):
    np.save("far.npy", np.full((1, 2), 1e3))
    _, _, err = call("transform", "--model", "model", "--input", "far.npy", "--out", "m.csv")
    assert err.startswith("note: X0 has rows more than 6 standard deviations")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--model", "nowhere"], "nowhere/model.json: no such file or directory"),
        (["--model", "broken"], "broken holds no LightSB that can be read"),
        (["--model", "named"], "named/columns.json cannot be read"),
        (["--input", "c.csv"], "c.csv has no column 'weight'; it has height, age"),
        (["--input", "three.npy"], "three.npy has 3 features, but model was fitted to 2"),
        (["--input", "nan.npy"], "nan.npy: row 1, column 0 is nan"),
        (["--samples", "0"], "--samples must be at least 1"),
        (["--samples", "many"], "--samples"),
        (["--samples", "2", "--mean"], "--mean has no samples"),
        (["--seed", "-3"], "--seed must not be negative"),
        (["--out", "m.txt"], "--out must end in .npy, .npz, .csv, .parquet or .h5ad"),
        (["--out", "a.csv"], "--out would overwrite a.csv"),
        (["--out", "nowhere/m.csv"], "--out: there is no folder nowhere"),
    ],
)
def test_wrong_transforms(change, said, folder, refused):
    np.save("three.npy", np.zeros((4, 3)))
    np.save("nan.npy", np.array([[1.0, 2.0], [np.nan, 1.0]]))
    pd.DataFrame({"height": [1.0], "age": [2.0]}).to_csv("c.csv", index=False)
    for name in ("broken", "named"):
        Path(name).mkdir()
        for file in Path("model").iterdir():
            (Path(name) / file.name).write_bytes(file.read_bytes())
    Path("broken/model.json").write_text("{}")
    Path("named/columns.json").write_text('{"columns": ["one"]}')
    tokens = {"--model": "model", "--input": "a.csv", "--out": "m.csv"}
    given = [word for pair in tokens.items() if pair[0] not in change for word in pair]
    assert said in refused("transform", *given, *change)


# paths.


def test_paths_and_their_picture(folder, call):
    code, out, err = call(
        "paths", "--model", "model", "--input", "a.csv", "--steps", 4, "--out", "p.npz",
        "--plot", "p.png",
    )  # fmt: skip
    assert (code, err, out["times"]) == (0, "", 5)
    source = pd.read_csv("a.csv")[["height", "weight"]].to_numpy()
    with np.load("p.npz") as saved:
        assert saved["paths"].shape == (120, 5, 2)
        assert saved["times"].tolist() == [0, 0.25, 0.5, 0.75, 1]
        assert saved["features"].tolist() == ["height", "weight"]
        np.testing.assert_allclose(saved["paths"][:, 0], source, rtol=1e-5)
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    code, _, _ = call(
        "paths", "--model", "model", "--input", "a.csv", "--steps", 4, "--method", "sde",
        "--out", "p.csv",
    )  # fmt: skip
    assert list(pd.read_csv("p.csv")) == ["row", "time", "height", "weight"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ([], "give --out, --plot or both"),
        (["--out", "p.txt"], "--out must end in .npy, .npz, .csv or .parquet"),
        (["--plot", "p.txt"], "--plot must end in .png, .svg or .pdf"),
        (["--out", "p.npz", "--steps", "0"], "--steps must be at least 1"),
        (["--out", "p.npz", "--method", "walk"], "--method"),
    ],
)
def test_wrong_paths(change, said, folder, refused):
    assert said in refused("paths", "--model", "model", "--input", "a.csv", *change)


def test_one_feature_has_no_picture(folder, call):
    np.save("one.npy", np.random.default_rng(0).normal(size=(40, 1)))
    given = ("fit", "--source", "one.npy", "--target", "one.npy", "--out", "one", *FAST)
    assert call(*given)[0] == 0
    code, _, err = call("paths", "--model", "one", "--input", "one.npy", "--plot", "p.png")
    assert code == 2
    assert "--plot needs two features" in err
    assert not Path("p.png").exists()


# trajectories and interpolate.


def test_a_time_course_from_file_to_file(folder, call):
    code, out, err = call(
        "trajectories", "cells.h5ad", "--time-key", "day", "--fate-by", "side", "--out", "t.h5ad",
        *FAST,
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert out["times"] == [0, 2, 4]
    assert sum(out["mean_fate_of_the_first_cells"].values()) == pytest.approx(1, abs=1e-5)
    adata = anndata.read_h5ad("t.h5ad")
    assert adata.obsm["lightsb_velocity"].shape == (180, 3)
    fates = adata.obs[["lightsb_fate_left", "lightsb_fate_right"]].to_numpy()
    np.testing.assert_allclose(fates.sum(1), 1, atol=1e-5)
    # The file has the bridges with it.
    code, out, err = call("interpolate", "--h5ad", "t.h5ad", "--at", 1, "--out", "d.h5ad")
    assert (code, err, out["cells"]) == (0, "", 60)
    drawn = anndata.read_h5ad("d.h5ad")
    assert drawn.obsm["X_pca"].shape == (60, 3)
    assert set(drawn.obs["day"]) == {1.0}
    assert set(drawn.obs["source_cell"]) <= {f"cell{i}" for i in range(60)}


def test_a_time_course_goes_on_from_its_checkpoint(folder, call, monkeypatch):
    given = ("trajectories", "cells.h5ad", "--time-key", "day", *FAST)
    assert call(*given, "--out", "whole.h5ad")[0] == 0
    shown, runs = LightSB._progress, []

    def interrupted(self, callback):
        runs.append(self)

        def stop(progress):
            if progress.iteration == 20 and len(runs) == stopped_at:
                raise KeyboardInterrupt

        return shown(self, stop)

    # As Ctrl-C in the second of two intervals, and before that in the first.
    monkeypatch.setattr(LightSB, "_progress", interrupted)
    stopped_at = 1
    code, out, err = call(*given, "--out", "t.h5ad")
    assert (code, out) == (130, None)
    assert err == "interrupted: t.h5ad is not written; --resume goes on from here\n"
    assert not Path("t.h5ad").exists()
    states = Path("t.h5ad.checkpoint")
    assert [path.name for path in states.iterdir()] == ["interval-0.safetensors"]
    runs.clear()
    stopped_at = 2
    code, out, err = call(*given, "--out", "t.h5ad", "--resume")
    assert (code, out["status"][1]) == (130, "interrupted")
    assert err.startswith("going on from t.h5ad.checkpoint\nnote: training was interrupted in the")
    assert "lightsb" in anndata.read_h5ad("t.h5ad").uns
    # With other settings it cannot go on; what else is in the folder stays there.
    code, _, err = call(*given, "--out", "t.h5ad", "--resume", "--sigma2", 9)
    assert code == 2
    assert "other data or settings: delete it" in err
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert call(*given, "--out", "t.h5ad", "--resume")[0] == 0
    assert not states.exists()
    whole, resumed = (anndata.read_h5ad(name) for name in ("whole.h5ad", "t.h5ad"))
    np.testing.assert_array_equal(resumed.obsm["lightsb_velocity"], whole.obsm["lightsb_velocity"])
    states.mkdir()
    (states / "mine.txt").touch()
    (states / "interval-0.safetensors").write_text("old")
    assert call(*given, "--out", "t.h5ad")[0] == 0
    assert [path.name for path in states.iterdir()] == ["mine.txt"]
    states = Path("n.h5ad.checkpoint")
    assert "starting at the beginning" in call(*given, "--out", "n.h5ad", "--resume")[2]


def test_a_snapshot_is_left_out_and_compared(folder, call):
    code, out, err = call(
        "interpolate", "--h5ad", "cells.h5ad", "--time-key", "day", "--at", 2, "--compare-with",
        "day2", "--out", "d.h5ad", "--max-iter", 200, "--components", 2, "--cells", 90,
    )  # fmt: skip
    assert code == 0
    assert (out["cells"], out["compared_with"]) == (90, 60)
    assert "energy distance" in err
    bridge, before, after = out["distances"]
    assert (before["name"], after["name"]) == ("copy of 0", "copy of 4")
    # By definition, and by another library.
    import ot
    from scipy.spatial.distance import cdist

    cells = anndata.read_h5ad("cells.h5ad")
    truth, first = (cells.obsm["X_pca"][(cells.obs["day"] == day).to_numpy()] for day in (2, 0))
    n = len(truth)
    within = sum(cdist(x, x).sum() / (n * (n - 1)) for x in (truth, first))
    assert before["energy_distance"] == pytest.approx(2 * cdist(truth, first).mean() - within)
    exact = ot.solve_sample(truth, first).value
    assert before["w2"] == pytest.approx(np.sqrt(exact), rel=1e-5)
    assert bridge["energy_distance"] < min(before["energy_distance"], after["energy_distance"])
    assert set(anndata.read_h5ad("d.h5ad").obs["source_cell"]) <= {f"cell{i}" for i in range(60)}


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["trajectories", "cells.h5ad", "--time-key", "hour"], "cells.h5ad: adata.obs has no"),
        (["trajectories", "cells.h5ad", "--time-key", "side"], "must hold numbers"),
        (["trajectories", "one.h5ad", "--time-key", "day"], "single time 0"),
        (
            ["trajectories", "cells.h5ad", "--time-key", "day", "--basis", "X_umap"],
            "adata.obsm has no basis 'X_umap'; it has ['X_pca']",
        ),
        (["trajectories", "cells.h5ad", "--time-key", "day", "--fate-by", "type"], "'type'"),
        (["trajectories", "cells.h5ad", "--time-key", "day", "--sigma2", "0"], "sigma2"),
        (["trajectories", "a.csv", "--time-key", "day"], "a.csv must be an .h5ad file"),
        (["trajectories", "no.h5ad", "--time-key", "day"], "no.h5ad: no such file"),
        (["trajectories", "bad.h5ad", "--time-key", "day"], "bad.h5ad cannot be read as .h5ad"),
        (["interpolate", "--h5ad", "cells.h5ad", "--at", "1"], "give --time-key"),
        (["interpolate", "--h5ad", "cells.h5ad", "--at", "9", "--time-key", "day"], "from 0 to 4"),
        (["interpolate", "--h5ad", "cells.h5ad", "--at", "nan", "--time-key", "day"], "--at must"),
    ],
)
def test_wrong_time_courses(tokens, said, folder, refused):
    obs = pd.DataFrame({"day": 0}, index=["a", "b"])
    write_anndata(folder / "one.h5ad", anndata.AnnData(obs=obs, obsm={"X_pca": np.zeros((2, 2))}))
    Path("bad.h5ad").write_text("no cells")
    assert said in refused(*tokens, "--out", "t.h5ad", *FAST)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--compare-with": "2", "--time-key": None}, "give --time-key"),
        ({"--compare-with": "soon"}, "--compare-with must be a time, not 'soon'"),
        ({"--compare-with": "day4"}, "must name the snapshot at --at 2"),
        ({"--compare-with": "1", "--at": "1"}, "no snapshot has the time 1; there are 0, 2, 4"),
        ({"--compare-with": "4", "--at": "4"}, "is not between two others"),
        ({"--compare-with": "2", "--time-key": "hour"}, "no column 'hour'"),
        ({}, "give --out, --compare-with or both"),
    ],
)
def test_wrong_comparisons(change, said, folder, refused):
    tokens = {"--h5ad": "cells.h5ad", "--time-key": "day", "--at": "2", **change}
    given = [word for pair in tokens.items() if pair[1] is not None for word in pair]
    assert said in refused("interpolate", *given, *FAST)


# choose-eps.


def test_eps_of_pairs(folder, call):
    x0, x1 = make_eot_mixture(2, 1.0, seed=0).sample_pair(400, 0)
    np.save("x0.npy", x0)
    np.save("x1.npy", x1)
    given = ("choose-eps", "--source", "x0.npy", "--target", "x1.npy", "--scale", "none",
             "--max-iter", 100, "--components", 5, "--folds", 2, "--device", "cpu")  # fmt: skip
    code, out, err = call(
        *given, "--grid", "0.1,1,10", "--paired", "--out", "t.csv", "--plot", "t.svg"
    )
    assert code == 0
    assert (out["eps"], out["criterion"], out["identified"]) == (1.0, "conditional", True)
    assert out["note"] in err
    assert "entropy" in err
    table = pd.read_csv("t.csv")
    assert table["eps"].tolist() == [0.1, 1, 10]
    np.testing.assert_allclose(table["energy"], [row["energy"] for row in out["table"]])
    assert b"<svg" in Path("t.svg").read_bytes()
    code, out, err = call(*given, "--grid", "1,10")
    assert (code, out["criterion"], out["identified"]) == (0, "marginal", False)
    assert "not identified by these data" in err


def test_a_choice_that_diverges_is_refused(folder, refused, monkeypatch):
    monkeypatch.setattr("cameraready.lightsb.training.training_step", lambda *_: torch_nan())
    tokens = ("--source", "a.csv", "--target", "b.parquet", "--columns", "height,weight")
    assert "the loss is not finite" in refused("choose-eps", *tokens, "--grid", "0.1,1")
    tokens = ("cells.h5ad", "--time-key", "day", "--out", "t.h5ad")
    assert "the loss is not finite" in refused("trajectories", *tokens, *FAST)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--grid", "0.1,"], "--grid must be names or numbers with commas"),
        (["--grid", "0.1,0"], "--grid must be numbers greater than 0, not '0'"),
        (["--grid", "0.1,x"], "--grid must be numbers greater than 0, not 'x'"),
        (["--grid", "0.1"], "two different eps"),
        (["--paired"], "120 and 150"),
        (["--folds", "1"], "folds"),
        (["--out", "t.npy"], "--out must end in .csv or .parquet"),
        (["--plot", "t.txt"], "--plot must end in"),
        (["--weights", "w"], "--weights does not go with choose-eps"),
        (["--max-iter", "0"], "max_iter"),
    ],
)
def test_wrong_choices(change, said, folder, refused):
    tokens = ["--source", "a.csv", "--target", "b.parquet", "--columns", "height,weight"]
    assert said in refused("choose-eps", *tokens, *change)


# benchmark.


def test_all_solvers_on_one_problem(folder, call, monkeypatch):
    pytest.importorskip("torchcfm")
    monkeypatch.setattr("cameraready.lightsb.baselines.dsbm._PAIRS", 256)
    monkeypatch.setattr(comparison, "_POINTS", 10)
    monkeypatch.setattr(comparison, "_SAMPLES", 30)
    code, out, err = call(
        "benchmark", "--dim", 2, "--eps", 1, "--max-iter", 8, "--rows", 200, "--components", 5,
        "--out", "b.csv",
    )  # fmt: skip
    assert code == 0
    assert [row["solver"] for row in out] == [*SOLVERS, "truth"]
    assert all(row["cbw2_uvp"] > 0 for row in out)
    # The true plan, known by some samples, is nearer than networks without training.
    errors = {row["solver"]: row["cbw2_uvp"] for row in out}
    assert errors["truth"] < min(errors[name] for name in ("bridge-matching", "dsbm", "sf2m"))
    assert pd.read_csv("b.csv")["solver"].tolist() == [*SOLVERS, "truth"]
    assert "cBW2-UVP" in err


def test_a_fitted_plan_is_near_the_true_one():
    light, truth = compare_solvers(
        [2], [1.0], ["lightsb"], n_components=5, max_iter=400, n_rows=4000
    )
    assert light.cbw2_uvp < 2
    assert light.cpu_seconds > 0
    # Moments from 1000 samples: some tenths of a percent off.
    assert 0 < truth.cbw2_uvp < 1


def test_ctrl_c_ends_a_comparison(monkeypatch):
    def interrupted(self, *batch, **given):
        raise KeyboardInterrupt

    monkeypatch.setattr("cameraready.lightsb.training.Training.step", interrupted)
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        next(compare_solvers([2], [1.0], ["lightsb"], n_components=2, max_iter=9, n_rows=50))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--dim", "2,0"], "--dim must be whole numbers from 1, not '0'"),
        (["--dim", "two"], "--dim must be whole numbers"),
        (["--eps", "-1"], "--eps must be numbers greater than 0"),
        (["--solvers", "lightsb,magic"], "--solvers must be some of lightsb-m"),
        (["--components", "0"], "n_components"),
        (["--rows", "10"], "n_rows"),
        (["--out", "b.txt"], "--out must end in"),
    ],
)
def test_wrong_benchmarks(change, said, refused):
    assert said in refused("benchmark", *change)


@pytest.mark.parametrize(
    "verb",
    ["fit", "transform", "paths", "trajectories", "interpolate", "choose-eps", "benchmark"],
)
def test_every_verb_explains_itself(verb, capsys):
    assert run(["lightsb", verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Parameters" in text
    assert "--out" in text
