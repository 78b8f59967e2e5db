import importlib.util

import pytest
from rows import toy_rows

from cameraready.claims.results import Results
from cameraready.claims.runner import Options, run_experiments


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
@pytest.mark.filterwarnings("default")  # what Ray warns of is not ours to mend
def test_the_same_experiments_on_a_local_ray(tmp_path, toys):
    rows = toy_rows("spread", "raises", "exits")
    options = Options(budget="smoke", ray="local")
    run_experiments(rows, tmp_path, options, catalogue=rows)
    spread, raises, exits = Results.read(tmp_path / "results.json").systems
    assert spread.status == "finished"
    assert [claim.verdict.value for claim in spread.claims] == ["holds"]
    # The figure has come back as bytes and lies in our folder.
    assert (tmp_path / spread.figures[0].dark).read_text().rstrip().endswith("</svg>")
    assert raises.status == exits.status == "failed"
    assert len(raises.claims) == 1
    assert "the second part broke" in raises.error


def test_a_cluster_that_is_not_there_is_one_sentence(tmp_path, monkeypatch):
    from cameraready.claims import on_ray

    if importlib.util.find_spec("ray") is None:
        with pytest.raises(ValueError, match=r"cameraready\[ray\]"):
            on_ray.connect("local")
        return
    import ray

    def refuse(**arguments):
        raise ConnectionError("nobody answers\nat all")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ValueError, match=r"no Ray cluster at '10\.0\.0\.1:6379': nobody answers"):
        on_ray.connect("10.0.0.1:6379")
