"""The verbs on small files and a tiny model, in this process."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers

from cameraready.app import run
from cameraready.obprop import FeatureVector, TransformerView, command_options, patching

POSITIVE = "So, Mary really is a great friend, isn't"
NEGATIVE = "So, John really is a great friend, isn't"
SHE = "+ she,- he"
NAMES = ("Mary", "Anna", "John", "Peter")


@pytest.fixture
def model(tmp_path, random_model, tokenizer, monkeypatch):
    """A folder with a tiny model, in the folder in which verbs then run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    random_model("llama").save_pretrained("model")
    tokenizer.save_pretrained("model")
    return "model"


@pytest.fixture
def call(capsys):
    """Run a verb: exit code, standard output, standard error."""

    def call(*tokens):
        capsys.readouterr()
        code = run(["obprop", *map(str, tokens)])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return call


@pytest.fixture
def refused(call):
    """Run a verb on bad input; its sentence."""

    def refused(*tokens):
        before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
        code, out, err = call(*tokens)
        assert (code, out) == (2, "")
        assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before
        *_, last = err.splitlines()
        assert last.startswith("cameraready: ")
        return last.removeprefix("cameraready: ")

    return refused


@pytest.fixture
def make(model, call):
    """Make a feature of the model with the verb."""

    def make(name="she.safetensors", path="1.2", *options):
        tokens = ("--observable", SHE, "--path", path, "--out", name)
        code, *_ = call("feature", model, *tokens, *options)
        assert code == 0
        return name

    return make


def shape(text):
    """What was printed, with # for every number that is not whole."""
    text = re.sub(r"-?\d+\.\d+(e-?\d+)?|-?\d+e-\d+|nan", "#", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip("─ ")]


# Help.


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("prepare", ["--out"]),
        ("heads", ["--observable", "--pair", "--plot", "--normalize", "--first-token"]),
        ("paths", ["--max-length", "--width", "--keep", "--kinds", "--layers", "--tokens"]),
        ("feature", ["--path", "--norm", "--mlp-point", "--attention"]),
        ("score", ["--token", "--stride", "--text-column", "--html", "--resume", "--force"]),
        ("couple", ["--texts", "--plot", "--skip"]),
        ("steer", ["--mode", "--prompt", "--prompts", "--generate", "--neutral", "--strength"]),
        ("audit", ["--observables", "--templates", "--names", "--audited"]),
    ],
)
def test_help_names_the_options(verb, options, call):
    code, out, _ = call(verb, "--help")
    assert code == 0
    shared = ["--device", "--dtype", "--batch-size", "--seed"] if verb != "prepare" else []
    for option in [*options, *shared, "--quiet"]:
        assert option in out


# prepare.


def test_prepare_copies_the_shipped_model(model, call, monkeypatch):
    monkeypatch.setattr(command_options, "smollm2_folder", lambda: Path(model))
    monkeypatch.setattr("cameraready.obprop.commands.smollm2_folder", lambda: Path(model))
    code, _, err = call("prepare", "smollm2", "--out", "copy")
    assert (code, err) == (0, "the model is in copy\n")
    assert {file.name for file in Path("copy").iterdir()} == {
        file.name for file in Path(model).iterdir()
    }
    assert Path("copy").stat().st_mode & 0o777 == 0o755
    assert call("prepare", "smollm2")[2] == f"the model is in {model}\n"
    by_name, by_folder = (
        call("heads", name, "--observable", SHE)[1] for name in ("smollm2", "copy")
    )
    assert by_name == by_folder


def test_prepare_unpacks_a_gguf_file(model, call, refused, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "cameraready.obprop.commands.convert_gguf",
        lambda *paths: asked.append(paths) or Path(paths[1]),
    )
    assert call("prepare", "w.gguf", "--out", "new", "--quiet") == (0, "", "")
    assert asked == [("w.gguf", Path("new"))]
    assert "--out must name the folder" in refused("prepare", "w.gguf")


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["gpt2"], "source must be smollm2 or a file that ends in .gguf, not 'gpt2'"),
        (["smollm2", "--out", "model"], "--out model is there already"),
        (["nowhere.gguf", "--out", "new"], "nowhere.gguf is not there"),
        (["model/config.gguf", "--out", "new"], "config.gguf is not a GGUF file"),
    ],
)
def test_wrong_sources(tokens, said, model, refused):
    Path("model/config.gguf").write_bytes(Path("model/config.json").read_bytes())
    assert said in refused("prepare", *tokens)


