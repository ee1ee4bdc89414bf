# SPDX-License-Identifier: Apache-2.0
"""examples/decode in PyTorch."""
import sys

import torch
from torch.nn import functional as F

LENGTH, WIDTH, DEPTH, HEADS = 128, 192, 4, 6


class Model:
    def __init__(self, weights, device):
        self.weights = {name: tensor.to(device) for name, tensor in weights.items()}
        self.keys = torch.zeros(DEPTH, 1, HEADS, LENGTH, WIDTH // HEADS, device=device)
        self.values = torch.zeros_like(self.keys)

    def linear(self, x, name):
        return F.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.weights[name + ".weight"], self.weights[name + ".bias"])

    def append(self, cache, row, at):
        cache[:, :, at:at + 1] = row.view(1, HEADS, 1, -1)
        return cache[:, :, :at + 1]

    def run(self, token, at):
        x = self.weights["wte.weight"][token:token + 1] + self.weights["wpe.weight"][at:at + 1]
        for i in range(DEPTH):
            q, k, v = self.linear(self.norm(x, f"h.{i}.ln_1"), f"h.{i}.c_attn").split(WIDTH, dim=1)
            k, v = self.append(self.keys[i], k, at), self.append(self.values[i], v, at)
            y = F.scaled_dot_product_attention(q.view(1, HEADS, 1, -1), k, v).reshape(1, WIDTH)
            x = x + self.linear(y, f"h.{i}.c_proj")
            y = F.gelu(self.linear(self.norm(x, f"h.{i}.ln_2"), f"h.{i}.c_fc"), approximate="tanh")
            x = x + self.linear(y, f"h.{i}.out")
        return F.linear(self.norm(x, "ln_f"), self.weights["wte.weight"])


def go_on(model, prompt, count):
    token = prompt[0] if prompt else ord("\n")
    sys.stdout.write(prompt.decode())
    for i in range(min(len(prompt) + count, LENGTH) - 1):
        chances = torch.softmax(model.run(token, i) / 0.8, 1)
        if i + 1 < len(prompt):
            token = prompt[i + 1]
        else:
            token = torch.multinomial(chances, 1).item()
            sys.stdout.write(chr(token))
    sys.stdout.write("\n")


def main():
    path, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.inference_mode():
        model = Model(torch.load(path, mmap=True), device)
        for line in sys.stdin.buffer:
            go_on(model, line.rstrip(b"\n"), count)


main()
