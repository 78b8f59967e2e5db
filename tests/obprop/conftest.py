"""Tiny models of every architecture, and the pretrained one, for all tests of obprop."""

import math

import pytest
import torch
import transformers
from filelock import FileLock
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from cameraready.common import smollm2_folder
from cameraready.obprop.observable import Observable
from cameraready.obprop.view import TransformerView

# Enough of a vocabulary for the sentences in the tests; a word holds the space in front of it.
WORDS = (
    "So Mary John Anna Peter really is a great friend isn't she he her him the nurse doctor was "
    "here today , . The politician"
)
TOKENS = ["<unk>", "<pad>", *WORDS.split(), *(f" {word}" for word in WORDS.split())]

SMALL = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 1,
}
GROUPED = {"intermediate_size": 24, "num_key_value_heads": 2}
# By name, the configuration and what makes the test of it harder: biases, grouped heads, heads
# that are not width / heads wide, blocks in parallel, caps.
CONFIGS = {
    "gpt2": ("GPT2Config", {}),
    "gpt_neo": (
        "GPTNeoConfig",
        {"attention_types": [[["global", "local"], 1]], "window_size": 2, "intermediate_size": 24},
    ),
    "gpt_neox": ("GPTNeoXConfig", {"intermediate_size": 24, "rotary_pct": 0.5}),
    "gpt_neox sequential": (
        "GPTNeoXConfig",
        {"intermediate_size": 24, "use_parallel_residual": False, "attention_bias": False},
    ),
    "gptj": ("GPTJConfig", {"rotary_dim": 2}),
    "opt": ("OPTConfig", {"ffn_dim": 24, "word_embed_proj_dim": 12}),
    "llama": ("LlamaConfig", {**GROUPED, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("MistralConfig", {**GROUPED, "head_dim": 6, "sliding_window": 3}),
    "qwen2": ("Qwen2Config", GROUPED),
    "qwen3": ("Qwen3Config", {**GROUPED, "head_dim": 8}),
    "gemma": ("GemmaConfig", {**GROUPED, "head_dim": 6}),
    "gemma2": (
        "Gemma2Config",
        {**GROUPED, "head_dim": 6, "final_logit_softcapping": None, "sliding_window": 3},
    ),
    "gemma3_text": ("Gemma3TextConfig", {**GROUPED, "head_dim": 6, "sliding_window": 3}),
    "phi": ("PhiConfig", {**GROUPED}),
    "phi3": ("Phi3Config", GROUPED),
}
ARCHITECTURES = sorted(CONFIGS)


def make_tokenizer():
    """Words with the space in front of them, told apart by a vocabulary; no special tokens."""
    backend = Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(TOKENS)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(" ?[^ ,.]+|[,.]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>")


def make_model(name, seed=0, **changes):
    """A random model with a name of `CONFIGS`; every weight is random, of norms and biases too."""
    kind, extra = CONFIGS[name]
    config = getattr(transformers, kind)(**{**SMALL, **extra, **changes})
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for label, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim == 1:
                centre = float("norm" in label or ".ln_" in label) if "bias" not in label else 0
                weight.copy_(centre + 0.3 * noise)
            elif "embed" in label or "wte" in label or "wpe" in label or "lm_head" in label:
                weight.copy_(noise)
            else:
                weight.copy_(1.5 * noise / math.sqrt(weight.shape[-1]))
    return model.eval()


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Tiny products are slower in several threads, and much slower beside other tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def smollm2_path(pytestconfig):
    """The folder of SmolLM2, kept in pytest's cache: unpacking it takes half a minute."""
    kept = pytestconfig.cache.mkdir("models")
    with pytest.MonkeyPatch.context() as patch, FileLock(kept / "lock"):
        patch.setenv("CAMERAREADY_CACHE", str(kept))
        return smollm2_folder()


@pytest.fixture(scope="session")
def smollm2(smollm2_path):
    """A view of SmolLM2."""
    return TransformerView.from_pretrained(smollm2_path)


@pytest.fixture
def random_model():
    """The function that makes a tiny random model, by a name of `CONFIGS`."""
    return make_model


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def observable(tokenizer):
    return Observable.from_tokens(tokenizer, [" she", " her"], [" he", " him"])


@pytest.fixture(params=ARCHITECTURES)
def view(request, tokenizer):
    """A view of a tiny random model, of each architecture in turn."""
    return TransformerView(make_model(request.param), tokenizer)


@pytest.fixture
def gpt2(tokenizer):
    return TransformerView(make_model("gpt2"), tokenizer)


@pytest.fixture
def llama(tokenizer):
    return TransformerView(make_model("llama"), tokenizer)
