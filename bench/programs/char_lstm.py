# SPDX-License-Identifier: Apache-2.0
"""examples/char_lstm in PyTorch."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, LAYERS, LANES, LENGTH = 256, 256, 2, 16, 64


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=LAYERS, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, h, c):
        y, (h, c) = self.lstm(self.embedding(tokens), (h, c))
        return self.out(y), h.detach(), c.detach()


def start(lanes, device):
    return torch.zeros(LAYERS, lanes, WIDTH, device=device), torch.zeros(LAYERS, lanes, WIDTH, device=device)


@torch.no_grad()
def write_text(net, device, count):
    token = ord("\n")
    net.eval()
    h, c = start(1, device)
    for _ in range(count):
        y, h, c = net(torch.tensor([[token]], device=device), h, c)
        token = torch.multinomial(torch.softmax(y.flatten() / 0.7, 0), 1).item()
        sys.stdout.write(chr(token))
    sys.stdout.write("\n")


def main():
    path, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    net = CharLSTM().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    with open(path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long().to(device)
    columns, at = len(text) // LANES, 0
    text = text[:columns * LANES].view(LANES, columns)
    h, c = start(LANES, device)
    for i in range(steps):
        if at + LENGTH >= columns:
            at = 0
            h, c = start(LANES, device)
        y, h, c = net(text[:, at:at + LENGTH], h, c)
        loss = F.cross_entropy(y.flatten(0, 1), text[:, at + 1:at + 1 + LENGTH].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1)
        optimizer.step()
        optimizer.zero_grad()
        at += LENGTH
        if i % 10 == 0 or i + 1 == steps:
            print(f"{i + 1}/{steps}: loss {loss.item():.4f}", file=sys.stderr)
    write_text(net, device, 300)


main()
