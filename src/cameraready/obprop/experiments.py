"""The measurements behind the claims: prompts, features, rivals, edits.

Each function that ends in ``_job`` is one piece of work that can run in a process of its own, and
returns numbers that JSON can hold. Paths are chosen by their contribution in a prompt pair, never
by the labels of what is evaluated.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from cameraready.common import smollm2_folder
from cameraready.common.seeding import named_generator
from cameraready.obprop.activations import Site
from cameraready.obprop.baselines import DAS1d, Gradient
from cameraready.obprop.coupling import cosine, coupling
from cameraready.obprop.evaluation import observable_values, perplexity
from cameraready.obprop.feature import FeatureVector, feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.patching import head_norms, patch_scores, search_paths
from cameraready.obprop.paths import Node, Path
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.scoring import stream_scores
from cameraready.obprop.sites import norm_at
from cameraready.obprop.steering import Steer, mean_score
from cameraready.obprop.tokens import anchor_spans
from cameraready.obprop.view import TransformerView
from cameraready.obprop.vocabulary import (
    DEMOCRATS,
    FEMALE_NAMES,
    MALE_NAMES,
    OCCUPATION_TEMPLATES,
    PARTY_TEMPLATE,
    PRONOUN_TEMPLATES,
    REPUBLICANS,
    code_windows,
    fill,
    reference_sentences,
    single_tokens,
)

__all__ = [
    "Size",
    "code_job",
    "edit_job",
    "few_job",
    "heads_job",
    "party_job",
    "paths_job",
    "perplexity_job",
    "shared_job",
]


SHE_HE = "+ she,- he"


HER_HIM = "+ her,- him"


OCCUPATION = "+ nurse,+ teacher,+ secretary,- programmer,- doctor,- engineer"


PARTY = "+ Democratic,- Republican"


COMMENT = "+ //,- #"


# To be coupled with she-he: some have to do with it, some have not.
OTHERS = {
    "woman-man": "+ woman,- man",
    "girl-boy": "+ girl,- boy",
    "Mrs-Mr": "+ Mrs,- Mr",
    "nurse…-engineer…": OCCUPATION,
    "Democratic-Republican": PARTY,
    "is-are": "+ is,- are",
    "//-#": COMMENT,
}


# More sentences that ask for a pronoun, at the full budget.
MORE_TEMPLATES = (
    "Of course NAME really has a lovely house, hasn't",
    "Surely NAME really was at the meeting, wasn't",
    "I think NAME really will win the race, won't",
    "Today NAME really should see the doctor, shouldn't",
    "Indeed NAME really could fix the car, couldn't",
    "Perhaps NAME really would like some tea, wouldn't",
    "Sadly NAME really must leave the city, mustn't",
)


# A line of C and one of Python, of equally many tokens.
CODE_PAIRS = (
    ("    int count = 0;", "    count: int = 0"),
    ("    double x = 1.0;", "    x: float = 1.0"),
    ("    bool ok = true;", "    ok: bool = True"),
    ("float f(float x) {", "def f(x: float):"),
    ("    free(buffer);", "    del (buffer)"),
    ("    struct node *next;", "    next: Node = None"),
    ("    } else {", "    else: pass"),
)


class Size(NamedTuple):
    """How much of everything a budget allows, and where it runs."""

    seed: int
    device: str
    tiny: bool  # a random model in place of SmolLM2
    templates: int = 3
    names: int = 20  # of each sex, fewer where the tokenizer splits them
    pairs: int = 3  # of names, for the heads
    coupled: int = 8  # names of each sex to measure couplings on
    repeats: int = 8
    labels: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    das: tuple[int, ...] = (2, 4)
    das_repeats: int = 4
    das_steps: int = 40
    politicians: int = 25  # of each party
    party_labels: tuple[int, ...] = (4, 10, 20, 40)
    windows: int = 40  # of each language
    code_labels: tuple[int, ...] = (2, 4, 10, 30)
    edited: int = 20  # names of each sex, and as many to take the mean of
    randoms: int = 3
    sentences: int = 60


@lru_cache(maxsize=1)
def view_of(tiny: bool, device: str) -> TransformerView:
    """The model, once in a process."""
    if tiny:
        return tiny_view()
    placed = None if device == "cpu" else device
    return TransformerView.from_pretrained(smollm2_folder(), device_map=placed)


def tiny_view() -> TransformerView:
    """A random Llama whose tokenizer holds every word here as one token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    names = [*FEMALE_NAMES, *MALE_NAMES]
    words = [part[1:] for text in (SHE_HE, HER_HIM, *OTHERS.values()) for part in text.split(",")]
    texts = [*fill(PRONOUN_TEMPLATES, names), *words * 20, *sum(CODE_PAIRS, ())]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, min_frequency=2, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
        max_position_embeddings=512,
    )
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")
    return TransformerView(model, tokenizer)


