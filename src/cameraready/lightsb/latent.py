"""Unpaired translation between two domains in the latent space of an autoencoder."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cameraready.lightsb.bridge import LightSB

__all__ = ["LatentTranslator", "from_encoder"]


@dataclass(frozen=True)
class LatentTranslator:
    """An autoencoder with a bridge between the codes of two domains; `from_encoder` makes it.

    Attributes
    ----------
    encoder, decoder
        See `from_encoder`.
    bridge : LightSB
        From the source's codes to the target's, flattened.
    latent_shape : tuple of int
        Shape of one code.
    batch_size : int
        Images that pass through the networks at a time.
    """

    encoder: Any
    decoder: Any
    bridge: LightSB
    latent_shape: tuple[int, ...]
    batch_size: int

    def encode(self, images: Float[Tensor, "n ..."]) -> Float[Tensor, "n features"]:
        """Flattened codes of images, in single precision, on the images' device."""
        with _evaluation(self.encoder):
            codes = [_encode(self.encoder, part) for part in images.split(self.batch_size)]
        return torch.cat(codes).flatten(1).to(images.device)

    def decode(self, latents: Float[Tensor, "n features"]) -> Float[Tensor, "n ..."]:
        """Images of flattened codes, on the codes' device."""
        codes = latents.unflatten(1, self.latent_shape)
        with _evaluation(self.decoder):
            images = [
                _decode(self.decoder, self.encoder, part) for part in codes.split(self.batch_size)
            ]
        return torch.cat(images).to(latents.device)

    def translate(
        self,
        images: Float[Tensor, "n ..."],
        n_samples: int = 1,
        *,
        random_state: Any = None,
    ) -> Float[Tensor, "n ..."]:
        """Draw images of the target domain, given images of the source domain.

        Parameters
        ----------
        images : Tensor of shape (n, channels, height, width)
            As the encoder takes them.
        n_samples : int
            Draws for each; `eps` of the bridge says how they differ.
        random_state : int or Generator, optional
            Instead of the bridge's.

        Returns
        -------
        Tensor of shape (n, channels, height, width)
            Or (n, n_samples, channels, height, width) with several samples; on the images' device.
        """
        arrived = self.bridge.transform(self.encode(images), n_samples, random_state=random_state)
        if n_samples == 1:
            return self.decode(arrived)
        return self.decode(arrived.flatten(0, 1)).unflatten(0, (len(images), n_samples))


