"""Models of models.txt in PyTorch, as its users would tune them: peers.py PEER SECONDS DEVICE [--no-compile].

PEER is perceptron, resnet or gpt:LAYERS:HEADS:WIDTH:LENGTH:BATCH:VOCABULARY[:CLIP]. Prints a line each for the model as it is and compiled by
torch.compile, as soon as it is known: kind, milliseconds a step, MiB allocated and reserved at most, parameters. What fails says so in its line.

FP32 throughout and without TF32, as Blu's; fused optimizers; scaled_dot_product_attention; images channels last and cuDNN's search for the fastest
convolutions; CUDA graphs (mode "reduce-overhead") where a step is short. Batches lie on the device, and losses are not read.
"""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"


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


class GPT(nn.Module):
    def __init__(self, layers, heads, width, length, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(heads, width) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, tokens, targets):
        x = self.blocks(self.wte(tokens) + self.wpe.weight)
        return F.cross_entropy(F.linear(self.ln_f(x), self.wte.weight).flatten(0, 1), targets.flatten())


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1), nn.BatchNorm2d(o)
        self.shortcut = nn.Identity() if i == o else nn.Conv2d(i, o, 1, stride)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(1, 32, 5, 2, 2), nn.BatchNorm2d(32)
        self.blocks = nn.Sequential(Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1))
        self.fc = nn.Linear(64, 10)

    def forward(self, images, labels):
        x = (images.float() / 255 - 0.286) / 0.353
        mirrored = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
        x = torch.where(mirrored, x.flip(-1), x).contiguous(memory_format=torch.channels_last)
        x = self.blocks(F.relu(self.bn(self.stem(x))))
        return F.cross_entropy(self.fc(x.mean((2, 3))), labels)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, images, labels):
        return F.cross_entropy(self.fc(images), labels)


def make(peer):
    """The model, its optimizer, batches, the norm that gradients are clipped to or None, and whether a step is short."""
    name, *sizes = peer.split(":")
    if name == "perceptron":
        model = Perceptron().to(DEVICE)
        batches = [(torch.randn(64, 784, device=DEVICE), torch.randint(10, (64,), device=DEVICE)) for _ in range(20)]
        return model, torch.optim.Adam(model.parameters(), lr=1e-3, fused=True), batches, None, True
    if name == "resnet":
        model = ResNet().to(DEVICE, memory_format=torch.channels_last)
        batches = [(torch.randint(256, (100, 1, 28, 28), dtype=torch.uint8, device=DEVICE), torch.randint(10, (100,), device=DEVICE)) for _ in range(20)]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True, fused=True)
        return model, optimizer, batches, None, True
    layers, heads, width, length, batch, vocabulary = (int(s) for s in sizes[:6])
    model = GPT(layers, heads, width, length, vocabulary).to(DEVICE)
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    tokens = torch.randint(vocabulary, (20, batch, length + 1), device=DEVICE)
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), fused=True)
    return model, optimizer, [(x[:, :-1], x[:, 1:]) for x in tokens], float(sizes[6]) if len(sizes) > 6 else None, width < 768


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measure(kind, loss_of, model, optimizer, batches, clip, seconds):
    def step(i):
        optimizer.zero_grad(set_to_none=True)
        loss_of(*batches[i % len(batches)]).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    for i in range(5):
        step(i)
    wait()
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for i in range(10):
            step(steps + i)
        steps += 10
        wait()
    took = time.perf_counter() - start
    memory = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()] if DEVICE == "cuda" else [0, 0]
    parameters = sum(p.numel() for p in model.parameters())
    print(kind, f"{1e3 * took / steps:.3f}", *(m >> 20 for m in memory), parameters, flush=True)


def main():
    global DEVICE
    peer, seconds, DEVICE = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    model, optimizer, batches, clip, short = make(peer)
    for kind in ["eager"] + ["compiled"] * ("--no-compile" not in sys.argv):
        try:
            loss_of = model if kind == "eager" else torch.compile(model, mode="reduce-overhead" if short and DEVICE == "cuda" else None)
            measure(kind, loss_of, model, optimizer, batches, clip, seconds)
        except Exception as e:  # a compiler that is missing, memory: the other lines still count
            print(kind, "failed:", " ".join(str(e).split())[:150] or type(e).__name__, flush=True)


main()
