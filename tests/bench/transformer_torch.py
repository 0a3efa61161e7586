"""The transformer of transformer.blu in PyTorch. Prints tokens per second and the peak of its resident memory in MiB.

usage: transformer_torch.py LAYERS HEADS WIDTH LENGTH BATCH THREADS SECONDS [VOCABULARY [compile]]
"""
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.ln_1(x)).split(c, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(y)
        return x + self.back(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, vocabulary, layers, heads, width, length):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(heads, width) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight)


def main():
    layers, heads, width, length, batch, threads = (int(a) for a in sys.argv[1:7])
    seconds = float(sys.argv[7])
    vocabulary = int(sys.argv[8]) if len(sys.argv) > 8 else 256
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Model(vocabulary, layers, heads, width, length)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, 0, 0.02)
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(vocabulary, (20, batch, length + 1))
    forward = torch.compile(model) if sys.argv[9:] == ["compile"] else model

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        x = tokens[i % 20]
        F.cross_entropy(forward(x[:, :-1]).view(-1, vocabulary), x[:, 1:].reshape(-1)).backward()
        optimizer.step()

    for i in range(3):
        step(i)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or not steps:
        step(steps)
        steps += 1
    rate, kilobytes = batch * length * steps / (time.perf_counter() - start), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{rate:.1f} {kilobytes / 1024:.0f}")


main()