# heads.


def test_heads_without_data(model, call):
    code, out, err = call("heads", model, "--observable", SHE, "--out", "heads.csv", "--top", 3)
    assert (code, err) == (0, "")
    rows = shape(out)
    assert rows[:2] == ["she-he: the first of 8 heads", "head norm rank"]
    assert len(rows) == 5
    table = pd.read_csv("heads.csv", dtype={"head": str})
    assert list(table.columns) == ["head", "norm", "rank"]
    assert sorted(table["head"]) == [f"{layer}.{head}" for layer in (0, 1) for head in range(4)]
    assert table["norm"].is_monotonic_decreasing
    view = TransformerView.from_pretrained(model)
    observable = command_options.read_observable(SHE, view, command_options.Running())
    norms = patching.head_norms(view, observable)
    assert table["norm"].tolist() == pytest.approx(sorted(norms.flatten().tolist())[::-1], rel=1e-5)


def test_heads_with_pairs(model, call):
    Path("pairs.tsv").write_text(f"{POSITIVE}\t{NEGATIVE}\nMary was here\tPeter was here\n")
    Path("o.json").write_text('{"positive": [" she"], "negative": [" he"], "name": "pronoun"}')
    code, out, err = call(
        "heads", model, "--observable", "o.json", "--pair", "pairs.tsv", "--plot", "heads.png"
    )
    assert code == 0
    assert shape(out)[:2] == ["pronoun: the first of 8 heads", "head norm contribution rank"]
    assert shape(err) == [
        "8 of the first 8 heads are also among the 8 of the largest contributions; rank "
        "correlation #"
    ]
    assert Path("heads.png").read_bytes().startswith(b"\x89PNG")


def test_quiet_says_nothing_beside(model, call):
    pair = ("--pair", POSITIVE, NEGATIVE)
    code, out, err = call("heads", model, "--observable", "- he,+ she,+ her", *pair, "--quiet")
    assert (code, err) == (0, "")
    assert out


def test_a_warning_is_a_note(model, call):
    _, out, err = call("heads", model, "--observable", "+ she,+ her,- he")
    assert err.startswith("warning: the weights of observable 'she+her-he' sum to 1, not 0")
    assert len(err.splitlines()) == 1
    _, balanced, err = call(
        "heads", model, "--observable", "+ she,+ her,- he", "--normalize", "mean"
    )
    assert err == ""
    assert balanced != out


def test_the_first_token_of_a_word(model, call):
    _, out, err = call("heads", model, "--observable", "+ she, he,- he")
    assert out == ""
    _, _, err = call("heads", model, "--observable", "+ she really,- he", "--first-token")
    assert "the first, ' she', stands for it" in err


def test_a_word_without_its_space_is_noted(model, call):
    code, _, err = call("heads", model, "--observable", "+she,- he")
    assert code == 0
    assert err == "note: 'she' begins a text; within one the token is ' she', with its space\n"


@pytest.mark.parametrize(
    ("observable", "said"),
    [
        ("+ she really,- he", "is 2: [' she', ' really']; choose another word"),
        ("+ she really,- he", "or add --first-token"),
        ("+,- he", "must be signs and tokens"),
        ("she,he", "must be signs and tokens"),
        ("+ she,- she", "observable has no tokens"),
        ("empty.json", "observable has no tokens"),
        ("wrong.json", "observable file wrong.json is not JSON"),
        ("keys.json", "must hold an object with 'positive' and 'negative'"),
        ("long.json", "observable file long.json: ' she really' in positive must be exactly one"),
        ("nowhere.json", "nowhere.json: no such file"),
    ],
)
def test_wrong_observables(observable, said, model, refused):
    Path("empty.json").write_text('{"positive": [], "negative": []}')
    Path("wrong.json").write_text("{")
    Path("keys.json").write_text('{"plus": [" she"]}')
    Path("long.json").write_text('{"positive": [" she really"], "negative": [" he"]}')
    sentence = refused("heads", model, "--observable", observable)
    assert said in sentence
    assert "first_token" not in sentence


