#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes utils.safetensors: what PyTorch computes from packed sequences, with fused batch norms, chains of parametrisations, losses of
distances of a program and keys that attention adds, for utils.c. Made once, where PyTorch 2.13 is installed: record_utils.py OUT."""
import functools
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils import fusion, parametrizations, parametrize, rnn

sys.path.append(str(Path(__file__).resolve().parent.parent))
from safetensors_file import write  # noqa: E402
from recording import record_state, record_training  # noqa: E402

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
out = {}


state_of = functools.partial(record_state, out)


def packed(name, layer, lengths, first, *, is_sorted, batch_first=False):
    """Output, last states and gradients for padded sequences; `first`: with first states."""
    x = torch.randn(max(lengths), len(lengths), 3)
    if batch_first:
        x = x.transpose(0, 1).contiguous()
    x.requires_grad_()
    layers = layer.num_layers * (2 if layer.bidirectional else 1)
    widths = [layer.proj_size or layer.hidden_size] + [layer.hidden_size] * isinstance(layer, nn.LSTM)
    states = [torch.randn(layers, len(lengths), w).requires_grad_() for w in widths] if first else None
    p = rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=batch_first, enforce_sorted=is_sorted)
    y, last = layer(p, None if states is None else tuple(states) if len(states) == 2 else states[0])
    last = last if isinstance(last, tuple) else (last,)
    padded, counts = rnn.pad_packed_sequence(y, batch_first=batch_first, padding_value=-1.5, total_length=max(lengths) + 1)
    (padded * torch.arange(padded.numel()).reshape(padded.shape) / 10).sum().add(sum((h * h).sum() for h in last)).backward()
    state_of(name, layer)
    out.update({f'{name}.x': x.detach(), f'{name}.lengths': torch.tensor(lengths), f'{name}.data': p.data.detach(),
                f'{name}.batch_sizes': p.batch_sizes, f'{name}.y': padded.detach(), f'{name}.counts': counts, f'{name}.grad.x': x.grad})
    for i, h in enumerate(last):
        out[f'{name}.last.{i}'] = h.detach()
    for i, h in enumerate(states or ()):
        out[f'{name}.first.{i}'], out[f'{name}.grad.first.{i}'] = h.detach(), h.grad
    for key, value in layer.named_parameters():
        out[f'{name}.grad.{key}'] = value.grad


packed('lstm', nn.LSTM(3, 4, num_layers=2, bidirectional=True), [2, 5, 1, 3], True, is_sorted=False)
packed('lstm_proj', nn.LSTM(3, 5, proj_size=2), [4, 4, 2], False, is_sorted=True, batch_first=True)
packed('gru', nn.GRU(3, 4, num_layers=2), [1, 3, 6], True, is_sorted=False, batch_first=True)
packed('rnn', nn.RNN(3, 4, nonlinearity='relu', bias=False, bidirectional=True), [3, 2, 2, 1], False, is_sorted=True)


def fused(name, layer, norm, x, fuse):
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    if norm.affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    both = nn.Sequential(layer, norm).eval()
    state_of(name, both)
    one = fuse(layer, norm)
    out.update({f'{name}.x': x, f'{name}.y': both(x).detach(), f'{name}.weight': one.weight.detach(), f'{name}.bias': one.bias.detach()})


fused('conv', nn.Conv2d(4, 6, 3, groups=2, bias=False), nn.BatchNorm2d(6), torch.randn(2, 4, 5, 5), fusion.fuse_conv_bn_eval)
fused('transposed', nn.ConvTranspose1d(3, 4, 2), nn.BatchNorm1d(4, eps=0.1, affine=False), torch.randn(2, 3, 5),
      lambda conv, bn: fusion.fuse_conv_bn_eval(conv, bn, transpose=True))
fused('linear', nn.Linear(3, 5), nn.BatchNorm1d(5), torch.randn(4, 3), fusion.fuse_linear_bn_eval)


class Double(nn.Module):
    def forward(self, x):
        return 2 * x + x * x


def chain(name, layer, x):
    record_training(out, name, layer, x)
    parametrize.remove_parametrizations(layer, 'weight')
    out[f'{name}.left'] = layer.weight.detach().clone()


layer = parametrizations.spectral_norm(parametrizations.weight_norm(nn.Linear(3, 4)))
parametrize.register_parametrization(layer, 'weight', Double())
chain('chain', layer, torch.randn(2, 3))
chain('chain_orthogonal', parametrizations.orthogonal(parametrizations.weight_norm(nn.Linear(4, 4)), use_trivialization=False), torch.randn(2, 4))

anchor, positive, negative = (torch.randn(5, 3, requires_grad=True) for _ in range(3))
for name, options in (('triplet', {}), ('triplet_swap', {'swap': True, 'margin': 0.7, 'reduction': 'none',
                                                         'distance_function': lambda a, b: 1 - torch.cosine_similarity(a, b)})):
    loss = nn.TripletMarginWithDistanceLoss(**options)(anchor, positive, negative)
    grads = torch.autograd.grad(loss.sum(), (anchor, positive, negative))
    out[f'{name}.loss'] = loss.detach()
    for i, (t, g) in enumerate(zip((anchor, positive, negative), grads)):
        out[f'{name}.in.{i}'], out[f'{name}.grad.{i}'] = t.detach(), g

# Keys and values that attention adds, with both masks.
layer = nn.MultiheadAttention(6, 2, kdim=5, vdim=4, add_bias_kv=True, add_zero_attn=True, batch_first=True)
inputs = [torch.randn(2, 3, 6), torch.randn(2, 4, 5), torch.randn(2, 4, 4)]
padding, mask = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 1]]).bool(), torch.randn(3, 4)
y, weights = layer(*inputs, key_padding_mask=padding, attn_mask=torch.zeros(3, 4).bool() | (mask > 1))
(y * y).sum().backward()
state_of('attention', layer)
out.update({'attention.y': y.detach(), 'attention.weights': weights.detach(), 'attention.padding': padding, 'attention.mask': mask > 1})
for i, x in enumerate(inputs):
    out[f'attention.in.{i}'] = x
for key, p in layer.named_parameters():
    out[f'attention.grad.{key}'] = p.grad
write(sys.argv[1], out)
