#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes trajectories.safetensors: 20 steps of PyTorch's optimisers in float64, and the rates of its schedules, for
trajectories.c and lbfgs.c, which read it. Made once, where PyTorch 2.13 is installed: record_trajectories.py OUT."""
import sys
from pathlib import Path

import torch
from torch import optim
from torch.optim import lr_scheduler as sched

sys.path.append(str(Path(__file__).resolve().parent.parent))
from safetensors_file import write  # noqa: E402

torch.set_default_dtype(torch.float64)
torch.manual_seed(5)
START = [torch.randn(3, 2), torch.randn(4)]
GRADS = [torch.randn(20, 3, 2), torch.randn(20, 4)]
GRADS[0][3] = 0

CASES = {
    'sgd': (optim.SGD, {'lr': 0.1}), 'sgd_momentum': (optim.SGD, {'lr': 0.1, 'momentum': 0.9, 'dampening': 0.2, 'weight_decay': 0.05}),
    'sgd_nesterov': (optim.SGD, {'lr': 0.1, 'momentum': 0.8, 'nesterov': True, 'maximize': True}),
    'adam': (optim.Adam, {'lr': 0.1}), 'adam_amsgrad': (optim.Adam, {'lr': 0.1, 'amsgrad': True, 'weight_decay': 0.1, 'betas': (0.8, 0.95)}),
    'adamw': (optim.AdamW, {'lr': 0.05}), 'adamw_amsgrad': (optim.AdamW, {'lr': 0.05, 'weight_decay': 0.3, 'amsgrad': True, 'maximize': True}),
    'adagrad': (optim.Adagrad, {'lr': 0.1}), 'adagrad_all': (optim.Adagrad, {'lr': 0.1, 'lr_decay': 0.1, 'weight_decay': 0.1, 'initial_accumulator_value': 0.5}),
    'adadelta': (optim.Adadelta, {}), 'adadelta_all': (optim.Adadelta, {'lr': 0.5, 'rho': 0.8, 'weight_decay': 0.1}),
    'adamax': (optim.Adamax, {}), 'adamax_all': (optim.Adamax, {'lr': 0.1, 'weight_decay': 0.1}),
    'asgd': (optim.ASGD, {}), 'asgd_all': (optim.ASGD, {'lr': 0.1, 'lambd': 0.01, 't0': 5, 'weight_decay': 0.1}),
    'nadam': (optim.NAdam, {}), 'nadam_all': (optim.NAdam, {'lr': 0.05, 'weight_decay': 0.1, 'decoupled_weight_decay': True}),
    'radam': (optim.RAdam, {'lr': 0.1}), 'radam_all': (optim.RAdam, {'lr': 0.1, 'weight_decay': 0.1, 'betas': (0.9, 0.9)}),
    'rmsprop': (optim.RMSprop, {}), 'rmsprop_all': (optim.RMSprop, {'lr': 0.05, 'alpha': 0.9, 'weight_decay': 0.1, 'momentum': 0.7, 'centered': True}),
    'rprop': (optim.Rprop, {}), 'adafactor': (optim.Adafactor, {}), 'adafactor_all': (optim.Adafactor, {'lr': 0.3, 'weight_decay': 0.1, 'd': 1.5}),
}
SCHEDULES = {
    'step': lambda o: sched.StepLR(o, 7, 0.3), 'multi_step': lambda o: sched.MultiStepLR(o, [4, 11, 12], 0.5),
    'constant': lambda o: sched.ConstantLR(o, 0.25, 6), 'linear': lambda o: sched.LinearLR(o, 0.2, 0.9, 12),
    'exponential': lambda o: sched.ExponentialLR(o, 0.9), 'polynomial': lambda o: sched.PolynomialLR(o, 15, 2.0),
    'cosine': lambda o: sched.CosineAnnealingLR(o, 20, 0.01), 'cosine_restarts': lambda o: sched.CosineAnnealingWarmRestarts(o, 4, 2, 0.01),
    'cyclic': lambda o: sched.CyclicLR(o, 0.01, 0.5, 4, 6, mode='triangular2', cycle_momentum=False),
    'cyclic_exp': lambda o: sched.CyclicLR(o, 0.01, 0.5, 5, mode='exp_range', gamma=0.95, cycle_momentum=False),
    'one_cycle': lambda o: sched.OneCycleLR(o, 0.5, total_steps=30, cycle_momentum=False),
}
MEASURES = [1, .9, .95, .9, .9, .91, .85, .9, .9, .9, .9, .8, .8, .8, .8, .8, .8, .8, .8, .8]


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


def main():
    out = {'start.0': START[0], 'start.1': START[1], 'grads.0': GRADS[0], 'grads.1': GRADS[1]}
    for name, (kind, options) in CASES.items():
        params = [p.clone().requires_grad_() for p in START]
        o = kind(params, **options)
        for k in range(20):
            for p, g in zip(params, GRADS):
                p.grad = g[k].clone()
            o.step()
            if k in (0, 6, 19):
                for i, p in enumerate(params):
                    out[f'{name}.{k}.{i}'] = p.detach().clone()
    for name, options in (('muon', {'lr': 0.1}), ('muon_rms', {'lr': 0.1, 'weight_decay': 0.3, 'nesterov': False, 'ns_steps': 4,
                                                               'adjust_lr_fn': 'match_rms_adamw'})):
        p = START[0].clone().requires_grad_()
        o = optim.Muon([p], **options)
        for k in range(20):
            p.grad = GRADS[0][k].clone()
            o.step()
            if k in (0, 6, 19):
                out[f'{name}.{k}.0'] = p.detach().clone()
    for name, search in (('lbfgs', None), ('lbfgs_wolfe', 'strong_wolfe')):
        p = torch.tensor([-1.2, 1.0], requires_grad=True)
        o = optim.LBFGS([p], lr=1 if search else 1e-3, max_iter=5, history_size=3, line_search_fn=search)

        def closure():
            o.zero_grad()
            loss = rosenbrock(p)
            loss.backward()
            return loss
        for k in range(4):
            o.step(closure)
            out[f'{name}.{k}.0'] = p.detach().clone()
    for name, make in SCHEDULES.items():
        o = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
        s, rates = make(o), []
        for _ in range(30):
            rates.append(o.param_groups[0]['lr'])
            o.step()
            if len(rates) < 30:
                s.step()
        out[f'rate.{name}'] = torch.tensor(rates)
    o = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    s, rates = sched.ReduceLROnPlateau(o, patience=2, factor=0.5, cooldown=1, min_lr=0.1), []
    for m in MEASURES:
        s.step(m)
        rates.append(o.param_groups[0]['lr'])
    out['rate.plateau'], out['measures'] = torch.tensor(rates), torch.tensor(MEASURES)
    write(sys.argv[1], out)


main()