def test_settings_of_a_line_are_not_for_a_file(model, refused):
    Path("o.json").write_text('{"positive": [" she"], "negative": [" he"]}')
    said = refused("heads", model, "--observable", "o.json", "--first-token")
    assert "--normalize and --first-token are for tokens on the command line" in said


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["--out", "no/heads.csv"], "--out: there is no folder no"),
        (["--out", "model"], "--out model is a folder"),
        (["--plot", "heads.bmp"], "--plot must end in .png, .svg or .pdf"),
        (["--plot", "a.png", "--out", "a.png"], "--plot would overwrite --out"),
        (["--pair", "pairs.tsv", "--out", "pairs.tsv"], "--out would overwrite pairs.tsv"),
        (["--pair", "nowhere.tsv"], "'nowhere.tsv' is no file"),
        (["--pair", "o.tsv"], "line 1 must hold a positive prompt, a tab"),
        (["--pair", POSITIVE, NEGATIVE, "--pair", POSITIVE, NEGATIVE], "--pair can be given once"),
        (["--pair", POSITIVE, POSITIVE], "the prompts of the pair are identical"),
        (["--pair", POSITIVE, "John"], "the same number of tokens, not 10 and 1: ['So', ','"),
        (["--pair", POSITIVE, "John"], "they first differ at token 0"),
        (["--pair", "", "John"], "the prompt '' has no tokens"),
        (["--pair", "pairs.tsv"], "pair 2 of --pair: the prompts of the pair are identical"),
        (["--batch-size", "0"], "--batch-size must be at least 1"),
        (["--device", "abacus"], "device 'abacus' is not there"),
        (["--dtype", "int4"], "int4"),
    ],
)
def test_wrong_options(tokens, said, model, refused):
    Path("pairs.tsv").write_text("Mary was\tJohn was\nMary\tMary\n")
    Path("o.tsv").write_text("Mary was\n")
    assert said in refused("heads", model, "--observable", SHE, *tokens)