def people(view: TransformerView, count: int) -> tuple[list[str], list[str]]:
    """Female and male names of one token, at most so many of each."""
    return (
        single_tokens(view.tokenizer, FEMALE_NAMES)[:count],
        single_tokens(view.tokenizer, MALE_NAMES)[:count],
    )


def last_token_of(view: TransformerView, prompt: str, name: str) -> int:
    """The position of a name's last token."""
    return anchor_spans(view.tokenizer, view.encode(prompt).tolist(), name)[0][-1]


def read(
    view: TransformerView,
    observable: Observable,
    prompts: Sequence[str],
    at: Sequence[int],
    site: Site = "resid_pre",
) -> tuple[Float[Tensor, "prompts layers width"], Float[np.ndarray, " prompts"]]:
    """The residual stream before every layer at one token of each prompt, and the observable."""
    streams = torch.empty(len(prompts), view.L, view.D)
    values = np.empty(len(prompts))
    lengths = np.array([len(view.encode(prompt)) for prompt in prompts])
    for length in np.unique(lengths):
        own = np.flatnonzero(lengths == length)
        for rows in np.array_split(own, math.ceil(len(own) / 16)):
            acts = view.run([prompts[i] for i in rows])
            positions = torch.tensor([at[i] for i in rows])
            for layer in range(view.L):
                stream = acts.site(site, layer).cpu()
                streams[rows, layer] = stream[torch.arange(len(rows)), positions]
            assert acts.logits is not None
            values[rows] = observable.of_logits(acts.logits).cpu().numpy()
    return streams, values


def score(
    view: TransformerView, feature: Any, streams: Float[Tensor, "prompts layers width"]
) -> Float[np.ndarray, " prompts"]:
    """What `score_texts` gives, of streams that have been read."""
    x = streams[:, feature.layer]
    norm = norm_at(view, (feature.site, feature.layer)).to(x.device)
    return (x @ feature.vector.to(x.device) / norm.scale(x)).numpy()


