# SPDX-License-Identifier: Apache-2.0
"""What the scripts share that record PyTorch's modules: entries of `out`, by names that begin with the record's."""
import torch


def record_state(out, name, module):
    for key, value in module.state_dict().items():
        out[f'{name}.state.{key}'] = value.detach().clone()


def record_training(out, name, module, x):
    """The state before, the output and gradients of one call in training mode, the state after, the output in evaluation."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.3 * torch.randn_like(p))
    record_state(out, name, module)
    y = module(x)
    (y * y).sum().backward()
    out[f'{name}.x'], out[f'{name}.y'] = x, y.detach().clone()
    for key, p in module.named_parameters():
        out[f'{name}.grad.{key}'] = p.grad
    for key, value in module.named_buffers():
        out[f'{name}.after.{key}'] = value.clone()
    module.eval()
    out[f'{name}.eval'] = module(x).detach().clone()