# The model.


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (transformers.T5Config(), "t5"),
        (transformers.BertConfig(), "bert"),
        (transformers.MambaConfig(), "mamba"),
        (transformers.RwkvConfig(), "rwkv"),
    ],
)
def test_other_architectures_are_told_before_weights_are_read(config, kind, model, refused):
    config.save_pretrained("other")
    said = refused("heads", "other", "--observable", SHE)
    assert said.startswith(f"model is of type '{kind}', which has no adapter; decoder-only")
    assert "gpt2, gpt_neo, gpt_neox, gptj, llama" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("./nowhere", "model ./nowhere is not there; name a folder or a .gguf file"),
        ("/no/such/model", "model /no/such/model is not there"),
        ("nowhere.gguf", "model nowhere.gguf is not there"),
        ("model/config.json", "model model/config.json is a file; name the folder"),
        ("empty", "empty"),
        ("broken", "model broken cannot be loaded"),
        ("broken.gguf", "broken.gguf"),
    ],
)
def test_what_is_no_model(name, said, model, refused):
    Path("empty").mkdir()
    Path("broken").mkdir()
    for file in Path(model).iterdir():
        (Path("broken") / file.name).write_bytes(file.read_bytes())
    weights = Path("broken/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-100])
    Path("broken.gguf").write_bytes(b"GGUF")
    assert said in refused("heads", name, "--observable", SHE)


def test_a_name_that_the_hub_does_not_give(model, refused, monkeypatch):
    def fail(*_, **__):
        raise OSError("We couldn't connect to the hub. Check your connection.")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", fail)
    assert refused("heads", "some/name", "--observable", SHE) == (
        "model some/name is no folder or file here, and the Hugging Face hub did not give it: "
        "We couldn't connect to the hub"
    )


def test_activations_that_are_not_finite(model, refused):
    weights = Path(model) / "model.safetensors"
    from safetensors.torch import load_file, save_file

    tensors = load_file(weights)
    tensors["model.layers.0.mlp.down_proj.weight"][0, 0] = torch.nan
    save_file(tensors, weights, metadata={"format": "pt"})
    said = refused("heads", model, "--observable", SHE, "--pair", POSITIVE, NEGATIVE)
    assert "layer 1 has activations that are NaN or infinite on the prompt" in said


# paths.


def test_paths_of_a_pair(model, call):
    code, out, err = call(
        "paths", model, "--observable", SHE, "--pair", POSITIVE, NEGATIVE, "--out", "paths.csv",
        "--max-length", 2, "--width", 3, "--keep", 4, "--top", 2,
    )  # fmt: skip
    assert code == 0
    rows = shape(out)
    assert rows[:2] == ["she-he: the first of 8 paths", "path norm contribution rank"]
    assert len(rows) == 4
    assert err.startswith("tokens: 0 'So', 1 ',', 2 ' Mary'/' John', 3 ' really', 4 ' is'")
    table = pd.read_csv("paths.csv", dtype={"path": str})
    assert list(table.columns) == ["path", "norm", "contribution", "rank"]
    assert table["contribution"].is_monotonic_decreasing
    assert table["rank"].tolist() == list(range(1, 9))


def test_only_some_nodes(model, call):
    call(
        "paths", model, "--observable", SHE, "--pair", POSITIVE, NEGATIVE, "--out", "paths.csv",
        "--kinds", "attn", "--layers", 1, "--tokens", 2, -1,
    )  # fmt: skip
    found = pd.read_csv("paths.csv", dtype={"path": str})["path"]
    assert set(found) == {f"1.{head}@{token}" for head in range(4) for token in (2, 9)}


def test_pairs_of_unequal_length_with_positions(model, call, refused):
    unequal = f"{POSITIVE}\t{NEGATIVE}%s\nMary was here\tPeter was here%s\n"
    Path("pairs.tsv").write_text(unequal % ("", ""))
    tokens = ("paths", model, "--observable", SHE, "--pair", "pairs.tsv")
    said = refused(*tokens)
    assert "must all have the same number of tokens, not [10, 3]" in said
    assert "in a third column" in said
    Path("pairs.tsv").write_text(unequal % ("\t2", "\t0"))
    code, out, _ = call(*tokens, "--max-length", 1)
    assert code == 0
    assert "@2" in out


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([], "--pair"),
        (["--pair", POSITIVE, NEGATIVE, "--max-length", "0"], "max_length must be at least 1"),
        (["--pair", POSITIVE, NEGATIVE, "--width", "0"], "width must be at least 1"),
        (["--pair", POSITIVE, NEGATIVE, "--kinds", "norm"], "norm"),
        (["--pair", POSITIVE, POSITIVE], "identical"),
    ],
)
def test_wrong_options_of_paths(tokens, said, model, refused):
    assert said in refused("paths", model, "--observable", SHE, *tokens)


# feature.


def test_a_feature_of_a_pair(model, call):
    code, out, err = call(
        "feature", model, "--observable", SHE, "--path", "attn1.2@9 <= mlp0@9", "--pair",
        POSITIVE, NEGATIVE, "--norm", "boundary", "--out", "she.safetensors",
    )  # fmt: skip
    assert code == 0
    assert [line for line in shape(out) if "boundary at" not in line] == [
        "observable she-he",
        # a path may look like a number
        "path mlp0@9:#@9",
        "lives at resid_mid[0], token 9",
        "length #",
        "norms boundary",
        "contribution #",
        "she-he, positive prompt #",
        "she-he, negative prompt #",
    ]
    assert "boundary at mlp0@9" in out
    assert "boundary at final" in out
    assert err.splitlines()[-1] == "the feature is in she.safetensors"
    made = FeatureVector.load("she.safetensors", TransformerView.from_pretrained(model))
    assert (made.site, made.layer, made.token, str(made.path)) == (
        "resid_mid", 0, 9, "mlp0@9:1.2@9",
    )  # fmt: skip


def test_a_feature_without_data(make, model):
    assert FeatureVector.load(make("she.safetensors", "0.1:1.2")).norm == "weights"


PAIR = ("--pair", POSITIVE, NEGATIVE)


