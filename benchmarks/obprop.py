"""obprop beside a hook for every head, a plain forward pass, and DAS.

Prints Markdown tables. Costs are process CPU time on one thread; ours and the peer's take turns on
the same data, and the ratio is the median of the paired ratios.
"""

import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from cameraready.common import smollm2_folder
from cameraready.obprop import Observable, TransformerView, feature_vector, head_norms
from cameraready.obprop.baselines import DAS1d
from cameraready.obprop.evaluation import observable_values
from cameraready.obprop.patching import patch_scores, search_paths
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.scoring import score_texts
from cameraready.obprop.vocabulary import (
    FEMALE_NAMES,
    MALE_NAMES,
    PRONOUN_TEMPLATES,
    fill,
    reference_sentences,
    single_tokens,
)

Job = Callable[[], object]


def cpu(job: Job) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def in_turn(ours: Job, peer: Job, rounds: int) -> tuple[float, float, float]:
    """Median times, and the median of the paired ratios peer / ours."""
    times = [(cpu(ours), cpu(peer)) for _ in range(rounds)]
    a, b = (statistics.median(column) for column in zip(*times, strict=True))
    return a, b, statistics.median(peer / ours for ours, peer in times)


def table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n")
    for row in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(row) + " |", flush=True)


def mary_john(view: TransformerView) -> PromptPair:
    first, second = fill(PRONOUN_TEMPLATES[:1], ["Mary", "John"])
    return PromptPair(view, first, second)


