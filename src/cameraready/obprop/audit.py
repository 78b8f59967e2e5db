"""An audit of how a model ties one observable to others, and of what cutting the tie costs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from cameraready.obprop.coupling import cosine, coupling_matrix
from cameraready.obprop.evaluation import observable_values, perplexity
from cameraready.obprop.feature import FeatureVector, feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.patching import contribution, head_norms, search_paths
from cameraready.obprop.paths import Node, Path
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.steering import Steer, mean_score
from cameraready.obprop.vocabulary import fill, reference_sentences

if TYPE_CHECKING:
    import pandas as pd

    from cameraready.obprop.view import TransformerView

__all__ = ["AuditResult", "audit"]

BEFORE, AFTER, CONTROL = "before", "feature removed", "random direction removed"
# The first token's stream is spared: models keep there what heads read when they have no use.
EDITED = slice(1, None)
KEPT = 6  # MLPs that are shown for each observable


@dataclass(frozen=True, eq=False)
class AuditResult:
    """What an audit has found.

    Parameters
    ----------
    model
        The model's type and size.
    observables
        The observables' names, the audited one first.
    groups
        The two groups of names, the one from which the other is subtracted first.
    head_norms
        By observable, how strongly each head can move it, without data.
    paths
        By observable, its paths of the greatest contribution on its pair.
    pairs
        By observable, the two prompts of its pair.
    feature
        The feature that is removed.
    shared
        MLPs that read the name on the way to the audited observable and to another:
        ``observable, mlp, cosine, contribution, contribution_of_audited``. The cosine is that of
        the two features at the MLP's input, each along its own observable's best path; the
        contributions are those of these paths. Those that contribute most to both come first.
    shared_mlp
        The MLP that contributes most to all observables; None where there is none.
    cosines, couplings
        Of all observables' features there, row on column.
    gaps
        ``observable, template, condition, gap``: the mean value over the names of the first group
        less that of the second.
    perplexity
        On neutral texts, by condition.
    settings
        What else was set.
    """

    model: str
    observables: list[str]
    groups: tuple[str, str]
    head_norms: dict[str, Float[Tensor, "layers heads"]]
    paths: dict[str, "pd.DataFrame"]
    pairs: dict[str, tuple[str, str]]
    feature: FeatureVector
    shared: "pd.DataFrame"
    shared_mlp: int | None
    cosines: Float[Tensor, "observables observables"] | None
    couplings: Float[Tensor, "observables observables"] | None
    gaps: "pd.DataFrame"
    perplexity: dict[str, float]
    settings: dict[str, Any] = field(default_factory=dict)

    def mean_gaps(self) -> dict[str, dict[str, float]]:
        """By condition, each observable's gap, averaged over its templates."""
        means = self.gaps.groupby(["condition", "observable"], sort=False).gap.mean()
        return {
            condition: {name: float(means[condition, name]) for name in self.observables}
            for condition in (BEFORE, AFTER, CONTROL)
        }

    def reduction(self, observable: str, condition: str = AFTER) -> float:
        """The share of an observable's gap that a removal has taken away.

        The sizes of the templates' gaps are averaged; 1 is all, below 0 it has grown.
        """
        own = self.gaps[self.gaps.observable == observable]
        sizes = own.gap.abs().groupby(own.condition).mean()
        return float(1 - sizes[condition] / sizes[BEFORE])

    def cost(self, condition: str = AFTER) -> float:
        """By which share a removal has raised the perplexity."""
        return self.perplexity[condition] / self.perplexity[BEFORE] - 1


