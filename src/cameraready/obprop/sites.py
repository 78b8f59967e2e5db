"""The residual stream of a running model, read and edited at a site."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from cameraready.common import check_choice
from cameraready.obprop.norms import Norm

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["Place", "check_place", "editing", "norm_at", "place_of", "read_places"]

Place = tuple[str, int]  # site and layer
Edit = Callable[[Float[Tensor, "batch tokens width"]], Float[Tensor, "batch tokens width"] | None]


class _Enough(Exception):  # noqa: N818 (it is no error)
    """All that was to be read has been read."""


def place_of(feature: Any) -> Place:
    """The site and the layer of a feature."""
    return feature.site, feature.layer


def check_place(view: "TransformerView", site: str, layer: int) -> Place:
    """A site and a layer that the model has.

    Parameters
    ----------
    view
        The model.
    site
        ``"resid_pre"``, the residual stream before the layer, or ``"resid_mid"``, the one between
        its attention and its MLP.
    layer
        The layer.

    Raises
    ------
    ValueError
        If the model does not have it.
    """
    check_choice("site", site, ("resid_pre", "resid_mid"))
    if not 0 <= layer < view.L:
        raise ValueError(f"layer must be from 0 to {view.L - 1}, not {layer}")
    return site, layer


def norm_at(view: "TransformerView", place: Place) -> Norm:
    """The norm through which the layer reads the stream."""
    site, layer = place
    before = site == "resid_pre"
    return view.adapter.attention_norm(layer) if before else view.adapter.mlp_norm(layer)


@contextmanager
def editing(view: "TransformerView", edits: Mapping[Place, Edit]) -> Generator[None]:
    """Let functions read or replace the residual stream while the block lasts.

    Parameters
    ----------
    view
        The model.
    edits
        By site and layer, a function of the residual stream. What it returns takes the stream's
        place; None leaves it.
    """
    with ExitStack() as stack:
        for (site, layer), edit in edits.items():
            check_place(view, site, layer)
            # Where attention and MLP read the same stream there is nothing between them.
            block = view.adapter.block(layer)
            if site == "resid_pre" or view.adapter.parallel:
                hooks = {block: _replace_input(edit)}
            else:
                norm = block.get_submodule(view.adapter.mlp_norm_name)
                note, change = _change_input(edit)
                hooks = {block: note, norm: change}
            for module, hook in hooks.items():
                handle = module.register_forward_pre_hook(hook, with_kwargs=True)
                stack.callback(handle.remove)
        yield


def read_places(
    view: "TransformerView", ids: Int[Tensor, "batch tokens"], places: Iterable[Place]
) -> dict[Place, Float[Tensor, "batch tokens width"]]:
    """The residual stream at some places; layers behind the last of them do not run.

    Rows shorter than others are to be padded on the right: a causal model's earlier tokens do not
    see what stands there.

    Parameters
    ----------
    view
        The model.
    ids
        Tokens.
    places
        Sites and layers.

    Returns
    -------
    streams
        By place, in the model's precision.
    """
    places = sorted(set(places), key=lambda place: (place[1], place[0] == "resid_mid"))
    streams: dict[Place, Tensor] = {}

    def reader(place: Place) -> Edit:
        def read(stream: Tensor) -> None:
            streams[place] = stream
            if len(streams) == len(places):
                raise _Enough

        return read

    readers = {place: reader(place) for place in places}
    with torch.no_grad(), editing(view, readers), suppress(_Enough):
        view.adapter.run(ids.to(view.adapter.input_device), None, 1)
    return streams


def _replace_input(edit: Edit) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            edited = edit(args[0])
            return None if edited is None else ((edited, *args[1:]), kwargs)
        edited = edit(kwargs["hidden_states"])
        return None if edited is None else (args, {**kwargs, "hidden_states": edited})

    return hook


def _change_input(edit: Edit) -> tuple[Any, Any]:
    shape = torch.Size()

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal shape
        shape = (args[0] if args else kwargs["hidden_states"]).shape

    # The block adds the MLP's output to the very tensor that the norm is handed: writing into it
    # changes what the MLP reads and what is carried past it. OPT hands it over without its batch.
    def change(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stream = args[0] if args else kwargs["hidden_states"]
        edited = edit(stream.view(shape))
        if edited is not None:
            stream.copy_(edited.view_as(stream))

    return note, change