@pytest.mark.parametrize(
    ("path", "tokens", "said"),
    [
        ("1.2:0.1", [], "node 0.1 cannot read what 1.2 writes"),
        ("mlp0:0.1", PAIR, "node 0.1 cannot read what mlp0 writes"),
        ("7.1", [], "node 7.1 is beyond the model's 2 layers"),
        ("mlp2", PAIR, "node mlp2 is beyond the model's 2 layers"),
        ("1.4", [], "node 1.4 is beyond the 4 heads of a layer"),
        ("1.2@10", PAIR, "node 1.2@10 is beyond the 10 tokens"),
        ("0.1@5:1.2@3", PAIR, "node 0.1@5 reads token 5"),
        ("mlp1@3", PAIR, "an MLP does not move between tokens"),
        ("one.2", [], "'one.2' is no node; write layer.head or mlpLAYER"),
        ("", [], "'' is no node"),
        ("mlp0", [], "node mlp0: MLP nodes need a prompt pair"),
        ("1.2", ["--norm", "jacobian"], "norm 'jacobian' needs a prompt pair"),
        ("1.2", ["--attention", "scale"], "attention 'scale' needs a prompt pair"),
        ("1.2", ["--out", "she.bin"], "--out must end in .safetensors"),
        ("1.2", ["--pair", "pairs.tsv"], "--pair must hold one pair for a feature, not 2"),
    ],
)
def test_wrong_paths(path, tokens, said, model, refused):
    Path("pairs.tsv").write_text("Mary was\tJohn was\nMary\tJohn\n")
    assert said in refused("feature", model, "--observable", SHE, "--path", path, *tokens)


# score.

TEXTS = ["Mary was here today", "", "John was here", "She is a doctor", "the nurse", "he, him"]


@pytest.fixture
def texts():
    """A file of texts, made where the verb runs."""

    def texts(name="texts.txt", lines=TEXTS):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
        return name

    return texts


def test_scores_of_texts(make, model, texts, call):
    code, out, err = call(
        "score", model, make(), texts(), "--out", "scores.csv", "--html", "scores.html"
    )
    assert code == 0
    rows = shape(out)
    assert rows[:2] == ["the highest and the lowest scores", "line score text"]
    assert sorted(row.split(" ", 2)[2] for row in rows[2:]) == sorted(filter(None, TEXTS))
    table = pd.read_csv("scores.csv")
    assert list(table.columns) == ["line", "text", "token", "position", "score", "status"]
    assert table["status"].tolist() == ["ok", "empty", "ok", "ok", "ok", "ok"]
    first, last = (int(row.split()[0]) for row in (rows[2], rows[-1]))
    assert (first, last) == (table["score"].idxmax(), table["score"].idxmin())
    assert "1 row without a score: empty" in err
    page = Path("scores.html").read_text()
    assert "Mary" in page
    assert "<script src" not in page
    assert not list(Path().glob("*.part"))


def test_the_same_scores_without_a_file(make, model, texts, call):
    tokens = ("score", model, make(), texts(), "--token", "max")
    _, shown, _ = call(*tokens)
    _, written, _ = call(*tokens, "--out", "scores.csv")
    assert shown == written
    assert shape(shown)[1] == "line score token text"


@pytest.mark.parametrize(
    ("token", "positions"),
    [
        ("-1", [3, 2]),
        ("0", [0, 0]),
        ("was", [1, 1]),
        ("last", [3, 2]),
        ("all", [0, 1, 2, 3, 0, 1, 2]),
    ],
)
def test_which_token(token, positions, make, model, texts, call):
    lines = ["Mary was here today", "John was here"]
    call("score", model, make(), texts(lines=lines), "--token", token, "--out", "s.csv")
    assert pd.read_csv("s.csv")["position"].tolist() == positions


def test_several_features_and_another_column(make, model, call):
    Path("t.jsonl").write_text('{"body": "Mary was here"}\n{"body": "John"}\n{"body": "he, him"}\n')
    files = (make(), make("two.safetensors", "0.1"))
    code, out, _ = call(
        "score", model, *files, "t.jsonl", "--text-column", "body", "--out", "s.csv",
        "--no-normalized",
    )  # fmt: skip
    assert code == 0
    assert "she-he 1.2: the highest and the lowest scores" in out
    assert "she-he 0.1: the highest and the lowest scores" in out
    assert pd.read_csv("s.csv")["feature"].tolist() == ["she-he 1.2", "she-he 0.1"] * 3


