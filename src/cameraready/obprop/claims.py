"""The claims of observable propagation, checked on SmolLM2-135M.

Dunefsky and Cohan, "Observable Propagation: Uncovering Feature Vectors in Transformers", ICML
2024. `cameraready.obprop.experiments` measures; here every section says what one group of claims
is, what it is compared with, and when it holds.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import Any, Literal

import numpy as np
import torch

from cameraready.claims import AtLeast, AtMost, Claim, Equal, Measurement, Run, Within
from cameraready.common import smollm2_folder
from cameraready.obprop.coupling import MeasuredCoupling
from cameraready.obprop.experiments import (
    Size,
    code_job,
    edit_job,
    few_job,
    heads_job,
    party_job,
    paths_job,
    perplexity_job,
    shared_job,
)
from cameraready.obprop.norms import Norm, layernorm_angle, layernorm_angle_bound
from cameraready.obprop.plots import (
    crossing_of,
    plot_coupling,
    plot_gaps,
    plot_heads,
    plot_label_curves,
    plot_scores,
)
from cameraready.obprop.small_gpt2 import LOOP_PAIRS, gpt2_job
from cameraready.obprop.vocabulary import OCCUPATION_TEMPLATES, PRONOUN_TEMPLATES

__all__ = ["experiment"]


def experiment(run: Run) -> Iterator[Claim]:
    """All claims, as they are settled."""
    base = Size(run.seed, run.device, tiny=run.budget == "smoke")
    size = run.scale(
        smoke=base._replace(
            names=4,
            pairs=1,
            coupled=2,
            repeats=2,
            labels=(2, 4),
            das=(2,),
            das_repeats=2,
            das_steps=5,
            politicians=6,
            party_labels=(2, 4),
            windows=4,
            code_labels=(2, 4),
            edited=2,
            randoms=2,
            sentences=3,
        ),
        quick=base,
        full=base._replace(
            templates=10,
            names=60,
            coupled=20,
            repeats=20,
            das=(2, 4, 8, 16, 32, 64),
            das_repeats=10,
            windows=60,
            edited=25,
            randoms=10,
            sentences=200,
        ),
    )
    if size.tiny:
        run.setting("model", "a tiny random Llama, to see that everything runs")
    else:
        run.setting("model", f"SmolLM2-135M-Instruct, from {smollm2_folder().name}")
    run.setting("paths", "chosen by contribution in a prompt pair; no label is looked at")
    run.setting(
        "scores", "y·r / s(r), with norms pulled back as P(g·y): what a head reads, exactly"
    )
    run.setting(
        "rivals",
        "ridge with its penalty chosen by cross-validation within its N labels; all at the best "
        "layer in hindsight; DAS-1d with 40 steps of Adam at 0.1",
    )
    features = measure(
        run, "features", [partial(f, size) for f in (code_job, heads_job, paths_job, shared_job)]
    )
    on_code, on_heads, on_paths, on_shared = features
    yield from heads(run, on_heads)
    yield from norms(run, on_paths)
    yield from couplings(run, on_heads)
    yield from few_labels(run, size)
    yield from shared(run, on_shared)
    yield from parties(run, size)
    yield from languages(run, on_code)
    yield from debiasing(run, size)
    yield from trained_gpt2(run, size)


def measure(run: Run, name: str, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """What independent jobs return, run side by side; kept on disk."""
    return run.cached(name, lambda: run.map(call, jobs, name))


def call(job: Callable[[], Any]) -> Any:
    return job()


def measured_mean(values: Sequence[float], unit: str) -> Measurement:
    """A mean over repeats with its standard error."""
    return Measurement(float(np.mean(values)), unit, standard_error(values), len(values))


def standard_error(values: Sequence[float] | np.ndarray) -> float | None:
    """Of the mean; None for a single value."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def against(
    key: str, statement: str, ours: Sequence[float], rival: Sequence[float], name: str, **more: Any
) -> Claim:
    """The claim that ours is the larger, repeat by repeat, with r² as the unit."""
    unit = more.pop("unit", "r²")
    return Claim(
        key,
        statement,
        measured_mean(ours, unit),
        AtLeast(),
        baseline=measured_mean(rival, unit),
        baseline_name=name,
        paired_standard_error=standard_error(np.subtract(ours, rival)),
        **more,
    )


