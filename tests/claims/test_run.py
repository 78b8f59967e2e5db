import subprocess
import sys

import numpy as np
import pytest
import toys

from cameraready.claims import Run


def test_scale_follows_the_budget():
    picked = [
        Run("toy", budget).scale(smoke=1, quick=2, full=3) for budget in ("smoke", "quick", "full")
    ]
    assert picked == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": "huge"}, "budget"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Run("toy", **arguments)


@pytest.mark.parametrize("workers", [1, 2])
def test_map_keeps_the_order_and_tells_progress(workers):
    events = []
    with Run("toy", "smoke", workers=workers, emit=events.append) as run:
        assert run.map(toys.square, range(10), "squaring") == [n * n for n in range(10)]
        assert run.map(toys.square, [], "nothing") == []
    squaring = [event["done"] for event in events if event["description"] == "squaring"]
    assert squaring == list(range(11))


def test_map_runs_in_other_processes():
    with Run("toy", "smoke", workers=2) as run:
        assert len(set(run.map(toys.process_id, range(8), "spreading"))) == 2


def test_map_says_when_a_worker_dies():
    with (
        Run("toy", "smoke", workers=2) as run,
        pytest.raises(RuntimeError, match="worker process died during 'dying'"),
    ):
        run.map(toys.die, range(2), "dying")


def test_generators_are_independent_and_the_same_in_every_process():
    run = Run("toy", "smoke", seed=3)
    first = run.generator("stream", 1).random(4)
    assert np.array_equal(first, run.generator("stream", 1).random(4))
    others = [
        run.generator("stream", 2),
        run.generator("stream1"),
        Run("toy", "smoke", seed=4).generator("stream", 1),
    ]
    for other in others:
        assert not np.array_equal(first, other.random(4))
    code = (
        "from cameraready.claims import Run;"
        "print(Run('toy', 'smoke', seed=3).generator('stream', 1).random(4).tolist())"
    )
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert elsewhere.stdout.decode().strip() == str(first.tolist())


def test_cached_computes_once_for_each_key(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"numbers": np.arange(3), "pair": (1, np.float64(2.5)), "nan": float("nan")}

    def read(**changes):
        arguments = {"budget": "smoke", "seed": 0, "source_hash": "a", **changes}
        return Run("toy", parts=tmp_path, **arguments).cached("a part", compute)

    first, second = read(), read()
    assert len(calls) == 1
    assert first["numbers"] == second["numbers"] == [0, 1, 2]
    assert first["pair"] == second["pair"] == [1, 2.5]
    read(source_hash="b")
    read(seed=1)
    read(budget="quick")
    assert len(calls) == 4


def test_cached_survives_a_damaged_file(tmp_path):
    run = Run("toy", "smoke", parts=tmp_path)
    assert run.cached("part", lambda: 1) == 1
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:-5])
    assert run.cached("part", lambda: 2) == 2


def test_cached_refuses_what_json_cannot_hold(tmp_path):
    with pytest.raises(TypeError, match="numbers, text, lists and dicts"):
        Run("toy", "smoke", parts=tmp_path).cached("part", object)
    assert list(tmp_path.iterdir()) == []


def test_names_that_differ_only_in_signs_are_kept_apart(tmp_path):
    run = Run("toy", "smoke", parts=tmp_path)
    assert [run.cached(name, lambda n=n: n) for n, name in enumerate(["a b", "a-b", "A b"])] == [
        0,
        1,
        2,
    ]
    assert len(list(tmp_path.iterdir())) == 3


def test_figure_is_drawn_light_and_dark():
    events = []
    colours = []

    def draw(figure):
        axes = figure.subplots()
        (line,) = axes.plot([1, 2])
        colours.append((line.get_color(), axes.get_facecolor()))

    Run("toy", "smoke", emit=events.append).figure("line", draw, "A line.")
    assert len(set(colours)) == 2
    (event,) = events
    assert set(event["files"]) == {"light.svg", "dark.svg", "light.png"}
    assert b"<svg" in event["files"]["dark.svg"]
    assert event["files"]["light.png"].startswith(b"\x89PNG")
    Run("toy", "smoke", emit=events.append).figure("line", draw, "A line.")
    assert events[0]["files"]["light.svg"] == events[1]["files"]["light.svg"]
