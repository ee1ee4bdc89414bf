# SPDX-License-Identifier: Apache-2.0
"""The models of models.c in PyTorch, with the same names, inputs and requests."""
import json
from collections import namedtuple

import torch
from torch import nn
from torch.nn import functional as F

Sizes = namedtuple("Sizes", "batch length width depth heads classes")
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


class Block(nn.Module):
    def __init__(self, z, causal, approximate):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(z.width), nn.LayerNorm(z.width)
        self.qkv, self.proj = nn.Linear(z.width, 3 * z.width), nn.Linear(z.width, z.width)
        self.fc, self.out = nn.Linear(z.width, 4 * z.width), nn.Linear(4 * z.width, z.width)
        self.heads, self.causal, self.approximate = z.heads, causal, approximate
        self.keys = self.values = None
        self.position = 0

    def append(self, cache, x):
        cache.narrow(2, self.position, 1).copy_(x)
        return cache.narrow(2, 0, self.position + 1)

    def attention(self, x):
        q, k, v = (part.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(x.size(2), dim=2))
        if self.keys is not None:
            k, v = self.append(self.keys, k), self.append(self.values, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal and self.keys is None)
        return self.proj(y.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate=self.approximate))


class Gpt2(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(z.classes, z.width), nn.Embedding(1024, z.width)
        self.h = nn.Sequential(*(Block(z, True, "tanh") for _ in range(z.depth)))
        self.ln_f = nn.LayerNorm(z.width)
        self.head = nn.Linear(z.width, z.classes, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, x, positions=None):
        positions = torch.arange(x.size(1), device=x.device) if positions is None else positions
        return self.head(self.ln_f(self.h(self.wte(x) + self.wpe(positions))))


class Vit(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.patch = nn.Conv2d(3, z.width, 16, stride=16)
        self.token = nn.Parameter(torch.zeros(1, 1, z.width))
        self.places = nn.Parameter(torch.zeros(1, 1 + (z.length // 16) ** 2, z.width))
        self.h = nn.Sequential(*(Block(z, False, "none") for _ in range(z.depth)))
        self.ln_f, self.head = nn.LayerNorm(z.width), nn.Linear(z.width, z.classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.size(0), -1, -1), x), dim=1)
        return self.head(self.ln_f(self.h(x + self.places))[:, 0])


class Residual(nn.Module):
    def __init__(self, channels, width, stride, bottleneck):
        super().__init__()
        kernels, out = ([1, 3, 1], [width, width, 4 * width]) if bottleneck else ([3, 3], [width, width])
        self.count, source = len(out), channels
        for i, (kernel, size) in enumerate(zip(kernels, out)):
            setattr(self, f"conv{i + 1}", nn.Conv2d(source, size, kernel, stride if i == bottleneck else 1, kernel // 2,
                                                    bias=False))
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(size))
            source = size
        self.down = None
        if stride != 1 or channels != source:
            self.down, self.down_bn = nn.Conv2d(channels, source, 1, stride, bias=False), nn.BatchNorm2d(source)

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y if i == 1 else F.relu(y)))
        return F.relu(y + (x if self.down is None else self.down_bn(self.down(x))))


def resnet(z):
    bottleneck, channels = z.depth != 18, z.width
    depths = {18: [2, 2, 2, 2], 50: [3, 4, 6, 3], 14: [1, 1, 1, 1]}[z.depth]
    net = nn.Sequential()
    net.conv1, net.bn1 = nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels)
    net.relu, net.pool = nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    for stage, depth in enumerate(depths):
        for i in range(depth):
            width = z.width << stage
            net.add_module(f"block{stage}_{i}", Residual(channels, width, 2 if stage and not i else 1, bottleneck))
            channels = 4 * width if bottleneck else width
    net.mean, net.flatten, net.fc = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, z.classes)
    return net


class Lstm(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.embedding = nn.Embedding(z.classes, z.width)
        self.lstm = nn.LSTM(z.width, z.width, z.depth, batch_first=True)
        self.head = nn.Linear(z.width, z.classes)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0])


