import numpy as np
import pytest
import torch

from cameraready.datasets import digits
from cameraready.lightsb.digit_autoencoder import train_digit_autoencoder


@pytest.fixture(scope="module")
def images():
    return torch.tensor(digits()["images"] / 16, dtype=torch.float32)


def test_codes_keep_the_digit(images):
    train, held_out = images[:1200], images[1200:]
    model = train_digit_autoencoder(train, steps=300, device="cpu")
    assert not model.training
    with torch.no_grad():
        codes = model.encode(held_out[:, None])
        restored = model.decode(codes)
    assert codes.shape == (len(held_out), 16)
    assert restored.shape == (len(held_out), 1, 8, 8)
    # Far better than the mean image.
    error = (restored[:, 0] - held_out).square().mean()
    assert error < 0.25 * (held_out - train.mean(0)).square().mean()


def test_a_seed_gives_the_same_and_leaves_torch_alone(images):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, two, other = (
        train_digit_autoencoder(images[:200], steps=3, device="cpu", seed=seed)
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.encode(images[:5, None]), two.encode(images[:5, None]))
    assert not torch.equal(one.encode(images[:5, None]), other.encode(images[:5, None]))


def test_bad_images(images):
    with pytest.raises(ValueError, match=r"shape \(n, 8, 8\)"):
        train_digit_autoencoder(images.flatten(1))
    with pytest.raises(ValueError, match="from 0 to 1"):
        train_digit_autoencoder(16 * images)
    with pytest.raises(ValueError, match="from 0 to 1"):
        train_digit_autoencoder(np.full((2, 8, 8), np.nan))