def test_a_long_text_is_never_cut(make, model, texts, call, refused):
    long = texts(lines=["Mary" + " was here" * 50])
    tokens = ("score", model, make(), long)
    assert "text 0 has 101 tokens, more than the context of 64; give a stride" in refused(*tokens)
    assert "stride must be from 1 to" in refused(*tokens, "--stride", 0)
    code, *_ = call(*tokens, "--stride", 32, "--token", "all", "--out", "s.csv")
    assert code == 0
    assert pd.read_csv("s.csv")["position"].tolist() == list(range(101))


def test_an_interrupted_run_is_resumed(make, model, texts, call, refused, monkeypatch):
    many = texts(lines=[f"{name} was here{' today' * k}" for k in range(7) for name in NAMES])
    tokens = ("score", model, make(), many, "--batch-size", 1)
    assert call(*tokens, "--out", "whole.csv")[0] == 0
    track = command_options.Running.track

    def interrupted(self, items, what, total):
        for i, item in enumerate(track(self, items, what, total)):
            if i == 18:
                raise KeyboardInterrupt
            yield item

    with monkeypatch.context() as patch:
        patch.setattr(command_options.Running, "track", interrupted)
        code, out, err = call(*tokens, "--out", "s.csv")
    assert (code, out) == (130, "")
    assert "the same command with --resume goes on from here" in err
    assert not Path("s.csv").exists()
    assert list(Path().glob("s.csv*.part"))
    other = refused(*tokens, "--out", "s.csv", "--resume", "--token", "last")
    assert "begun with another model, feature or setting" in other
    assert call(*tokens, "--out", "s.csv", "--resume")[0] == 0
    assert Path("s.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert not list(Path().glob("*.part"))


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([], "one or more features (.safetensors) and then one file of texts"),
        (["texts.txt"], "one or more features (.safetensors) and then one file of texts"),
        (["she.safetensors"], "one or more features (.safetensors) and then one file of texts"),
        (["she.safetensors", "nowhere.txt"], "nowhere.txt: no such file"),
        (["nowhere.safetensors", "texts.txt"], "nowhere.safetensors: no such file"),
        (["texts.txt", "texts.txt"], "file texts.txt holds no feature vector"),
        (["she.safetensors", "none.txt"], "none.txt holds no texts"),
        (["she.safetensors", "t.parquet"], "ends in .txt, .jsonl, .csv, .tsv, not t.parquet"),
        (["she.safetensors", "t.csv"], "has no 'text', but 'body'"),
        (["she.safetensors", "texts.txt", "--out", "texts.txt"], "--out would overwrite texts.txt"),
        (["she.safetensors", "texts.txt", "--out", "no/s.csv"], "there is no folder no"),
        (["she.safetensors", "texts.txt", "--resume"], "--resume needs the --out file"),
        (["she.safetensors", "she.safetensors", "texts.txt", "--html", "s.html"], "one feature"),
        (["she.safetensors", "texts.txt", "--token", ""], "token must not be an empty string"),
    ],
)
def test_wrong_options_of_score(tokens, said, make, model, texts, refused):
    make()
    texts()
    texts("none.txt", [])
    Path("t.csv").write_text("body\nMary\n")
    assert said in refused("score", model, *tokens)


def test_a_feature_of_another_model(make, model, texts, call, refused, random_model, tokenizer):
    name = make()
    random_model("llama", seed=1).save_pretrained("second")
    tokenizer.save_pretrained("second")
    for tokens in (
        ("score", "second", name, texts()),
        ("steer", "second", name, "--prompt", "Mary"),
        ("couple", "second", name, name),
    ):
        assert "was made of another model (llama); force takes it" in refused(*tokens)
        assert call(*tokens, "--force")[0] == 0
    random_model("llama", hidden_size=32).save_pretrained("wider")
    tokenizer.save_pretrained("wider")
    assert "has width 16" in refused("score", "wider", name, texts(), "--force")


# couple.


def test_coupling_of_two_features(make, model, texts, call):
    files = (make(), make("other.safetensors", "1.0"))
    code, out, err = call(
        "couple", model, *files, "--texts", texts(), "--out", "c.json", "--plot", "c.svg"
    )
    assert (code, err) == (0, "")
    assert shape(out) == [
        "how the second feature's score goes with the first one's",
        "from to coupling cosine slope r2 tokens",
        "she other # # # # 11",
        "other she # # # # 11",
    ]
    found = json.loads(Path("c.json").read_text())
    assert found["site"] == "resid_pre[1]"
    one, two = found["pairs"]
    assert one["coupling"] * two["coupling"] == pytest.approx(one["cosine"] ** 2)
    assert one["slope"] * two["slope"] == pytest.approx(one["r2"])
    assert "<svg" in Path("c.svg").read_text()


