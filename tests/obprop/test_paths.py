import pytest
from hypothesis import given
from hypothesis import strategies as st

from cameraready.obprop.errors import PathError
from cameraready.obprop.paths import Node, Path
from cameraready.obprop.view import TransformerView

NODES = st.builds(
    Node,
    st.integers(0, 40),
    st.none() | st.integers(0, 40),
    st.none() | st.integers(-5, 40),
)


@given(st.lists(NODES, min_size=1, max_size=5))
def test_a_path_is_read_as_it_was_written(nodes):
    path = Path(tuple(nodes))
    assert Path.parse(str(path)) == path
    backwards = " <= ".join(
        f"attn{node}" if node.kind == "attn" else str(node) for node in reversed(nodes)
    )
    if len(nodes) > 1:
        assert Path.parse(backwards) == path


def test_both_forms_name_the_same_path():
    path = Path((Node(25, 2, 2), Node(26, 2, 4), Node(27, None, 4)))
    assert Path.parse("25.2@2:26.2@4:mlp27@4") == path
    assert Path.parse("mlp27@4 <= attn26.2@4 <= attn25.2@2") == path
    assert Path.parse(path) is path
    assert Path.parse("6.1:7.3:mlp9") == Path((Node(6, 1), Node(7, 3), Node(9)))


@pytest.mark.parametrize(
    "text", ["", "6", "6.1:", "6.1;7.2", "mlp", "attn6", "6.1@", "x6.1", "-1.2"]
)
def test_what_is_no_path_is_told(text):
    with pytest.raises(PathError, match=r"is no node; write layer\.head or mlpLAYER"):
        Path.parse(text)


def test_a_path_has_nodes():
    with pytest.raises(PathError, match="no nodes"):
        Path(())


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("2.0", "node 2.0 is beyond the model's 2 layers"),
        ("mlp5", "node mlp5 is beyond the model's 2 layers"),
        ("0.4", "node 0.4 is beyond the 4 heads"),
        ("1.0:0.1", "node 0.1 cannot read what 1.0 writes"),
        ("0.0:0.1", "node 0.1 cannot read what 0.0 writes"),
        ("mlp0:0.1", "node 0.1 cannot read what mlp0 writes"),
        ("mlp0:mlp0", "node mlp0 cannot read what mlp0 writes"),
        ("0.0@6", "node 0.0@6 is beyond the 6 tokens"),
        ("0.0@-7", "node 0.0@-7 is beyond the 6 tokens"),
        ("0.0@4:1.0@3", "node 0.0@4 reads token 4, so that .* reach token 3, where 1.0@3 reads"),
        ("mlp0@2:1.0@3", "node mlp0@2 reads token 2, .*: an MLP does not move between tokens"),
        ("mlp1@2", "reach token 5, where the logits reads"),
    ],
)
def test_what_does_not_fit_is_told_with_its_node(path, message, gpt2):
    with pytest.raises(PathError, match=message):
        Path.parse(path).resolve(gpt2, 6, 2)


def test_in_parallel_blocks_an_mlp_does_not_read_its_own_layer_s_heads(random_model, tokenizer):
    view = TransformerView(random_model("phi"), tokenizer)
    with pytest.raises(PathError, match="parallel in this model"):
        Path.parse("0.0:mlp0").check(view)
    Path.parse("0.0:mlp1").check(view)


def test_open_tokens_are_filled_in(gpt2):
    assert str(Path.parse("0.1:mlp0:1.2:mlp1").resolve(gpt2, 6, 2)) == "0.1@2:mlp0@2:1.2@2:mlp1@5"
    assert str(Path.parse("mlp0:1.2@-2").resolve(gpt2, 6, 2)) == "mlp0@4:1.2@4"
    assert Path.parse("0.1").site(gpt2) == "resid_pre"
    assert Path.parse("mlp0").site(gpt2) == "resid_mid"
