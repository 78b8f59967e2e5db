"""Bridges in a row."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from cameraready.lightsb.chain import ChainedLightSB
from cameraready.lightsb.persistence import write_model

TIMES = [0.0, 2.0, 3.0]


def snapshots(n=1500, d=2):
    rng = np.random.default_rng(0)
    return [rng.normal(3 * time, 1.0 + 0.3 * time, (n, d)) for time in TIMES]


SETTINGS = {"n_components": 1, "max_iter": 250, "objective": "energy", "random_state": 0}


@pytest.fixture(scope="module")
def chain():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    chain = ChainedLightSB(TIMES, 0.1, **SETTINGS).fit(snapshots())
    torch.set_num_threads(before)
    return chain


def test_one_diffusion_in_one_unit(chain):
    assert [bridge.eps for bridge in chain.bridges_] == pytest.approx([0.2, 0.1])
    assert all(bridge.scaling_.is_identity for bridge in chain.bridges_)
    both = np.concatenate(snapshots())
    assert chain.scale_ == pytest.approx(both.std(0).mean(), rel=1e-6)


def test_paths_meet_every_snapshot(chain):
    data = snapshots()
    paths = chain.sample_paths(data[0], [0.0, 1.0, 2.0, 2.5, 3.0])
    assert paths.shape == (1500, 5, 2)
    np.testing.assert_allclose(paths[:, 0], data[0], rtol=1e-5)
    for column, snapshot in ((2, data[1]), (4, data[2])):
        assert np.abs(paths[:, column].mean(0) - snapshot.mean(0)).max() < 0.2
        assert np.abs(paths[:, column].std(0) - snapshot.std(0)).max() < 0.2
    assert np.abs(paths[:, 1].mean(0) - 3).max() < 0.2
    assert np.array_equal(paths, chain.sample_paths(data[0], [0.0, 1.0, 2.0, 2.5, 3.0]))


def test_the_noise_a_unit_of_time_is_the_same_everywhere(chain):
    # Short steps of the same length have the same quadratic variation in either interval.
    data, step = snapshots(), 0.01
    variances = []
    for start in (0.5, 2.5):
        paths = chain.sample_paths(data[0], [start, start + step])
        variances.append((paths[:, 1] - paths[:, 0]).var() / step / chain.scale_**2)
    np.testing.assert_allclose(variances, 0.1, rtol=0.1)


def test_paths_from_a_later_snapshot_and_by_the_sde(chain):
    data = snapshots()
    later = chain.sample_paths(data[1], [2.5, 3.0], start=2.0, method="sde", n_steps=50)
    assert np.abs(later[:, 1].mean(0) - 9).max() < 0.3
    assert chain.sample_at(data[0][:4], 2.7).shape == (4, 2)


def test_interpolation(chain):
    assert np.abs(chain.interpolate(1.0).mean(0) - 3).max() < 0.2
    assert chain.interpolate(2.5, n_samples=10).shape == (10, 2)
    assert np.abs(chain.interpolate(3.0).mean(0) - 9).max() < 0.2
    np.testing.assert_allclose(chain.interpolate(0.0), snapshots()[0], rtol=1e-5)


def test_the_drift_is_a_rate_a_unit_of_time(chain):
    # In both intervals the mean moves by 3 a unit of time.
    data = snapshots()
    for time, snapshot in ((0.0, data[0]), (2.0, data[1])):
        assert np.abs(chain.drift(snapshot, time).mean(0) - 3).max() < 0.2


def test_masses():
    data = snapshots(200)
    weights = [None, np.full(200, 3.0), np.full(200, 1.5)]
    chain = ChainedLightSB(TIMES, 0.1, **{**SETTINGS, "max_iter": 5}).fit(data, weights)
    assert chain.mass_ratios_ == pytest.approx([3.0, 0.5])
    assert chain.interpolate(2.0).shape == (200, 2)


def test_saved_and_read_again(chain, tmp_path):
    chain.save(tmp_path / "chain")
    again = ChainedLightSB.load(tmp_path / "chain")
    x = snapshots()[0][:20]
    assert np.array_equal(again.sample_paths(x, [1.0, 2.5]), chain.sample_paths(x, [1.0, 2.5]))
    (tmp_path / "chain" / "model.json").write_text("{}")
    with pytest.raises(ValueError, match="holds no ChainedLightSB"):
        ChainedLightSB.load(tmp_path / "chain")
    write_model(tmp_path / "chain", "ChainedLightSB", {"times": TIMES}, {})
    with pytest.raises(ValueError, match="holds no ChainedLightSB that can be read"):
        ChainedLightSB.load(tmp_path / "chain")


def test_it_goes_on_from_checkpoints(tmp_path):
    data, settings = snapshots(200), {**SETTINGS, "max_iter": 60}
    seen = []
    whole = ChainedLightSB(TIMES, 0.1, **settings).fit(
        data, callback=lambda interval, progress: seen.append(interval), checkpoint=tmp_path
    )
    assert set(seen) == {0, 1}
    assert (tmp_path / "interval-1.safetensors").exists()
    seen.clear()
    again = ChainedLightSB(TIMES, 0.1, **settings).fit(
        data, callback=lambda interval, progress: seen.append(interval), checkpoint=tmp_path
    )
    assert seen == []
    x = data[0][:5]
    assert np.array_equal(again.sample_at(x, 3.0), whole.sample_at(x, 3.0))


def interrupt_in(stopped):
    """A callback that is Ctrl-C at the first check of an interval from step 30."""

    def callback(interval, progress):
        if interval == stopped and progress.iteration >= 30:
            raise KeyboardInterrupt

    return callback


def test_ctrl_c_ends_the_fit_and_it_goes_on_from_there(tmp_path):
    data, settings = snapshots(200), {**SETTINGS, "max_iter": 60}
    whole = ChainedLightSB(TIMES, 0.1, **settings).fit(data)
    chain = ChainedLightSB(TIMES, 0.1, **settings)
    with pytest.raises(KeyboardInterrupt):
        chain.fit(data, callback=interrupt_in(0), checkpoint=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["interval-0.safetensors"]
    with pytest.raises(NotFittedError):
        chain.sample_at(data[0], 1.0)
    seen = []
    chain.fit(data, callback=lambda *given: seen.append(given), checkpoint=tmp_path)
    assert (seen[0][0], seen[0][1].iteration) == (0, 31)
    assert np.array_equal(chain.sample_at(data[0], 3.0), whole.sample_at(data[0], 3.0))


def test_ctrl_c_in_the_last_interval_leaves_a_chain():
    data = snapshots(200)
    chain = ChainedLightSB(TIMES, 0.1, **{**SETTINGS, "max_iter": 60})
    with pytest.warns(UserWarning, match="last interval after 30 of 60 steps") as caught:
        chain.fit(data, callback=interrupt_in(1))
    assert [warning.filename for warning in caught] == [__file__]
    assert [bridge.stopped_ for bridge in chain.bridges_] == ["finished", "interrupted"]
    assert chain.sample_at(data[0], 3.0).shape == (200, 2)


def test_an_interrupted_fit_leaves_the_last_one():
    again = ChainedLightSB(TIMES, 0.1, **SETTINGS).fit(snapshots(50))
    x = snapshots(5)[0]
    before = again.sample_at(x, 3.0)
    with pytest.raises(KeyboardInterrupt):
        again.fit([7 * points for points in snapshots(50)], callback=interrupt_in(0))
    assert np.array_equal(again.sample_at(x, 3.0), before)


def test_bad_arguments(chain):
    data = snapshots(50)
    with pytest.raises(ValueError, match="times must increase"):
        ChainedLightSB([0, 0], 1.0)
    with pytest.raises(ValueError, match="times must be two or more"):
        ChainedLightSB([0], 1.0)
    with pytest.raises(ValueError, match="sigma2 must be"):
        ChainedLightSB([0, 1], 0.0)
    with pytest.raises(TypeError, match="eps follows"):
        ChainedLightSB([0, 1], 1.0, eps=0.1)
    with pytest.raises(TypeError, match="components"):
        ChainedLightSB([0, 1], 1.0, components=3)
    with pytest.raises(ValueError, match="snapshots must be one for each of the 3 times"):
        ChainedLightSB(TIMES, 1.0).fit(data[:2])
    with pytest.raises(ValueError, match="sample_weights must be one for each"):
        ChainedLightSB(TIMES, 1.0).fit(data, [None])
    with pytest.raises(ValueError, match=r"snapshots\[1\] has 1 features"):
        ChainedLightSB(TIMES, 1.0).fit([data[0], data[1][:, :1], data[2]])
    with pytest.raises(NotFittedError):
        ChainedLightSB(TIMES, 1.0).sample_at(data[0], 1.0)
    with pytest.raises(ValueError, match="start must be a snapshot's time"):
        chain.sample_paths(data[0], [1.0], start=0.5)
    with pytest.raises(ValueError, match="times must be increasing numbers from 2 to 3"):
        chain.sample_paths(data[0], [1.0], start=2.0)
    with pytest.raises(ValueError, match="method must be one of"):
        chain.sample_paths(data[0], [1.0], method="ode")
