"""A small convolutional autoencoder for digits of 8 by 8 pixels."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cameraready.common import resolve_device

__all__ = ["DigitAutoencoder", "train_digit_autoencoder"]


class DigitAutoencoder(nn.Module):
    """Convolutions from 8 by 8 pixels to a code, and back.

    Parameters
    ----------
    latent_dim : int
        Length of the code.
    channels : int
        Channels at full resolution; twice as many at the two lower ones.
    """

    def __init__(self, latent_dim: int = 16, channels: int = 16) -> None:
        super().__init__()
        wide = 2 * channels
        self.encoder = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(channels, wide, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(wide, wide, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(4 * wide, 2 * latent_dim),
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent_dim, 4 * wide),
            nn.SiLU(),
            nn.Unflatten(1, (wide, 2, 2)),
            nn.ConvTranspose2d(wide, wide, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(wide, channels, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(channels, 1, 3, padding=1),
        )

    def moments(
        self, images: Float[Tensor, "n 1 8 8"]
    ) -> tuple[Float[Tensor, "n latent"], Float[Tensor, "n latent"]]:
        """Mean and logarithm of the variance of each image's code."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        return mean, log_variance

    def encode(self, images: Float[Tensor, "n 1 8 8"]) -> Float[Tensor, "n latent"]:
        """The mean code of each image."""
        return self.moments(images)[0]

    def decode(self, latents: Float[Tensor, "n latent"]) -> Float[Tensor, "n 1 8 8"]:
        """The image of each code, in grey values that are about 0 to 1."""
        return self.decoder(latents)


def train_digit_autoencoder(
    images: Float[Any, "n 8 8"],
    *,
    steps: int = 600,
    batch_size: int = 128,
    lr: float = 1e-2,
    kl_weight: float = 3e-3,
    device: str = "auto",
    seed: int = 0,
) -> DigitAutoencoder:
    """Train the autoencoder; a few seconds on a CPU.

    The loss is the squared error of all pixels plus `kl_weight` times the divergence of the code
    from a standard normal: enough noise on the codes that between two of them lie digits.

    Parameters
    ----------
    images : array or Tensor of shape (n, 8, 8)
        Grey values from 0 to 1.
    steps, batch_size, lr, kl_weight
        Of Adam, with a one-cycle step size whose highest is `lr`.
    device : str
        Where to train.
    seed : int
        For the first weights, the batches and the noise; torch's own generator is left alone.

    Returns
    -------
    DigitAutoencoder
        In evaluation mode.

    Raises
    ------
    ValueError
        If the images are not 8 by 8, or not grey values from 0 to 1.

    References
    ----------
    Kingma, Welling, Auto-Encoding Variational Bayes, ICLR 2014.
    """
    name = resolve_device(device)
    pixels = torch.as_tensor(images, dtype=torch.float32)
    if pixels.ndim != 3 or pixels.shape[1:] != (8, 8) or not len(pixels):
        raise ValueError(f"images must have the shape (n, 8, 8), not {tuple(pixels.shape)}")
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise ValueError("images must be grey values from 0 to 1; divide those of `digits` by 16")
    pixels = pixels[:, None].to(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DigitAutoencoder().to(name)
    generator = torch.Generator(name).manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(pixels), (batch_size,), generator=generator, device=name)
        batch = pixels[rows]
        mean, log_variance = model.moments(batch)
        noise = torch.randn(mean.shape, generator=generator, device=name)
        restored = model.decode(mean + (0.5 * log_variance).exp() * noise)
        divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1)
        loss = (restored - batch).square().sum() + kl_weight * divergence.sum()
        optimizer.zero_grad(set_to_none=True)
        (loss / batch_size).backward()
        optimizer.step()
        schedule.step()
    return model.eval()
