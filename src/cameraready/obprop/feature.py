"""Feature vectors: the directions along which a path carries an observable."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal

from jaxtyping import Float
from torch import Tensor

from cameraready.common import atomic_write, check_choice
from cameraready.obprop.activations import Site
from cameraready.obprop.errors import PathError
from cameraready.obprop.norms import boundary_point
from cameraready.obprop.observable import Observable
from cameraready.obprop.paths import Path
from cameraready.obprop.prompts import PromptPair, norm_after, norm_before
from cameraready.obprop.propagation import (
    MLPPointRule,
    NormMode,
    find_mlp_point,
    pull_back_head,
    pull_back_mlp,
    pull_back_norm,
)

if TYPE_CHECKING:
    import pandas as pd

    from cameraready.obprop.view import TransformerView

__all__ = ["FeatureVector", "feature_vector"]


@dataclass(frozen=True, eq=False)
class FeatureVector:
    """A direction of the residual stream at one site, with how it was made.

    Parameters
    ----------
    vector
        The direction, float32.
    site
        ``"resid_pre"``, before the layer, or ``"resid_mid"``, between its attention and its MLP.
    layer
        The layer.
    token
        The token that the path's first node reads; None where it was left open.
    path
        The path.
    observable
        The observable's name.
    norm
        How norms were pulled back: ``"weights"`` (the vector's length is then that at the unit
        sphere, without the sqrt(D) of an RMSNorm), ``"jacobian"``, ``"boundary"`` or ``"scale"``
        (the length is the real one).
    provenance
        What else it was made of: the prompts, the rule for MLPs and whether their boundary was
        found, the model and its fingerprint.
    """

    vector: Float[Tensor, " width"]
    site: Site
    layer: int
    token: int | None
    path: Path
    observable: str
    norm: str
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"FeatureVector({self.observable} along {self.path}, {self.site}[{self.layer}], "
            f"norm={self.norm!r}, length={float(self.vector.norm()):.4g})"
        )

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the feature as safetensors, with all but the vector as JSON in the header.

        Parameters
        ----------
        file
            The file.
        """
        from safetensors.torch import save

        header = {
            "site": self.site,
            "layer": self.layer,
            "token": self.token,
            "path": str(self.path),
            "observable": self.observable,
            "norm": self.norm,
            "provenance": self.provenance,
        }
        tensors = {"vector": self.vector.detach().float().cpu().contiguous()}
        content = save(tensors, metadata={"feature": json.dumps(header)})
        with atomic_write(file, "wb") as opened:
            opened.write(content)

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str],
        view: "TransformerView | None" = None,
        force: bool = False,
    ) -> "FeatureVector":
        """Read a feature that `save` wrote.

        Parameters
        ----------
        file
            The file.
        view
            The model with which it is to be used, to check that it was made of it.
        force
            Take it for another model all the same, of equal width.

        Raises
        ------
        ValueError
            If the file holds no feature, or that of another model.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(FilePath(file), framework="pt") as opened:
                header = json.loads(opened.metadata()["feature"])
                vector = opened.get_tensor("vector")
            feature = cls(
                vector,
                header["site"],
                header["layer"],
                header["token"],
                Path.parse(header["path"]),
                header["observable"],
                header["norm"],
                header["provenance"],
            )
        except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"file {file} holds no feature vector ({error})") from error
        if view is not None:
            if len(vector) != view.D or feature.layer >= view.L:
                raise ValueError(
                    f"the feature in {file} has width {len(vector)} and layer {feature.layer}, but "
                    f"the model has width {view.D} and {view.L} layers"
                )
            if not force and feature.provenance.get("fingerprint") != view.fingerprint:
                raise ValueError(
                    f"the feature in {file} was made of another model "
                    f"({feature.provenance.get('model')}); force takes it all the same"
                )
        return feature

    def score(
        self,
        view: "TransformerView",
        texts: Any,
        token: Any = None,
        **settings: Any,
    ) -> "pd.DataFrame":
        """How far the residual stream of texts goes along the feature.

        Parameters
        ----------
        view
            The model.
        texts
            One text or several.
        token
            As for `score_texts`; by default the token of the feature's path, and the mean over
            tokens where it has none.
        **settings
            Further settings of `score_texts`.
        """
        from cameraready.obprop.scoring import score_texts

        if token is None:
            token = "mean" if self.token is None else self.token
        return score_texts(
            view, [self], [texts] if isinstance(texts, str) else texts, token, **settings
        )


def feature_vector(
    view: "TransformerView",
    observable: Observable,
    path: str | Path,
    pair: PromptPair | None = None,
    norm: Literal["auto", "weights", "jacobian", "boundary", "scale"] = "auto",
    mlp_point: MLPPointRule = "boundary",
    attention: Literal["direction", "scale"] = "direction",
) -> FeatureVector:
    """The direction at the start of a path that the observable depends on through it.

    The observable's functional is pulled back through the final norm, and through each node and
    the norm in front of it, from the last to the first, with attention weights held constant.

    Parameters
    ----------
    view
        The model.
    observable
        The observable.
    path
        The path, as text such as ``"25.2@2:26.2@4"``.
    pair
        Two prompts; without them only heads can be passed, and only with ``norm="weights"``.
    norm
        How norms are passed. ``"weights"`` uses no data: P(g·y), without the factor sqrt(D) that
        an RMSNorm has on the unit sphere. ``"jacobian"`` is the gradient at the positive prompt's
        activations. ``"boundary"`` is that too, but the final norm is taken at the nearest point
        where the observable is zero. ``"scale"`` is P(g·y) divided by the mean divisor of the two
        prompts. ``"auto"`` is ``"jacobian"`` with a pair and ``"weights"`` without.
    mlp_point
        Where MLPs are linearised: ``"boundary"``, between the prompts where y·MLP is zero;
        ``"midpoint"``, ``"positive"``, ``"negative"``, or ``"mean"`` of the two.
    attention
        ``"scale"`` multiplies by the attention weights in the positive prompt; the direction does
        not depend on them.

    Returns
    -------
    feature
        At the input of the path's first node.

    Raises
    ------
    PathError
        If the path does not fit the model or the prompts, or has an MLP and there is no pair.
    ValueError
        If a choice is unknown or needs a pair.
    """
    check_choice("norm", norm, ("auto", "weights", "jacobian", "boundary", "scale"))
    check_choice("mlp_point", mlp_point, ("boundary", "midpoint", "positive", "negative", "mean"))
    check_choice("attention", attention, ("direction", "scale"))
    path = Path.parse(path)
    if norm == "auto":
        norm = "weights" if pair is None else "jacobian"
    if pair is None:
        path.check(view)
        for node in path:
            if node.kind == "mlp":
                raise PathError(f"path {path}: node {node}: MLP nodes need a prompt pair")
        if norm != "weights":
            raise ValueError(f"norm {norm!r} needs a prompt pair; pass pair, or norm='weights'")
        if attention == "scale":
            raise ValueError("attention 'scale' needs a prompt pair; pass pair")
    else:
        path = path.resolve(view, pair.length, pair.token)

    mode: NormMode = "jacobian" if norm == "boundary" else norm
    boundary_found: dict[str, bool] = {}
    y = observable.pull_back(view.unembed)
    final = view.final_norm().to(y.device)
    points = None if pair is None else pair.final().to(y.device)
    if norm == "boundary" and points is not None:
        zero = boundary_point(final, y, points[0])
        boundary_found["final"] = zero.found
        points = zero.x[None]
    y = pull_back_norm(final, y, points, mode)
    read_at = -1  # only used with a pair: the token at which the node's output is read
    for node in reversed(path.nodes):
        after = norm_after(view, node)
        if after is not None:
            outputs = None if pair is None else pair.outputs(node, read_at)
            y = pull_back_norm(after, y, outputs, mode)
        before = norm_before(view, node)
        inputs = None if pair is None else pair.inputs(node)
        if node.head is not None:
            y = pull_back_head(view, node.layer, node.head, y)
            if pair is not None and attention == "scale":
                weights = pair.acts.attention[node.layer]
                y = y * weights[0, node.head, read_at, node.token].to(y.device)
        elif inputs is not None:
            ends = before.to(inputs.device)(inputs)
            point = find_mlp_point(view, node.layer, y, ends, mlp_point)
            y = pull_back_mlp(view, node.layer, y, point.points)
            if point.boundary_found is not None:
                boundary_found[str(node)] = point.boundary_found
        y = pull_back_norm(before, y, inputs, mode)
        if node.token is not None:
            read_at = node.token
    first = path.nodes[0]
    provenance: dict[str, Any] = {
        "model": view.model_type,
        "fingerprint": view.fingerprint,
        "attention": attention,
    }
    if pair is not None:
        provenance |= {"positive": pair.positive, "negative": pair.negative}
    if any(node.kind == "mlp" for node in path):
        provenance["mlp_point"] = mlp_point
    if boundary_found:
        provenance["boundary_found"] = boundary_found
    return FeatureVector(
        y.detach(),
        path.site(view),
        first.layer,
        first.token,
        path,
        observable.name,
        norm,
        provenance,
    )
