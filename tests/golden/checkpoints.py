#!/usr/bin/env python3
"""Writes checkpoints/, small checkpoints as other programs save them, and checkpoints.safetensors, what these models compute.

    python3 -m venv venv && venv/bin/pip install torch numpy transformers peft
    venv/bin/python tests/golden/checkpoints.py                  makes them
    venv/bin/python tests/golden/checkpoints.py check FOLDER     holds what checkpoints.sh left in FOLDER to them, by transformers

Nothing here runs in the tests. Models are random and small, made from their configurations: nothing is fetched.

    gpt2/        GPT2LMHeadModel as it is saved: names with `transformer.`, no lm_head
    published/   the same model in bf16 as the published files are: no prefix, attention masks, an lm_head equal to wte
    llama/       LlamaForCausalLM in three files with an index
    llama_tied/  the same class whose head is the embedding: no lm_head
    peft_gpt2/, peft_llama/   adapters of gpt2/ and llama_tied/ as PEFT saves them
    llmc_f32.bin, llmc_bf16.bin   the GPT-2 as llm.c's train_gpt2.py writes it, versions 3 and 5
"""
import os
import shutil
import struct
import sys
import warnings

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from make import save

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "checkpoints")
V, S, L, H, G, D, HIDDEN = 96, 16, 2, 2, 1, 16, 24
TOKENS = torch.tensor([[(7 * i * i + 3 * i + 1) % V for i in range(S)]])
GPT2 = GPT2Config(vocab_size=V, n_positions=S, n_embd=D, n_layer=L, n_head=H, bos_token_id=0, eos_token_id=0)
LLAMA = LlamaConfig(vocab_size=V, max_position_embeddings=S, hidden_size=D, intermediate_size=HIDDEN, num_hidden_layers=L,
                    num_attention_heads=H, num_key_value_heads=G, rms_norm_eps=1e-6, tie_word_embeddings=False)
LLAMA_TIED = LlamaConfig(**LLAMA.to_dict() | dict(tie_word_embeddings=True))
# Of every layer that Blu's example adapts, [in, out] in GPT-2; of some layers, with a scale that no f32 holds.
ADAPTERS = {"peft_gpt2": LoraConfig(r=4, lora_alpha=10, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True),
            "peft_llama": LoraConfig(r=3, lora_alpha=12, target_modules=["q_proj", "v_proj"], use_rslora=True)}


def random_model(kind, config, seed):  # norms and biases too: ones and zeros would hide what is exchanged
    torch.manual_seed(seed)
    model = kind(config).float().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape) * 0.2 + (1.0 if p.ndim == 1 and name.endswith("weight") else 0.0))
    return model


def adapt(name, model, seed):
    """Random adapters, B too; the model itself is changed, as PEFT does it."""
    torch.manual_seed(seed)
    adapted = get_peft_model(model, ADAPTERS[name]).eval()
    with torch.no_grad():
        for key, p in adapted.named_parameters():
            if "lora_" in key:
                p.copy_(torch.randn(p.shape) * 0.3)
    place = os.path.join(FOLDER, name)
    adapted.save_pretrained(place)
    if os.path.exists(os.path.join(place, "README.md")):
        os.remove(os.path.join(place, "README.md"))
    return adapted


def logits(model):
    with torch.no_grad():
        return model.double()(TOKENS).logits


