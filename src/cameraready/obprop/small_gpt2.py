"""A small GPT-2, trained here on Python's own library: the claims on a model with LayerNorm."""

import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cameraready.common.seeding import named_generator
from cameraready.obprop.coupling import cosine
from cameraready.obprop.evaluation import observable_values
from cameraready.obprop.experiments import Size, equally_long
from cameraready.obprop.feature import feature_vector
from cameraready.obprop.observable import Observable
from cameraready.obprop.patching import head_norms, patch_scores, search_paths
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.view import TransformerView

__all__ = ["LOOP_PAIRS", "gpt2_job"]

LOOP_PAIRS = (
    ("    for name", "    if name"),
    ("        for key", "        if key"),
    ("    for value", "    if value"),
)


def gpt2_job(size: Size, steps: int) -> dict[str, Any]:
    """Train the GPT-2, and look at ` in` against ` is` after "for x" and "if x"."""
    view, loss, text = train_gpt2(size, steps)
    observable = Observable.parse("+ in,- is", view.tokenizer)
    pairs = [PromptPair(view, *texts) for texts in LOOP_PAIRS if equally_long(view, *texts)]
    values = observable_values(view, observable, [t for pair in LOOP_PAIRS for t in pair])[:, 0]
    table = search_paths(view, observable, pairs[0], max_length=2, kinds=("attn",))
    cosines = {}
    for path in table["path"][:5]:
        free, exact = (
            feature_vector(view, observable, path, pairs[0], norm=norm)
            for norm in ("weights", "jacobian")
        )
        cosines[path] = cosine(free, exact)
    return {
        "parameters": sum(weight.numel() for weight in view.model.parameters()),
        "text": text,
        "loss": loss,
        "right": int((values[::2] > 0).sum() + (values[1::2] < 0).sum()),
        "norms": head_norms(view, observable).tolist(),
        "contributions": patch_scores(view, observable, pairs).tolist(),
        "cosines": cosines,
    }


def train_gpt2(size: Size, steps: int) -> tuple[TransformerView, float, str]:
    """A GPT-2 of width 128 and 4 layers, its last loss, and what it was trained on."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    named_generator(size.seed, "files").shuffle(files)
    files = files[:20] if size.tiny else files
    texts = [file.read_text(encoding="utf-8", errors="ignore") for file in files]
    trainer = ByteLevelBPETokenizer()
    trainer.train_from_iterator(texts, vocab_size=4096, show_progress=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trainer._tokenizer)
    ids = torch.tensor([i for text in texts for i in tokenizer(text, verbose=False)["input_ids"]])
    torch.manual_seed(size.seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=128,
        n_embd=128,
        n_layer=4,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = GPT2LMHeadModel(config).to(size.device)
    model.set_attn_implementation("eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(ids) - 128, (16,))
        batch = torch.stack([ids[start : start + 128] for start in starts]).to(size.device)
        logits = model(batch).logits[:, :-1].flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    text = f"{len(ids):,} tokens of Python's standard library"
    return TransformerView(model, tokenizer), float(np.mean(losses[-50:])), text
