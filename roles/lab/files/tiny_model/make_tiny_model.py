# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a tiny chat model: a Qwen2 with random weights, a byte-level BPE tokenizer and a ChatML template.

It runs in a container of the lab's vLLM image and writes to the directory given as its argument. The same image makes
the same files. What the model says is noise; that it says it token by token, through real vLLM, is the point.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SEED = 20240607
VOCABULARY = 1024
END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

# Enough plain English to train merges that decode to visible, mostly pronounceable text.
CORPUS = """
The two servers stand side by side in the same rack and answer the same questions. When one of them is taken away for
an hour, the other goes on, and nobody who asks can tell. A gateway in front of them keeps a list of who is ready,
hands each request to the one with the least to do, and writes down how long it took. Somebody who operates such
machines wants to know four things: what should run where, whether the machines are fit for it, how to make it run the
same way each time, and whether it is really serving. Weights are read from a disk, cut into shards, and laid out over
the memory of the cards; keys and values of the words that were read so far take the rest. A long conversation needs
more of it than a short one. If the memory does not suffice for one card, the model is cut across several, and the
network between them begins to matter. Tokens come out one after the other, each of them depending on all of those
before. The first takes longest, since the whole question has to be read; the others follow at a steady pace. A stream
shows them as they come. Streams that arrive in a single piece at the end are a sign of a buffer somewhere in between,
and the person who waits will notice. Morning, evening, river, mountain, window, garden, letter, number, colour,
yellow, purple, water, winter, summer, kitchen, bread, music, silence, paper.
"""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Train the tokenizer: the 256 bytes first, so that any input has tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        CORPUS.strip().splitlines(),
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=[END_OF_TEXT, IM_START, IM_END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            min_frequency=1,
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[IM_START],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )


def is_visible(tokenizer: PreTrainedTokenizerFast, token: int) -> bool:
    """Whether a token alone decodes to text that shows: printable ASCII, not only blanks."""
    text = tokenizer.decode([token])
    return bool(text.strip()) and text.isascii() and text.isprintable()


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Draw the weights, then see to it that what it generates can be seen."""
    torch.manual_seed(SEED)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        # Wide enough that layers matter beside the embedding: what comes next depends on the whole text.
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype=torch.bfloat16,
    )
    model = Qwen2ForCausalLM(config).to(torch.bfloat16).eval()
    with torch.no_grad():
        # Qwen2's head has no bias, so one is made: dimension 0 of the residual stream is large and positive at the
        # input and left alone by all layers. After the last norm it is positive whatever was read, and its column in
        # the output matrix takes the part of a bias: the tokens that are not visible, the end of text too, get none
        # of the probability. How long an answer is, max_tokens says.
        model.model.embed_tokens.weight.normal_(0.0, 1.0)
        model.model.embed_tokens.weight[:, 0] = 4.0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[0].zero_()
            layer.mlp.down_proj.weight[0].zero_()
        visible = [token for token in range(len(tokenizer)) if is_visible(tokenizer, token)]
        head = torch.zeros(VOCABULARY, 256)
        head.normal_(0.0, 0.15)
        head[:, 0] = -20.0
        head[visible, 0] = 0.0
        model.lm_head.weight.copy_(head)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True, temperature=1.0
    )
    return model


def main(target: Path) -> None:
    """Write the model's directory."""
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(target)
    tokenizer.save_pretrained(target)
    for file in target.iterdir():
        # The weights are written readable for their owner only; an engine may run as somebody else.
        file.chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
