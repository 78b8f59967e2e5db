import copy
import socket

import pytest
import torch
import transformers
from tokenizers import processors

from cameraready.obprop.errors import UnsupportedArchitectureError
from cameraready.obprop.prompts import PromptPair
from cameraready.obprop.view import TransformerView

TEXT = "So, Mary really is a great friend, isn't"


def test_a_run_keeps_what_the_model_itself_gives(view):
    acts = view.run([TEXT, TEXT.replace("Mary", "John")], attention=True)
    with torch.no_grad():
        wanted = view.model(acts.ids, output_hidden_states=True, output_attentions=True)
    for layer in range(view.L):
        torch.testing.assert_close(acts.resid_pre[layer], wanted.hidden_states[layer])
        torch.testing.assert_close(acts.attention[layer], wanted.attentions[layer])
    torch.testing.assert_close(acts.logits, wanted.logits[:, -1])
    assert not any(module._forward_pre_hooks for module in view.model.modules())


def test_only_the_chosen_layers_are_kept(gpt2):
    acts = gpt2.run(TEXT, layers=[1])
    assert set(acts.resid_pre) == set(acts.resid_mid) == set(acts.attention_output) == {1}
    assert not acts.attention


def test_padding_on_the_right_changes_nothing(gpt2):
    short, long = (gpt2.encode(text) for text in ("So, Mary", TEXT))
    ids = torch.stack([torch.nn.functional.pad(short, (0, len(long) - len(short)), value=1), long])
    acts = gpt2.run(ids, mask=(torch.arange(len(long)) < torch.tensor([[3], [len(long)]])).int())
    torch.testing.assert_close(acts.resid_pre[1][0, :3], gpt2.run("So, Mary").resid_pre[1][0])
    assert acts.logits is None


def test_a_folder_is_loaded_without_the_network(random_model, tokenizer, tmp_path, monkeypatch):
    model = random_model("llama")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    view = TransformerView.from_pretrained(tmp_path)
    assert view.model.config._attn_implementation == "eager"
    assert not view.model.training
    torch.testing.assert_close(
        view.run(TEXT).logits, TransformerView(model, tokenizer).run(TEXT).logits
    )
    assert view.fingerprint == TransformerView(model, tokenizer).fingerprint
    assert (
        TransformerView.from_pretrained(tmp_path, dtype="bfloat16").unembed.dtype == torch.bfloat16
    )


def test_the_unpacked_model_is_the_one_in_the_package(smollm2):
    assert (smollm2.L, smollm2.H, smollm2.D, len(smollm2.unembed)) == (30, 9, 576, 49152)
    assert smollm2.adapter.key_value_heads == 3
    assert smollm2.encode("So, Mary").tolist() == [2931, 28, 5099]  # and no token in front


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"none.gguf is not a file"):
        TransformerView.from_pretrained(tmp_path / "none.gguf")
    with pytest.raises(ValueError, match="is not a folder"):
        TransformerView.from_pretrained(tmp_path / "none")


@pytest.mark.parametrize(
    "config",
    [
        transformers.T5Config(d_model=8, d_ff=8, num_layers=1, num_heads=1, d_kv=8, vocab_size=9),
        transformers.BertConfig(
            hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
        ),
        transformers.MambaConfig(hidden_size=8, num_hidden_layers=1, vocab_size=9, state_size=2),
    ],
    ids=lambda config: config.model_type,
)
def test_other_architectures_are_told_with_what_works(config, tmp_path):
    model = transformers.AutoModel.from_config(config)
    with pytest.raises(UnsupportedArchitectureError, match="gpt2, gpt_neo") as caught:
        TransformerView(model, None)
    assert caught.value.model_type == config.model_type
    config.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedArchitectureError, match=config.model_type):
        TransformerView.from_pretrained(tmp_path)


def test_attention_without_weights_is_told_with_the_remedy(random_model, tokenizer):
    model = random_model("llama")
    model.set_attn_implementation("sdpa")
    view = TransformerView(model, tokenizer)
    assert view.run(TEXT).resid_pre  # where no attention weights are needed, any will do
    with pytest.raises(ValueError, match="attn_implementation='eager'"):
        PromptPair(view, "So, Mary", "So, John")
    model.set_attn_implementation("eager")
    PromptPair(view, "So, Mary", "So, John")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_told_with_layer_and_prompt(value, gpt2):
    with torch.no_grad():
        gpt2.model.transformer.h[0].mlp.c_proj.bias[3] = value
    with pytest.raises(ValueError, match=r"layer 1 has .* infinite on the prompt 'So, Mary'"):
        gpt2.run("So, Mary")


def test_prompts_must_fit(gpt2):
    with pytest.raises(ValueError, match="same number of tokens, not"):
        gpt2.run(["So, Mary", "So"])
    with pytest.raises(ValueError, match="has 65 tokens, but the model reads at most 64"):
        gpt2.run("So" + " she" * 64)


def test_weights_come_by_head_and_by_layer(gpt2):
    assert gpt2.wv(0, 0).shape == (4, 16)
    assert gpt2.wo(0, 0).shape == (16, 4)
    torch.testing.assert_close(gpt2.values(1)[2], gpt2.wv(1, 2))
    torch.testing.assert_close(gpt2.outputs(1)[2], gpt2.wo(1, 2))


def test_the_tokenizer_decides_on_a_first_token(random_model, tokenizer):
    plain = TransformerView(random_model("gpt2"), tokenizer).encode("So she")
    with_first = copy.deepcopy(tokenizer)
    with_first.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<unk> $A", special_tokens=[("<unk>", 0)]
    )
    view = TransformerView(random_model("gpt2"), with_first)
    assert view.encode("So she").tolist() == [0, *plain.tolist()]


def test_a_gguf_file_is_loaded_unpacked(monkeypatch, random_model, tokenizer, tmp_path):
    """What `transformers` makes of such files is its own affair; what it is asked for is ours."""
    file = tmp_path / "model.gguf"
    file.touch()
    asked, model = {}, random_model("llama")
    answers = {
        transformers.AutoConfig: lambda *_, **named: model.config,
        transformers.AutoTokenizer: lambda *_, **named: tokenizer,
        transformers.AutoModelForCausalLM: (
            lambda source, **named: asked.update(named, source=source) or model
        ),
    }
    for loader, answer in answers.items():
        monkeypatch.setattr(loader, "from_pretrained", answer)
    TransformerView.from_pretrained(file)
    assert (asked["source"], asked["gguf_file"]) == (str(tmp_path), "model.gguf")
    assert asked["quantization_config"].dequantize
    assert asked["attn_implementation"] == "eager"