class Hooked:
    """Every head's direct contribution, one patched forward pass a head.

    The pass has the attention weights of the positive prompt, and of all layers behind the patched
    one nothing but the residual stream: the difference goes to the logits directly.
    """

    def __init__(self, view: TransformerView, observable: Observable, pair: PromptPair) -> None:
        self.view, self.observable, self.pair = view, observable, pair

    def __call__(self) -> torch.Tensor:
        view, pair = self.view, self.pair
        ids = pair.acts.ids[:1]
        with torch.no_grad():
            clean = float(self.observable.of_logits(view.model(ids).logits[0, -1]))
        scores = torch.zeros(view.L, view.H)
        for layer in range(view.L):
            for head in range(view.H):
                scores[layer, head] = clean - self.patched(ids, layer, head)
        return scores

    def patched(self, ids: torch.Tensor, layer: int, head: int) -> float:
        view, acts = self.view, self.pair.acts
        # What the head gives with the values of the negative prompt, less what it gives now.
        norm = view.adapter.attention_norm(layer)
        values = norm(acts.resid_pre[layer]) @ view.wv(layer, head).T @ view.wo(layer, head).T
        change = acts.attention[layer][0, head, -1] @ (values[1] - values[0])

        def hook(module: Any, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            stream = args[0].clone()
            stream[0, -1] += change
            return (stream,)

        handle = view.adapter.final_norm_module().register_forward_pre_hook(hook)
        try:
            with torch.no_grad():
                return float(self.observable.of_logits(view.model(ids).logits[0, -1]))
        finally:
            handle.remove()


class TransformerLensPatching(Hooked):
    """The same with TransformerLens's caches and hooks (4.0 or later)."""

    def __init__(self, view: TransformerView, observable: Observable, pair: PromptPair) -> None:
        from transformer_lens.model_bridge import TransformerBridge

        super().__init__(view, observable, pair)
        # Its own copy of the model: it puts its modules into the one that it is given.
        model, folder = load().model, str(smollm2_folder())
        self.model = TransformerBridge.boot_transformers(
            folder, hf_model=model, tokenizer=view.tokenizer, device="cpu"
        )

    def __call__(self) -> torch.Tensor:
        ids, view = self.pair.acts.ids, self.view
        with torch.no_grad():
            logits, clean = self.model.run_with_cache(ids[:1])
            _, other = self.model.run_with_cache(ids[1:])
            value = float(self.observable.of_logits(logits[0, -1]))
            scores = torch.zeros(view.L, view.H)
            for layer in range(view.L):
                key = f"blocks.{layer}.attn."
                change = other[key + "v.hook_out"] - clean[key + "v.hook_out"]
                values = change.view(ids.shape[1], view.adapter.key_value_heads, -1)
                values = values.repeat_interleave(view.H // values.shape[1], 1)
                for head in range(view.H):
                    weights = clean[key + "hook_pattern"][0, head, -1]
                    added = view.wo(layer, head) @ (weights @ values[:, head])

                    def add(stream: Any, hook: Any, added: torch.Tensor = added) -> Any:
                        stream = stream.clone()
                        stream[0, -1] += added
                        return stream

                    hooked = self.model.run_with_hooks(
                        ids[:1], fwd_hooks=[("ln_final.hook_in", add)]
                    )
                    scores[layer, head] = value - float(self.observable.of_logits(hooked[0, -1]))
        return scores


def patching(view: TransformerView, observable: Observable) -> None:
    pair = mary_john(view)
    peers: list[tuple[str, Any]] = [("a hook for every head", Hooked)]
    if find_spec("transformer_lens"):
        peers.append(("TransformerLens", TransformerLensPatching))

    def ours() -> torch.Tensor:
        return patch_scores(view, observable, mary_john(view))

    rows = []
    for name, made in peers:
        peer = made(view, observable, pair)
        found: dict[str, torch.Tensor] = {}
        # One round: the peer takes long, and the ratio is far from what is wanted.
        a, b, ratio = in_turn(
            lambda found=found: found.update(ours=ours()),
            lambda found=found, peer=peer: found.update(peer=peer()),
            1,
        )
        difference = float((found["ours"] - found["peer"]).abs().max())
        rows.append([name, f"{a:.2f} s", f"{b:.1f} s", f"{ratio:.0f}", f"{difference:.1e}"])
    if len(peers) == 1:
        rows.append(["TransformerLens", "", "not installed", "", ""])
    table(
        f"Contributions of all {view.L * view.H} heads in one prompt pair, its two runs included "
        "(wanted: at least 20 times faster, equal to 1e-4)",
        ["peer", "ours", "peer's", "peer / ours", "largest difference"],
        rows,
    )


def searching(view: TransformerView, observable: Observable) -> None:
    pair = mary_john(view)
    jobs: list[tuple[str, Job, str]] = [
        ("head_norms", lambda: head_norms(view, observable), ""),
        (
            "search_paths(max_length=3, width=5)",
            lambda: search_paths(view, observable, pair, max_length=3, width=5),
            "3 s",
        ),
        (
            "search_paths(max_length=5, width=10)",
            lambda: search_paths(view, observable, pair, max_length=5, width=10),
            "",
        ),
        ("load the model from its folder", load, "2 s"),
    ]
    rows = [
        [name, f"{statistics.median(cpu(job) for _ in range(3)):.2f} s", wanted]
        for name, job, wanted in jobs
    ]
    table(
        f"Without and with a prompt pair of {pair.length} tokens",
        ["what", "CPU time", "at most"],
        rows,
    )


def scoring(view: TransformerView, observable: Observable) -> None:
    texts = reference_sentences(48)
    last = feature_vector(view, observable, f"{view.L - 1}.0")
    rows = []

    def forward() -> None:
        # The same batches, by length, through the whole model.
        ids = sorted((view.encode(text) for text in texts), key=len)
        for start in range(0, len(ids), 16):
            batch = torch.nn.utils.rnn.pad_sequence(ids[start : start + 16], batch_first=True)
            with torch.no_grad():
                view.adapter.run(batch, None, 1)

    for name, feature in (
        (f"layer {view.L - 1}, the last", last),
        ("layer 15", feature_vector(view, observable, "15.0")),
    ):
        a, b, ratio = in_turn(lambda feature=feature: score_texts(view, feature, texts), forward, 3)
        rows.append([name, f"{a:.2f} s", f"{b:.2f} s", f"{1 / ratio:.2f}"])
    table(
        f"Scores of {len(texts)} sentences beside a plain forward pass (wanted: at most 1.15)",
        ["feature at", "scores", "forward", "scores / forward"],
        rows,
    )


def directions(view: TransformerView, observable: Observable) -> None:
    female = single_tokens(view.tokenizer, FEMALE_NAMES)[:16]
    male = single_tokens(view.tokenizer, MALE_NAMES)[:16]
    texts = fill(PRONOUN_TEMPLATES[:1], female[8:] + male[8:])
    values = observable_values(view, observable, texts)[:, 0]
    pairs = [fill(PRONOUN_TEMPLATES[:1], both) for both in zip(female, male, strict=True)]

    def quality(direction: Any) -> float:
        scores = score_texts(view, direction, texts, token=2)["score"].to_numpy()
        return float(np.corrcoef(scores, values)[0, 1] ** 2)

    def ours() -> Any:
        pair = mary_john(view)
        found = search_paths(view, observable, pair, max_length=2, kinds=("attn",))["path"]
        path = next(text for text in found if "@2" in text.split(":")[0])
        return feature_vector(view, observable, path, pair, norm="scale")

    def das(count: int, steps: int) -> Any:
        fitted = DAS1d(view, observable, 25, token=2, steps=steps, learning_rate=0.1)
        return fitted.fit([text for pair in pairs[: count // 2] for text in pair])

    rows = []
    for name, job in (
        ("feature vector, path searched", ours),
        ("DAS-1d, 2 prompts, 10 steps", lambda: das(2, 10)),
        ("DAS-1d, 2 prompts, 40 steps", lambda: das(2, 40)),
        ("DAS-1d, 8 prompts, 40 steps", lambda: das(8, 40)),
        ("DAS-1d, 16 prompts, 40 steps", lambda: das(16, 40)),
    ):
        start = time.process_time()
        direction = job()
        taken = time.process_time() - start
        rows.append([name, f"{taken:.2f} s", f"{quality(direction):.3f}"])
    table(
        f"A direction for she-he, and its r² on {len(texts)} other prompts",
        ["direction", "CPU time", "r²"],
        rows,
    )


def load() -> TransformerView:
    return TransformerView.from_pretrained(smollm2_folder())


def main() -> None:
    torch.set_num_threads(1)
    names = ("torch", "transformers", "scikit-learn")
    listed = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"{platform.machine()}, Python {platform.python_version()}, {listed}; SmolLM2-135M")
    view = load()
    observable = Observable.from_tokens(view.tokenizer, [" she"], [" he"])
    for part in (searching, scoring, directions, patching):
        part(view, observable)


if __name__ == "__main__":
    main()
