"""Paths through heads and MLPs: their text, their order, their tokens."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Union

from cameraready.obprop.activations import Site
from cameraready.obprop.errors import PathError

if TYPE_CHECKING:
    from cameraready.obprop.view import TransformerView

__all__ = ["Node", "Path"]

_NODE = re.compile(
    r"(?:attn)?(?P<attn>\d+)\.(?P<head>\d+)(?:@(?P<at>-?\d+))?"
    r"|mlp(?P<mlp>\d+)(?:@(?P<mlp_at>-?\d+))?"
)


@dataclass(frozen=True)
class Node:
    """One head or one MLP, and the token that it reads.

    Parameters
    ----------
    layer
        The layer, from 0.
    head
        The head, from 0; None is the layer's MLP.
    token
        The position that it reads, from the end where negative; None leaves it open.
    """

    layer: int
    head: int | None = None
    token: int | None = None

    @property
    def kind(self) -> Literal["attn", "mlp"]:
        """What the node is."""
        return "mlp" if self.head is None else "attn"

    def __str__(self) -> str:
        name = f"mlp{self.layer}" if self.head is None else f"{self.layer}.{self.head}"
        return name if self.token is None else f"{name}@{self.token}"


@dataclass(frozen=True)
class Path:
    """Nodes from early to late, each reading what the one before it has written.

    Its text has the first node first: ``"25.2@2:26.2@4"`` is head 2 of layer 25, reading token 2,
    then head 2 of layer 26, reading token 4; ``"6.1:7.3:mlp9"`` ends in the MLP of layer 9, and
    leaves the tokens open. The form with the last node first, ``"attn26.2@4 <= attn25.2@2"``, is
    read too.

    An open token is, for an MLP, the one its output is read at; for a head, the token of the
    prompt pair, where the prompts first differ unless the pair says otherwise.

    Parameters
    ----------
    nodes
        The nodes, in order.

    Raises
    ------
    PathError
        If there is none.

    Examples
    --------
    >>> path = Path.parse("attn26.2@4 <= attn25.2@2")
    >>> str(path)
    '25.2@2:26.2@4'
    >>> path == Path((Node(25, 2, 2), Node(26, 2, 4))) == Path.parse(str(path))
    True
    """

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        if not self.nodes:
            raise PathError("path has no nodes")

    @classmethod
    def parse(cls, text: Union[str, "Path"]) -> "Path":
        """A path from its text; a path is handed back.

        Raises
        ------
        PathError
            If a node cannot be read.
        """
        if isinstance(text, Path):
            return text
        backwards = "<=" in text
        nodes = []
        for part in text.split("<=" if backwards else ":"):
            found = _NODE.fullmatch(part.strip())
            if found is None:
                raise PathError(
                    f"path {text!r}: {part.strip()!r} is no node; write layer.head or mlpLAYER, "
                    "with @token where wanted, as in '25.2@2:26.2@4' or '6.1:mlp9'"
                )
            group = found.groupdict()
            token = group["at"] or group["mlp_at"]
            nodes.append(
                Node(
                    int(group["attn"] or group["mlp"]),
                    None if group["head"] is None else int(group["head"]),
                    None if token is None else int(token),
                )
            )
        return cls(tuple(reversed(nodes)) if backwards else tuple(nodes))

    def __str__(self) -> str:
        return ":".join(str(node) for node in self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def site(self, view: "TransformerView") -> Site:
        """Where a feature of this path lives."""
        return "resid_pre" if self.nodes[0].kind == "attn" else view.mlp_site

    def check(self, view: "TransformerView") -> None:
        """Raise if the model does not have the nodes, or they are not in order.

        Raises
        ------
        PathError
            Naming the node.
        """
        before: Node | None = None
        for node in self.nodes:
            if node.layer >= view.L:
                raise PathError(f"path {self}: node {node} is beyond the model's {view.L} layers")
            if node.head is not None and node.head >= view.H:
                raise PathError(f"path {self}: node {node} is beyond the {view.H} heads of a layer")
            if before is not None and not level(before, view) < level(node, view):
                together = " (attention and MLP of a layer are parallel in this model)"
                raise PathError(
                    f"path {self}: node {node} cannot read what {before} writes; nodes go from "
                    f"early to late{together if view.adapter.parallel else ''}"
                )
            before = node

    def resolve(self, view: "TransformerView", length: int, token: int) -> "Path":
        """The path with every token given, checked against the model and a prompt.

        Parameters
        ----------
        view
            The model.
        length
            Tokens of the prompt; what the last node writes is read at the last of them.
        token
            What heads with an open token read.

        Raises
        ------
        PathError
            If a token is not in the prompt, or later than where its output is read.
        """
        self.check(view)
        nodes: list[Node] = []
        read_at, reader = length - 1, "the logits"
        for node in reversed(self.nodes):
            if node.token is None:
                at = read_at if node.kind == "mlp" else token
            elif -length <= node.token < length:
                at = node.token % length
            else:
                raise PathError(f"path {self}: node {node} is beyond the {length} tokens")
            if at > read_at or (node.kind == "mlp" and at != read_at):
                raise PathError(
                    f"path {self}: node {node} reads token {at}, so that what it writes cannot "
                    f"reach token {read_at}, where {reader} reads"
                    f"{'' if at > read_at else ': an MLP does not move between tokens'}"
                )
            nodes.append(replace(node, token=at))
            read_at, reader = at, str(node)
        return Path(tuple(reversed(nodes)))


def level(node: Node, view: "TransformerView") -> tuple[int, int]:
    """Where a node stands in the order of a model; one reads only what lower ones write."""
    return node.layer, int(node.kind == "mlp" and not view.adapter.parallel)
