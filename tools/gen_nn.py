#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the layers' header and table from nn/layers.toml.

usage: gen_nn.py --table layers.toml [--out-header nn_layers.h] [--out-cpp-header nn_layers.hpp] [--out-rows layer_rows.c] [--compare]
With --compare the headers are not written but compared with those that are there.
"""
import argparse
import re
import sys
import textwrap
import tomllib

C_TYPES = {'int': 'int64_t', 'float': 'double', 'bool': 'int32_t', 'text': 'const char *', 'ints': 'tn_ints', 'tensor': 'tn_tensor *'}
KINDS = {'int': 'NN_INT', 'float': 'NN_FLOAT', 'bool': 'NN_BOOL', 'text': 'NN_TEXT', 'ints': 'NN_INTS', 'tensor': 'NN_TENSOR'}
VALUES = {'zeros': 'NN_ZEROS', 'ones': 'NN_ONES', 'fan_in': 'NN_FAN_IN', 'fan_first': 'NN_FAN_FIRST', 'normal': 'NN_NORMAL',
          'count': 'NN_COUNT'}
ACRONYMS = {'ReLU', 'ReLU6', 'RReLU', 'PReLU', 'GELU', 'ELU', 'CELU', 'SELU', 'GLU', 'SiLU', 'RNN', 'LSTM', 'GRU', 'RNNCell',
            'LSTMCell', 'GRUCell', 'LeakyReLU'}


def snake(name):
    """The C name of a class: Conv2d conv2d, BatchNorm1d batch_norm1d, BCEWithLogitsLoss bce_with_logits_loss."""
    special = {'LeakyReLU': 'leaky_relu', 'RNNCell': 'rnn_cell', 'LSTMCell': 'lstm_cell', 'GRUCell': 'gru_cell', 'LPPool1d': 'lp_pool1d',
               'LPPool2d': 'lp_pool2d', 'LPPool3d': 'lp_pool3d', 'CTCLoss': 'ctc_loss', 'MSELoss': 'mse_loss', 'NLLLoss': 'nll_loss',
               'PoissonNLLLoss': 'poisson_nll_loss', 'GaussianNLLLoss': 'gaussian_nll_loss', 'BCELoss': 'bce_loss', 'KLDivLoss': 'kl_div_loss',
               'BCEWithLogitsLoss': 'bce_with_logits_loss', 'RMSNorm': 'rms_norm', 'L1Loss': 'l1_loss', 'SmoothL1Loss': 'smooth_l1_loss',
               'MultiLabelMarginLoss': 'multilabel_margin_loss', 'MultiLabelSoftMarginLoss': 'multilabel_soft_margin_loss'}
    if name in special:
        return special[name]
    if name in ACRONYMS:
        return name.lower()
    return re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower()


def number(text):
    return {'true': '1', 'false': '0', 'none': 'NAN'}.get(text, text)


class Layer:
    def __init__(self, name, row, templates):
        self.n = row.get('n', 0)
        if 'like' in row:
            merged = dict(templates[row['like']])
            merged.update({k: v for k, v in row.items() if k not in ('like', 'n')})
            row = merged
        self.name, self.c, self.doc = name, snake(name), row.get('doc', '')
        self.options = [self.option(text, True) for text in row.get('args', [])] + \
                       [self.option(text, False) for text in row.get('options', [])]
        self.index = {o['name']: i for i, o in enumerate(self.options)}
        self.tensors = [self.tensor(text) for text in row.get('tensors', [])]
        self.tensor_index = {t['name']: i for i, t in enumerate(self.tensors)}
        self.op, self.forward, self.init = row.get('op'), row.get('forward'), row.get('init')
        self.also, self.outputs, self.check = row.get('also'), row.get('outputs', 1), row.get('check')
        self.repr = row.get('repr', '')
        self.inputs = row.get('inputs', 1) if self.forward else 0

    def fill(self, text):
        return text.replace('{2n}', str(2 * self.n)).replace('{n}', str(self.n))

    def option(self, text, is_given):
        words = self.fill(text).split()
        match = re.fullmatch(r'([a-z]+)(\d*)(\?)?', words[1])
        kind, spread = match.group(1), int(match.group(2) or 0)
        default = None if is_given else words[2]
        return {'name': words[0], 'kind': kind, 'spread': spread, 'given': is_given, 'default': default, 'none': bool(match.group(3))}

    def tensor(self, text):
        head, rest = text.split('=', 1)
        sizes, values = rest.rsplit(':', 1)
        words = head.split()
        conditions = [w[1:].split('&') for w in words[1:] if w.startswith('?')]
        conditions = conditions[0] if conditions else []
        dims = []
        for d in filter(None, (x.strip() for x in sizes.split(','))):
            match = re.fullmatch(r'(\*?)(?:(\d+)\*)?([a-z_0-9]+?)(?:/([a-z_]+))?', d)
            star, factor, option, over = match.groups()
            dims.append((self.index[option], self.index[over] if over else -1, int(factor or 1), 1 if star else 0))
        values = values.strip()
        return {'name': words[0], 'if': [self.index[c] for c in conditions], 'buffer': 'buffer' in words, 'dims': dims,
                'values': VALUES.get(values, 'NN_OPTION'), 'option': self.index.get(values, -1)}

    def argument(self, word):
        inputs = {'x': 0, 'y': 1, 'z': 2, 'w': 3}
        if word in inputs:
            return f'{{NN_INPUT, {inputs[word]}, 0, NULL}}'
        if word == 'training':
            return '{NN_TRAINING, 0, 0, NULL}'
        if word == 'none':
            return '{NN_ABSENT, 0, 0, NULL}'
        if word in ('true', 'false'):
            return f'{{NN_BOOLEAN, 0, {number(word)}, NULL}}'
        if word.startswith("'"):
            return f'{{NN_LITERAL, 0, 0, "{word[1:-1]}"}}'
        if word == 'reduction':
            return f'{{NN_REDUCTION, {self.index[word]}, 0, NULL}}'
        if word.endswith('|none'):
            return f'{{NN_OPTION_OR_NONE, {self.index[word[:-5]]}, 0, NULL}}'
        if word in self.tensor_index:
            return f'{{NN_TENSOR_OF, {self.tensor_index[word]}, 0, NULL}}'
        if word in self.index:
            return f'{{NN_OPTION_OF, {self.index[word]}, 0, NULL}}'
        return f'{{NN_NUMBER, 0, {float(word):g}, NULL}}'

    def shown(self, word):
        if word.startswith("'"):
            return f'{{0, NN_ALWAYS, "{word[1:-1]}"}}'
        if '->' in word:
            option, words = word.split('->')
            return f'{{{self.index[option]}, NN_IF_TRUE, "{words}"}}'
        if word.startswith('@'):
            return f'{{0, NN_IS_THERE, "{word[1:]}"}}'
        how = {'!': 'NN_PLAIN', '?': 'NN_IF_CHANGED', '()': 'NN_TUPLE', '~': 'NN_OR_NONE', '^': 'NN_UNQUOTED'}
        name = re.match('[a-z_0-9]+', word).group(0)
        marks = [how[m] for m in re.findall(r'\(\)|[!?~^]', word[len(name):])] or ['0']
        return f"{{{self.index[name]}, {' | '.join(marks)}, NULL}}"

    # ---- the header

    def header(self):
        given = [o for o in self.options if o['given']]
        free = [o for o in self.options if not o['given']]
        lines = []
        if self.doc:
            lines += comment(f'nn.{self.name}: {self.doc}')
        fields = ' '.join(f"{C_TYPES[o['kind']]}{'' if C_TYPES[o['kind']].endswith('*') else ' '}{o['name']};" for o in self.options)
        lines += wrap(f'typedef struct tn_{self.c}_options {{ uint32_t options_size; uint32_t reserved; const char *name; {fields} }} tn_{self.c}_options;')
        lines += wrap(f'TN_API tn_module *tn_{self.c}_create_with(tn_module *parent, const tn_{self.c}_options *options);')
        # The last thing that must be given begins the variable part, which is then never empty.
        names = ['name'] + [o['name'] for o in given]
        params = ', '.join(['parent'] + [f'{n}_' for n in names[:-1]] + ['...'])
        first = [f'.options_size = sizeof(tn_{self.c}_options)'] + [f".{o['name']} = {self.default(o)}" for o in free if self.default(o)]
        first += [f'.{n} = ({n}_)' for n in names[:-1]] + [f'.{names[-1]} = __VA_ARGS__']
        lines += wrap(f'#define tn_{self.c}_create({params}) TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR('
                      f"TN_BUILDS(tn_{self.c}_create_with(parent, &(tn_{self.c}_options){{{', '.join(first)}}})))", macro=True)
        return lines

    @staticmethod
    def default(o):
        if o['default'].startswith('=') or o['kind'] in ('tensor', 'ints'):
            return None
        if o['kind'] == 'text':
            return f'"{o["default"]}"'
        return None if number(o['default']) == '0' else number(o['default'])

    def cpp(self):
        """The function in C++: what must be given stands in order, the rest is a struct with its defaults."""
        types = {**C_TYPES, 'tensor': 'tensor ', 'ints': 'const int_list &'}
        space = {k: v if v.endswith(('*', '&', ' ')) else v + ' ' for k, v in types.items()}
        members = {**space, 'ints': 'tn_list<tn_ints, int64_t> '}
        given = [o for o in self.options if o['given']]
        free = [o for o in self.options if not o['given']]
        lines = comment(f'nn.{self.name}: {self.doc}') if self.doc else []
        if free:
            fields = ' '.join(f"{members[o['kind']]}{o['name']}{{{self.default(o) or ''}}};" for o in free)
            lines += wrap(f'struct {self.c}_options {{ {fields} }};')
        params = ['const layer &parent', 'const std::string &name'] + [f"{space[o['kind']]}{o['name']}" for o in given]
        params += ([f'const {self.c}_options &o = {{}}'] if free else []) + ['tn_place at = tn_place::here()']
        lines += wrap(f"inline layer {self.c}({', '.join(params)})")
        sets = [f"c.{o['name']} = {o['name']};" for o in given] + [f"c.{o['name']} = o.{o['name']};" for o in free]
        return lines + wrap(f"{{ tn_{self.c}_options c{{}}; c.options_size = sizeof c; c.name = name.c_str(); {''.join(s + ' ' for s in sets)}"
                            f'return layer(parent, at, [&] {{ return tn_{self.c}_create_with(parent, &c); }}); }}')

    # ---- the row

    def row(self):
        c, lines = self.c, []
        if self.options:
            lines.append(f'static const nn_option {c}_options[] = {{')
            for o in self.options:
                default = o['default'] or '0'
                like = self.index[default[1:]] if default.startswith('=') else -1
                value = '0' if like >= 0 or o['kind'] in ('text',) else 'NAN' if o['kind'] == 'tensor' else number(default)
                text = f'"{default}"' if o['kind'] == 'text' and not o['given'] else 'NULL'
                lines.append(f'    {{"{o["name"]}", offsetof(tn_{c}_options, {o["name"]}), {KINDS[o["kind"]]}, {o["spread"]}, {like}, '
                             f'{int(o["given"])}, {int(o["none"])}, {value}, {text}}},')
            lines.append('};')
        if self.tensors:
            lines.append(f'static const nn_tensor_row {c}_tensors[] = {{')
            for t in self.tensors:
                conditions = (t['if'] + [-1, -1])[:2]
                dims = ', '.join('{%d, %d, %d, %d}' % d for d in t['dims']) or '{0, 0, 0, 0}'
                lines.append(f'    {{"{t["name"]}", {{{conditions[0]}, {conditions[1]}}}, {int(t["buffer"])}, {t["values"]}, {t["option"]}, '
                             f'{len(t["dims"])}, {{{dims}}}}},')
            lines.append('};')
        words = self.fill(self.op).split() if self.op else []
        if words:
            lines.append(f'static const nn_argument {c}_arguments[] = {{' + ', '.join(self.argument(w) for w in words[1:]) + '};')
        shown = self.repr.split()
        if shown:
            lines.append(f'static const nn_shown {c}_shown[] = {{' + ', '.join(self.shown(w) for w in shown) + '};')
        also = self.fill(self.also).split() if self.also else None
        lines.append(f'const nn_layer nn_layer_{c} = {{')
        lines.append(f'    .class = {{.size = sizeof(tn_module_class), .name = "{self.name}", .state_bytes = sizeof(tn_{c}_options), '
                     f'.forward = nn_layer_forward, .describe = nn_layer_describe, .finish = nn_layer_finish}},')
        lines.append(f'    .option_count = {len(self.options)}, .tensor_count = {len(self.tensors)}, '
                     f'.argument_count = {max(0, len(words) - 1)}, .shown_count = {len(shown)},')
        parts = [f'.{k} = {c}_{k}' for k, there in (('options', self.options), ('tensors', self.tensors), ('arguments', words[1:]), ('shown', shown)) if there]
        parts += [f'.op = {op_number(words[0])}'] if words else []
        parts += [f'.op_also = {op_number(also[1])}'] if also else []
        parts += [f'.also_option = {self.index[also[0]] if also else -1}', f'.check_option = {self.index[self.check] if self.check else -1}',
                  f'.results = {self.outputs}', f'.rank = {self.n}']
        parts += [f'.inputs = {self.inputs}, .forward = nn_{self.forward}_forward'] if self.forward else []
        parts += [f'.init = nn_{self.init}_init'] if self.init else []
        lines.append('    ' + ', '.join(parts))
        lines.append('};')
        lines.append(f'tn_module *tn_{c}_create_with(tn_module *parent, const tn_{c}_options *options)')
        lines.append('{')
        lines.append(f'    return nn_layer_create(parent, &nn_layer_{c}, options);')
        lines.append('}')
        return lines


def op_number(name):
    return 'TN_OP_' + {'softmax.int': 'SOFTMAX', 'log_softmax.int': 'LOG_SOFTMAX', 'flatten.using_ints': 'FLATTEN',
                       'unflatten.int': 'UNFLATTEN', 'ctc_loss.Tensor': 'CTC_LOSS'}.get(name, name).upper().replace('.', '_')


def comment(text):
    lines = textwrap.wrap(text, 113)
    return ['/* ' + '\n * '.join(lines) + ' */']


def wrap(text, macro=False):
    lines = textwrap.wrap(text, 116, subsequent_indent='    ', break_long_words=False, break_on_hyphens=False)
    return [' \\\n'.join(lines)] if macro else lines


def put(path, lines, compare):
    """Writes the file, or compares it with the one that is there."""
    text = '\n'.join(lines)
    if not compare:
        open(path, 'w').write(text)
    elif open(path).read() != text:
        sys.exit(f'{path} is not what the table gives: run tools/gen_nn.py')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--table', required=True)
    parser.add_argument('--out-header')
    parser.add_argument('--out-cpp-header')
    parser.add_argument('--out-rows')
    parser.add_argument('--compare', action='store_true')
    args = parser.parse_args()
    with open(args.table, 'rb') as f:
        table = tomllib.load(f)
    templates = table.pop('template', {})
    layers = [Layer(name, row, templates) for name, row in table.items()]
    if args.out_header:
        lines = ['/* SPDX-License-Identifier: Apache-2.0 */',
                 '/*', ' * The layers of nn.h. Generated by tools/gen_nn.py from nn/layers.toml; do not edit.', ' *',
                 ' * tn_linear_create(parent, "fc", 3, 4, .bias = 0): what must be given stands in order, options by their names. A',
                 ' * list option of one item stands for all dimensions: .stride = TN_INTS(2). NULL, and an error of the tree, for bad',
                 ' * arguments. Structs of options may grow: `options_size` says how much of one the program knows.', ' *',
                 ' * The macros are for C; in C++ a layer is tenon::nn::linear(...) of train.hpp, or tn_linear_create_with.', ' */',
                 '#ifndef TENON_NN_LAYERS_H', '#define TENON_NN_LAYERS_H', '', '#include <tenon/nn.h>', '', '#ifndef TN_PLUGIN', 'TN_BEGIN_DECLS', '',
                 '/* clang-format off */']
        for layer in layers:
            lines += layer.header()
        lines += ['/* clang-format on */', '', 'TN_END_DECLS', '#endif', '#endif', '']
        put(args.out_header, lines, args.compare)
    if args.out_cpp_header:
        lines = ['/* SPDX-License-Identifier: Apache-2.0 */',
                 '/* The layers of train.hpp. Generated by tools/gen_nn.py from nn/layers.toml; do not edit. */',
                 '#ifndef TENON_NN_LAYERS_HPP', '#define TENON_NN_LAYERS_HPP', '', '#include <tenon/train.hpp>', '', 'namespace tenon::nn {', '']
        for layer in layers:
            lines += layer.cpp()
        put(args.out_cpp_header, lines + ['', '} // namespace tenon::nn', '', '#endif', ''], args.compare)
    if args.out_rows:
        lines = ['/* Generated by tools/gen_nn.py from nn/layers.toml. */', '#include <math.h>', '#include "layers.h"', '']
        for name in sorted({layer.forward for layer in layers if layer.forward}):
            lines.append(f'tn_tensor *nn_{name}_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);')
        for name in sorted({layer.init for layer in layers if layer.init}):
            lines.append(f'void nn_{name}_init(tn_scope *s, tn_module *m);')
        for layer in layers:
            lines += [''] + layer.row()
        lines += ['', 'const nn_layer *const nn_layers[] = {'] + [f'    &nn_layer_{layer.c},' for layer in layers] + ['};']
        lines += ['const uint32_t nn_layer_total = sizeof nn_layers / sizeof *nn_layers;']
        open(args.out_rows, 'w').write('\n'.join(lines) + '\n')


main()
