# SPDX-License-Identifier: Apache-2.0
"""examples/resnet in PyTorch."""
import gzip
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

BATCH, CLASSES = 128, 10


def conv3x3(channels, out, stride):
    return nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = conv3x3(channels, out, stride)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = conv3x3(out, out, 1)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = nn.Sequential()
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.downsample(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = conv3x3(1, 64, 1)
        self.bn1 = nn.BatchNorm2d(64)
        layers, channels = [], 64
        for i in range(4):
            out = 64 << i
            layers += [BasicBlock(channels, out, 2 if i else 1), BasicBlock(out, out, 1)]
            channels = out
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = self.layers(F.relu(self.bn1(self.conv1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def read_idx(path, offset):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=offset)


class FashionMnist(Dataset):
    def __init__(self, folder, part, most, flips):
        x = read_idx(f"{folder}/{part}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)[:most]
        self.x = x.float() / 90 - 0.81
        self.y = read_idx(f"{folder}/{part}-labels-idx1-ubyte.gz", 8)[:most].long()
        self.flips = flips

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        if self.flips and torch.rand(()) < 0.5:
            x = x.flip(2)
        return x, self.y[i]


@torch.no_grad()
def test(net, loader, device):
    right = count = 0
    net.eval()
    for x, y in loader:
        seen = net(x.to(device)).argmax(dim=1)
        right += (seen == y.to(device)).sum().item()
        count += len(y)
    print(f"test accuracy: {100 * right / count:.2f} %")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist"
    epochs, images = int(sys.argv[2]) if len(sys.argv) > 2 else 5, int(sys.argv[3]) if len(sys.argv) > 3 else None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    net = ResNet18().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    train = DataLoader(FashionMnist(folder, "train", images, True), BATCH, shuffle=True, drop_last=True, num_workers=2)
    check = DataLoader(FashionMnist(folder, "t10k", images, False), 500)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(train))
    for epoch in range(epochs):
        net.train()
        for i, (x, y) in enumerate(train):
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = F.cross_entropy(net(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if i % 10 == 0:
                print(f"epoch {epoch + 1}: loss {loss.item():.4f}", file=sys.stderr)
        test(net, check, device)
    torch.save(net.state_dict(), "resnet18.pt")


if __name__ == "__main__":
    main()
