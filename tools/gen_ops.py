#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Prints the files that are generated from the table of operators (ops/table/*.toml): the typed calls, the built-in
registrations, the list of gradient rules and the table in the documentation. It decides nothing: what is missing in the
table or in numbers.txt is an error, never a guess. docs/operators-naming.md has the rule for C names. The modules are
in gen/.
"""
import argparse
import os
import sys

from gen.c_calls import print_c_calls
from gen.doc import print_doc
from gen.header import print_cpp_header, print_header, print_numbers, print_shared_bodies, print_shared_header, print_tensor_header
from gen.schema import Bad
from gen.sources import missing, public_names
from gen.table import Table
from gen.tables import print_gradient_rules, print_gradients, print_rules, print_table


def write(path, text):
    """Does not write a file that has the text already, so that nothing is built again."""
    if os.path.exists(path):
        with open(path) as f:
            if f.read() == text:
                return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def differs(path, text):
    if not os.path.exists(path):
        return True
    with open(path) as f:
        return f.read() != text


def main():
    parser = argparse.ArgumentParser(description="Prints the files that are generated from the table of operators.")
    parser.add_argument("--table", default=os.path.join(os.path.dirname(__file__), "..", "ops", "table"))
    parser.add_argument("--out-header", metavar="FILE")
    parser.add_argument("--out-cpp-header", metavar="FILE")
    parser.add_argument("--out-tensor-header", metavar="FILE")
    parser.add_argument("--out-numbers", metavar="FILE")
    parser.add_argument("--out-table", metavar="FILE")
    parser.add_argument("--out-gradients", metavar="FILE")
    parser.add_argument("--out-rules", metavar="FILE")
    parser.add_argument("--out-gradient-rules", metavar="FILE")
    parser.add_argument("--out-calls", metavar="FILE", help="the header that stands for ops.h in the library's own code")
    parser.add_argument("--out-call-bodies", metavar="FILE")
    parser.add_argument("--out-doc", metavar="FILE")
    parser.add_argument("--out-c-calls", metavar="FILE", help="the C calls that `tenon ops --c` prints")
    parser.add_argument("--headers", metavar="DIR", default=os.path.join(os.path.dirname(__file__), "..", "abi", "include", "tenon"),
                        help="the public headers, whose names no operator may have")
    parser.add_argument("--check", action="store_true", help="only look for inconsistencies")
    parser.add_argument("--families", metavar="NAME", nargs="+", help="fail unless these are the files of the table, as the build depends on each")
    parser.add_argument("--compare", action="store_true", help="write nothing; fail where a file differs from what would be written")
    parser.add_argument("--number", action="store_true", help="append the numbers of new schemas to numbers.txt")
    parser.add_argument("--missing", metavar="DIR", help="list the rules that no .c file under DIR defines")
    parser.add_argument("--list-schemas", action="store_true", help="print every schema, derived ones too")
    args = parser.parse_args()
    try:
        table = Table(args.table, public_names(args.headers))
        if args.number:
            print(f"{table.append_numbers()} numbers appended")
        table.number()
        texts = [(args.out_header, print_header(table)), (args.out_cpp_header, print_cpp_header(table)),
                 (args.out_tensor_header, print_tensor_header(table)),
                 (args.out_numbers, print_numbers(table)), (args.out_table, print_table(table)),
                 (args.out_gradients, print_gradients(table)), (args.out_rules, print_rules(table)),
                 (args.out_gradient_rules, print_gradient_rules(table)),
                 (args.out_calls, print_shared_header(table)), (args.out_call_bodies, print_shared_bodies(table)),
                 (args.out_doc, print_doc(table)), (args.out_c_calls, print_c_calls(table))]
        for path, text in texts:
            if path and args.compare:
                if differs(path, text):
                    raise Bad(f"{path} is not what the table gives: run tools/gen_ops.py")
            elif path:
                write(path, text)
        if args.list_schemas:
            for f in table.all_forms():
                print(f"{f.number}\t{f.kind}\t{f.cname}\t{f.schema}")
        if args.missing:
            print("\n".join(missing(table, args.missing)))
        if args.families and set(args.families) != {name for name, _ in table.families}:
            raise Bad(f"the build depends on {', '.join(sorted(args.families))}; the table has {', '.join(name for name, _ in table.families)}")
        if args.check:
            print(f"{len(table.entries)} entries, {len(table.all_forms())} schemas")
    except Bad as e:
        sys.exit(f"gen_ops: {e}")


if __name__ == "__main__":
    main()
