#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes parametrizations.safetensors: PyTorch's parametrised and pruned modules, with their states, outputs and gradients, for
parametrizations.c. Made once, where PyTorch 2.13 is installed: record_parametrizations.py OUT."""
import functools
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

sys.path.append(str(Path(__file__).resolve().parent.parent))
from safetensors_file import write  # noqa: E402
from recording import record_training  # noqa: E402

torch.set_default_dtype(torch.float64)
torch.manual_seed(3)
out = {}


record = functools.partial(record_training, out)
record('weight_norm', parametrizations.weight_norm(nn.Linear(3, 4), dim=0), torch.randn(2, 3))
record('weight_norm_all', parametrizations.weight_norm(nn.Conv1d(2, 3, 2), dim=None), torch.randn(2, 2, 5))
record('spectral_norm', parametrizations.spectral_norm(nn.Linear(3, 4)), torch.randn(2, 3))
record('spectral_norm_dim', parametrizations.spectral_norm(nn.ConvTranspose1d(2, 3, 2), n_power_iterations=2, dim=1), torch.randn(2, 2, 5))
record('orthogonal_square', parametrizations.orthogonal(nn.Linear(4, 4)), torch.randn(2, 4))
record('orthogonal_tall', parametrizations.orthogonal(nn.Linear(3, 5)), torch.randn(2, 3))
record('orthogonal_wide', parametrizations.orthogonal(nn.Linear(5, 3), orthogonal_map='cayley'), torch.randn(2, 5))
record('orthogonal_exp', parametrizations.orthogonal(nn.Linear(3, 4), orthogonal_map='matrix_exp'), torch.randn(2, 3))

module = nn.Linear(4, 5)
out['prune.weight'], out['prune.bias'] = module.weight.detach().clone(), module.bias.detach().clone()
prune.l1_unstructured(module, 'weight', 0.3)
out['prune.mask.0'] = module.weight_mask.clone()
prune.l1_unstructured(module, 'weight', 3)
out['prune.mask.1'] = module.weight_mask.clone()
prune.ln_structured(module, 'weight', 0.4, n=2, dim=0)
out['prune.mask.2'] = module.weight_mask.clone()
out['prune.x'] = torch.randn(2, 4)
out['prune.y'] = module(out['prune.x']).detach().clone()
assert list(module.state_dict()) == ['bias', 'weight_orig', 'weight_mask']
write(sys.argv[1], out)
