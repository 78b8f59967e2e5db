import pytest
import torch

from cameraready.obprop.prompts import PromptPair


def test_a_pair_keeps_both_runs(gpt2):
    pair = PromptPair(gpt2, "So, Mary is here", "So, John is here")
    assert (pair.length, pair.first_difference, pair.token) == (5, 2, 2)
    for row, text in enumerate((pair.positive, pair.negative)):
        alone = gpt2.run(text, attention=True)
        for layer in range(gpt2.L):
            for kept in ("resid_pre", "resid_mid", "attention_output", "attention"):
                ours, theirs = getattr(pair.acts, kept)[layer][row], getattr(alone, kept)[layer][0]
                torch.testing.assert_close(ours, theirs)
    assert torch.equal(pair.final(), pair.acts.resid_pre[gpt2.L][:, -1])
    assert PromptPair(gpt2, "So, Mary is here", "So, John is here", token=-1).token == 4


def test_prompts_of_unequal_length_are_told_with_their_tokens(gpt2):
    with pytest.raises(ValueError, match="same number of tokens, not 5 and 4") as caught:
        PromptPair(gpt2, "So, Mary is here", "So, John here")
    assert "' Mary'" in str(caught.value)
    assert "first differ at token 2" in str(caught.value)
    with pytest.raises(ValueError, match="first differ at token 3"):
        PromptPair(gpt2, "So, Mary is", "So, Mary")


def test_the_same_prompt_twice_is_told(gpt2):
    with pytest.raises(ValueError, match="the prompts of the pair are identical"):
        PromptPair(gpt2, "So, Mary", "So, Mary")
    with pytest.raises(ValueError, match="identical"):  # two words that the tokenizer knows not
        PromptPair(gpt2, "So, Mary xyz", "So, Mary zyx")


def test_a_token_that_is_not_there_is_told(gpt2):
    with pytest.raises(ValueError, match="token must be one of the 3 tokens, not 3"):
        PromptPair(gpt2, "So, Mary", "So, John", token=3)
    with pytest.raises(ValueError, match="has no tokens"):
        PromptPair(gpt2, "", "So")
