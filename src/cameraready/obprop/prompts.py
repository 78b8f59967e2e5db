"""Two prompts that differ in what an observable depends on."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.obprop.activations import Activations, Site
from cameraready.obprop.norms import Norm
from cameraready.obprop.paths import Node

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["PromptPair"]


class PromptPair:
    """A positive and a negative prompt of equal length, run once each.

    Parameters
    ----------
    view
        The model.
    positive, negative
        The prompts.
    token
        The token of interest, from the end where negative; by default the first that differs.

    Attributes
    ----------
    acts : Activations
        The residual stream of the positive prompt (row 0) and the negative one (row 1), and their
        attention weights.
    length : int
        Tokens of each.
    first_difference : int
        The first token at which they differ; before it, all activations are the same.
    token : int
        The token of interest.

    Raises
    ------
    ValueError
        If the prompts are the same, have different numbers of tokens, or not that token.
    """

    def __init__(
        self, view: "TransformerView", positive: str, negative: str, token: int | None = None
    ) -> None:
        ids = [view.encode(positive), view.encode(negative)]
        same = positive == negative
        if not same and len(ids[0]) != len(ids[1]):
            raise ValueError(_unequal(view, ids))
        if same or torch.equal(*ids):
            raise ValueError("the prompts of the pair are identical")
        self.view = view
        self.positive, self.negative = positive, negative
        self.length = len(ids[0])
        self.first_difference = int((ids[0] != ids[1]).nonzero()[0])
        token = self.first_difference if token is None else token
        if not -self.length <= token < self.length:
            raise ValueError(f"token must be one of the {self.length} tokens, not {token}")
        self.token = token % self.length
        self.acts: Activations = view.run(torch.stack(ids), attention=True)

    def __repr__(self) -> str:
        return f"PromptPair({self.positive!r}, {self.negative!r}, token={self.token})"

    def inputs(self, node: Node) -> Float[Tensor, "2 width"]:
        """The residual stream that a node reads, in the positive and the negative run."""
        site: Site = "resid_pre" if node.kind == "attn" else self.view.mlp_site
        return self.acts.site(site, node.layer)[:, node.token]

    def outputs(self, node: Node, at: int) -> Float[Tensor, "2 width"]:
        """What the node's attention, all heads of it, or its MLP gives at a token."""
        if node.kind == "attn":
            return self.acts.attention_output[node.layer][:, at]
        x = self.inputs(node)
        return self.view.mlp(node.layer, norm_before(self.view, node).to(x.device)(x)).detach()

    def final(self) -> Float[Tensor, "2 width"]:
        """The residual stream after the last layer, at the last token."""
        return self.acts.resid_pre[self.view.L][:, -1]


def norm_before(view: "TransformerView", node: Node) -> Norm:
    """The norm in front of a node."""
    adapter = view.adapter
    return (
        adapter.attention_norm(node.layer) if node.kind == "attn" else adapter.mlp_norm(node.layer)
    )


def norm_after(view: "TransformerView", node: Node) -> Norm | None:
    """The norm behind a node, in architectures that have one."""
    if node.kind == "attn":
        return view.adapter.norm_after_attention(node.layer)
    return view.adapter.norm_after_mlp(node.layer)


def _unequal(view: "TransformerView", ids: list[Tensor]) -> str:
    tokens = [[view.tokenizer.decode([token]) for token in row.tolist()] for row in ids]
    shorter = min(len(row) for row in tokens)
    first = next((i for i in range(shorter) if ids[0][i] != ids[1][i]), shorter)
    return (
        f"the prompts of the pair must have the same number of tokens, not {len(tokens[0])} and "
        f"{len(tokens[1])}: {tokens[0]} and {tokens[1]}; they first differ at token {first}"
    )
