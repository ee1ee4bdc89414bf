# SPDX-License-Identifier: Apache-2.0
"""examples/gpt2 in PyTorch."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, LENGTH, WIDTH, DEPTH, HEADS, BATCH = 256, 128, 192, 4, 6, 16


def heads(x):
    return x.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.out = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (heads(part) for part in self.c_attn(self.ln_1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(LENGTH, WIDTH)
        self.h = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, tokens):
        places = torch.arange(tokens.size(1), device=tokens.device)
        return self.head(self.ln_f(self.h(self.wte(tokens) + self.wpe(places))))


def main():
    path, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    net = GPT2().to(device)
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1]},
              {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.1, betas=(0.9, 0.95))
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / (steps // 10 + 1), total_iters=steps // 10 + 1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - steps // 10)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], [steps // 10])
    with open(path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).to(device)
    window = torch.arange(LENGTH + 1, device=device)
    losses = []
    for i in range(steps):
        start = torch.randint(len(text) - LENGTH, (BATCH, 1), device=device)
        tokens = text.take(start + window).long()
        y = net(tokens[:, :LENGTH])
        loss = F.cross_entropy(y.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if i % 10 == 0 or i + 1 == steps:
            print(f"{i + 1}/{steps}: loss {losses[-1]:.4f}", file=sys.stderr)
    torch.save(net.state_dict(), "gpt2.pt")


main()