def llmc(path, parameters, half):
    """The format of llm.c: its own model has Linear layers, [out, in], where Hugging Face's has Conv1D, [in, out]."""
    padded = -(-V // 128) * 128
    with open(path, "wb") as f:
        header = np.zeros(256, dtype=np.int32)
        header[:8] = 20240326, 5 if half else 3, S, V, L, H, D, padded
        f.write(header.tobytes())

        def put(x):
            f.write(x.to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes() if half else x.float().contiguous().numpy().tobytes())

        p = {k.removeprefix("transformer."): v for k, v in parameters.items()}
        put(torch.cat([p["wte.weight"], torch.zeros(padded - V, D)]))
        put(p["wpe.weight"])
        for kind in "ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj":
            for part in "weight", "bias":
                for i in range(L):
                    x = p[f"h.{i}.{kind}.{part}"]
                    put(x.t() if x.ndim == 2 else x)
        put(p["ln_f.weight"])
        put(p["ln_f.bias"])


def make():
    shutil.rmtree(FOLDER, ignore_errors=True)
    gpt2, llama = random_model(GPT2LMHeadModel, GPT2, 1), random_model(LlamaForCausalLM, LLAMA, 2)
    tied = random_model(LlamaForCausalLM, LLAMA_TIED, 3)
    tied.save_pretrained(os.path.join(FOLDER, "llama_tied"))
    gpt2.save_pretrained(os.path.join(FOLDER, "gpt2"))
    llama.save_pretrained(os.path.join(FOLDER, "llama"), max_shard_size="10KB")
    parameters = load_file(os.path.join(FOLDER, "gpt2", "model.safetensors"))
    llmc(os.path.join(FOLDER, "llmc_f32.bin"), parameters, False)
    llmc(os.path.join(FOLDER, "llmc_bf16.bin"), parameters, True)
    half = {k.removeprefix("transformer."): v.to(torch.bfloat16) for k, v in parameters.items()}
    for i in range(L):
        half[f"h.{i}.attn.bias"] = torch.tril(torch.ones(1, 1, S, S, dtype=torch.uint8))
        half[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    half["lm_head.weight"] = half["wte.weight"].clone()
    os.mkdir(os.path.join(FOLDER, "published"))
    save_file(half, os.path.join(FOLDER, "published", "model.safetensors"), metadata={"format": "pt"})
    rounded = GPT2LMHeadModel(GPT2)
    rounded.load_state_dict({k: v.to(torch.bfloat16).float() for k, v in gpt2.state_dict().items()})
    for name in "gpt2", "llama", "llama_tied":
        for extra in "config.json", "generation_config.json":
            if os.path.exists(os.path.join(FOLDER, name, extra)):
                os.remove(os.path.join(FOLDER, name, extra))
    outputs = {"data tokens": TOKENS.numpy().astype(np.int32), "output gpt2": logits(gpt2).numpy(), "output llama": logits(llama).numpy(),
               "output llama_tied": logits(tied).numpy(), "output published": logits(rounded.eval()).numpy()}
    outputs |= {f"output {name}": logits(adapt(name, model.float(), 4)).numpy() for name, model in (("peft_gpt2", gpt2), ("peft_llama", tied))}
    for where, _, files in os.walk(FOLDER):
        for name in files:
            os.chmod(os.path.join(where, name), 0o644)
    save("checkpoints", outputs)


def check(folder):
    """folder/NAME.safetensors, each exported by a trainer that had imported the checkpoint NAME."""
    bad = 0
    want = load_file(os.path.join(HERE, "checkpoints.safetensors"))
    for name, kind, config in ("gpt2", GPT2LMHeadModel, GPT2), ("llama", LlamaForCausalLM, LLAMA), ("llama_tied", LlamaForCausalLM, LLAMA_TIED), \
            ("published", GPT2LMHeadModel, GPT2), ("llmc_f32", GPT2LMHeadModel, GPT2):
        place = os.path.join(folder, "hf", name)
        os.makedirs(place, exist_ok=True)
        shutil.copy(os.path.join(folder, name + ".safetensors"), os.path.join(place, "model.safetensors"))
        config.save_pretrained(place)
        model, report = kind.from_pretrained(place, output_loading_info=True, dtype=torch.float32)
        error = (logits(model.eval()) - want["output " + ("gpt2" if name == "llmc_f32" else name)]).abs().max().item()
        loose = {k: sorted(v) for k, v in report.items() if v}
        bad += not error <= 1e-4 or bool(loose)
        print(f"{name}: logits differ by {error:.2e}; {loose or 'every tensor taken'}")
    for name, kind, base in ("peft_gpt2", GPT2LMHeadModel, "gpt2"), ("peft_llama", LlamaForCausalLM, "llama_tied"):
        with warnings.catch_warnings(record=True) as said:  # of keys that are missing
            warnings.simplefilter("always")
            model = PeftModel.from_pretrained(kind.from_pretrained(os.path.join(folder, "hf", base), dtype=torch.float32), os.path.join(folder, name))
        error = (logits(model.eval()) - want["output " + name]).abs().max().item()
        missing = [str(w.message) for w in said if "issing" in str(w.message)]
        bad += not error <= 1e-4 or bool(missing)
        print(f"{name}: logits differ by {error:.2e}; {missing or 'every tensor taken'}")
    return bad


if __name__ == "__main__":
    sys.exit(check(sys.argv[2]) if sys.argv[1:2] == ["check"] else make())
