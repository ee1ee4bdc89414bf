#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file of ours as Doxygen reads it, for its INPUT_FILTER. In headers, comments before declarations and behind members become its
own, and what macros around a declaration say (any thread, taken over) becomes words. In documents, headings get names, and links to
them become references.

    doc_filter.py FILE
"""
import re
import sys
from pathlib import Path

WORDS = {"TN_ANY_THREAD": "May be called from any thread.", "TN_SCOPED": "The result belongs to the scope.",
         "TN_TAKES": "Takes ownership of its argument."}


def documented(comment, code):
    """A comment that stands before something, and that something, up to the end of its declaration."""
    words = " ".join(text for macro, text in WORDS.items() if re.search(rf"\b{macro}\b", code))
    body = comment[2:-2].rstrip()
    return f"/**{body}{' @note ' + words if words else ''} */{code}"


def header(text):
    text = text.replace("/* SPDX-License-Identifier: Apache-2.0 */\n/*", "/** @file\n *", 1)
    text = re.sub(r"(?<=\S)( +)/\* ", r"\1/**< ", text)  # behind a member or a macro
    return re.sub(r"^([ \t]*)(/\*(?!\*)(?: |\n)(?:(?!\*/).)*\*/)(\n[^;{#]*[;{]|\n[ \t]*#define)",
                  lambda m: m[1] + documented(m[2], m[3]), text, flags=re.M | re.S)


def anchor(heading):
    """The name of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def document(path, text):
    def name(file, heading):
        return f"{Path(file).stem}_{heading}"

    def link(m):
        file, _, heading = m[1].partition("#")
        return f"](@ref {name(file or path, heading)})"

    text = re.sub(r"\A<!--.*?-->\n", "", text)  # so that the first heading is the title
    parts = re.split(r"(^```.*?^```[ \t]*$)", text, flags=re.M | re.S)
    for i in range(0, len(parts), 2):  # what is not code
        part = re.sub(r"\]\(([^)\s:]*#[^)\s]+)\)", link, parts[i])
        part = re.sub(r"^(##+) +(.*?) *$", lambda m: f"{m[1]} {m[2]} {{#{name(path, anchor(m[2]))}}}", part, flags=re.M)
        # Doxygen takes what is in front of :: in a path for a class.
        parts[i] = re.sub(r"`([^`\n]*(?:/\w*|^|\s|')::[^`\n]*)`", lambda m: "<code>" + re.sub(r"(::|[<>&*_])", r"\\\1", m[1]) + "</code>", part)
    return "".join(parts)


def main():
    path = sys.argv[1]
    text = Path(path).read_text()
    sys.stdout.write(document(path, text) if path.endswith(".md") else header(text))


if __name__ == "__main__":
    main()
