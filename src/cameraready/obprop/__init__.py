"""Observable propagation: feature vectors of a language model from almost no data.

Dunefsky and Cohan, "Observable Propagation: Uncovering Feature Vectors in Transformers", ICML
2024. An observable is a linear functional of the logits, such as the logit of " she" less that of
" he". Propagated backwards through heads, MLPs and norms it becomes a direction of the residual
stream at any layer: what the model reads there to decide the output. The direction scores texts,
tells how strongly two behaviours are tied to each other, and can be removed or amplified.

On a real model an observable comes from words (``Observable.from_tokens``) and a path from a pair
of prompts (`search_paths`). Here the model is tiny and random:

>>> import torch
>>> from transformers import LlamaConfig, LlamaForCausalLM
>>> from cameraready.obprop import Observable, TransformerView, feature_vector, head_norms
>>> sizes = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_attention_heads=4)
>>> _ = torch.manual_seed(0)
>>> model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **sizes))
>>> view = TransformerView(model, tokenizer=None)
>>> observable = Observable(torch.eye(32)[5] - torch.eye(32)[7], "five-seven")
>>> norms = head_norms(view, observable)  # how strongly each head can move it, without data
>>> feature = feature_vector(view, observable, "0.2:1.3")  # through head 2, then head 3
>>> norms.shape, feature.site, feature.layer
(torch.Size([2, 4]), 'resid_pre', 0)
>>> bool(feature_vector(view, observable, "1.3").vector.norm().isclose(norms[1, 3]))
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cameraready.obprop.adapters import Adapter, register_adapter
    from cameraready.obprop.audit import AuditResult
    from cameraready.obprop.baselines import DAS1d, Gradient, LinearProbe, MeanDifference
    from cameraready.obprop.comparison import steered_outputs
    from cameraready.obprop.coupling import (
        CouplingInterval,
        MeasuredCoupling,
        cosine,
        coupling_interval,
        coupling_matrix,
        measured_coupling,
    )
    from cameraready.obprop.errors import (
        PathError,
        SiteMismatchError,
        TokenizationError,
        UnsupportedArchitectureError,
    )
    from cameraready.obprop.estimators import ObPropClassifier, ObservableTransformer
    from cameraready.obprop.evaluation import observable_values, perplexity
    from cameraready.obprop.feature import FeatureVector, feature_vector
    from cameraready.obprop.norms import Norm, layernorm_angle, layernorm_angle_bound
    from cameraready.obprop.observable import Observable
    from cameraready.obprop.patching import contribution, head_norms, patch_scores, search_paths
    from cameraready.obprop.paths import Node, Path
    from cameraready.obprop.prompts import PromptPair
    from cameraready.obprop.score_files import write_scores
    from cameraready.obprop.scoring import score_texts
    from cameraready.obprop.steering import Steer, mean_score
    from cameraready.obprop.view import TransformerView

__all__ = [
    "Adapter",
    "AuditResult",
    "CouplingInterval",
    "DAS1d",
    "FeatureVector",
    "Gradient",
    "LinearProbe",
    "MeanDifference",
    "MeasuredCoupling",
    "Node",
    "Norm",
    "ObPropClassifier",
    "Observable",
    "ObservableTransformer",
    "Path",
    "PathError",
    "PromptPair",
    "SiteMismatchError",
    "Steer",
    "TokenizationError",
    "TransformerView",
    "UnsupportedArchitectureError",
    "contribution",
    "cosine",
    "coupling_interval",
    "coupling_matrix",
    "feature_vector",
    "head_norms",
    "layernorm_angle",
    "layernorm_angle_bound",
    "mean_score",
    "measured_coupling",
    "observable_values",
    "patch_scores",
    "perplexity",
    "register_adapter",
    "score_texts",
    "search_paths",
    "steered_outputs",
    "write_scores",
]

# All of these need torch, which takes a second: each is loaded when it is first named. The modules
# coupling and audit have functions of their own names, which are to be had from there.
_HOME = {
    "Adapter": "adapters",
    "AuditResult": "audit",
    "CouplingInterval": "coupling",
    "DAS1d": "baselines",
    "FeatureVector": "feature",
    "Gradient": "baselines",
    "LinearProbe": "baselines",
    "MeanDifference": "baselines",
    "MeasuredCoupling": "coupling",
    "Node": "paths",
    "Norm": "norms",
    "ObPropClassifier": "estimators",
    "Observable": "observable",
    "ObservableTransformer": "estimators",
    "Path": "paths",
    "PathError": "errors",
    "PromptPair": "prompts",
    "SiteMismatchError": "errors",
    "Steer": "steering",
    "TokenizationError": "errors",
    "TransformerView": "view",
    "UnsupportedArchitectureError": "errors",
    "contribution": "patching",
    "cosine": "coupling",
    "coupling_interval": "coupling",
    "coupling_matrix": "coupling",
    "feature_vector": "feature",
    "head_norms": "patching",
    "layernorm_angle": "norms",
    "layernorm_angle_bound": "norms",
    "mean_score": "steering",
    "measured_coupling": "coupling",
    "observable_values": "evaluation",
    "patch_scores": "patching",
    "perplexity": "evaluation",
    "register_adapter": "adapters",
    "score_texts": "scoring",
    "search_paths": "patching",
    "steered_outputs": "comparison",
    "write_scores": "score_files",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