def best_layer(tables: Sequence[Mapping[str, float]]) -> str:
    """The layer with the largest mean over repeats."""
    return max(tables[0], key=lambda layer: np.mean([table[layer] for table in tables]))


# 1. Feature vectors without data find the heads that matter.


def top_heads(table: np.ndarray, count: int) -> set[int]:
    return set(np.argsort(-table, axis=None)[:count].tolist())


def heads(run: Run, found: dict[str, Any]) -> Iterator[Claim]:
    """Data-free norms beside contributions by patching."""
    from scipy.stats import spearmanr

    norms = np.array(found["she-he"]["norms"])
    signed = np.array(found["she-he"]["contributions"])
    scores = np.abs(signed)
    controls = {name: np.array(table, float) for name, table in found["controls"].items()}
    total, width = norms.size, norms.shape[1]
    best = int(norms.argmax())
    rank = 1 + int((scores > scores.flat[best]).sum())
    yield Claim(
        "heads-top",
        "The head with the longest feature vector for she-he, found without data, is the one with "
        "the largest contribution when prompts are patched",
        Measurement(rank, "(its rank by contribution)"),
        Equal(1),
        note=f"Head {best // width}.{best % width} of {total}.",
    )
    common = {
        name: len(top_heads(table, 10) & top_heads(scores, 10))
        for name, table in {"norms": norms, **controls}.items()
    }
    rival = max(controls, key=lambda name: common[name])
    yield Claim(
        "heads-overlap",
        "At least 5 of the 10 heads with the longest feature vectors are among the 10 with the "
        "largest contributions",
        Measurement(common["norms"], "heads"),
        AtLeast(5),
        baseline=Measurement(common[rival], "heads"),
        baseline_name=rival,
        note=f"A random order has {100 / total:.2g}; "
        + ", ".join(f"{name} {common[name]}" for name in controls)
        + ".",
    )
    ranks = {
        name: float(spearmanr(table.ravel(), scores.ravel()).statistic)
        for name, table in {"norms": norms, **controls}.items()
    }
    yield Claim(
        "heads-ranks",
        "Over all heads, the rank correlation of norm and contribution is at least 0.4",
        Measurement(ranks["norms"], "Spearman's rho"),
        AtLeast(0.4),
        note="This alone proves little: "
        + ", ".join(f"{name} {ranks[name]:.2f}" for name in controls)
        + ", because most heads do nothing and late ones are larger in every way.",
    )
    linear = {name: correlations(table, scores, run) for name, table in controls.items()}
    own = correlations(norms, scores, run)
    rival = max(controls, key=lambda name: linear[name][0])
    yield Claim(
        "heads-sizes",
        "Norms go with the sizes of contributions more than any control does: they are of this "
        "observable, not of large heads",
        Measurement(own[0], "correlation", float(own[1:].std(ddof=1))),
        AtLeast(),
        baseline=Measurement(linear[rival][0], "correlation", float(linear[rival][1:].std(ddof=1))),
        baseline_name=rival,
        paired_standard_error=float((own - linear[rival])[1:].std(ddof=1)),
        note=", ".join(f"{name} {table[0]:.2f}" for name, table in linear.items())
        + ". Standard errors by resampling heads.",
    )
    other = np.array(found["her-him"]["norms"]), np.abs(found["her-him"]["contributions"])
    yield Claim(
        "heads-objects",
        "So it is for object pronouns, her-him: at least 5 of 10 heads in common",
        Measurement(len(top_heads(other[0], 10) & top_heads(other[1], 10)), "heads"),
        AtLeast(5),
        note="Contributions are on the same prompts, which do not ask for these words.",
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        plot_heads(norms, left, "without data", "length of the feature vector")
        plot_heads(signed, right, "path patching", "contribution to she-he")

    run.figure(
        "heads",
        draw,
        "Every head: length of its feature vector, and contribution.",
        size=(7.2, 4.6),
    )


def correlations(table: np.ndarray, scores: np.ndarray, run: Run) -> np.ndarray:
    """Pearson's correlation over heads, then that of 500 resamples of heads."""
    rows = np.stack([table.ravel(), scores.ravel()])
    generator = run.generator("resampled heads")
    drawn = [rows] + [
        rows[:, generator.integers(rows.shape[1], size=rows.shape[1])] for _ in range(500)
    ]
    return np.array([np.corrcoef(pair)[0, 1] for pair in drawn])


# 2. Norms hardly turn feature vectors.


def norms(run: Run, found: list[tuple[str, float]]) -> Iterator[Claim]:
    """Along real paths, and of random directions."""
    yield Claim(
        "norms-paths",
        "Taking norms without data hardly turns a feature: its cosine with the exact gradient's is "
        "at least 0.95 for the best paths of 1 to 4 nodes",
        Measurement(min(value for _, value in found), "cosine (smallest)", repeats=len(found)),
        AtLeast(0.95),
        note=", ".join(f"{path} {value:.3f}" for path, value in found) + ".",
    )
    d, n = 64, run.scale(smoke=4000, quick=100_000, full=1_000_000)
    generator = torch.Generator().manual_seed(run.seed)
    x, y = (torch.randn(n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    kinds: tuple[tuple[Literal["layernorm", "rmsnorm"], str], ...] = (
        ("layernorm", "LayerNorm"),
        ("rmsnorm", "RMSNorm"),
    )
    for kind, name in kinds:
        gradient = Norm(torch.ones(d, dtype=torch.float64), None, 0.0, kind).pull_back(y, x)
        angles = torch.arccos(torch.cosine_similarity(y, gradient).clamp(-1, 1))
        exact = layernorm_angle(d, kind)
        ratio = (angles / exact).numpy()
        yield Claim(
            f"norms-{kind}",
            f"{name} turns a random direction in {d} dimensions by the angle of the closed form, "
            f"{exact:.6f} rad on average",
            Measurement(float(ratio.mean()), "of it", standard_error(ratio), n),
            Within(0.99, 1.01),
        )
    table = {d: layernorm_angle(d) / layernorm_angle_bound(d) for d in (8, 16, 64, 576, 2048)}
    yield Claim(
        "norms-bound",
        "The exact mean angle of a LayerNorm is below the paper's bound in 8 to 2048 dimensions",
        Measurement(max(table.values()), "of the bound (largest)"),
        AtMost(1.0),
        note=", ".join(
            f"d = {d}: {layernorm_angle(d):.6f}, RMSNorm {layernorm_angle(d, 'rmsnorm'):.6f}, "
            f"bound {layernorm_angle_bound(d):.6f}"
            for d in table
        )
        + " rad.",
    )


# 3. Coupling coefficients predict how scores move together.


def couplings(run: Run, found: dict[str, Any]) -> Iterator[Claim]:
    """The slope of one feature's scores on another's, predicted without a text."""
    rows = [(each["head"], each["coupled"]["her-him"]) for each in found["couplings"]]
    yield Claim(
        "coupling-slope",
        "In the three heads with the largest contributions, the coupling coefficient of she-he and "
        "her-him predicts the slope of their scores to 0.06",
        Measurement(
            max(abs(row["predicted"] - row["slope"]) for _, row in rows),
            "off (largest)",
            repeats=len(rows),
        ),
        AtMost(0.06),
        note="; ".join(
            f"{head}: C {row['predicted']:.3f}, slope {row['slope']:.3f}, r² {row['r2']:.3f}, "
            f"cosine {row['cosine']:.3f}"
            for head, row in rows
        )
        + f". {found['couplings'][0]['tokens']} tokens.",
    )
    yield Claim(
        "coupling-line",
        "and the scores lie on a line: r² is at least 0.9",
        Measurement(min(row["r2"] for _, row in rows), "r² (smallest)", repeats=len(rows)),
        AtLeast(0.9),
        note=f"The observables themselves, before propagation, have the cosine "
        f"{rows[0][1]['unpropagated cosine']:.3f}.",
    )
    everything = {
        f"{each['head']} {name}": row
        for each in found["couplings"]
        for name, row in each["coupled"].items()
    }
    off = [abs(row["predicted"] - row["slope"]) for row in everything.values()]
    raw = [abs(row["unpropagated"] - row["slope"]) for row in everything.values()]
    yield Claim(
        "coupling-others",
        "She-he with eight observables, related or not: propagated features predict the slopes "
        "with at most half the error of the observables themselves",
        Measurement(float(np.mean(off)), "off (mean)", standard_error(off), len(off)),
        AtMost(factor=0.5),
        baseline=Measurement(float(np.mean(raw)), "off (mean)", standard_error(raw), len(raw)),
        baseline_name="coefficients of the rows of W_U",
        paired_standard_error=standard_error(np.subtract(off, 0.5 * np.array(raw))),
        note="; ".join(
            f"{name}: C {row['predicted']:.3f}, slope {row['slope']:.3f}"
            for name, row in found["couplings"][0]["coupled"].items()
        )
        + f", in head {found['couplings'][0]['head']}.",
    )

    def draw(figure: Any) -> None:
        shown = {
            head: MeasuredCoupling(
                row["predicted"],
                row["slope"],
                row["intercept"],
                row["r2"],
                row["cosine"],
                np.empty((0, 2)),
            )
            for head, row in rows
        }
        left, right = figure.subplots(1, 2)
        plot_coupling(shown, left)
        left.margins(x=0.3)
        left.set_title("she-he and her-him, by head")
        right.set_title("she-he and eight observables")
        predicted = [row["predicted"] for row in everything.values()]
        slopes = [row["slope"] for row in everything.values()]
        unpropagated = [row["unpropagated"] for row in everything.values()]
        right.plot([-0.2, 1.1], [-0.2, 1.1], color="0.6", linewidth=1.0)
        right.scatter(predicted, slopes, s=18, label="features in three heads")
        right.scatter(unpropagated, slopes, s=18, marker="^", label="rows of W_U")
        right.set_xlabel("coefficient C, predicted")
        right.set_ylabel("slope, measured")
        right.legend()

    run.figure(
        "coupling",
        draw,
        "Measured slopes against the coefficients that predict them.",
        size=(8.4, 3.9),
    )


# 4. Few prompts: one pair beside directions fitted to labelled prompts.


def few_labels(run: Run, size: Size) -> Iterator[Claim]:
    """She-he at the name's token, as a function of how many prompts are labelled."""
    found = measure(run, "few labels", [partial(few_job, size, i) for i in range(size.repeats)])
    ours = [each["ours"] for each in found]

    def column(n: int, name: str) -> list[float]:
        rows = [each["by labels"][str(n)] for each in found if name in each["by labels"][str(n)]]
        if name in ("ours", "DAS-1d"):
            return [row[name] for row in rows]
        layer = best_layer([row[name] for row in rows])
        return [row[name][layer] for row in rows]

    curves: dict[str, dict[int, list[float]]] = {
        name: {n: column(n, name) for n in size.labels} for name in ("ridge", "mean difference")
    }
    curves["DAS-1d"] = {n: column(n, "DAS-1d") for n in size.das}
    paths = sorted({each["path"] for each in found})

    def mean(name: str) -> float:
        return float(np.mean([each[name] for each in found]))

    last = size.labels[min(3, len(size.labels) - 1)]
    shuffled = float(np.mean(column(last, "shuffled")))
    yield Claim(
        "few-level",
        "She-he from one pair of prompts: r² of the score at the name with the observable is at "
        "least 0.7 on the other prompts",
        measured_mean(ours, "r²"),
        AtLeast(0.7),
        note=f"Path {', '.join(paths)}. The pair itself included: {mean('with the pair'):.3f}; "
        f"with the exact gradients of norms: {mean('jacobian'):.3f}; within a template: "
        f"{mean('within a template'):.3f}, and within a sex there: {mean('within a sex'):.3f}. "
        f"Random direction: {mean('random'):.3f}; ridge with {last} shuffled labels: "
        f"{shuffled:.3f}. Knowing who is female alone gives {mean('sex alone'):.3f}.",
    )
    yield against(
        "few-propagated",
        "Propagating the observable helps: its own direction W_U'n, at the same place and without "
        "a prompt, is worse",
        ours,
        [each["not propagated"] for each in found],
        "W_U'n, not propagated",
        note="Not by much: in late layers the stream already holds what is to be said.",
    )
    listed = {
        name: ", ".join(f"N = {n}: {np.mean(values):.3f}" for n, values in curve.items())
        for name, curve in curves.items()
    }
    yield against(
        "few-ridge",
        f"One unlabelled pair is better than ridge regression on {last} labelled prompts",
        column(last, "ours"),
        curves["ridge"][last],
        f"ridge, N = {last}",
        note=f"{listed['ridge']}.",
    )
    means = curves["mean difference"]
    best = max(means, key=lambda n: np.mean(means[n]))
    yield against(
        "few-mean",
        "and better than the mean difference with any number of labels tried",
        column(best, "ours"),
        means[best],
        f"mean difference, N = {best}",
        note=f"{listed['mean difference']}.",
    )
    for n in size.das[:2]:
        yield against(
            f"few-das-{n}",
            f"and better than DAS-1d trained on {n} prompts, which too is given the observable",
            column(n, "ours")[: size.das_repeats],
            curves["DAS-1d"][n],
            f"DAS-1d, N = {n}",
            note=f"{listed['DAS-1d']}.",
        )
    yield against(
        "few-gradient",
        "and better than one prompt's gradient, attention included",
        ours,
        [each["gradient"] for each in found],
        "gradient at the positive prompt",
    )
    yield against(
        "few-gradients",
        "and better than the mean gradient of the pair's two prompts",
        ours,
        [each["gradients"] for each in found],
        "mean gradient of the pair",
        note="The rival needs no path and no split into heads; what it does not tell is where.",
    )
    ridge_curve = {n: float(np.mean(values)) for n, values in curves["ridge"].items()}
    crossing = crossing_of(ridge_curve, float(np.mean(ours)))
    yield Claim(
        "few-crossing",
        "Ridge regression overtakes only with more than 16 labelled prompts",
        Measurement(size.labels[-1] if crossing is None else crossing, "labelled prompts"),
        AtLeast(16.0),
        note="It never does, up to the number shown."
        if crossing is None
        else f"Beyond it ridge is better: {ridge_curve[size.labels[-1]]:.3f} with "
        f"{size.labels[-1]}.",
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        shown = found[0]["shown"]
        sexes = ["female" if sex else "male" for sex in shown["female"]]
        plot_scores(np.array(shown["scores"]), np.array(shown["values"]), left, sexes, "she-he")
        averages = {
            name: {n: float(np.mean(values)) for n, values in curve.items()}
            for name, curve in curves.items()
        }
        plot_label_curves(averages, float(np.mean(ours)), right, name="one pair, no labels")

    run.figure(
        "few-labels",
        draw,
        "She-he against the score of the name's token; and r² against the number of labels.",
        size=(8.4, 3.8),
    )


# 5. Pronouns and occupations share features.


def shared(run: Run, found: dict[str, Any]) -> Iterator[Claim]:
    """One direction for two behaviours."""
    rows = found["layers"]
    best = max(rows, key=lambda row: row["cosine"])
    yield Claim(
        "shared-cosine",
        "In some MLP, she-he and nurse+teacher+secretary-programmer-doctor-engineer have nearly "
        "the same feature: the cosine is at least 0.9",
        Measurement(best["cosine"], "cosine"),
        AtLeast(0.9),
        baseline=Measurement(best["control cosine"], "cosine"),
        baseline_name="she-he with Democratic-Republican on the same path",
        note="; ".join(
            f"MLP {row['layer']}: {row['cosine']:.3f}, control {row['control cosine']:.3f} "
            f"({row['paths']['pronouns']} and {row['paths']['occupations']})"
            for row in rows
        )
        + f". Head {found['head'][0]}: {found['head'][1]:.3f}.",
    )
    yield against(
        "shared-control",
        "They share more than any two observables would at these MLPs",
        [row["cosine"] for row in rows],
        [row["control cosine"] for row in rows],
        "she-he with Democratic-Republican on the same paths",
        unit="cosine (mean over MLPs)",
    )
    for key, name, statement in (
        ("bias", "occupations", "The score of the occupational feature predicts the gap"),
        ("pronoun", "pronouns", "So does the feature of she-he alone, made of another sentence"),
    ):
        worst = min(rows, key=lambda row: row["r2"][name])
        yield Claim(
            f"shared-{key}",
            f"{statement}: r² with the occupational observable is at least 0.75 at each MLP",
            Measurement(worst["r2"][name], "r² (smallest)", repeats=len(rows)),
            AtLeast(0.75),
            baseline=Measurement(worst["r2"]["control"], "r²"),
            baseline_name="Democratic-Republican's feature at that MLP",
            note="Mean within 3 sentences. "
            + "; ".join(
                f"MLP {row['layer']}: {row['r2'][name]:.3f}, control {row['r2']['control']:.3f}"
                for row in rows
            )
            + ".",
        )


# 6. Political party.


def parties(run: Run, size: Size) -> Iterator[Claim]:
    """Democratic-Republican at the end of a politician's name."""
    found = measure(run, "parties", [partial(party_job, size, i) for i in range(size.repeats)])

    def column(n: int, name: str) -> list[float]:
        rows = [each["by labels"][str(n)][name] for each in found]
        if name == "ours":
            return rows
        layer = best_layer(rows)
        return [row[layer] for row in rows]

    curves = {
        name: {n: column(n, name) for n in size.party_labels}
        for name in ("ridge", "mean difference")
    }
    ours = [each["ours"] for each in found]
    named = found[0]
    where = (
        f"{' and '.join(named['pair'])}: {' and '.join(named['paths'])} with r² "
        f"{named['ours']:.3f} and {named['second']:.3f}, AUC {named['auc']:.3f} (the model's own "
        f"answer has {named['model']:.3f}). AUC over all pairs "
        f"{np.mean([each['auc'] for each in found]):.3f}."
    )
    for name, curve in curves.items():
        listed = ", ".join(f"N = {n}: {np.mean(values):.3f}" for n, values in curve.items())
        for n in size.party_labels[:2]:
            yield against(
                f"party-{name.split()[0]}-{n}",
                "Political party from one unlabelled pair of politicians: a better r² than "
                f"{name} on {n} labelled ones",
                column(n, "ours"),
                curve[n],
                f"{name}, N = {n}",
                note=f"{where} {name.capitalize()}: {listed}.",
            )
    yield against(
        "party-gradient",
        "and better than the mean gradient of the pair's two prompts, attention included",
        ours,
        [each["gradients"] for each in found],
        "mean gradient of the pair",
        note=f"One prompt's gradient: {np.mean([each['gradient'] for each in found]):.3f}. A party "
        "is read along many paths, of which a feature vector holds one; the gradient holds all.",
    )

    yield against(
        "party-propagated",
        "and better than the observable's own direction W_U'n at the same place",
        ours,
        [each["not propagated"] for each in found],
        "W_U'n, not propagated",
    )

    def draw(figure: Any) -> None:
        averages = {
            name: {n: float(np.mean(values)) for n, values in curve.items()}
            for name, curve in curves.items()
        }
        ax = figure.subplots()
        plot_label_curves(averages, float(np.mean(ours)), ax, name="one pair, no labels")
        gradient = float(np.mean([each["gradients"] for each in found]))
        ax.axhline(gradient, color="C3", linestyle=":", label="gradient of the pair")
        ax.legend(fontsize="small")

    run.figure("parties", draw, "Political party: r² against the number of labelled politicians.")


# 7. Programming language.


def languages(run: Run, found: dict[str, Any]) -> Iterator[Claim]:
    """C or Python, by the observable of a comment's first token."""
    rivals: dict[int, tuple[str, list[float], list[float]]] = {}
    for count, row in found["by labels"].items():
        best = best_layer(row["rivals"])
        rivals[int(count)] = best, [table[best] for table in row["rivals"]], row["ours"]
    listed = "; ".join(
        f"N = {count}: {np.mean(values):.3f} ({name})"
        for count, (name, values, _) in rivals.items()
    )
    few, more = sorted(rivals)[:2]
    name, values, _ = rivals[few]
    single = measured_mean(found["one pair"], "AUC")
    yield Claim(
        "code-two",
        "C or Python, by //-# and one pair of lines: the mean score over a window separates them "
        f"better than the best rival fitted to {few} labelled windows",
        single,
        AtLeast(),
        baseline=measured_mean(values, "AUC"),
        baseline_name=name,
        note="The three heads with the largest contributions are added up. By pair: "
        + ", ".join(
            f"{heads} {value:.3f}"
            for heads, value in zip(found["heads of one"], found["one pair"], strict=True)
        )
        + f". Rivals: {listed}.",
    )
    name, values, ours = rivals[more]
    yield Claim(
        "code-four",
        f"and with all pairs of lines it is within 0.04 of the best rival with {more} labelled "
        "windows",
        Measurement(
            float(np.mean(values) - np.mean(ours)),
            "AUC behind",
            standard_error(np.subtract(values, ours)),
            len(values),
        ),
        AtMost(0.04),
        note=f"The sum has {found['sum']:.3f}; head by head "
        + ", ".join(
            f"{head} {value:.3f}"
            for head, value in zip(found["heads"], found["by head"], strict=True)
        )
        + f". Rival: {name}.",
    )
    last = sorted(rivals)[min(2, len(rivals) - 1)]
    name, values, ours = rivals[last]
    yield against(
        "code-ten",
        f"and still better than the best rival with {last} labelled windows",
        ours,
        values,
        name,
        unit="AUC",
        note="Where labelled windows are at hand, fit a probe.",
    )


# 8. Debiasing: the pronoun's feature taken out, occupations compared.


def gap(values: np.ndarray) -> float:
    """The mean of the first half, female names, less that of the second."""
    half = len(values) // 2
    return float(values[:half].mean() - values[half:].mean())


def debiasing(run: Run, size: Size) -> Iterator[Claim]:
    """The gap between female and male names, before and after."""
    kinds = ["nothing", "ours", "mean difference", "gradient", "not propagated"]
    kinds += [f"random {i}" for i in range(size.randoms)]
    weighed = ("nothing", "ours", "random 0")
    jobs: list[Callable[[], Any]] = [partial(perplexity_job, size, kind) for kind in weighed]
    jobs += [partial(edit_job, size, kind) for kind in kinds]
    measured = measure(run, "debiasing", jobs)
    found = dict(zip(kinds, measured[len(weighed) :], strict=True))
    before = {t: np.array(v) for t, v in found["nothing"]["gaps"].items()}
    asked = [t for t in before if t in OCCUPATION_TEMPLATES]

    def left_over(kind: str, rows: Any = slice(None)) -> float:
        after = {t: np.array(v)[rows] for t, v in found[kind]["gaps"].items()}
        return float(np.mean([gap(after[t]) / gap(before[t][rows]) for t in asked]))

    def reduction(kind: str) -> Measurement:
        generator = run.generator("resampled names")
        count = len(before[asked[0]])
        half = count // 2
        resampled = [
            left_over(
                kind,
                np.concatenate(
                    [
                        generator.integers(half, size=half),
                        half + generator.integers(half, size=half),
                    ]
                ),
            )
            for _ in range(200)
        ]
        spread = 100 * float(np.std(resampled, ddof=1))
        return Measurement(100 * (1 - left_over(kind)), "%", spread, count)

    def gaps_of(kind: str) -> str:
        return ", ".join(f"{gap(np.array(found[kind]['gaps'][t])):.2f}" for t in before)

    ours = reduction("ours")
    yield Claim(
        "debias-gap",
        "Moving the name's stream to the mean along the feature of she-he takes away at least 45 % "
        "of the gap that female and male names make between occupations",
        ours,
        AtLeast(45.0),
        note=f"Path {found['ours']['path']}. Gaps in three sentences, and of the pronoun: "
        f"{gaps_of('nothing')} before, {gaps_of('ours')} after. Standard error by resampling "
        "names; the mean is that of other names.",
    )
    changes = [100 * abs(1 - left_over(f"random {i}")) for i in range(size.randoms)]
    yield Claim(
        "debias-random",
        "A random direction does not: the gap changes by at most 2 %",
        measured_mean(changes, "%"),
        AtMost(2.0),
    )
    for key, kind, name in (
        ("mean", "mean difference", f"mean difference of {found['ours']['names']} labelled names"),
        ("gradient", "gradient", "mean gradient of the pair"),
        ("propagated", "not propagated", "direction W_U'n, not propagated,"),
    ):
        rival = reduction(kind)
        shares = np.mean(
            [
                np.subtract(found[kind]["gaps"][t], found["ours"]["gaps"][t]) / gap(before[t])
                for t in asked
            ],
            axis=0,
        )
        yield Claim(
            f"debias-{key}",
            f"It takes away more than editing along the {name} does",
            ours,
            AtLeast(),
            baseline=rival,
            baseline_name=name.rstrip(","),
            paired_standard_error=100 * gap_error(shares),
            note=f"Gaps: {gaps_of(kind)}.",
        )
    logs = {kind: np.array(row) for kind, row in zip(weighed, measured, strict=False)}
    cost = {kind: 100 * np.expm1(row - logs["nothing"]) for kind, row in logs.items()}
    yield Claim(
        "debias-perplexity",
        "It costs at most 1 % of perplexity on neutral sentences, edited at every token but the "
        "first",
        measured_mean(cost["ours"], "%"),
        AtMost(1.0),
        note=f"{size.sentences} sentences of Python's language reference; perplexity "
        f"{math.exp(logs['nothing'].mean()):.1f} before (geometric mean). A random direction: "
        f"{cost['random 0'].mean():.2f} %.",
    )

    def draw(figure: Any) -> None:
        labels = {
            t: "pronoun" if t in PRONOUN_TEMPLATES else fill(t.replace("NAME", "…"), 20)
            for t in before
        }
        shown = {
            "nothing": "before",
            "ours": "feature of she-he",
            "random 0": "random direction",
            "mean difference": "mean difference",
        }
        ax = figure.subplots()
        plot_gaps(
            {
                title: {labels[t]: gap(np.array(v)) for t, v in found[kind]["gaps"].items()}
                for kind, title in shown.items()
            },
            ax,
            "gap between female and male names",
        )
        ax.tick_params(axis="x", labelsize="small")

    run.figure(
        "debiasing",
        draw,
        "Gaps between female and male names, before and after an edit.",
        size=(8.0, 3.8),
    )


def gap_error(values: np.ndarray) -> float:
    """The standard error of `gap`."""
    return math.hypot(*(standard_error(half) or 0.0 for half in np.split(values, 2)))


# 9. A model with LayerNorm, trained here: at the full budget only.


def trained_gpt2(run: Run, size: Size) -> Iterator[Claim]:
    """A GPT-2 trained on the standard library's text; ` in` comes after "for x", not "if x"."""
    if run.budget == "quick":
        return
    steps = run.scale(smoke=3, quick=0, full=800)
    found = run.cached("trained GPT-2", partial(gpt2_job, size, steps))
    run.setting("GPT-2", f"{found['parameters']:,} weights, {steps} steps on {found['text']}")
    yield Claim(
        "layernorm-paths",
        "In a GPT-2 with LayerNorm too, norms hardly turn features: cosine of at least 0.95 "
        "between data-free and exact norms along the best paths of heads",
        Measurement(min(found["cosines"].values()), "cosine (smallest)"),
        AtLeast(0.95),
        note=", ".join(f"{path} {value:.3f}" for path, value in found["cosines"].items())
        + f". Training loss {found['loss']:.2f}; the observable has the right sign in "
        f"{found['right']} of {2 * len(LOOP_PAIRS)} prompts.",
    )
    norms, scores = np.array(found["norms"]), np.abs(found["contributions"])
    yield Claim(
        "layernorm-heads",
        "and of the 4 heads with the longest feature vectors at least 2 are among the 4 with the "
        "largest contributions",
        Measurement(len(top_heads(norms, 4) & top_heads(scores, 4)), "heads"),
        AtLeast(2),
        note=f"A random order has {16 / norms.size:.2g}.",
    )