def audit(
    view: "TransformerView",
    observables: Sequence[Observable],
    templates: Sequence[str] | Mapping[str, Sequence[str]],
    names: Mapping[str, str],
    neutral: Sequence[str] | None = None,
    seed: int = 0,
    batch_size: int = 16,
    progress: Callable[[str], None] | None = None,
) -> AuditResult:
    """Find the feature of one observable, remove it, and see what that does to the others.

    The first observable is the audited one, such as a pronoun. Its feature is that of the path of
    the greatest contribution that starts at the name, found from one pair of prompts: its first
    template with a name of each group. Removing it means to move every token's part along it, but
    the first token's, to its mean on neutral texts; the same is done along a random direction for
    control.

    Parameters
    ----------
    view
        The model, with attention weights to be had.
    observables
        The audited one and those that it may be tied to.
    templates
        Texts with the word NAME in them, for all observables or by the name of each.
    names
        The group of each name; two groups.
    neutral
        Texts of which the perplexity is taken; by default 200 sentences of the Python reference.
    seed
        Of the random direction and the default neutral texts.
    batch_size
        Prompts that go through the model together.
    progress
        Called with what is done next.

    Returns
    -------
    result

    Raises
    ------
    ValueError
        If there is no observable, a template or a group is missing, or no two names of the groups
        are of equally many tokens.
    """
    import pandas as pd

    say = progress or (lambda what: None)
    observables, by_name = _checked(observables, templates)
    groups = tuple(dict.fromkeys(names.values()))
    if len(groups) != 2:
        raise ValueError(f"names must be of two groups, not {len(groups)}: {list(groups)}")
    members = [[name for name, group in names.items() if group == own] for own in groups]
    texts = reference_sentences(200, seed) if neutral is None else list(neutral)

    say("heads and paths")
    norms = {each.name: head_norms(view, each) for each in observables}
    pairs = {each.name: _pair(view, by_name[each.name][0], members) for each in observables}
    paths = {
        each.name: search_paths(view, each, pairs[each.name], max_length=3, width=5)
        for each in observables
    }
    audited = observables[0]
    best = {name: _starting_at(own["path"], pairs[name]) for name, own in paths.items()}
    feature = feature_vector(view, audited, best[audited.name], pairs[audited.name])
    shared, features = _shared(view, observables, pairs, best)
    shared_mlp, cosines, couplings = None, None, None
    if features:
        unit = torch.nn.functional.normalize(torch.stack([f.vector for f in features]), dim=1)
        shared_mlp, cosines = features[0].layer, (unit @ unit.T).cpu()
        couplings = coupling_matrix(features).float()

    say("neutral texts")
    control = _random_like(feature, seed)
    conditions: dict[str, Steer | None] = {BEFORE: None}
    for condition, direction in ((AFTER, feature), (CONTROL, control)):
        mean = mean_score(view, direction, texts, skip=1, batch_size=batch_size)
        conditions[condition] = Steer(view, direction, "center", tokens=EDITED, mean=mean)
    rows: list[dict[str, Any]] = []
    costs: dict[str, float] = {}
    for condition, steer in conditions.items():
        say(f"gaps and perplexity, {condition}")
        with steer or nullcontext():
            for template, own in _by_template(observables, by_name).items():
                gaps = _gaps(view, own, template, members, batch_size)
                for each, gap in zip(own, gaps, strict=True):
                    rows.append(
                        {
                            "observable": each.name,
                            "template": template,
                            "condition": condition,
                            "gap": gap,
                        }
                    )
            costs[condition] = perplexity(view, texts, batch_size)
    return AuditResult(
        f"{view.model_type}, {view.L} layers of {view.H} heads, width {view.D}",
        [each.name for each in observables],
        (groups[0], groups[1]),
        norms,
        paths,
        {name: (own.positive, own.negative) for name, own in pairs.items()},
        feature,
        shared,
        shared_mlp,
        cosines,
        couplings,
        pd.DataFrame(rows),
        costs,
        {
            "names": ", ".join(
                f"{len(own)} {group}" for group, own in zip(groups, members, strict=True)
            ),
            "neutral texts": len(texts),
            "seed": seed,
        },
    )


