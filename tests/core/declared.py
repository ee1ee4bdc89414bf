#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions that a public header declares."""
import re


def functions(include, header):
    """(result, name, [parameter]) of each function that a header declares."""
    text = (include / f"{header}.h").read_text()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.M)
    tail = r"\s*(?:(?:TN_\w+|__attribute__)(?:\([^;]*\))?\s*)*;"
    for match in re.finditer(r"TN_API\s+([^;{]*?)\b(tn_\w+)\(([^;{]*?)\)" + tail, text, flags=re.S):
        depth, word, words = 0, "", []
        for char in match[3]:
            depth += (char == "(") - (char == ")")
            if char == "," and not depth:
                words.append(word)
                word = ""
            else:
                word += char
        words.append(word)
        words = [" ".join(re.sub(r"\bTN_(?!DEVICE)[A-Z_]+\b", "", w).split()) for w in words]
        result = " ".join(re.sub(r"\bTN_[A-Z_]+\b", "", match[1]).split())
        yield result, match[2], [] if words in (["void"], [""]) else words
