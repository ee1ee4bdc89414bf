#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes checkpoint.pt, views.pt, shared.pt and module.pt, which pt.c reads. Needs PyTorch; the files are kept, so it is run by hand.

    record_pt.py FOLDER
"""
import sys
from collections import OrderedDict
from pathlib import Path

import torch

folder = Path(sys.argv[1])
weight = torch.arange(6.0).reshape(2, 3)
torch.save({
    "model": OrderedDict({"fc.weight": weight, "fc.bias": torch.tensor([-1.5, 2.5], dtype=torch.float64)}),
    "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.25, "betas": (0.5, 0.75), "params": [0, 1]}]},
    "transposed": weight.t(), "tail": weight.flatten()[4:], "scalar": torch.tensor(7), "empty": torch.zeros(0, 3),
    "parameter": torch.nn.Parameter(torch.ones(2)), "flags": torch.tensor([True, False]), "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
    "bfloat16": torch.tensor([3.0, -0.5], dtype=torch.bfloat16), "complex": torch.tensor([1 + 2j]), "unsigned": torch.tensor([65535], dtype=torch.uint16),
    "epoch": 3, "big": 2**40, "negative": -70000, "name": "übung", "done": True, "nothing": None, "shape": torch.Size([4, 5]),
}, folder / "checkpoint.pt")
complexes = torch.tensor([1 + 2j, -3 - 4j])
torch.save({"conjugate": complexes.conj(), "plain": complexes, "negative": (2 * complexes).conj().imag}, folder / "views.pt", pickle_protocol=5)
numbers, flags = torch.arange(10.0), torch.tensor([True, False, True])
torch.save({"x": numbers, "y": numbers[5:8], "expanded": numbers[2:3].expand(2, 3), "none": numbers[5:5], "transposed": numbers.view(2, 5).t(), "last": numbers[9],
            "again": numbers, "flags": flags, "tail": flags[1:], "alone": torch.zeros(2)}, folder / "shared.pt")
torch.save(torch.nn.Linear(2, 1), folder / "module.pt")  # a class of Python: to be refused
