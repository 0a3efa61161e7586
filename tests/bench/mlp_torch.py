"""The perceptron of mlp.blu in PyTorch: mlp_torch.py sgd|adam THREADS SECONDS. Prints samples per second."""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 64


def main():
    kind, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True) if kind == "sgd" else torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    images, labels = torch.randn(100, BATCH, 784), torch.randint(0, 10, (100, BATCH))

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images[i % 100]), labels[i % 100]).backward()
        optimizer.step()

    for i in range(30):
        step(i)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for i in range(10):
            step(steps + i)
        steps += 10
    print(f"{BATCH * steps / (time.perf_counter() - start):.1f}")


main()