def from_encoder(
    encoder: Any,
    decoder: Any,
    dataloader: Iterable[tuple[Tensor, Tensor]],
    bridge: LightSB | None = None,
    *,
    batch_size: int = 64,
) -> LatentTranslator:
    """Encode images of two domains and fit the bridge between their codes.

    Parameters
    ----------
    encoder : object with a method ``encode``, or callable
        Any autoencoder in torch. What it returns is the codes, or holds them as ``latents`` or as
        ``latent_dist``, whose mode is taken, as diffusers' ``AutoencoderKL`` does. A
        ``config.scaling_factor`` and ``config.shift_factor`` are applied as there. A module runs
        where its parameters are, in their precision, in evaluation mode, without gradients.
    decoder : object with a method ``decode``, or callable
        From codes to images, which are what it returns, or ``sample`` of that. May be the same
        object.
    dataloader : iterable of (images, domains)
        Batches; the domain of an image is 0 for the source and 1 for the target. All codes are
        held in memory.
    bridge : LightSB, optional
        The bridge to fit; one with default settings if it is not given. Codes of more than some
        hundred numbers want ``covariance_type="lowrank"``.
    batch_size : int
        Images that pass through the networks at a time in the methods of what is returned.

    Returns
    -------
    LatentTranslator
        Its ``translate`` maps images of the source.

    Raises
    ------
    TypeError
        If the encoder's or decoder's results are none of the above.
    ValueError
        If the batches are not (images, domains), or a domain is missing.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> images = torch.rand(400, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> domains = torch.arange(400) % 2
    >>> images[domains == 1] += 3
    >>> loader = DataLoader(TensorDataset(images, domains), batch_size=50)
    >>> translator = from_encoder(  # codes that are the pixels themselves
    ...     lambda x: x, lambda z: z, loader, LightSB(1, eps=0.1, max_iter=300, random_state=0)
    ... )
    >>> source = images[domains == 0]
    >>> bool((translator.translate(source) - source).mean() > 2)
    True
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size!r}")
    codes: list[Tensor] = []
    domains: list[Tensor] = []
    with _evaluation(encoder):
        for batch in dataloader:
            if not (isinstance(batch, list | tuple) and len(batch) == 2):
                raise ValueError("dataloader must give pairs (images, domains)")
            images, labels = batch[0], torch.as_tensor(batch[1])
            if labels.shape != images.shape[:1]:
                raise ValueError(
                    "dataloader must give one domain an image: the shapes are "
                    f"{tuple(images.shape)} and {tuple(labels.shape)}"
                )
            codes.append(_encode(encoder, images).cpu())
            domains.append(labels.cpu())
    label = torch.cat(domains) if domains else torch.empty(0)
    if not torch.isin(label, torch.tensor([0, 1])).all():
        raise ValueError("the domains that dataloader gives must be 0 (source) or 1 (target)")
    for value, name in enumerate(("source", "target")):
        if not (label == value).any():
            raise ValueError(f"dataloader gave no image of domain {value} (the {name})")
    code = torch.cat(codes)
    flat = code.flatten(1)
    bridge = LightSB() if bridge is None else bridge
    bridge.fit(flat[label == 0], flat[label == 1])
    return LatentTranslator(encoder, decoder, bridge, tuple(code.shape[1:]), batch_size)


def _encode(encoder: Any, images: Tensor) -> Tensor:
    """Codes as the field's diffusion models see them: scaled, in single precision."""
    encode = _method(encoder, "encode")
    codes = encode(_on_parameters(encoder, images))
    if hasattr(codes, "latent_dist"):
        codes = codes.latent_dist.mode()
    elif hasattr(codes, "latents"):
        codes = codes.latents
    if not isinstance(codes, Tensor):
        raise TypeError(
            "encoder must return a Tensor, or hold one as latent_dist or latents, not "
            f"{type(codes).__name__}"
        )
    factor, shift = _scaling(encoder)
    return (codes.float() - shift) * factor


def _decode(decoder: Any, encoder: Any, codes: Tensor) -> Tensor:
    factor, shift = _scaling(encoder)
    images = _method(decoder, "decode")(_on_parameters(decoder, codes / factor + shift))
    images = getattr(images, "sample", images)
    if not isinstance(images, Tensor):
        raise TypeError(
            f"decoder must return a Tensor, or hold one as sample, not {type(images).__name__}"
        )
    return images.float()


def _method(network: Any, name: str) -> Callable[[Tensor], Any]:
    method = getattr(network, name, network)
    if not callable(method):
        raise TypeError(f"a network must have a method {name} or be callable: {network!r} is not")
    return method


def _scaling(encoder: Any) -> tuple[float, float]:
    config = getattr(encoder, "config", None)
    factor, shift = (getattr(config, f"{name}_factor", None) for name in ("scaling", "shift"))
    return 1.0 if factor is None else float(factor), 0.0 if shift is None else float(shift)


def _on_parameters(network: Any, values: Tensor) -> Tensor:
    """The values where a module's parameters are, in their precision."""
    if not isinstance(network, nn.Module):
        return values
    first = next(network.parameters(), None)
    return values if first is None else values.to(first.device, first.dtype)


@contextmanager
def _evaluation(network: Any) -> Generator[None]:
    """Evaluation mode without gradients; the mode of each part is restored."""
    parts = list(network.modules()) if isinstance(network, nn.Module) else []
    modes = [part.training for part in parts]
    try:
        for part in parts:
            part.training = False
        with torch.no_grad():
            yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode
