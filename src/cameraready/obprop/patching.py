"""Which path carries an observable? Path patching with frozen attention, and head norms.

The contribution of a path is the drop of the observable when, in the positive run, the input of
its first node is replaced by the negative run's and only the difference this makes travels along
the path, with the attention weights of the positive run.
"""

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.common import check_choice
from cameraready.obprop.feature import feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.paths import Node, Path, level
from cameraready.obprop.prompts import PromptPair, norm_after, norm_before

if TYPE_CHECKING:
    import pandas as pd

    from cameraready.obprop.view import TransformerView

_PART = 4096

__all__ = ["contribution", "head_norms", "patch_scores", "search_paths"]


def head_norms(view: "TransformerView", observable: Observable) -> Float[Tensor, "layers heads"]:
    """How strongly each head can move the observable, without data.

    The length of its weights-only feature |P(g·W_V'W_O'P(g_f·W_U'n))|.

    Parameters
    ----------
    view
        The model.
    observable
        The observable.
    """
    adapter = view.adapter
    y = observable.pull_back(view.unembed)
    y = view.final_norm().to(y.device).direction(y)
    rows = []
    for layer in range(view.L):
        after = adapter.norm_after_attention(layer)
        q = y if after is None else after.to(y.device).direction(y)
        outputs = view.outputs(layer).to(y.device)
        through = torch.einsum("d,hdk->hk", q, outputs)
        features = torch.einsum("hk,hkd->hd", through, view.values(layer).to(y.device))
        rows.append(adapter.attention_norm(layer).to(y.device).direction(features).norm(dim=-1))
    return torch.stack(rows).cpu()


def patch_scores(
    view: "TransformerView", observable: Observable, pairs: PromptPair | Sequence[PromptPair]
) -> Float[Tensor, "layers heads"]:
    """The contribution of each head when it reads the negative prompt, averaged over pairs.

    The differences from all its source tokens are summed, and go to the logits directly.

    Parameters
    ----------
    view
        The model.
    observable
        The observable.
    pairs
        One or more prompt pairs; each may have its own length.

    Raises
    ------
    ValueError
        If there is no pair.
    """
    pairs = _as_list(pairs)
    scores = torch.zeros(view.L, view.H)
    for pair in pairs:
        run = _Patching(view, observable, pair, range(pair.first_difference, pair.length))
        end = len(run.roles) - 1
        deltas = [
            run.behind(Node(layer, 0), end, run.head_writes(layer, end).sum(1))
            for layer in range(view.L)
        ]
        scores += run.drop(torch.stack(deltas))
    return scores / len(pairs)


def contribution(
    view: "TransformerView", observable: Observable, path: str | Path, pair: PromptPair
) -> float:
    """The contribution of one path.

    Parameters
    ----------
    view
        The model.
    observable
        The observable.
    path
        The path; open tokens are filled in as for `feature_vector`.
    pair
        The prompts.

    Raises
    ------
    PathError
        If the path does not fit the model or the prompts.
    """
    nodes = Path.parse(path).resolve(view, pair.length, pair.token).nodes
    run = _Patching(view, observable, pair, range(pair.length))
    positive, negative = pair.inputs(nodes[0])
    delta = (negative - positive).to(run.device)
    return float(run.contributions(nodes, delta[None])[0])


def search_paths(
    view: "TransformerView",
    observable: Observable,
    pairs: PromptPair | Sequence[PromptPair],
    max_length: int = 4,
    width: int = 6,
    keep: int = 10,
    kinds: Collection[str] = ("attn", "mlp"),
    layers: Collection[int] | None = None,
    tokens: Collection[int] | None = None,
    anchors: Sequence[Sequence[int]] | None = None,
) -> "pd.DataFrame":
    """The paths that contribute most, found from the logits backwards.

    First all single nodes, then all nodes in front of the `width` best paths of each length.

    Parameters
    ----------
    view
        The model.
    observable
        The observable.
    pairs
        One or more prompt pairs; contributions are averaged over them.
    max_length
        Nodes of the longest paths.
    width
        Paths of each length that are made longer.
    keep
        Paths of each length that are returned.
    kinds
        Which nodes paths may hold: ``"attn"``, ``"mlp"``.
    layers
        Only nodes of these layers.
    tokens
        Only nodes that read these tokens, of the first pair.
    anchors
        For pairs of unequal length: for each pair, the positions of the tokens that correspond,
        such as ``[[2, 8], [3, 9]]``. Paths then read only these and the last token. Without them
        all pairs must be of equal length.

    Returns
    -------
    table
        ``path`` (text, with the first pair's tokens), ``norm`` (the length of its feature vector
        in the first pair), ``contribution`` and ``rank``, from 1; the largest contribution first.

    Raises
    ------
    ValueError
        If there is no pair, the pairs do not match, or a number is not positive.
    """
    import pandas as pd

    pairs = _as_list(pairs)
    for name, number in (("max_length", max_length), ("width", width), ("keep", keep)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1, not {number}")
    for kind in kinds:
        check_choice("kinds", kind, ("attn", "mlp"))
    roles = _roles(pairs, anchors)
    wanted = None if tokens is None else {token % pairs[0].length for token in tokens}

    def permitted(node: Node) -> bool:
        return (
            node.kind in kinds
            and (layers is None or node.layer in layers)
            and (wanted is None or roles[0][_token(node)] in wanted)
        )

    runs = [
        _Patching(view, observable, pair, own, permitted)
        for pair, own in zip(pairs, roles, strict=True)
    ]
    found: list[tuple[tuple[Node, ...], float]] = []
    best: list[tuple[Node, ...]] = [()]
    for _ in range(max_length):
        longer: list[tuple[tuple[Node, ...], float]] = []
        for nodes in best:
            first, read_at = (nodes[0], _token(nodes[0])) if nodes else (None, len(roles[0]) - 1)
            candidates = [run.writers(first, read_at) for run in runs]
            if candidates[0].nodes:
                drops = [
                    run.contributions(nodes, patched.deltas)
                    for run, patched in zip(runs, candidates, strict=True)
                ]
                mean = torch.stack(drops).mean(0).tolist()
                longer += [
                    ((node, *nodes), drop)
                    for node, drop in zip(candidates[0].nodes, mean, strict=True)
                ]
        longer.sort(key=lambda row: row[1], reverse=True)
        found += longer[:keep]
        best = [nodes for nodes, _ in longer[:width]]
    found.sort(key=lambda row: row[1], reverse=True)
    paths = [
        Path(tuple(replace(node, token=roles[0][_token(node)]) for node in nodes))
        for nodes, _ in found
    ]
    lengths = [
        float(feature_vector(view, observable, path, pairs[0]).vector.norm()) for path in paths
    ]
    return pd.DataFrame(
        {
            "path": pd.Series([str(path) for path in paths], dtype="str"),
            "norm": pd.Series(lengths, dtype="float64"),
            "contribution": pd.Series([drop for _, drop in found], dtype="float64"),
            "rank": range(1, len(found) + 1),
        }
    )


class _Candidates(NamedTuple):
    """Nodes, and what each adds to the residual stream at one token when it is patched."""

    nodes: list[Node]
    deltas: Float[Tensor, "nodes width"]


class _Patching:
    """Path patching in one prompt pair.

    Tokens of nodes are numbers of roles here: places in the list of tokens that are looked at.
    """

    def __init__(
        self,
        view: "TransformerView",
        observable: Observable,
        pair: PromptPair,
        roles: Sequence[int],
        permitted: Callable[[Node], bool] = lambda node: True,
    ) -> None:
        self.view, self.pair, self.roles, self.permitted = view, pair, list(roles), permitted
        self.y = observable.pull_back(view.unembed)
        self.device = self.y.device
        self.norm = view.final_norm().to(self.device)
        self.end = pair.final()[0].to(self.device)
        self.value = self.y.dot(self.norm(self.end))
        self._writers: dict[int, _Candidates] = {}

    def drop(self, deltas: Float[Tensor, "*deltas width"]) -> Float[Tensor, "*deltas"]:
        """By how much the observable falls when these are added to the last residual stream."""
        return (self.value - self.norm(self.end + deltas) @ self.y).cpu()

    def contributions(
        self, nodes: Sequence[Node], deltas: Float[Tensor, "deltas width"]
    ) -> Float[Tensor, " deltas"]:
        """The drops after differences at the input of the first node have gone along all nodes."""
        # In parts, so that an MLP's hidden layer for all of them need not fit into memory.
        return torch.cat([self.drop(self._along(nodes, part)) for part in deltas.split(_PART)])

    def _along(
        self, nodes: Sequence[Node], deltas: Float[Tensor, "deltas width"]
    ) -> Float[Tensor, "deltas width"]:
        read_at = [*(_token(node) for node in nodes[1:]), len(self.roles) - 1]
        for node, reader in zip(nodes, read_at, strict=False):  # without nodes nobody reads
            position = self.roles[_token(node)]
            x = self.pair.inputs(replace(node, token=position))[0].to(self.device)
            norm = norm_before(self.view, node).to(self.device)
            if node.head is None:
                with torch.no_grad():
                    output = self.view.mlp(node.layer, norm(torch.cat([x[None], x + deltas])))
                deltas = output[1:] - output[0]
            else:
                weights = self.pair.acts.attention[node.layer][0, node.head, self.roles[reader]]
                values = self.view.wv(node.layer, node.head).to(self.device)
                outputs = self.view.wo(node.layer, node.head).to(self.device)
                deltas = (norm(x + deltas) - norm(x)) @ values.T @ outputs.T
                deltas = weights[position].to(self.device) * deltas
            deltas = self.behind(node, reader, deltas)
        return deltas

    def writers(self, reader: Node | None, read_at: int) -> _Candidates:
        """All patched nodes that write what a node, or without one the logits, read at a role."""
        if read_at not in self._writers:
            self._writers[read_at] = self._all_writers(read_at)
        nodes, deltas = self._writers[read_at]
        if reader is None:
            return _Candidates(nodes, deltas)
        below = [level(node, self.view) < level(reader, self.view) for node in nodes]
        chosen = torch.tensor(below, dtype=torch.bool, device=self.device)
        return _Candidates(list(itertools.compress(nodes, below)), deltas[chosen])

    def _all_writers(self, read_at: int) -> _Candidates:
        nodes, deltas = [], [self.end.new_empty(0, self.view.D)]
        sources = range(read_at + 1)
        for layer in range(self.view.L):
            heads = [Node(layer, head, s) for head in range(self.view.H) for s in sources]
            mlp = [Node(layer, None, read_at)]
            for these, writes in ((heads, self.head_writes), (mlp, self.mlp_writes)):
                wanted = [i for i, node in enumerate(these) if self.permitted(node)]
                if wanted:
                    nodes += [these[i] for i in wanted]
                    patched = writes(layer, read_at).flatten(0, -2)[wanted]
                    deltas.append(self.behind(these[0], read_at, patched))
        return _Candidates(nodes, torch.cat(deltas))

    def head_writes(self, layer: int, read_at: int) -> Float[Tensor, "heads sources width"]:
        """What more each head gives at a role when it reads the negative prompt at another."""
        sources, position = self.roles[: read_at + 1], self.roles[read_at]
        norm = norm_before(self.view, Node(layer, 0)).to(self.device)
        positive, negative = norm(self.pair.acts.resid_pre[layer][:, sources].to(self.device))
        weights = self.pair.acts.attention[layer][0, :, position, sources].to(self.device)
        values = self.view.values(layer).to(self.device)
        outputs = self.view.outputs(layer).to(self.device)
        read = torch.einsum("sd,hkd->hsk", negative - positive, values)
        return torch.einsum("hsk,hdk->hsd", weights[..., None] * read, outputs)

    def mlp_writes(self, layer: int, read_at: int) -> Float[Tensor, "1 width"]:
        """What more an MLP gives at a role when it reads the negative prompt there."""
        position = self.roles[read_at]
        positive, negative = self.pair.outputs(Node(layer, None, position), position)
        return (negative - positive).to(self.device)[None]

    def behind(
        self, node: Node, read_at: int, deltas: Float[Tensor, "*deltas width"]
    ) -> Float[Tensor, "*deltas width"]:
        """The differences behind the norm that some architectures have after a component."""
        after = norm_after(self.view, node)
        if after is None:
            return deltas
        position = self.roles[read_at]
        outputs = self.pair.outputs(replace(node, token=position), position)
        after, output = after.to(self.device), outputs[0].to(self.device)
        return after(output + deltas) - after(output)


def _token(node: Node) -> int:
    if node.token is None:
        raise ValueError(f"node {node} has no token")
    return node.token


def _as_list(pairs: PromptPair | Sequence[PromptPair]) -> list[PromptPair]:
    pairs = [pairs] if isinstance(pairs, PromptPair) else list(pairs)
    if not pairs:
        raise ValueError("pairs must hold at least one prompt pair")
    return pairs


def _roles(pairs: Sequence[PromptPair], anchors: Sequence[Sequence[int]] | None) -> list[list[int]]:
    """For each pair the tokens that paths may read, in the same order, the last token last."""
    lengths = [pair.length for pair in pairs]
    if anchors is None:
        if len(set(lengths)) > 1:
            raise ValueError(
                f"pairs must all have the same number of tokens, not {lengths}; or name the "
                "corresponding tokens of each with anchors"
            )
        first = min(pair.first_difference for pair in pairs)
        return [list(range(first, lengths[0]))] * len(pairs)
    if len(anchors) != len(pairs) or len({len(positions) for positions in anchors}) > 1:
        raise ValueError("anchors must name equally many tokens for each of the pairs")
    roles = []
    for positions, length in zip(anchors, lengths, strict=True):
        if any(not -length <= position < length for position in positions):
            raise ValueError(f"anchors {list(positions)} must be among the {length} tokens")
        own = [position % length for position in positions] + [length - 1]
        if own != sorted(set(own)):
            raise ValueError(
                f"anchors {list(positions)} must go from early to late and leave out the last "
                "token, which is one of itself"
            )
        roles.append(own)
    return roles
