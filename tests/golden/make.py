#!/usr/bin/env python3
"""Writes the golden numbers of this folder, NAME.safetensors for NAME.blu, with PyTorch in double precision.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tests/golden/make.py [NAME...]

Nothing here runs in the tests: golden.sh compares the committed files with what Blu computes. Parameters and data are numbers that
f32 holds exactly, settings such as rates are sums of few powers of two, so that a difference is one of arithmetic alone. A file holds
tensors named by what they are:

    param NAME, init NAME   parameters and states of modules before training
    data NAME               the batch, the same in every step
    sum loss, weight loss   the loss of the first step: sum / weight
    grad NAME               its gradient
    output NAME             what the entry NAME gives before training
    losses                  ten steps of training
    last NAME               parameters and states after them
    rates                   a schedule's rate in each step
"""
import json
import math
import os
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 10
torch.set_default_dtype(torch.float64)


def save(name, tensors):
    kinds = {"float32": "F32", "float64": "F64", "int32": "I32", "uint8": "U8"}
    arrays = {k: np.ascontiguousarray(v.detach().numpy() if torch.is_tensor(v) else v) for k, v in tensors.items()}
    order = sorted(arrays, key=lambda k: (-arrays[k].itemsize, k))
    header, end = {"__metadata__": {"made_with": f"PyTorch {torch.__version__.split('+')[0]}"}}, 0
    for k in order:
        header[k] = {"dtype": kinds[str(arrays[k].dtype)], "shape": list(arrays[k].shape), "data_offsets": [end, end + arrays[k].nbytes]}
        end += arrays[k].nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(HERE, name + ".safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for k in order:
            f.write(arrays[k].tobytes())


class Random:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def __call__(self, *shape, scale=1.0, around=0.0):  # of f32
        return (around + scale * torch.randn(*shape, generator=self.g)).float().double()

    def ids(self, n, *shape):
        return torch.randint(n, shape, generator=self.g)

    def linear(self, name, i, o):
        return {name + ".weight": self(o, i, scale=i ** -0.5), name + ".bias": self(o, scale=0.25)}

    def projection(self, name, i, o):
        return {name + ".weight": self(o, i, scale=i ** -0.5)}

    def conv1d(self, name, i, o):
        return {name + ".weight": self(i, o, scale=i ** -0.5), name + ".bias": self(o, scale=0.25)}

    def norm(self, name, n):
        return {name + ".weight": self(n, scale=0.25, around=1.0), name + ".bias": self(n, scale=0.25)}


def stored(kind, tensors):
    for k, v in tensors.items():
        assert not v.is_floating_point() or torch.equal(v, v.float().double()), f"{k} is more than f32 holds"
    return {f"{kind} {k}": v.detach().numpy().astype(np.float32 if v.is_floating_point() else np.int32) for k, v in tensors.items()}


def sgd(params, rate=0.0625):
    return [torch.optim.SGD(params.values(), lr=rate, momentum=0.875)]


def case(name, params, data, step, output=None, optimizers=sgd, states=None, kinds=None, last=False, before=None):
    """step(p, s, d) gives sum and weight of the loss, and moves the states s; output(p, s, d) what the entry `output` gives;
    before(i, p, opts) is called between the gradient of step i and the optimizers."""
    states = {k: v.clone() for k, v in (states or {}).items()}
    golden = stored("param", params) | stored("init", states) | stored("data", data)
    for k, kind in (kinds or {}).items():
        golden["data " + k] = golden["data " + k].astype(kind)
    p = {k: v.clone().requires_grad_() for k, v in params.items()}
    if output:
        with torch.no_grad():
            golden["output output"] = output(p, states, data)
    opts, losses = optimizers(p), []
    for i in range(STEPS):
        total, weight = step(p, states, data)
        loss = total / weight
        for v in p.values():
            v.grad = None
        loss.backward()
        losses.append(loss.item())
        if i == 0:
            golden |= {"sum loss": np.float64(total.item()), "weight loss": np.float64(weight)}
            golden |= {"grad " + k: v.grad.clone() for k, v in p.items()}
        if before:
            before(i, p, opts)
        for o in opts:
            o.step()
    golden["losses"] = np.array(losses)
    if last or states:
        golden |= {"last " + k: v.detach() for k, v in (p if last else {}).items()} | {"last " + k: v for k, v in states.items()}
    for k, v in golden.items():
        assert np.isfinite(v.detach().numpy() if torch.is_tensor(v) else v).all(), (name, k)
    assert losses[-1] < losses[0], (name, losses)
    save(name, golden)
    print(f"{name}: loss {losses[0]:.6f} -> {losses[-1]:.6f}")


def linear(p, name, x):
    return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))


