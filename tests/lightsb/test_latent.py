"""Translation in latent spaces, with stand-ins that have the interfaces of the field."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from cameraready.lightsb import LightSB
from cameraready.lightsb.latent import from_encoder


def fast(**settings):
    return LightSB(1, eps=0.1, max_iter=200, random_state=0, device="cpu", **settings)


def domains(n=200, shape=(1, 4, 4), shift=3.0, dtype=torch.float32):
    """Noise, and noise that is brighter, mixed."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2 * n, *shape, generator=generator)
    label = torch.arange(2 * n) % 2
    images[label == 1] += shift
    loader = DataLoader(TensorDataset(images.to(dtype), label), batch_size=64)
    return loader, images[label == 0].to(dtype)


class Diffusers(nn.Module):
    """With the interface of diffusers' AutoencoderKL: what is returned, and its config."""

    def __init__(self, shift_factor=None):
        super().__init__()
        self.config = SimpleNamespace(scaling_factor=0.25, shift_factor=shift_factor)
        self.to_codes = nn.Conv2d(3, 8, 2, stride=2)
        self.to_images = nn.ConvTranspose2d(4, 3, 2, stride=2)
        self.dropout = nn.Dropout(0.5)
        self.seen = []

    def encode(self, x):
        assert not torch.is_grad_enabled()
        mean, _ = self.to_codes(self.dropout(x)).chunk(2, 1)
        distribution = SimpleNamespace(mode=lambda: mean, sample=lambda: mean + 100)
        return SimpleNamespace(latent_dist=distribution)

    def decode(self, z):
        self.seen.append(z)
        return SimpleNamespace(sample=self.to_images(self.dropout(z)))


def test_images_arrive_in_the_target():
    loader, source = domains()
    translator = from_encoder(lambda x: x, lambda z: z, loader, fast())
    arrived = translator.translate(source)
    assert arrived.shape == source.shape
    assert arrived.mean() == pytest.approx(3, abs=0.2)
    several = translator.translate(source[:7], 4, random_state=1)
    assert several.shape == (7, 4, 1, 4, 4)
    assert torch.equal(several, translator.translate(source[:7], 4, random_state=1))
    # Bright stays bright: the draws of an image lie near it.
    near = (several - source[:7, None] - 3).square().mean()
    far = (several - source[:7].flip(0)[:, None] - 3).square().mean()
    assert near < 0.5 * far


@pytest.mark.parametrize("shift_factor", [None, 0.5])
def test_an_autoencoder_of_diffusers(shift_factor):
    torch.manual_seed(0)
    network = Diffusers(shift_factor)
    network.train()
    loader, source = domains(shape=(3, 4, 4))
    translator = from_encoder(network, network, loader, fast(), batch_size=50)
    assert network.training
    assert network.dropout.training
    assert translator.latent_shape == (4, 2, 2)
    with torch.no_grad():
        codes = network.to_codes(source)[:, :4]
    scaled = 0.25 * (codes - (shift_factor or 0.0))
    torch.testing.assert_close(translator.encode(source), scaled.flatten(1))
    images = translator.translate(source, 2)
    assert images.shape == (200, 2, 3, 4, 4)
    assert not images.requires_grad
    network.seen.clear()
    translator.decode(scaled.flatten(1))
    torch.testing.assert_close(torch.cat(network.seen), codes)
    assert [len(z) for z in network.seen] == [50, 50, 50, 50]


def test_other_names_for_codes_and_modules_without_methods():
    loader, source = domains()
    torch.manual_seed(0)
    encoder, decoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), nn.Linear(3, 16)
    translator = from_encoder(encoder, decoder, loader, fast())
    assert translator.translate(source[:2]).shape == (2, 16)
    other = SimpleNamespace(encode=lambda x: SimpleNamespace(latents=encoder(x)))
    again = from_encoder(other, decoder, loader, fast())
    assert torch.equal(again.translate(source[:2]), translator.translate(source[:2]))


def test_half_precision_stays_in_the_network():
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 4)).bfloat16()
    decoder = nn.Linear(4, 16).bfloat16()
    loader, source = domains()
    translator = from_encoder(network, decoder, loader, fast())
    assert translator.encode(source).dtype == torch.float32
    assert translator.translate(source).dtype == torch.float32


def test_what_is_refused():
    loader, source = domains()
    with pytest.raises(TypeError, match=r"encoder must return a Tensor.* not list"):
        from_encoder(lambda x: [x], lambda z: z, loader)
    with pytest.raises(TypeError, match="method encode or be callable"):
        from_encoder(3, 3, loader)
    translator = from_encoder(lambda x: x, lambda z: None, loader, fast())
    with pytest.raises(TypeError, match="decoder must return a Tensor"):
        translator.translate(source)
    with pytest.raises(ValueError, match="pairs"):
        from_encoder(lambda x: x, lambda z: z, DataLoader(source))
    with pytest.raises(ValueError, match="one domain an image"):
        from_encoder(lambda x: x, lambda z: z, [(source, torch.zeros(3))])
    with pytest.raises(ValueError, match="no image of domain 1"):
        from_encoder(lambda x: x, lambda z: z, [(source, torch.zeros(len(source)))])
    with pytest.raises(ValueError, match="no image of domain 0"):
        from_encoder(lambda x: x, lambda z: z, [])
    with pytest.raises(ValueError, match="must be 0"):
        from_encoder(lambda x: x, lambda z: z, [(source, torch.full((len(source),), 3))])
    with pytest.raises(ValueError, match="batch_size"):
        from_encoder(lambda x: x, lambda z: z, loader, batch_size=0)


def test_benign_becomes_malignant():
    x, malignant = load_breast_cancer(return_X_y=True)
    x, malignant = np.log1p(x), 1 - malignant  # most features have a long tail
    rows = np.random.default_rng(0).permutation(len(x))
    train, test = rows[:400], rows[400:]
    space = make_pipeline(StandardScaler(), PCA(10)).fit(x[train])
    codes = space.transform(x).astype(np.float32)
    judge = LogisticRegression(max_iter=1000).fit(codes[test], malignant[test])
    benign = codes[test][malignant[test] == 0]
    target = codes[train][malignant[train] == 1]
    # Few rows: all are needed to train on.
    settings = {"max_iter": 500, "validation_fraction": 0.0, "random_state": 0, "device": "cpu"}
    bridge = LightSB(5, eps=0.1, **settings).fit(codes[train][malignant[train] == 0], target)
    arrived = bridge.transform(benign, 10)
    assert judge.predict(benign).mean() < 0.05
    # As often as real ones, which the judge has not seen either.
    assert judge.predict(arrived.reshape(-1, 10)).mean() > judge.predict(target).mean() - 0.05
    distance = np.linalg.norm(arrived - benign[:, None], axis=2).mean()
    shuffled = np.linalg.norm(arrived[::-1] - benign[:, None], axis=2).mean()
    assert distance < 0.9 * shuffled
