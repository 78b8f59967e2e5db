import itertools
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from cameraready.obprop.score_files import write_scores
from cameraready.obprop.scoring import score_texts

TEXTS = [
    "Mary is a doctor",
    'So, "John" really\nis a great friend, isn\'t he',
    "",
    "Anna\rwas here",
    "Peter",
] * 5


def direction(view, seed=0):
    vector = torch.randn(view.D, generator=torch.Generator().manual_seed(seed))
    return SimpleNamespace(vector=vector, site="resid_pre", layer=1, name=f"direction {seed}")


def read(path):
    text = {"text": "str", "token": "str", "status": "str"}
    return pd.read_csv(
        path,
        index_col="line",
        dtype=text,
        keep_default_na=False,
        na_values={"position": [""], "score": [""]},
    )


@pytest.mark.parametrize("token", ["all", "mean"])
def test_the_file_holds_the_table(llama, tmp_path, token):
    path = tmp_path / "scores.csv"
    assert write_scores(llama, direction(llama), TEXTS, path, token=token, batch_size=1)
    wanted = score_texts(llama, direction(llama), TEXTS, token=token, batch_size=1)
    found = read(path)
    assert list(found.text) == list(wanted.text)
    assert list(found.index) == list(wanted.index)
    pd.testing.assert_series_equal(found.score, wanted.score, check_dtype=False, rtol=1e-6)
    assert [item.name for item in tmp_path.iterdir()] == ["scores.csv"]


def stopping(texts, after):
    yield from itertools.islice(texts, after)
    raise KeyboardInterrupt


@pytest.mark.parametrize("token", ["all", "mean"])
@pytest.mark.parametrize("cut", [0, 5, 10_000])
def test_an_interrupted_run_goes_on(llama, tmp_path, token, cut):
    whole, path = tmp_path / "whole.csv", tmp_path / "scores.csv"
    write_scores(llama, direction(llama), TEXTS, whole, token=token, batch_size=1)
    settings = {"token": token, "batch_size": 1}
    with pytest.raises(KeyboardInterrupt):
        write_scores(llama, direction(llama), stopping(TEXTS, 20), path, **settings)
    assert not path.exists()
    (part,) = tmp_path.glob("scores.csv.*unfinished.part")
    assert all(item.name.endswith(".part") for item in tmp_path.glob("scores.csv*"))
    kept = part.read_bytes()
    assert 0 < len(kept) < len(whole.read_bytes())
    part.write_bytes(kept[: max(0, len(kept) - cut)])  # the machine stopped while it wrote
    scored = []
    assert write_scores(
        llama, direction(llama), counted(TEXTS, scored), path, resume=True, **settings
    )
    assert path.read_bytes() == whole.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def counted(texts, taken):
    for text in texts:
        taken.append(text)
        yield text


def test_a_run_with_other_settings_is_not_mixed_in(llama, tmp_path):
    path = tmp_path / "scores.csv"
    with pytest.raises(KeyboardInterrupt):
        write_scores(llama, direction(llama), stopping(TEXTS, 20), path, batch_size=1)
    for changed in ({"token": "last"}, {"normalized": False}):
        with pytest.raises(ValueError, match="another model, feature or setting"):
            write_scores(llama, direction(llama), TEXTS, path, batch_size=1, resume=True, **changed)
    with pytest.raises(ValueError, match="another model, feature or setting"):
        write_scores(llama, direction(llama, 1), TEXTS, path, batch_size=1, resume=True)
    assert write_scores(llama, direction(llama), TEXTS, path, batch_size=1)  # anew
    assert len(read(path)) == len(TEXTS)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_processes_share_the_work(llama, tmp_path, monkeypatch, order):
    whole, path = tmp_path / "whole.csv", tmp_path / "scores.csv"
    write_scores(llama, direction(llama), TEXTS, whole, token="all", batch_size=1)
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in order:
        monkeypatch.setenv("RANK", str(rank))
        done = write_scores(llama, direction(llama), TEXTS, path, token="all", batch_size=1)
        assert done == (rank == order[-1])
    assert path.read_bytes() == whole.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_process_that_has_finished_is_not_run_again(llama, tmp_path, monkeypatch):
    path = tmp_path / "scores.csv"
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert not write_scores(llama, direction(llama), TEXTS, path, batch_size=1)
    taken = []
    assert not write_scores(
        llama, direction(llama), counted(TEXTS, taken), path, batch_size=1, resume=True
    )
    assert taken == []


def test_few_texts_leave_some_processes_idle(llama, tmp_path, monkeypatch):
    path = tmp_path / "scores.csv"
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "10":
        monkeypatch.setenv("RANK", rank)
        write_scores(llama, direction(llama), TEXTS[:2], path)
    assert list(read(path).text) == TEXTS[:2]


def test_a_folder_that_cannot_be_written_to_fails_first(llama, tmp_path):
    (tmp_path / "file").touch()
    taken = []
    with pytest.raises(ValueError, match="cannot write to the folder"):
        write_scores(
            llama, direction(llama), counted(TEXTS, taken), tmp_path / "file" / "scores.csv"
        )
    assert taken == []
