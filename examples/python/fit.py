#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits y = 2 x + 1 with tenon.py: layers, gradients, operators, a hook, an error."""
from tenon import Context, Error, Module

c = Context()
x = c.tensor([-1.0, 0.0, 1.0, 2.0], [4, 1])
want = c.tensor([-1.0, 1.0, 3.0, 5.0], [4, 1])
net = Module(c).add("Linear", in_features=1, out_features=1)
for step in range(200):
    loss = c.call("mse_loss", net(x), want)
    loss.backward()
    for p in net.parameters():
        p.update(p.grad * -0.2)
weight, bias = (p.item() for p in net.parameters())
print(f"y = {weight:.3f} x + {bias:.3f}, loss {loss.item():.1e}")

# A hook that changes the gradient; it goes when the graph does.
w = c.tensor([3.0], [1], requires_grad=True)
y = w * w
y.on_gradient(lambda grad: grad * 10.0)
y.sum().backward()
print("gradient", w.grad.item())

try:
    c.call("matmul", x, want)
except Error as error:
    print(error)


def fail(grad):
    raise ValueError("from a hook")


z = w * 2.0
z.on_gradient(fail)
try:
    z.sum().backward()
except ValueError as error:
    print("ValueError:", error)