def test_coupling_without_texts(make, model, call):
    Path("a").mkdir()
    Path("b").mkdir()
    files = (make("a/f.safetensors"), make("b/f.safetensors", "1.0"), make("g.safetensors", "1.1"))
    code, out, _ = call("couple", model, *files, "--plot", "c.png")
    assert code == 0
    assert shape(out)[1] == "from to coupling cosine"
    assert len(shape(out)) == 8
    assert "a/f.safetensors" in out
    assert Path("c.png").is_file()


def test_features_of_different_layers_are_not_coupled(make, model, refused):
    files = (make(), make("other.safetensors", "0.1"))
    said = refused("couple", model, *files)
    assert (
        "must live at one site and layer to be coupled, not at resid_pre[0], resid_pre[1]" in said
    )


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([], "name two or more features"),
        (["she.safetensors"], "name two or more features"),
        (["she.safetensors", "she.safetensors", "--texts", "few.txt"], "texts give 1 tokens"),
        (["she.safetensors", "she.safetensors", "--out", "she.safetensors"], "would overwrite"),
    ],
)
def test_wrong_options_of_couple(tokens, said, make, model, texts, refused):
    make()
    texts("few.txt", ["Mary was"])
    assert said in refused("couple", model, *tokens)


# steer.


def test_steering_a_prompt(make, model, call):
    code, out, err = call(
        "steer", model, make(), "--prompt", POSITIVE, "--observable", SHE, "--mode", "add",
        "--strength", 50, "--out", "s.csv",
    )  # fmt: skip
    assert (code, err) == (0, "")
    rows = shape(out)
    assert rows[:2] == ["the likeliest next token", "prompt edit output she-he"]
    assert len(rows) == 4
    table = pd.read_csv("s.csv")
    assert table["edit"].tolist() == ["none", "add"]
    # The edit goes along the feature of this very observable.
    assert table["she-he"][1] > table["she-he"][0]


def test_generating_from_several_prompts(make, model, texts, call):
    lines = [f"{name} was" for _ in range(3) for name in NAMES]
    code, out, err = call(
        "steer", model, make(), "--prompts", texts(lines=lines), "--generate", 3, "--out", "s.csv",
        "--tokens", "0,-1",
    )  # fmt: skip
    assert code == 0
    assert shape(out)[0] == "generated"
    assert err == "and 2 more prompts\n"
    table = pd.read_csv("s.csv")
    assert len(table) == 24
    assert table["prompt"].tolist()[::2] == lines


@pytest.mark.parametrize("tokens", ["all", "1:", "1", "was"])
def test_centering_on_neutral_texts(tokens, make, model, texts, call):
    neutral = texts(lines=["Mary was here", "John was here"])
    arguments = ("--mode", "center", "--prompt", "Anna was here", "--observable", SHE)
    name = make()
    code, _, err = call(
        "steer", model, name, *arguments, "--neutral", neutral, "--tokens", tokens, "--out", "a.csv"
    )
    assert code == 0
    mean = re.fullmatch(r"mean on texts\.txt: (\S+)\n", err)
    assert mean is not None
    call("steer", model, name, *arguments, "--mean", mean[1], "--tokens", tokens, "--out", "b.csv")
    first, second = (pd.read_csv(file)["she-he"].tolist() for file in ("a.csv", "b.csv"))
    assert first == pytest.approx(second, abs=1e-2)
    assert first[0] != first[1]