def mlp(z):
    net = nn.Sequential()
    net.fc1, net.relu1, net.fc2 = nn.Linear(z.length, z.width), nn.ReLU(), nn.Linear(z.width, z.width)
    net.relu2, net.fc3 = nn.ReLU(), nn.Linear(z.width, z.classes)
    return net


# As in models.c: full sizes, small ones, the module, inputs, optimiser.
MODELS = {
    "gpt2": (Sizes(4, 64, 768, 12, 12, 50257), Sizes(2, 8, 32, 2, 2, 101), Gpt2, "tokens", "adamw"),
    "gpt2_decode": (Sizes(1, 64, 768, 12, 12, 50257), Sizes(1, 16, 32, 2, 2, 101), Gpt2, "tokens", None),
    "resnet18": (Sizes(16, 112, 64, 18, 0, 1000), Sizes(2, 64, 8, 18, 0, 10), resnet, "images", "sgd"),
    "resnet50": (Sizes(16, 112, 64, 50, 0, 1000), Sizes(2, 64, 8, 14, 0, 10), resnet, "images", "sgd"),
    "lstm": (Sizes(20, 35, 512, 2, 0, 10000), Sizes(2, 7, 16, 2, 0, 31), Lstm, "tokens", "sgd"),
    "vit": (Sizes(8, 224, 192, 12, 3, 1000), Sizes(2, 32, 16, 2, 2, 10), Vit, "images", "adamw"),
    "mlp": (Sizes(1, 784, 512, 2, 0, 10), Sizes(1, 20, 16, 2, 0, 10), mlp, "rows", "sgd"),
}


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    dtypes = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}
    return {name: torch.frombuffer(data[slice(*t["data_offsets"])], dtype=dtypes[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def inputs(z, kind, dtype):
    shape = {"tokens": (z.batch, z.length), "images": (z.batch, 3, z.length, z.length), "rows": (z.batch, z.length)}[kind]
    count = torch.Size(shape).numel()
    numbers = torch.arange(count + 1) * 7919
    if kind == "tokens":
        return (numbers[:count] % z.classes).reshape(shape), numbers[1:] % z.classes
    x = (numbers[:count] % 1000).to(torch.float64) / 500 - 1
    return x.reshape(shape).to(dtype), numbers[1:z.batch + 1] % z.classes


def decoding(net, z, dtype):
    net.to(dtype)
    for block in net.h:
        block.keys, block.values = (torch.zeros(1, z.heads, z.length, z.width // z.heads, dtype=dtype) for _ in range(2))
    state, device = {"token": 0, "position": 0}, net.wte.weight.device

    def step():
        with torch.inference_mode():
            for block in net.h:
                block.position = state["position"]
            y = net(torch.tensor([[state["token"]]], device=device), torch.tensor([state["position"]], device=device))
            state["token"], state["position"] = y.argmax().item(), (state["position"] + 1) % z.length
            return y.amax().item()

    return step


def open_model(request):
    """A function that makes a step and returns its value."""
    full, small, create, kind, optimiser = MODELS[request["open"]]
    z, dtype = small if request.get("small") else full, DTYPES[request["dtype"]]
    low = dtype is torch.bfloat16
    single = torch.float32 if low else dtype
    net = create(z).to(single)
    if "weights" in request:
        net.load_state_dict(read_safetensors(request["weights"]))
    if optimiser is None:
        return decoding(net, z, dtype)
    x, labels = inputs(z, kind, single)
    if request.get("layout") == "channels_last":
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if optimiser == "sgd":
        optimiser = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, fused=True)
    else:
        optimiser = torch.optim.AdamW(net.parameters(), lr=3e-4, weight_decay=0.1, fused=True)

    def step():
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=low):
            y = net(x)
        y = y.reshape(-1, z.classes)
        loss = F.cross_entropy(y.float() if low else y, labels)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.item()

    return step