def conv1d(p, name, x):
    return x @ p[name + ".weight"] + p[name + ".bias"]


def layer_norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"], 1e-5)


def heads(x, h):  # [b, t, h d] to [b, h, t, d]
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


def ce(logits, labels, **options):
    """Sum over the labels that count, and their number."""
    flat = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="sum", **options)
    return flat, float((labels != -100).sum())


def gpt2(name="gpt2", **training):
    r, V, T, D, H, B = Random(1), 61, 12, 16, 4, 3
    p = {"wte.weight": r(V, D, scale=0.3), "wpe.weight": r(T, D, scale=0.1)}
    for i in range(2):
        h = f"h.{i}."
        p |= r.norm(h + "ln_1", D) | r.conv1d(h + "attn.c_attn", D, 3 * D) | r.conv1d(h + "attn.c_proj", D, D)
        p |= r.norm(h + "ln_2", D) | r.conv1d(h + "mlp.c_fc", D, 4 * D) | r.conv1d(h + "mlp.c_proj", 4 * D, D)
    p |= r.norm("ln_f", D)
    y = r.ids(V, B, T)
    y[1, 3:6] = -100

    def model(p, s, d):
        x = F.embedding(d["x"], p["wte.weight"]) + p["wpe.weight"]
        for i in range(2):
            h = f"h.{i}."
            q, k, v = (heads(z, H) for z in conv1d(p, h + "attn.c_attn", layer_norm(p, h + "ln_1", x)).chunk(3, -1))
            x = x + conv1d(p, h + "attn.c_proj", joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
            m = F.gelu(conv1d(p, h + "mlp.c_fc", layer_norm(p, h + "ln_2", x)), approximate="tanh")
            x = x + conv1d(p, h + "mlp.c_proj", m)
        return layer_norm(p, "ln_f", x) @ p["wte.weight"].T

    case(name, p, {"x": r.ids(V, B, T), "y": y}, lambda p, s, d: ce(model(p, s, d), d["y"]), model, **training)


def recipe():
    """GPT-2 trained as it is in earnest: AdamW whose matrices decay, clipping, warm-up and a cosine."""
    def make(p):
        groups = [dict(params=[v for v in p.values() if (v.dim() > 1) == wide], weight_decay=0.125 * wide) for wide in (False, True)]
        return [torch.optim.AdamW(groups, lr=0.0, betas=(0.875, 0.96875), eps=2.0**-20)]

    def before(i, p, opts):
        norm = torch.stack([v.grad.norm() for v in p.values()]).norm()
        for v in p.values():
            v.grad *= min(1.0, 0.5 / norm)
        for group in opts[0].param_groups:
            group["lr"] = 2**-6 * ((i + 1) / 3 if i < 3 else 0.5 * (1 + math.cos(math.pi * (i - 3) / 7)))

    gpt2("recipe", optimizers=make, before=before)


def rotate(x, theta=10000.0):
    """Rotary embedding in the form of Llama's published checkpoints: the first half of a head's numbers against the second."""
    d, t = x.shape[-1], x.shape[-2]
    angle = torch.arange(t, dtype=torch.float64)[:, None] * theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    return x * cos + torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1) * sin


