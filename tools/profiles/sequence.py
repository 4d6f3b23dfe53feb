"""Models of text: an LSTM, GPT-2 small and LLaMA-7B. A sample is one sequence of tokens.

Attention is counted in full, as FlopCounterMode does, though half of a causal one could be skipped; its
scores are not kept (fused attention, Dao et al. 2022), its inputs, its output and one sum a row are.
"""

from tools.profiles.tape import Tape

from muster.model.profile import LayerType


def lstm(layers: int, vocabulary: int, hidden: int, sequence: int) -> Tape:
    """A word language model: embedding, layers of LSTM that run one after the other, dense decoder.

    Each layer is a module of its own, as with dropout between them: were it one cuDNN call for all
    layers, all its gradients would be ready at once, at its end.
    """
    tape = Tape()
    tape.add(LayerType.EMBEDDING, (("encoder.weight", vocabulary * hidden),), kept=sequence * hidden)
    square = hidden * hidden
    for layer in range(layers):
        weights = (
            (f"rnns.{layer}.weight_ih_l0", 4 * square),
            (f"rnns.{layer}.weight_hh_l0", 4 * square),
            (f"rnns.{layer}.bias_ih_l0", 4 * hidden),
            (f"rnns.{layer}.bias_hh_l0", 4 * hidden),
        )
        # Kept at each position: four gates, the cell and the output.
        tape.add(LayerType.RECURRENT, weights, 2 * sequence * 8 * square, 6 * sequence * hidden)
    # The logarithms of the probabilities are kept by the loss.
    tape.dense("decoder", hidden, vocabulary, rows=sequence, kept=sequence * vocabulary)
    return tape


def gpt2(layers: int, width: int, vocabulary: int, sequence: int, heads: int) -> Tape:
    """GPT-2 (Radford et al. 2019) with the names of its public weights.

    The decoder shares the weights of the embedding, whose gradient is hence ready at the very end.
    """
    tape = Tape()
    flow = sequence * width
    tape.add(
        LayerType.EMBEDDING, (("wpe.weight", sequence * width), ("wte.weight", vocabulary * width))
    )
    tape.keep(flow)
    for layer in range(layers):
        _gpt2_block(tape, f"h.{layer}", width, sequence, heads)
    tape.norm("ln_f", width, kept=flow)
    tape.add(LayerType.DENSE, (), 2 * flow * vocabulary, sequence * vocabulary)
    return tape


def _gpt2_block(tape: Tape, name: str, width: int, sequence: int, heads: int) -> None:
    flow = sequence * width
    tape.norm(f"{name}.ln_1", width, kept=flow)
    tape.dense(f"{name}.attn.c_attn", width, 3 * width, rows=sequence, kept=3 * flow)
    _attention(tape, width, sequence, heads)
    tape.dense(f"{name}.attn.c_proj", width, width, rows=sequence)
    tape.keep(flow)  # the sum, kept by the norm
    tape.norm(f"{name}.ln_2", width, kept=flow)
    tape.dense(f"{name}.mlp.c_fc", width, 4 * width, rows=sequence, kept=4 * flow)
    tape.keep(4 * flow)  # GELU keeps its input, the next product its output
    tape.dense(f"{name}.mlp.c_proj", 4 * width, width, rows=sequence)
    tape.keep(flow)


def llama(layers: int, width: int, inner: int, vocabulary: int, sequence: int, heads: int) -> Tape:
    """LLaMA (Touvron et al. 2023) with the names of its public weights, in bf16."""
    tape = Tape(width=2)
    flow = sequence * width
    tape.add(LayerType.EMBEDDING, (("tok_embeddings.weight", vocabulary * width),), kept=flow)
    for layer in range(layers):
        _llama_block(tape, f"layers.{layer}", width, inner, sequence, heads)
    tape.norm("norm", width, bias=False, kept=flow)
    tape.dense("output", width, vocabulary, rows=sequence, bias=False, kept=sequence * vocabulary)
    return tape


def _llama_block(tape: Tape, name: str, width: int, inner: int, sequence: int, heads: int) -> None:
    flow = sequence * width
    tape.norm(f"{name}.attention_norm", width, bias=False, kept=flow)
    for part in ("wq", "wk", "wv"):
        tape.dense(f"{name}.attention.{part}", width, width, rows=sequence, bias=False, kept=flow)
    _attention(tape, width, sequence, heads)
    tape.dense(f"{name}.attention.wo", width, width, rows=sequence, bias=False)
    tape.keep(flow)
    tape.norm(f"{name}.ffn_norm", width, bias=False, kept=flow)
    wide = sequence * inner
    tape.dense(f"{name}.feed_forward.w1", width, inner, rows=sequence, bias=False, kept=wide)
    tape.keep(wide)  # SiLU keeps its input, the product its output
    tape.dense(f"{name}.feed_forward.w3", width, inner, rows=sequence, bias=False, kept=wide)
    tape.keep(wide)  # the gated product
    tape.dense(f"{name}.feed_forward.w2", inner, width, rows=sequence, bias=False)
    tape.keep(flow)


def _attention(tape: Tape, width: int, sequence: int, heads: int) -> None:
    """Scores and their product with the values; the output is kept, and one fp32 sum of each row."""
    rows = heads * sequence * 4 // tape.width
    tape.add(LayerType.ATTENTION, (), 4 * sequence * sequence * width, sequence * width + rows)
