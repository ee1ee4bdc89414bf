#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes layers.safetensors: what PyTorch's layers give for small inputs, for layers.c, which reads it. Made once, where
PyTorch 2.13 is installed: record_layers.py OUT. Each case has the state of a layer in float64, inputs, outputs, and the
gradients of sum(output * weights) with respect to parameters and inputs; the metadata have what repr() prints."""
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).resolve().parent.parent))
from safetensors_file import write  # noqa: E402

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)


def r(*sizes):
    return torch.randn(*sizes)


def ints(high, *sizes):
    return torch.randint(0, high, sizes)


def positive(*sizes):
    return torch.rand(*sizes) + 0.5


CASES = {
    'identity': (nn.Identity(), [r(3)]),
    'linear': (nn.Linear(3, 5), [r(2, 3)]),
    'linear_no_bias': (nn.Linear(3, 5, bias=False), [r(2, 2, 3)]),
    'bilinear': (nn.Bilinear(3, 4, 2), [r(2, 3), r(2, 4)]),
    'conv1d': (nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), [r(2, 4, 9)]),
    'conv2d': (nn.Conv2d(3, 4, (3, 2), padding=(1, 0), dilation=(1, 2)), [r(2, 3, 6, 7)]),
    'conv2d_same': (nn.Conv2d(2, 3, (4, 3), padding='same'), [r(1, 2, 5, 6)]),
    'conv2d_circular': (nn.Conv2d(2, 3, 3, padding=1, padding_mode='circular', bias=False), [r(2, 2, 5, 4)]),
    'conv2d_reflect_same': (nn.Conv2d(2, 2, (2, 3), padding='same', padding_mode='reflect'), [r(1, 2, 5, 5)]),
    'conv3d': (nn.Conv3d(2, 3, 2), [r(1, 2, 3, 4, 3)]),
    'conv_transpose1d': (nn.ConvTranspose1d(4, 2, 3, stride=2, output_padding=1), [r(2, 4, 5)]),
    'conv_transpose2d': (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2), [r(1, 4, 3, 4)]),
    'conv_transpose3d': (nn.ConvTranspose3d(2, 2, 2, bias=False), [r(1, 2, 2, 3, 2)]),
    'max_pool1d': (nn.MaxPool1d(3, stride=2, padding=1), [r(2, 3, 8)]),
    'max_pool2d': (nn.MaxPool2d((2, 3)), [r(2, 2, 6, 7)]),
    'max_pool2d_indices': (nn.MaxPool2d(2, return_indices=True), [r(1, 2, 6, 4)]),
    'max_pool3d': (nn.MaxPool3d(2, ceil_mode=True), [r(1, 1, 3, 4, 5)]),
    'avg_pool1d': (nn.AvgPool1d(3, stride=2), [r(2, 3, 9)]),
    'avg_pool2d': (nn.AvgPool2d(3, padding=1, count_include_pad=False), [r(1, 2, 5, 6)]),
    'avg_pool2d_divisor': (nn.AvgPool2d(2, divisor_override=3), [r(1, 2, 4, 6)]),
    'avg_pool3d': (nn.AvgPool3d(2), [r(1, 1, 4, 4, 2)]),
    'lp_pool1d': (nn.LPPool1d(2.0, 3, stride=3), [positive(1, 2, 9)]),
    'lp_pool2d': (nn.LPPool2d(3.0, 2, stride=1), [positive(1, 2, 4, 5)]),
    'adaptive_max_pool1d': (nn.AdaptiveMaxPool1d(3), [r(2, 2, 7)]),
    'adaptive_max_pool2d': (nn.AdaptiveMaxPool2d((3, 2)), [r(1, 2, 7, 5)]),
    'adaptive_avg_pool1d': (nn.AdaptiveAvgPool1d(3), [r(2, 2, 7)]),
    'adaptive_avg_pool2d': (nn.AdaptiveAvgPool2d((1, 1)), [r(2, 3, 4, 5)]),
    'adaptive_avg_pool3d': (nn.AdaptiveAvgPool3d(2), [r(1, 2, 3, 4, 5)]),
    'zero_pad2d': (nn.ZeroPad2d((1, 2, 0, 1)), [r(1, 2, 3, 3)]),
    'constant_pad1d': (nn.ConstantPad1d(2, 3.5), [r(2, 3)]),
    'reflection_pad2d': (nn.ReflectionPad2d(2), [r(1, 1, 4, 5)]),
    'replication_pad3d': (nn.ReplicationPad3d(1), [r(1, 1, 2, 3, 2)]),
    'circular_pad1d': (nn.CircularPad1d((1, 2)), [r(1, 2, 5)]),
    'elu': (nn.ELU(1.5), [r(9)]), 'celu': (nn.CELU(0.5), [r(9)]), 'selu': (nn.SELU(), [r(9)]), 'gelu': (nn.GELU(), [r(9)]),
    'gelu_tanh': (nn.GELU('tanh'), [r(9)]), 'glu': (nn.GLU(), [r(3, 6)]), 'hardshrink': (nn.Hardshrink(0.3), [r(9)]),
    'hardsigmoid': (nn.Hardsigmoid(), [3 * r(9)]), 'hardswish': (nn.Hardswish(), [3 * r(9)]),
    'hardtanh': (nn.Hardtanh(-0.5, 2.0), [r(9)]), 'leaky_relu': (nn.LeakyReLU(0.2), [r(9)]), 'log_sigmoid': (nn.LogSigmoid(), [r(9)]),
    'log_softmax': (nn.LogSoftmax(1), [r(2, 5)]), 'mish': (nn.Mish(), [r(9)]), 'prelu': (nn.PReLU(3), [r(2, 3, 2)]),
    'relu': (nn.ReLU(), [r(9)]), 'relu6': (nn.ReLU6(), [5 * r(9)]), 'sigmoid': (nn.Sigmoid(), [r(9)]), 'silu': (nn.SiLU(), [r(9)]),
    'softmax': (nn.Softmax(0), [r(3, 4)]), 'softmax2d': (nn.Softmax2d(), [r(2, 3, 2, 2)]), 'softmin': (nn.Softmin(1), [r(2, 5)]),
    'softplus': (nn.Softplus(2.0, 3.0), [3 * r(9)]), 'softshrink': (nn.Softshrink(0.25), [r(9)]), 'softsign': (nn.Softsign(), [r(9)]),
    'tanh': (nn.Tanh(), [r(9)]), 'tanhshrink': (nn.Tanhshrink(), [r(9)]), 'threshold': (nn.Threshold(0.1, 20.0), [r(9)]),
    'batch_norm1d': (nn.BatchNorm1d(3), [r(4, 3)]), 'batch_norm2d': (nn.BatchNorm2d(3, momentum=0.3), [r(2, 3, 4, 2)]),
    'batch_norm2d_eval': (nn.BatchNorm2d(3).eval(), [r(2, 3, 2, 2)]), 'batch_norm_cumulative': (nn.BatchNorm1d(2, momentum=None), [r(5, 2)]),
    'batch_norm3d_plain': (nn.BatchNorm3d(2, affine=False, track_running_stats=False), [r(2, 2, 2, 2, 2)]),
    'instance_norm1d': (nn.InstanceNorm1d(3), [r(2, 3, 5)]), 'instance_norm2d': (nn.InstanceNorm2d(3, affine=True, track_running_stats=True), [r(2, 3, 4, 2)]),
    'group_norm': (nn.GroupNorm(2, 4), [r(2, 4, 3)]), 'layer_norm': (nn.LayerNorm((3, 4)), [r(2, 3, 4)]),
    'layer_norm_no_bias': (nn.LayerNorm(4, bias=False, eps=0.001), [r(2, 4)]), 'rms_norm': (nn.RMSNorm(4), [r(3, 4)]),
    'local_response_norm': (nn.LocalResponseNorm(3, alpha=0.01), [r(2, 5, 3, 2)]),
    'dropout_eval': (nn.Dropout(0.3).eval(), [r(5)]), 'alpha_dropout_eval': (nn.AlphaDropout().eval(), [r(5)]),
    'embedding': (nn.Embedding(6, 3, padding_idx=2), [ints(6, 2, 4)]),
    'embedding_max_norm': (nn.Embedding(6, 3, max_norm=0.8), [ints(6, 5)]),
    'embedding_bag': (nn.EmbeddingBag(7, 3), [ints(7, 2, 4)]),
    'embedding_bag_offsets': (nn.EmbeddingBag(7, 3, mode='sum'), [ints(7, 6), torch.tensor([0, 2, 2])]),
    'embedding_bag_max': (nn.EmbeddingBag(7, 3, mode='max', padding_idx=1), [ints(7, 3, 3)]),
    'flatten': (nn.Flatten(), [r(2, 3, 2)]), 'unflatten': (nn.Unflatten(1, (2, 3)), [r(2, 6)]),
    'fold': (nn.Fold((4, 5), 2), [r(1, 8, 12)]), 'unfold': (nn.Unfold(2, stride=2), [r(1, 2, 4, 4)]),
    'pixel_shuffle': (nn.PixelShuffle(2), [r(1, 8, 2, 3)]), 'pixel_unshuffle': (nn.PixelUnshuffle(2), [r(1, 2, 4, 4)]),
    'channel_shuffle': (nn.ChannelShuffle(2), [r(1, 4, 2, 2)]),
    'upsample_nearest': (nn.Upsample(scale_factor=2.0), [r(1, 2, 3)]), 'upsample_bilinear': (nn.Upsample(size=(4, 5), mode='bilinear'), [r(1, 2, 3, 3)]),
    'upsample_bicubic': (nn.Upsample(scale_factor=2.0, mode='bicubic', align_corners=True), [r(1, 1, 3, 4)]),
    'upsample_trilinear': (nn.Upsample(size=(3, 4, 2), mode='trilinear'), [r(1, 1, 2, 2, 2)]),
    'upsampling_nearest2d': (nn.UpsamplingNearest2d(scale_factor=2.0), [r(1, 1, 2, 3)]), 'upsampling_bilinear2d': (nn.UpsamplingBilinear2d(size=(5, 4)), [r(1, 1, 3, 3)]),
    'cosine_similarity': (nn.CosineSimilarity(), [r(3, 4), r(3, 4)]), 'pairwise_distance': (nn.PairwiseDistance(3), [r(3, 4), r(3, 4)]),
    'l1_loss': (nn.L1Loss(), [r(3, 2), r(3, 2)]), 'mse_loss': (nn.MSELoss(reduction='sum'), [r(3, 2), r(3, 2)]),
    'cross_entropy_loss': (nn.CrossEntropyLoss(weight=positive(4), label_smoothing=0.1), [r(3, 4), ints(4, 3)]),
    'nll_loss': (nn.NLLLoss(ignore_index=1, reduction='none'), [r(4, 3), ints(3, 4)]),
    'poisson_nll_loss': (nn.PoissonNLLLoss(full=True), [r(5), positive(5)]),
    'gaussian_nll_loss': (nn.GaussianNLLLoss(full=True), [r(4, 2), r(4, 2), positive(4, 2)]),
    'kl_div_loss': (nn.KLDivLoss(reduction='batchmean', log_target=True), [r(3, 4), r(3, 4)]),
    'bce_loss': (nn.BCELoss(weight=positive(3)), [torch.sigmoid(r(2, 3)), torch.rand(2, 3)]),
    'bce_with_logits_loss': (nn.BCEWithLogitsLoss(pos_weight=positive(3)), [r(2, 3), torch.rand(2, 3)]),
    'margin_ranking_loss': (nn.MarginRankingLoss(0.2), [r(4), r(4), torch.tensor([1., -1, 1, -1])]),
    'hinge_embedding_loss': (nn.HingeEmbeddingLoss(0.5), [r(4), torch.tensor([1., -1, 1, -1])]),
    'multilabel_margin_loss': (nn.MultiLabelMarginLoss(), [r(1, 4), torch.tensor([[3, 0, -1, 1]])]),
    'huber_loss': (nn.HuberLoss(delta=0.5), [r(6), r(6)]), 'smooth_l1_loss': (nn.SmoothL1Loss(beta=0.3), [r(6), r(6)]),
    'soft_margin_loss': (nn.SoftMarginLoss(), [r(4), torch.tensor([1., -1, 1, -1])]),
    'multilabel_soft_margin_loss': (nn.MultiLabelSoftMarginLoss(weight=positive(3)), [r(2, 3), torch.rand(2, 3).round()]),
    'cosine_embedding_loss': (nn.CosineEmbeddingLoss(0.1), [r(3, 4), r(3, 4), torch.tensor([1., -1, 1])]),
    'multi_margin_loss': (nn.MultiMarginLoss(p=2), [r(3, 4), ints(4, 3)]),
    'triplet_margin_loss': (nn.TripletMarginLoss(swap=True), [r(3, 4), r(3, 4), r(3, 4)]),
    'ctc_loss': (nn.CTCLoss(), [torch.log_softmax(r(6, 2, 4), 2), ints(3, 2, 3) + 1, torch.tensor([6, 5]), torch.tensor([3, 2])]),
    'rnn': (nn.RNN(3, 4, nonlinearity='relu'), [r(5, 2, 3)]), 'lstm': (nn.LSTM(3, 4, 2, bidirectional=True), [r(5, 2, 3)]),
    'lstm_state': (nn.LSTM(3, 4, batch_first=True, proj_size=2), [r(2, 5, 3), r(1, 2, 2), r(1, 2, 4)]),
    'gru': (nn.GRU(3, 4, bias=False), [r(5, 3)]), 'rnn_cell': (nn.RNNCell(3, 4), [r(2, 3)]), 'lstm_cell': (nn.LSTMCell(3, 4), [r(2, 3), r(2, 4), r(2, 4)]),
    'gru_cell': (nn.GRUCell(3, 4), [r(3), r(4)]),
    'multihead_attention': (nn.MultiheadAttention(4, 2), [r(3, 2, 4), r(5, 2, 4), r(5, 2, 4)]),
    'multihead_attention_masks': (nn.MultiheadAttention(4, 2, batch_first=True, kdim=3, vdim=5),
                                  [r(2, 3, 4), r(2, 4, 3), r(2, 4, 5), torch.tensor([[0, 0, 0, 1], [0, 0, 1, 1]]).bool(),
                                   torch.tensor([[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]]).bool()]),
    'transformer_encoder_layer': (nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0), [r(3, 2, 4)]),
    'transformer_encoder_layer_first': (nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, norm_first=True, activation='gelu', batch_first=True), [r(2, 3, 4)]),
    'transformer_decoder_layer': (nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0), [r(3, 2, 4), r(5, 2, 4)]),
    'transformer_encoder': (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0), 2, nn.LayerNorm(4), enable_nested_tensor=False), [r(3, 2, 4)]),
    'transformer_decoder': (nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0), 2), [r(3, 2, 4), r(4, 2, 4)]),
    'transformer': (nn.Transformer(4, 2, 1, 2, 6, dropout=0.0), [r(3, 2, 4), r(5, 2, 4)]),
    'adaptive_log_softmax': (nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3, 5], div_value=2.0), [r(5, 6), torch.tensor([0, 8, 2, 4, 5])]),
    'adaptive_log_softmax_head': (nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3, 5, 7], head_bias=True, div_value=1.5), [r(6), torch.tensor(6)]),
}


def cases():
    """Those that came later take their numbers behind the others, which keep theirs."""
    yield from CASES.items()
    yield from {
        'upsample_recomputed': (nn.Upsample(scale_factor=2.7, mode='linear', recompute_scale_factor=True), [r(1, 2, 4)]),
        'upsample_not_recomputed': (nn.Upsample(scale_factor=2.7, mode='linear'), [r(1, 2, 4)]),
        'upsample_nearest_exact': (nn.Upsample(size=(4, 5), mode='nearest-exact'), [r(1, 2, 3, 3)]),
    }.items()


def call(name, layer, x):
    if isinstance(layer, nn.MultiheadAttention):
        out = layer(x[0], x[1], x[2], key_padding_mask=x[3] if len(x) > 3 else None, attn_mask=x[4] if len(x) > 4 else None)
    elif isinstance(layer, (nn.LSTM, nn.LSTMCell)) and len(x) > 1:
        out = layer(x[0], (x[1], x[2]))
    else:
        out = layer(*x)
    flat = []
    for o in out if isinstance(out, tuple) else (out,):
        flat += list(o) if isinstance(o, tuple) else [o]
    return flat


def main():
    tensors, texts = {}, {}
    for name, (layer, inputs) in cases():
        for p in layer.parameters():
            torch.nn.init.normal_(p, 0.1, 0.4)
        if hasattr(layer, 'padding_idx') and layer.padding_idx is not None:
            with torch.no_grad():
                layer.weight[layer.padding_idx].zero_()
        if name == 'batch_norm2d_eval':
            layer.running_mean.normal_(), layer.running_var.uniform_(0.5, 2)
        for key, value in layer.state_dict().items():
            tensors[f'{name}.state.{key}'] = value.detach().clone()
        wanted = [x.clone().requires_grad_() if x.is_floating_point() and not name.endswith('loss') else x for x in inputs]
        if name.endswith('loss') and inputs[0].is_floating_point():
            wanted[0] = inputs[0].clone().requires_grad_()
        outputs = call(name, layer, wanted)
        for i, x in enumerate(inputs):
            tensors[f'{name}.in.{i}'] = x.detach()
        for i, o in enumerate(outputs):
            tensors[f'{name}.out.{i}'] = o.detach()
        weights = torch.linspace(0.5, 1.5, outputs[0].numel()).reshape(outputs[0].shape)
        if outputs[0].requires_grad:
            (outputs[0] * weights).sum().backward()
            for key, p in layer.named_parameters():
                if p.grad is not None:
                    tensors[f'{name}.grad.{key}'] = p.grad
            if wanted[0].is_floating_point():
                tensors[f'{name}.grad_in'] = wanted[0].grad
        if name.startswith('batch_norm') or name == 'instance_norm2d' or name == 'embedding_max_norm':
            for key, value in layer.state_dict().items():
                tensors[f'{name}.after.{key}'] = value.detach().clone()
        if '\n' not in repr(layer):
            texts[name] = repr(layer)
    write(sys.argv[1], tensors, texts)


main()
