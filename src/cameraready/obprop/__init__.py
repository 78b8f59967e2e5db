"""Feature vectors of language models from observables, after Dunefsky and Cohan, ICML 2024."""