def _checked(
    observables: Sequence[Observable], templates: Sequence[str] | Mapping[str, Sequence[str]]
) -> tuple[list[Observable], dict[str, list[str]]]:
    observables = list(observables)
    if not observables:
        raise ValueError("observables must not be empty")
    if len({each.name for each in observables}) < len(observables):
        raise ValueError("observables must have names of their own")
    if isinstance(templates, str):
        raise TypeError("templates must be several texts, such as a list, not one string")
    by_name = {
        each.name: list(
            templates.get(each.name, []) if isinstance(templates, Mapping) else templates
        )
        for each in observables
    }
    for name, own in by_name.items():
        if not own:
            raise ValueError(f"templates must have one for observable {name!r}")
        fill(own, ["NAME"])  # each has a place for names
    return observables, by_name


def _by_template(
    observables: Sequence[Observable], by_name: Mapping[str, Sequence[str]]
) -> dict[str, list[Observable]]:
    """Which observables are read at each template, so that its prompts run once."""
    found: dict[str, list[Observable]] = {}
    for each in observables:
        for template in by_name[each.name]:
            found.setdefault(template, []).append(each)
    return found


def _pair(view: "TransformerView", template: str, members: Sequence[Sequence[str]]) -> PromptPair:
    first, second = (fill([template], own) for own in members)
    for positive in first:
        for negative in second:
            if len(view.encode(positive)) == len(view.encode(negative)):
                return PromptPair(view, positive, negative)
    raise ValueError(
        f"names must hold one of each group with equally many tokens in the template {template!r}"
    )


def _starting_at(paths: Sequence[str], pair: PromptPair) -> Path:
    """The best path that starts at the name's token."""
    parsed = [Path.parse(path) for path in paths]
    return next((path for path in parsed if path.nodes[0].token == pair.token), parsed[0])


def _without_first_mlps(path: Path) -> Path:
    nodes = list(path)
    while len(nodes) > 1 and nodes[0].kind == "mlp":
        nodes.pop(0)
    return Path(tuple(nodes))


def _random_like(feature: FeatureVector, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    vector = torch.randn(len(feature.vector), generator=generator)
    return FeatureVector(
        vector, feature.site, feature.layer, None, feature.path, CONTROL, feature.norm
    )


def _gaps(
    view: "TransformerView",
    observables: Sequence[Observable],
    template: str,
    members: Sequence[Sequence[str]],
    batch_size: int,
) -> Float[np.ndarray, " observables"]:
    texts = [text for own in members for text in fill([template], own)]
    values = observable_values(view, observables, texts, batch_size).astype(np.float64)
    split = len(members[0])
    return values[:split].mean(0) - values[split:].mean(0)


def _shared(
    view: "TransformerView",
    observables: Sequence[Observable],
    pairs: Mapping[str, PromptPair],
    best: Mapping[str, Path],
) -> tuple["pd.DataFrame", list[FeatureVector]]:
    """What `AuditResult.shared` holds, and all observables' features at the most shared MLP."""
    import pandas as pd

    columns = ["observable", "mlp", "cosine", "contribution", "contribution_of_audited"]
    # MLPs that every path can be made to start with, at its own pair's name.
    best = {name: _without_first_mlps(path) for name, path in best.items()}
    layers = range(min(path.nodes[0].layer for path in best.values()))
    if len(observables) < 2 or not layers:
        return pd.DataFrame(columns=columns), []
    features: dict[str, list[FeatureVector]] = {}
    drops = np.empty((len(observables), len(layers)))
    for i, each in enumerate(observables):
        path, pair = best[each.name], pairs[each.name]
        longer = [Path((Node(layer, None, path.nodes[0].token), *path)) for layer in layers]
        features[each.name] = [feature_vector(view, each, own, pair) for own in longer]
        drops[i] = [contribution(view, each, own, pair) for own in longer]
    relative = np.abs(drops) / np.abs(drops).max(axis=1, keepdims=True)
    audited = features[observables[0].name]
    rows = []
    for i, other in enumerate(observables[1:], start=1):
        for layer in np.argsort(-relative[0] * relative[i])[:KEPT].tolist():
            angle = cosine(audited[layer], features[other.name][layer])
            rows.append((other.name, layer, angle, drops[i, layer], drops[0, layer]))
    strongest = int(relative.prod(axis=0).argmax())
    return pd.DataFrame(rows, columns=columns), [own[strongest] for own in features.values()]