def test_swapping_two_features(make, model, call):
    files = (make(), make("other.safetensors", "1.0"))
    assert call("steer", model, *files, "--mode", "swap", "--prompt", "Mary was")[0] == 0


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["--prompt", "Mary"], "name one or more features"),
        (["she.safetensors"], "give either --prompt or --prompts"),
        (["she.safetensors", "--prompt", "a", "--prompts", "t.txt"], "give either --prompt or"),
        (["she.safetensors", "--prompts", "none.txt"], "none.txt holds no prompts"),
        (["she.safetensors", "--prompt", ""], "the prompt '' has no tokens"),
        (["she.safetensors", "--prompt", "Mary", "--mode", "turn"], "turn"),
        (["she.safetensors", "--prompt", "Mary", "--mode", "swap"], "needs two features"),
        (["she.safetensors", "--prompt", "Mary", "--mode", "center"], "needs either --neutral"),
        (["she.safetensors", "--prompt", "Mary", "--mean", "1"], "are for --mode center"),
        (
            ["she.safetensors", "--prompt", "Mary", "--mode", "center", "--mean", "1", "2"],
            "--mean must be one number for each of the 1 features",
        ),
        (
            ["she.safetensors", "--prompt", "Mary", "--mode", "center", "--neutral", "none.txt",
             "--tokens", "0,1"],
            "--neutral needs --tokens to be",
        ),
        (["she.safetensors", "--prompt", "Mary", "--tokens", "John"], "does not stand in prompt 0"),
        (["she.safetensors", "--prompt", "Mary", "--tokens", "4"], "names position 4"),
        (["she.safetensors", "she.safetensors", "--prompt", "Mary"], "linearly dependent"),
        (["she.safetensors", "--prompt", "Mary", "--generate", "-1"], "must not be negative"),
        (["she.safetensors", "--prompt", "Mary", "--observable", "+ she"], "sum to 1"),
    ],
)  # fmt: skip
def test_wrong_options_of_steer(tokens, said, make, model, texts, call):
    make()
    texts("none.txt", [])
    code, out, err = call("steer", model, *tokens)
    if said == "sum to 1":  # only a warning
        assert (code, bool(out)) == (0, True)
    else:
        assert (code, out) == (2, "")
    assert said in err


# audit.


@pytest.fixture
def audited(model):
    """The files of an audit, and the options that name them."""
    Path("observables").mkdir()
    words = {"she-he": (" she", " he"), "her-him": (" her", " him"), "a": (" nurse", " doctor")}
    for name, (positive, negative) in words.items():
        content = {"name": name, "positive": [positive], "negative": [negative]}
        Path(f"observables/{name}.json").write_text(json.dumps(content))
    Path("templates.txt").write_text("So, NAME really is\na\tNAME was a great\n")
    Path("names.csv").write_text("name,group\nMary,f\nAnna,f\nJohn,m\nPeter,m\n")
    Path("neutral.txt").write_text("Mary was here today\nThe politician is a friend\n")
    return [
        "audit", model, "--observables", "observables", "--templates", "templates.txt", "--names",
        "names.csv", "--neutral", "neutral.txt", "--out", "audit.html",
    ]  # fmt: skip


def test_an_audit(audited, call):
    code, out, err = call(*audited, "--audited", "she-he")
    assert code == 0
    rows = shape(out)
    assert rows[0] == "gap between f and m names"
    assert rows[1].startswith("observable before feature removed random direction removed")
    assert [row.split()[0] for row in rows[2:]] == ["she-he", "a", "her-him"]
    assert err.splitlines()[-1] == "the page is audit.html"
    page = Path("audit.html").read_text()
    for part in ("she-he", "her-him", "Perplexity", "data:image/svg+xml"):
        assert part in page
    assert not re.search(r"(src|href)=\"(https?:|/)", page)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--observables", "model/config.json"], "must be a folder with .json files"),
        (["--observables", "nowhere"], "must be a folder with .json files"),
        (["--templates", "nowhere.txt"], "nowhere.txt: no such file"),
        (["--templates", "neutral.txt"], "must have the word NAME in it"),
        (["--names", "templates.txt"], "columns name and group"),
        (["--names", "one.csv"], "names must be of two groups, not 1"),
        (["--audited", "b"], "--audited must be one of a, her-him, she-he, not 'b'"),
        (["--out", "names.csv"], "--out would overwrite names.csv"),
        (["--out", "no/audit.html"], "there is no folder no"),
    ],
)
def test_wrong_options_of_audit(changed, said, audited, call):
    Path("one.csv").write_text("name,group\nMary,f\nAnna,f\n")
    option = changed[0]
    if option in audited:
        audited[audited.index(option) + 1] = changed[1]
    else:
        audited += changed
    code, out, err = call(*audited)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert not Path("audit.html").exists()