def llama():
    r, V, T, D, H, G, FF, B = Random(2), 53, 10, 24, 6, 2, 40, 3
    p = {"embed_tokens.weight": r(V, D, scale=0.5)}
    for i in range(2):
        h = f"layers.{i}."
        p |= {h + "input_layernorm.weight": r(D, scale=0.25, around=1.0), h + "post_attention_layernorm.weight": r(D, scale=0.25, around=1.0)}
        for name, i, o in (("q", D, D), ("k", D, G * D // H), ("v", D, G * D // H), ("o", D, D)):
            p |= r.projection(f"{h}self_attn.{name}_proj", i, o)
        p |= r.projection(h + "mlp.gate_proj", D, FF) | r.projection(h + "mlp.up_proj", D, FF) | r.projection(h + "mlp.down_proj", FF, D)
    p |= {"norm.weight": r(D, scale=0.25, around=1.0)} | r.projection("lm_head", D, V)

    def model(p, s, d):
        norm = lambda name, x: F.rms_norm(x, (D,), p[name + ".weight"], 1e-6)
        x = F.embedding(d["x"], p["embed_tokens.weight"])
        for i in range(2):
            h = f"layers.{i}."
            y = norm(h + "input_layernorm", x)
            q, k, v = (heads(linear(p, f"{h}self_attn.{n}_proj", y), m) for n, m in (("q", H), ("k", G), ("v", G)))
            a = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
            x = x + linear(p, h + "self_attn.o_proj", joined(a))
            y = norm(h + "post_attention_layernorm", x)
            x = x + linear(p, h + "mlp.down_proj", F.silu(linear(p, h + "mlp.gate_proj", y)) * linear(p, h + "mlp.up_proj", y))
        return linear(p, "lm_head", norm("norm", x))

    case("llama", p, {"x": r.ids(V, B, T), "y": r.ids(V, B, T)}, lambda p, s, d: ce(model(p, s, d), d["y"]), model)


def lenet():
    r, B = Random(3), 5
    conv = lambda name, i, o, k: {name + ".weight": r(o, i, k, k, scale=(i * k * k) ** -0.5), name + ".bias": r(o, scale=0.25)}
    p = conv("conv1", 1, 4, 5) | r.norm("bn1", 4) | conv("conv2", 4, 6, 3) | r.norm("bn2", 6) | r.linear("fc1", 54, 12) | r.linear("fc2", 12, 5)
    s = {}
    for name, n in (("bn1", 4), ("bn2", 6)):
        s |= {name + ".running_mean": r(n, scale=0.25), name + ".running_var": r(n, scale=0.125, around=1.0).abs()}

    def model(p, s, d, training=False):
        def block(x, conv, bn, pad):
            x = F.conv2d(x, p[conv + ".weight"], p[conv + ".bias"], padding=pad)
            return F.batch_norm(x, s[bn + ".running_mean"], s[bn + ".running_var"], p[bn + ".weight"], p[bn + ".bias"], training, 0.125, 1e-5)
        x = (d["image"] / 256)[:, None]
        x = F.max_pool2d(F.relu(block(x, "conv1", "bn1", 2)), 2)
        x = F.avg_pool2d(F.relu(block(x, "conv2", "bn2", 1)), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # channels last, as images are in Blu
        return linear(p, "fc2", F.relu(linear(p, "fc1", x)))

    data = {"image": r.ids(256, B, 12, 12), "label": r.ids(5, B)}
    case("lenet", p, data, lambda p, s, d: ce(model(p, s, d, True), d["label"]), model, states=s, kinds={"image": np.uint8, "label": np.uint8})


def conv():
    """Strides, padding, dilation and groups; pooling that overlaps, with padding."""
    r, B = Random(4), 2
    shapes = {"strided": (6, 3, 3, 3), "dilated": (6, 6, 2, 2), "grouped": (6, 3, 3, 3), "depthwise": (12, 1, 3, 3)}
    p = {}
    for name, shape in shapes.items():
        p |= {name + ".weight": r(*shape, scale=0.3), name + ".bias": r(shape[0], scale=0.25)}

    def model(p, s, d):
        layer = lambda name, x, **o: F.conv2d(x, p[name + ".weight"], p[name + ".bias"], **o)
        x = layer("strided", d["x"].permute(0, 3, 1, 2), stride=2, padding=1).tanh()
        x = layer("dilated", x, dilation=2, padding=1).tanh()
        x = layer("grouped", x, groups=2, padding=1).tanh()
        x = F.max_pool2d(x, 3, 1, 1) + F.avg_pool2d(x, 3, 1, 1)
        return layer("depthwise", x, groups=6, stride=2).permute(0, 2, 3, 1)

    def step(p, s, d):
        return ((model(p, s, d) - d["y"]) ** 2).sum(), 1.0 * d["y"].numel()

    d = {"x": r(B, 11, 9, 3)}
    d["y"] = r(*model(p, None, d).shape)
    case("conv", p, d, step, model)


def recurrent(name, kind, gates):
    r, B, T, I, N = Random(5 + gates), 3, 7, 4, 6
    p = r.linear("rnn.x2h", I, gates * N) | r.linear("rnn.h2h", N, gates * N) | r.linear("out", N, 2)

    def model(p, s, d):
        weights = {"weight_ih_l0": "x2h.weight", "weight_hh_l0": "h2h.weight", "bias_ih_l0": "x2h.bias", "bias_hh_l0": "h2h.bias"}
        layer = kind(I, N, batch_first=True)
        return linear(p, "out", torch.func.functional_call(layer, {k: p["rnn." + v] for k, v in weights.items()}, (d["x"],))[0])

    def step(p, s, d):
        return ((model(p, s, d) - d["y"]) ** 2).sum(), 1.0 * B * T * 2

    case(name, p, {"x": r(B, T, I), "y": r(B, T, 2)}, step, model)


def attention():
    """Masks, with queries that see nothing; grouped queries; causal with more keys than queries, aligned at the end."""
    r, B, T, S, D, H, G = Random(9), 2, 5, 7, 16, 4, 2
    p = r.linear("q", D, D) | r.linear("k", D, D) | r.linear("v", D, D) | r.linear("gk", D, D // H * G) | r.linear("gv", D, D // H * G)
    mask = r.ids(2, B, T, S)
    mask[0, 1] = 0
    mask[1, 4] = 0
    mask[1, 0] = 1

    def model(p, s, d):
        q, k, v = heads(linear(p, "q", d["x"]), H), heads(linear(p, "k", d["z"]), H), heads(linear(p, "v", d["z"]), H)
        gk, gv = heads(linear(p, "gk", d["z"]), G), heads(linear(p, "gv", d["z"]), G)
        seen = d["mask"][:, None] == 1
        blind = ~seen.any(-1, keepdim=True)  # softmax is 0 / 0 there; the row is defined as 0
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=seen | blind).masked_fill(blind, 0.0)
        late = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        b = F.scaled_dot_product_attention(q, gk, gv, attn_mask=late, enable_gqa=True, scale=0.5)
        return torch.cat([joined(a), joined(b)], -1)

    def step(p, s, d):
        return ((model(p, s, d) - d["y"]) ** 2).sum(), 1.0 * d["y"].numel()

    data = {"x": r(B, T, D), "z": r(B, S, D), "mask": mask, "y": r(B, T, 2 * D)}
    case("attention", p, data, step, model, kinds={"mask": np.uint8})


def vit():
    r, B, P, D, H, C = Random(10), 3, 4, 16, 4, 5
    p = {"patch.weight": r(D, 3, P, P, scale=0.15), "patch.bias": r(D, scale=0.25), "cls": r(1, 1, D), "position": r(10, D, scale=0.25)}
    p |= r.norm("ln_1", D) | r.linear("attn.qkv", D, 3 * D) | r.linear("attn.proj", D, D) | r.norm("ln_2", D) | r.linear("fc1", D, 4 * D)
    p |= r.linear("fc2", 4 * D, D) | r.norm("norm", D) | r.linear("head", D, C)

    def model(p, s, d):
        x = F.conv2d(d["image"].permute(0, 3, 1, 2), p["patch.weight"], p["patch.bias"], stride=P).flatten(2).transpose(1, 2)
        x = torch.cat([p["cls"].expand(B, 1, D), x], 1) + p["position"]
        q, k, v = (heads(z, H) for z in linear(p, "attn.qkv", layer_norm(p, "ln_1", x)).chunk(3, -1))
        x = x + linear(p, "attn.proj", joined(F.scaled_dot_product_attention(q, k, v)))
        x = x + linear(p, "fc2", F.gelu(linear(p, "fc1", layer_norm(p, "ln_2", x))))
        return linear(p, "head", layer_norm(p, "norm", x)[:, 0])

    case("vit", p, {"image": r(B, 12, 12, 3), "label": r.ids(C, B)}, lambda p, s, d: ce(model(p, s, d), d["label"]), model)


def moe():
    """The best two of four experts by a softmax over these two, and Switch Transformer's balancing loss over the first choice."""
    r, N, D, E, HID, K = Random(11), 12, 6, 4, 8, 2
    p = r.projection("moe.gate", D, E) | r.linear("out", D, 3)
    p |= {"moe.w1": r(E, D, HID, scale=0.4), "moe.w2": r(E, HID, D, scale=0.4)}

    def route(p, x):
        logits = linear(p, "moe.gate", x)
        best, ids = logits.topk(K, -1)
        return logits, best.softmax(-1), ids

    def model(p, s, d):
        _, weight, ids = route(p, d["x"])
        y = torch.zeros(N, D)
        for e in range(E):
            share = (weight * (ids == e)).sum(-1, keepdim=True)
            y = y + share * (F.silu(d["x"] @ p["moe.w1"][e]) @ p["moe.w2"][e])
        return linear(p, "out", y)

    def step(p, s, d):
        logits, _, ids = route(p, d["x"])
        first = F.one_hot(ids[:, 0], E).double().mean(0)
        balance = E * (first * logits.softmax(-1).mean(0)).sum()
        total, n = ce(model(p, s, d), d["label"])
        return total + 0.125 * n * balance, n

    case("moe", p, {"x": r(N, D), "label": r.ids(3, N)}, step, model)


def ops():
    """Ops where conventions could differ: zeros, equals, repeated ids; each with a parameter of its own and a random cotangent."""
    r, B, N = Random(15), 4, 6
    special = (r(B, N) * 8).round() / 8
    special[1, 2] = special[1, 4] = special[2, 3] = 0.0
    special[0, 1] = special[0, 3] = 2.5
    special[3, 0] = special[3, 5] = -2.5
    positive = (r(B, N).abs() + 0.5).float().double()
    each = dict(abs=torch.abs, relu=torch.relu, tanh=torch.tanh, sigmoid=torch.sigmoid, silu=F.silu, erf=torch.erf, exp=torch.exp,
                expm1=torch.expm1, sin=torch.sin, cos=torch.cos, square=lambda x: x ** 2, cumsum=lambda x: x.cumsum(-1),
                softmax=lambda x: x.softmax(-1), log_softmax=lambda x: x.log_softmax(-1), normalised=lambda x: x / x.norm(dim=-1, keepdim=True))
    rows = dict(max=lambda x: x.amax(-1), min=lambda x: x.amin(-1), prod=lambda x: x.prod(-1), std=lambda x: x.std(-1), logsumexp=lambda x: x.logsumexp(-1),
                variance=lambda x: x.var(-1), norm=lambda x: x.norm(dim=-1))
    above = dict(log=torch.log, log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt)
    p = {n: special.clone() for n in (*each, *rows, "maximum", "minimum", "gather", "take", "onto", "added")}
    p |= {n: positive.clone() for n in (*above, "base", "above", "below")} | {"exponent": special.clone()}
    d = {"c": r(B, N), "other": special.roll(1, 0) + (special.roll(1, 0) - special).abs().lt(0.5) * (special - special.roll(1, 0)),
         "ids": torch.tensor([2, 0, 2, 1]), "places": r.ids(N, B, N)}

    def step(p, s, d):
        y = sum(f(p[n]) for n, f in (each | above).items()) + torch.maximum(p["maximum"], d["other"]) + torch.minimum(p["minimum"], d["other"])
        y = y + p["base"] ** p["exponent"] + p["above"] / p["below"] + p["gather"][d["ids"]] + p["take"].gather(-1, d["places"])
        y = y + p["onto"].index_add(0, d["ids"], p["added"])
        return (y * d["c"]).sum() + (sum(f(p[n]) for n, f in rows.items()) * d["c"][:, 0]).sum(), 1.0 * B

    case("ops", p, d, step, optimizers=lambda p: sgd(p, 2**-7))


def losses():
    """Every loss over parameters of its own; the means of all are added."""
    r, B, C = Random(12), 6, 5
    names = ("plain", "smooth", "mse", "l1", "huber", "bce", "kl")
    p = {n: r(B, C) for n in names}
    d = {"label": r.ids(C, B), "y": r(B, C), "u": torch.rand(B, C, generator=r.g).float().double()}

    def step(p, s, d):
        total = F.cross_entropy(p["plain"], d["label"], reduction="sum")
        total = total + F.cross_entropy(p["smooth"], d["label"], reduction="sum", label_smoothing=0.125)
        total = total + F.mse_loss(p["mse"], d["y"], reduction="sum") / C + F.l1_loss(p["l1"], d["y"], reduction="sum") / C
        total = total + F.huber_loss(p["huber"], d["y"], reduction="sum", delta=0.75) / C
        total = total + F.binary_cross_entropy_with_logits(p["bce"], d["u"], reduction="sum") / C
        total = total + F.kl_div(p["kl"].log_softmax(-1), d["y"].log_softmax(-1), reduction="sum", log_target=True)
        return total, 1.0 * B

    case("losses", p, d, step)


def ignored():
    """Labels of -100 count nowhere, with smoothing too."""
    r, B, T, C = Random(13), 4, 3, 5
    y = r.ids(C, B, T)
    y[0, 1] = y[2] = -100
    p = {"logits": r(B, T, C)}
    case("ignored", p, {"y": y}, lambda p, s, d: ce(p["logits"], d["y"], label_smoothing=0.125))


class Formula(torch.optim.Optimizer):
    """An optimizer by a formula rule(p, g, state) that gives the next p; what PyTorch lacks, or has in half precision alone."""

    def __init__(self, params, rule):
        super().__init__(params, {})
        self.rule = rule

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            p.copy_(self.rule(p.clone(), p.grad, self.state[p]))


def lion(p, g, s, lr=2**-6, beta1=0.875, beta2=0.96875, decay=0.125):  # Chen et al. 2023, algorithm 2; biases don't decay
    m = s.get("m", torch.zeros_like(p))
    s["m"] = beta2 * m + (1 - beta2) * g
    return p - lr * ((beta1 * m + (1 - beta1) * g).sign() + (decay * p if p.dim() > 1 else 0))


def muon(p, g, s, lr=2**-5, momentum=0.9375, decay=0.125):  # Jordan et al. 2024, with coefficients as f32 holds them
    m = s["m"] = momentum * s.get("m", torch.zeros_like(p)) + g
    d = g + momentum * m
    if p.dim() < 2:
        return p - lr * d
    a, b, c = (float(np.float32(z)) for z in (3.4445, -4.7750, 2.0315))
    x = d.T if d.shape[0] > d.shape[1] else d
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = x.T if d.shape[0] > d.shape[1] else x
    return p - lr * (max(1, d.shape[0] / d.shape[1]) ** 0.5 * x + decay * p)


def optimizers():
    """One small network for each rule, trained apart by the sum of their losses."""
    r, B = Random(14), 8
    names = ("sgd", "momentum", "nesterov", "adam", "adamw", "standard", "lion", "rmsprop", "rmsprop_momentum", "muon")
    p = {}
    for n in names:
        p |= r.linear(n + ".fc.0", 4, 6) | r.linear(n + ".fc.1", 6, 3)
    data = {"x": r(B, 4), "y": r(B, 3)}
    names += ("adafactor", "adafactor_alone")
    for n in names[-2:]:
        p |= r.linear(n + ".fc.0", 4, 6) | r.linear(n + ".fc.1", 6, 3)
    p["adafactor_deep.weight"] = r(2, 4, 3, scale=0.5)
    single = 2.0**-23  # eps of f32, which PyTorch takes from the type
    O, betas, eps = torch.optim, (0.875, 0.96875), 2.0**-20

    def make(p):
        of = lambda name: [v for k, v in p.items() if k.startswith(name + ".")]
        split = lambda name, decay: [dict(params=[v for v in of(name) if v.dim() == d], weight_decay=decay * (d - 1)) for d in (1, 2)]
        return [O.SGD(of("sgd"), lr=0.0625), O.SGD(of("momentum"), lr=0.03125, momentum=0.875, weight_decay=0.125),
                O.SGD(of("nesterov"), lr=0.03125, momentum=0.875, weight_decay=0.125, nesterov=True),
                O.Adam(of("adam"), lr=0.03125, betas=betas, eps=eps, weight_decay=0.125),
                O.AdamW(split("adamw", 0.125), lr=0.03125, betas=betas, eps=eps), O.AdamW(split("standard", 0.01), lr=1e-2),
                Formula(of("lion"), lion), O.RMSprop(of("rmsprop"), lr=2**-7, alpha=0.96875, eps=eps, weight_decay=0.125),
                O.RMSprop(of("rmsprop_momentum"), lr=2**-8, alpha=0.96875, eps=eps, momentum=0.875), Formula(of("muon"), muon),
                O.Adafactor(of("adafactor"), lr=0.25, beta2_decay=-0.75, eps=(eps, 0.125), d=1.5, weight_decay=0.125),
                O.Adafactor(of("adafactor_alone"), eps=(single, 1e-3)), O.Adafactor(of("adafactor_deep"), lr=0.5, eps=(single, 1e-3))]

    def step(p, s, d):
        total = 0.0
        for n in names:
            total = total + ((linear(p, n + ".fc.1", linear(p, n + ".fc.0", d["x"]).tanh()) - d["y"]) ** 2).sum()
        w = p["adafactor_deep.weight"]
        return total + ((d["x"] @ w[0] + (d["x"] @ w[1]).tanh() - d["y"]) ** 2).sum(), 1.0 * B

    case("optimizers", p, data, step, optimizers=make, last=True)


def schedules():
    """60 steps of each schedule with a peak of 0.5; those of PyTorch's that exist there, warmup_cosine by llm.c's formula."""
    def run(make, n=60):
        o = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        s, rates = make(o), []
        for _ in range(n):
            rates.append(o.param_groups[0]["lr"])
            o.step()
            s.step()
        return np.array(rates)

    def warmup_cosine(t):
        if t < 10:
            return 0.5 * (t + 1) / 10
        part = min((t - 10) / (50 - 10), 1.0)
        return 0.0625 + 0.5 * (1 + math.cos(math.pi * part)) * (0.5 - 0.0625)

    L = torch.optim.lr_scheduler
    rates = {"constant": run(lambda o: L.ConstantLR(o, factor=1.0)), "linear": run(lambda o: L.LinearLR(o, 1.0, 0.125, total_iters=40)),
             "cosine": run(lambda o: L.CosineAnnealingLR(o, 59, eta_min=0.0625)), "step": run(lambda o: L.StepLR(o, 7, gamma=0.75)),
             "warmup_cosine": np.array([warmup_cosine(t) for t in range(60)]),
             "one_cycle": run(lambda o: L.OneCycleLR(o, 0.5, total_steps=61))[:60]}
    save("schedules", {"rates " + k: v for k, v in rates.items()})
    print("schedules:", *(f"{k} {v[0]:.4g}..{v[-1]:.4g}" for k, v in rates.items()))


def half(name, dtype):
    """Every operation in double, its result rounded to dtype. The way back rounds too: the cotangent of a conversion has the type it came from."""
    r, B = Random(23), 16
    def to(x):
        return x.to(dtype).double()

    class Tanh(torch.autograd.Function):  # its gradient is made of the rounded result, as that of PyTorch's kernel is
        @staticmethod
        def forward(c, x):
            c.y = to(x.tanh())
            return c.y

        @staticmethod
        def backward(c, ct):
            return ct * (1 - c.y * c.y)

    def dense(p, n, x):
        return to(to(x @ to(p[n + ".weight"]).T) + to(p[n + ".bias"]))

    def logits(p, d):
        x = dense(p, "a", to(d["x"]))
        x = to(F.layer_norm(x, x.shape[-1:], to(p["norm.weight"]), to(p["norm.bias"]), float(np.float32(1e-5))))
        return dense(p, "b", to(Tanh.apply(x)))

    def step(p, s, d):
        return F.cross_entropy(logits(p, d), d["y"], reduction="sum"), 1.0 * B

    def native(p, d):  # PyTorch's own kernels of the type, which add up in f32
        h = lambda k: p[k].to(dtype)
        x = d["x"].to(dtype) @ h("a.weight").T + h("a.bias")
        x = F.layer_norm(x, x.shape[-1:], h("norm.weight"), h("norm.bias"), 1e-5).tanh()
        return (x @ h("b.weight").T + h("b.bias")).double()

    p = r.linear("a", 5, 12) | r.norm("norm", 12) | r.linear("b", 12, 4)
    d = {"x": r(B, 5), "y": r.ids(4, B)}
    here, there = logits(p, d), native(p, d)
    assert (here - there).abs().max() <= 2 * torch.finfo(dtype).eps * here.abs().max(), "not what PyTorch's kernels give"
    print(f"{name}: {int((here != there).sum())} of {here.numel()} logits differ from PyTorch's kernels")
    case(name, p, d, step, output=lambda p, s, d: logits(p, d))


CASES = dict(gpt2=gpt2, recipe=recipe, llama=llama, lenet=lenet, conv=conv, lstm=lambda: recurrent("lstm", torch.nn.LSTM, 4),
             gru=lambda: recurrent("gru", torch.nn.GRU, 3), attention=attention, vit=vit, moe=moe, ops=ops, losses=losses, ignored=ignored,
             optimizers=optimizers, schedules=schedules, bf16=lambda: half("bf16", torch.bfloat16), f16=lambda: half("f16", torch.float16))
if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        CASES[chosen]()