def squared_correlation(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """r² of a straight line."""
    return float(np.corrcoef(a, b)[0, 1] ** 2)


def area_under_curve(positive: Bool[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> float:
    """How often a positive one has the higher score: the area under the ROC curve."""
    from scipy.stats import rankdata

    # By ranks; scikit-learn's, called two thousand times, takes longer than the model.
    own = rankdata(scores)[positive]
    return float((own.mean() - (len(own) + 1) / 2) / (len(scores) - len(own)))


def ridge(x: Float[np.ndarray, "n width"], y: Float[np.ndarray, " n"]) -> np.ndarray:
    """The weights of ridge regression; the penalty by leave-one-out within these labels."""
    from sklearn.linear_model import RidgeCV

    spread = float(np.square(x - x.mean(0)).sum(1).mean())
    return RidgeCV(alphas=spread * np.logspace(-3, 2, 11)).fit(x, y).coef_


def mean_difference(x: Float[np.ndarray, "n width"], positive: np.ndarray) -> np.ndarray:
    """The mean of one class less that of the other."""
    return x[positive].mean(0) - x[~positive].mean(0)


def equally_long(view: TransformerView, first: str, second: str) -> bool:
    return len(view.encode(first)) == len(view.encode(second))


def name_path(view: TransformerView, observable: Observable, pair: PromptPair) -> Path:
    """The path of heads with the largest contribution that starts at the pair's name."""
    table = search_paths(view, observable, pair, max_length=2, kinds=("attn",))
    paths = [Path.parse(text) for text in table["path"]]
    return next(path for path in paths if path.nodes[0].token == pair.token)


# Heads, paths and couplings.


def name_pairs(view: TransformerView, size: Size) -> list[PromptPair]:
    """Every template with some pairs of a female and a male name."""
    female, male = people(view, size.names)
    return [
        PromptPair(view, template.replace("NAME", f), template.replace("NAME", m))
        for template in templates(size)
        for f, m in list(zip(female, male, strict=False))[: size.pairs]
    ]


def templates(size: Size) -> tuple[str, ...]:
    return (*PRONOUN_TEMPLATES, *MORE_TEMPLATES)[: size.templates]


def heads_job(size: Size) -> dict[str, Any]:
    """Norms, contributions and controls of all heads; couplings in the heads that matter most."""
    view = view_of(size.tiny, size.device)
    pairs = name_pairs(view, size)
    found: dict[str, Any] = {}
    names = ("she-he", "her-him")
    for name, text in zip(names, (SHE_HE, HER_HIM), strict=True):
        observable = Observable.parse(text, view.tokenizer)
        found[name] = {
            "norms": head_norms(view, observable).tolist(),
            "contributions": patch_scores(view, observable, pairs).tolist(),
        }
    products = [
        torch.einsum("hdk,hke->hde", view.outputs(i), view.values(i)) for i in range(view.L)
    ]
    found["controls"] = {
        "size of W_O W_V": [p.flatten(1).norm(dim=1).tolist() for p in products],
        "norms for Democratic-Republican": head_norms(
            view, Observable.parse(PARTY, view.tokenizer)
        ).tolist(),
        "depth": [[layer] * view.H for layer in range(view.L)],
    }
    contributions = torch.tensor(found["she-he"]["contributions"])
    top = contributions.flatten().argsort(descending=True)[:3].tolist()
    found["couplings"] = [coupling_in(view, size, Node(*divmod(i, view.H))) for i in top]
    return found


def coupling_in(view: TransformerView, size: Size, head: Node) -> dict[str, Any]:
    """Predicted and measured couplings of she-he with other observables, in one head."""
    from scipy.stats import linregress

    texts = {"she-he": SHE_HE, "her-him": HER_HIM, **OTHERS}
    observables = {name: Observable.parse(text, view.tokenizer) for name, text in texts.items()}
    features = {
        name: feature_vector(view, observable, Path((head,)))
        for name, observable in observables.items()
    }
    raw = {name: observable.pull_back(view.unembed) for name, observable in observables.items()}
    female, male = people(view, size.coupled)
    prompts = fill([*PRONOUN_TEMPLATES, *OCCUPATION_TEMPLATES[:2]], female + male)
    # The first tokens draw most attention and have streams unlike all others.
    rows = [
        chunk.scores[chunk.positions >= 2]
        for chunk in stream_scores(view, list(features.values()), prompts, token="all")
    ]
    scores = np.concatenate(rows).astype(float)
    found = {}
    for i, name in enumerate(features):
        if i > 0:
            line = linregress(scores[:, 0], scores[:, i])
            found[name] = {
                "predicted": coupling(features["she-he"], features[name]),
                "slope": float(line.slope),
                "intercept": float(line.intercept),
                "r2": float(line.rvalue**2),
                "cosine": cosine(features["she-he"], features[name]),
                "unpropagated": coupling(raw["she-he"], raw[name]),
                "unpropagated cosine": cosine(raw["she-he"], raw[name]),
            }
    return {"head": str(head), "tokens": len(scores), "coupled": found}


def paths_job(size: Size) -> list[tuple[str, float]]:
    """Of the best paths, one of each length and the next best: the cosine of two modes."""
    view = view_of(size.tiny, size.device)
    observable = Observable.parse(SHE_HE, view.tokenizer)
    pair = name_pairs(view, size)[0]
    table = search_paths(view, observable, pair, max_length=4)
    paths = [Path.parse(text) for text in table["path"]]
    chosen = [next(path for path in paths if len(path) == k) for k in (1, 2, 3, 4)]
    chosen.append(next(path for path in paths if path not in chosen))
    found = []
    for path in chosen:
        free, exact = (
            feature_vector(view, observable, path, pair, norm=norm)
            for norm in ("weights", "jacobian")
        )
        found.append((str(path), cosine(free, exact)))
    return found


# One pair beside directions fitted to labelled prompts.


@lru_cache(maxsize=1)
def name_streams(size: Size) -> tuple[list[str], Tensor, np.ndarray, np.ndarray, int]:
    """Prompts (a template after the other), streams at the name, she-he, who is female."""
    view = view_of(size.tiny, size.device)
    female, male = people(view, size.names)
    prompts = fill(templates(size), female + male)
    at = [
        last_token_of(view, prompt, name)
        for prompt, name in zip(prompts, (female + male) * size.templates, strict=True)
    ]
    streams, values = read(view, Observable.parse(SHE_HE, view.tokenizer), prompts, at)
    sexes = np.tile([True] * len(female) + [False] * len(male), size.templates)
    return prompts, streams, values, sexes, len(female) + len(male)


def few_job(size: Size, repeat: int) -> dict[str, Any]:
    """One draw of matched prompts: the first pair for ours, the first N for the rivals."""
    view = view_of(size.tiny, size.device)
    observable = Observable.parse(SHE_HE, view.tokenizer)
    prompts, streams, values, female, people_count = name_streams(size)
    generator = named_generator(size.seed, "labelled names", repeat)
    drawn = matched_pairs(female, people_count, generator)
    positive, negative = (prompts[i] for i in drawn[:2])
    pair = PromptPair(view, positive, negative)
    path = name_path(view, observable, pair)
    ours = {
        norm: feature_vector(view, observable, path, pair, norm=norm)
        for norm in ("scale", "jacobian")
    }
    layer = ours["scale"].layer
    scores = {norm: score(view, feature, streams) for norm, feature in ours.items()}
    rest = np.setdiff1d(np.arange(len(prompts)), drawn[:2])
    raw = streams.numpy()

    def quality(direction: np.ndarray, left: np.ndarray) -> float:
        return squared_correlation(raw[left, layer] @ direction, values[left])

    gradients = [
        Gradient(view, observable, layer, token=pair.token).fit([prompt]).vector.numpy()
        for prompt in (positive, negative)
    ]
    noise = generator.normal(size=(20, view.D)).astype(np.float32)
    parts = np.split(np.arange(len(prompts)), size.templates)

    def within(part: np.ndarray) -> float:
        return squared_correlation(scores["scale"][part], values[part])

    found: dict[str, Any] = {
        "path": str(path),
        "ours": squared_correlation(scores["scale"][rest], values[rest]),
        "with the pair": squared_correlation(scores["scale"], values),
        "jacobian": squared_correlation(scores["jacobian"][rest], values[rest]),
        "within a template": float(np.mean([within(part) for part in parts])),
        "within a sex": float(
            np.mean([within(part[female[part] == sex]) for part in parts for sex in (True, False)])
        ),
        "gradient": quality(gradients[0], rest),
        "gradients": quality(gradients[0] + gradients[1], rest),
        "not propagated": quality(observable.pull_back(view.unembed).cpu().numpy(), rest),
        "random": float(np.mean([quality(row, rest) for row in noise])),
        "by labels": {},
        "sex alone": squared_correlation(female.astype(float), values),
    }
    if repeat == 0:
        found["shown"] = {
            "scores": scores["scale"].tolist(),
            "values": values.tolist(),
            "female": female.tolist(),
        }
    for n in size.labels:
        chosen = drawn[:n]
        left = np.setdiff1d(np.arange(len(prompts)), chosen)
        row = fitted(raw, values, female, chosen, generator)
        own = squared_correlation(scores["scale"][left], values[left])
        found["by labels"][str(n)] = {"ours": own, **row}
        if n in size.das and repeat < size.das_repeats:
            das = DAS1d(
                view,
                observable,
                layer,
                token=pair.token,
                steps=size.das_steps,
                learning_rate=0.1,
                seed=repeat,
            ).fit([prompts[i] for i in chosen], female[chosen])
            found["by labels"][str(n)]["DAS-1d"] = quality(das.vector.numpy(), left)
    return found


def fitted(
    x: Float[np.ndarray, "prompts layers width"],
    values: Float[np.ndarray, " prompts"],
    positive: Bool[np.ndarray, " prompts"],
    chosen: Int[np.ndarray, " labelled"],
    generator: np.random.Generator,
) -> dict[str, dict[str, float]]:
    """r² of rivals that are fitted to the chosen prompts, on the others, at every third layer."""
    found: dict[str, dict[str, float]] = {"ridge": {}, "mean difference": {}, "shuffled": {}}
    left = np.setdiff1d(np.arange(len(x)), chosen)
    for layer in range(1, x.shape[1], 3):
        own, y = x[chosen, layer], values[chosen]
        directions = {
            "ridge": ridge(own, y),
            "mean difference": mean_difference(own, positive[chosen]),
            "shuffled": ridge(own, generator.permutation(y)),
        }
        for name, direction in directions.items():
            r2 = squared_correlation(x[left, layer] @ direction, values[left])
            found[name][str(layer)] = r2
    return found


def matched_pairs(
    female: np.ndarray, people_count: int, generator: np.random.Generator
) -> np.ndarray:
    """All prompts that have a partner: a female name, then a male one in the same template."""
    pairs = []
    for start in range(0, len(female), people_count):
        own = female[start : start + people_count]
        women = start + generator.permutation(np.flatnonzero(own))
        men = start + generator.permutation(np.flatnonzero(~own))
        pairs += list(zip(women, men, strict=False))
    return np.array(pairs)[generator.permutation(len(pairs))].ravel()


# Pronouns and occupations at the same MLPs.


def shared_job(size: Size) -> dict[str, Any]:
    """Features of she-he, of occupations and of a control at the same MLPs."""
    view = view_of(size.tiny, size.device)
    texts = {"pronouns": SHE_HE, "occupations": OCCUPATION, "control": PARTY}
    observables = {name: Observable.parse(text, view.tokenizer) for name, text in texts.items()}
    female, male = people(view, size.names)
    pairs, tables = {}, {}
    asked = {"pronouns": PRONOUN_TEMPLATES[0], "occupations": OCCUPATION_TEMPLATES[0]}
    for name, template in asked.items():
        f, m = (template.replace("NAME", each) for each in (female[0], male[0]))
        pair = pairs[name] = PromptPair(view, f, m)
        table = search_paths(view, observables[name], pair, max_length=4, width=10, keep=20)
        tables[name] = first_of_mlps(table["path"], pair.token)
    # The control goes along the very paths of she-he, at the same prompts.
    pairs["control"], tables["control"] = pairs["pronouns"], tables["pronouns"]
    layers = [layer for layer in tables["pronouns"] if layer in tables["occupations"]][:3]

    prompts = fill(OCCUPATION_TEMPLATES, female + male)
    at = [
        last_token_of(view, prompt, name)
        for prompt, name in zip(prompts, (female + male) * len(OCCUPATION_TEMPLATES), strict=True)
    ]
    streams, values = read(view, observables["occupations"], prompts, at, view.mlp_site)
    parts = np.split(np.arange(len(prompts)), len(OCCUPATION_TEMPLATES))
    found: dict[str, Any] = {"layers": []}
    for layer in layers:
        features = {
            name: feature_vector(
                view, observables[name], tables[name][layer], pairs[name], norm="scale"
            )
            for name in texts
        }
        scores = {name: score(view, feature, streams) for name, feature in features.items()}
        found["layers"].append(
            {
                "layer": layer,
                "paths": {name: str(tables[name][layer]) for name in asked},
                "cosine": cosine(features["pronouns"], features["occupations"]),
                "control cosine": cosine(features["pronouns"], features["control"]),
                "r2": {
                    name: float(
                        np.mean([squared_correlation(own[part], values[part]) for part in parts])
                    )
                    for name, own in scores.items()
                },
            }
        )
    head = name_path(view, observables["occupations"], pairs["occupations"]).nodes[0]
    there = [
        feature_vector(view, observables[name], Path((Node(head.layer, head.head),)))
        for name in asked
    ]
    found["head"] = [f"{head.layer}.{head.head}", cosine(*there)]
    return found


def first_of_mlps(paths: Sequence[str], token: int) -> dict[int, Path]:
    """The first path in a list that starts at the MLP of a layer, for each such MLP."""
    found: dict[int, Path] = {}
    for text in paths:
        path = Path.parse(text)
        first = path.nodes[0]
        if first.head is None and first.token == token:
            found.setdefault(first.layer, path)
    return found


# Political party.


@lru_cache(maxsize=1)
def party_streams(size: Size) -> tuple[list[str], list[int], Tensor, np.ndarray]:
    """Prompts, the position of the name's end in each, streams there, the observable."""
    view = view_of(size.tiny, size.device)
    names = [*DEMOCRATS[: size.politicians], *REPUBLICANS[: size.politicians]]
    prompts = fill([PARTY_TEMPLATE], names)
    at = [last_token_of(view, prompt, name) for prompt, name in zip(prompts, names, strict=True)]
    return prompts, at, *read(view, Observable.parse(PARTY, view.tokenizer), prompts, at)


def party_job(size: Size, repeat: int) -> dict[str, Any]:
    """One pair of politicians for ours, N labelled ones for the rivals; repeat 0 is the paper's."""
    view = view_of(size.tiny, size.device)
    observable = Observable.parse(PARTY, view.tokenizer)
    prompts, at, streams, values = party_streams(size)
    democrat = np.arange(len(prompts)) < size.politicians
    generator = named_generator(size.seed, "politicians", repeat)
    drawn = same_lengths(np.array(at), size.politicians, generator)
    if repeat == 0:
        drawn = np.concatenate([[0, size.politicians], drawn])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    pair = PromptPair(view, *(prompts[i] for i in drawn[:2]))
    table = search_paths(
        view, observable, pair, max_length=1, kinds=("attn",), tokens=[at[drawn[0]]]
    )
    features = [
        feature_vector(view, observable, path, pair, norm="scale") for path in table["path"][:2]
    ]
    layer = features[0].layer
    scores = [score(view, feature, streams) for feature in features]
    raw = streams.numpy()
    rest = np.setdiff1d(np.arange(len(prompts)), drawn[:2])

    def quality(direction: np.ndarray, left: np.ndarray) -> float:
        return squared_correlation(raw[left, layer] @ direction, values[left])

    gradients = [
        Gradient(view, observable, layer, token=at[i]).fit([prompts[i]]).vector.numpy()
        for i in drawn[:2]
    ]
    found: dict[str, Any] = {
        "pair": [prompts[i].removeprefix("The politician ").split(" is ")[0] for i in drawn[:2]],
        "paths": [str(feature.path) for feature in features],
        "ours": squared_correlation(scores[0][rest], values[rest]),
        "second": squared_correlation(scores[1][rest], values[rest]),
        "auc": area_under_curve(democrat[rest], scores[0][rest]),
        "model": area_under_curve(democrat, values),
        "gradient": quality(gradients[0], rest),
        "gradients": quality(gradients[0] + gradients[1], rest),
        "not propagated": quality(observable.pull_back(view.unembed).cpu().numpy(), rest),
        "by labels": {},
    }
    for n in size.party_labels:
        left = np.setdiff1d(np.arange(len(prompts)), drawn[:n])
        own = squared_correlation(scores[0][left], values[left])
        row = fitted(raw, values, democrat, drawn[:n], generator)
        found["by labels"][str(n)] = {"ours": own, **row}
    return found


def same_lengths(at: np.ndarray, half: int, generator: np.random.Generator) -> np.ndarray:
    """A Democrat and a Republican whose prompts are equally long, then the rest in turn."""
    first, second = generator.permutation(half), half + generator.permutation(half)
    i = next(i for i in first if (at[second] == at[i]).any())
    j = second[at[second] == at[i]][0]
    rest = zip(first[first != i], second[second != j], strict=True)
    return np.array([i, j, *(k for pair in rest for k in pair)])


# Programming language.


def code_job(size: Size) -> dict[str, Any]:
    """Windows of C and Python by their mean score; rivals on mean activations."""
    from sklearn.linear_model import LogisticRegression

    view = view_of(size.tiny, size.device)
    observable = Observable.parse(COMMENT, view.tokenizer)
    pairs = [PromptPair(view, *texts) for texts in CODE_PAIRS if equally_long(view, *texts)]
    n = size.windows
    windows = [
        window
        for language in ("c", "python")
        for window in code_windows(view.tokenizer, language, n, seed=size.seed)
    ]
    is_c = np.arange(2 * n) < n
    # Streams behind the division by s(r), of which means over tokens can be compared.
    means = torch.empty(2 * n, view.L, view.D)
    norms = [norm_at(view, ("resid_pre", layer)) for layer in range(view.L)]
    for i, window in enumerate(windows):
        acts = view.run(window)
        for layer, norm in enumerate(norms):
            stream = acts.resid_pre[layer][0]
            means[i, layer] = (stream / norm.scale(stream)[:, None]).mean(0).cpu()
    x = means.numpy()

    def in_heads(pairs: list[PromptPair]) -> tuple[list[str], list[np.ndarray]]:
        contributions = patch_scores(view, observable, pairs).flatten()
        names, scores = [], []
        for i in contributions.argsort(descending=True)[:3].tolist():
            feature = feature_vector(view, observable, Path((Node(*divmod(i, view.H)),)))
            names.append(str(feature.path))
            scores.append(x[:, feature.layer] @ feature.vector.cpu().numpy())
        return names, scores

    def area(scores: np.ndarray, left: Any = slice(None)) -> float:
        return area_under_curve(is_c[left], scores[left])

    singles = [in_heads([pair]) for pair in pairs]
    heads, scores = in_heads(pairs)
    total = np.sum(scores, axis=0)
    found: dict[str, Any] = {
        "one pair": [area(np.sum(own, axis=0)) for _, own in singles],
        "heads of one": [" + ".join(names) for names, _ in singles],
        "heads": heads,
        "by head": [area(own) for own in scores],
        "sum": area(total),
        "by labels": {},
    }
    for count in size.code_labels:
        ours, rivals = [], []
        for repeat in range(size.repeats):
            generator = named_generator(size.seed, "windows", repeat)
            chosen = np.concatenate(
                [generator.permutation(n)[: count // 2], n + generator.permutation(n)[: count // 2]]
            )
            left = np.setdiff1d(np.arange(2 * n), chosen)
            row: dict[str, float] = {}
            for layer in range(1, view.L, 3):
                own, labels = x[chosen, layer], is_c[chosen]
                spread = float(np.square(own - own.mean(0)).sum(1).mean())
                logistic = LogisticRegression(C=100.0 / spread, max_iter=2000).fit(own, labels)
                directions = {
                    "mean difference": mean_difference(own, labels),
                    "ridge": ridge(own, labels.astype(float)),
                    "logistic": logistic.coef_[0],
                }
                for name, direction in directions.items():
                    row[f"{name}, layer {layer}"] = area(x[:, layer] @ direction, left)
            ours.append(area(total, left))
            rivals.append(row)
        found["by labels"][str(count)] = {"ours": ours, "rivals": rivals}
    return found


# Edits along a direction.


@dataclass(frozen=True, eq=False)
class Direction:
    """A direction to edit along."""

    vector: Tensor
    site: Site
    layer: int


def edit_of(size: Size, kind: str) -> tuple[FeatureVector | Direction, float, list[str], str]:
    """A direction and the mean to move to along it; the names to edit; the feature's path."""
    view = view_of(size.tiny, size.device)
    pronoun = Observable.parse(SHE_HE, view.tokenizer)
    female, male = people(view, 2 * size.edited)
    half = min(len(female), len(male)) // 2
    neutral = fill(PRONOUN_TEMPLATES[:1], female[:half] + male[:half])
    pair = PromptPair(view, neutral[0], neutral[half])
    path = name_path(view, pronoun, pair)
    ours = feature_vector(view, pronoun, path, pair, norm="scale")
    place = ours.site, ours.layer
    feature: FeatureVector | Direction
    if kind.startswith("random"):
        noise = named_generator(size.seed, kind).normal(size=view.D)
        feature = Direction(torch.from_numpy(noise).float(), *place)
    elif kind == "mean difference":
        streams, _ = read(view, pronoun, neutral, [pair.token] * len(neutral))
        x = streams[:, ours.layer]
        feature = Direction(x[:half].mean(0) - x[half:].mean(0), *place)
    elif kind == "gradient":
        fitted = Gradient(view, pronoun, ours.layer, token=pair.token)
        feature = Direction(fitted.fit([pair.positive, pair.negative]).vector, *place)
    elif kind == "not propagated":
        feature = Direction(pronoun.pull_back(view.unembed).cpu(), *place)
    else:
        feature = ours
    mean = mean_score(view, feature, neutral, token=pair.token)
    return feature, mean, female[half : 2 * half] + male[half : 2 * half], str(path)


def edit_job(size: Size, kind: str) -> dict[str, Any]:
    """Observables by name where the streams at names are moved to the mean along a direction."""
    view = view_of(size.tiny, size.device)
    feature, mean, names, path = edit_of(size, kind)
    gaps = {}
    for template in (*OCCUPATION_TEMPLATES, PRONOUN_TEMPLATES[0]):
        prompts = fill([template], names)
        asked = SHE_HE if template in PRONOUN_TEMPLATES else OCCUPATION
        observable = Observable.parse(asked, view.tokenizer)
        at = last_token_of(view, prompts[0], names[0])
        # At strength 0 nothing is changed.
        strength = 0.0 if kind == "nothing" else 1.0
        with Steer(view, feature, "center", strength, tokens=[at], mean=mean):
            gaps[template] = observable_values(view, observable, prompts)[:, 0].tolist()
    return {"path": path, "gaps": gaps, "names": len(names)}


def perplexity_job(size: Size, kind: str) -> list[float]:
    """Logarithms of the perplexity of neutral sentences, edited at every token but the first."""
    view = view_of(size.tiny, size.device)
    feature, mean, _, _ = edit_of(size, kind)
    strength = 0.0 if kind == "nothing" else 1.0
    with Steer(view, feature, "center", strength, tokens=slice(1, None), mean=mean):
        sentences = reference_sentences(size.sentences, seed=size.seed)
        return [math.log(perplexity(view, [text])) for text in sentences]
