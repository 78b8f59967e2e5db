"""Batches that grow."""

import pytest

torch = pytest.importorskip("torch")

from cameraready.minmax.growing_batch import GrowingBatchSampler  # noqa: E402


def test_every_example_is_drawn_once_a_pass():
    sampler = GrowingBatchSampler(1000, first=3, seed=0)
    orders = []
    for _ in range(3):
        order = [i for batch in sampler for i in batch]
        assert sorted(order) == list(range(1000))
        orders.append(order)
    assert orders[0] != orders[1]


def test_sizes_grow_up_to_the_most():
    sampler = GrowingBatchSampler(100, first=2, power=2.0, most=30, seed=0)
    assert [len(batch) for batch in sampler] == [2, 8, 18, 30, 30, 12]
    assert sampler.batches_ == 6
    assert [len(batch) for batch in sampler] == [30, 30, 30, 10]


def test_the_seed_settles_the_order():
    batches = [list(GrowingBatchSampler(50, first=4, seed=s)) for s in (1, 1, 2)]
    assert batches[0] == batches[1]
    assert batches[0] != batches[2]


def test_a_resumed_sampler_goes_on_with_the_size():
    sampler = GrowingBatchSampler(100, first=2, power=1.0)
    sampler.batches_ = 9
    assert len(next(iter(sampler))) == 20


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"examples": 0}, "examples"),
        ({"first": 0}, "first"),
        ({"first": 1.5}, "first"),
        ({"power": 0.0}, "power"),
        ({"most": 0}, "most"),
    ],
)
def test_bad_input(settings, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        GrowingBatchSampler(**({"examples": 10} | settings))
