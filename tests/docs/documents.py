#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents keep to: sentences are short, the glossary is small, links and paths lead somewhere, all variables
are listed, names of functions and types are in a header.

    documents.py SOURCE

Code, tables and generated documents are not prose; a cell of a table is, where it is a sentence of its own.
"""
import re
import sys
from pathlib import Path

LONGEST = 200  # characters of a sentence; a link counts as its text
MOST_WORDS = 40
GENERATED = {"operators.md"}
# Folders of the tree: what begins with one of them and a slash is a path. Built and installed files are not in the tree.
ROOMS = "abi|autograd|bench|core|data|dispatcher|docs|examples|files|kit|nn|ops|optim|plugins|tests|tools"
PATH = re.compile(rf"`((?:{ROOMS})/[\w./*{{}},-]*)`")


def documents(source):
    return [source / "README.md", *sorted(p for p in (source / "docs").glob("*.md") if p.name not in GENERATED)]


def paragraphs(text):
    """The prose of a document: paragraphs, items of lists and cells of tables, with the line where each begins."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    current, begin = [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        code = line.startswith("    ") and not current
        heading = line.startswith(("#", "<!--"))
        item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if not line.strip() or code or heading or item or line.lstrip().startswith("|"):
            if current:
                yield begin, " ".join(current)
            current = []
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split(" | "):
                yield number, cell.strip()
        elif line.strip() and not code and not heading:
            begin = begin if current else number
            current.append(line.strip())


def comments(text):
    """The prose of a header's comments: paragraphs and items of lists, with the line where each begins."""
    for comment in re.finditer(r"/\*.*?\*/", text, re.S):
        first = text.count("\n", 0, comment.start())
        body = re.sub(r"^/\*+ ?|\s*\*/$", "", comment[0])
        body = re.sub(r"^[ \t]*\*? ?", "", body, flags=re.M)
        body = re.sub(r"^ {0,3}(?=\S+(?: \S+){0,2} {2,}\S)", "- ", body, flags=re.M)  # a word and, in a column, its meaning
        for line, paragraph in paragraphs(body):
            yield first + line, paragraph


def changes(text):
    """The entries of abi/CHANGES: each line is a list; a semicolon or the name of a header begins an item."""
    for number, line in enumerate(text.splitlines(), 1):
        for item in re.split(r"; |\. (?=[a-z_]+\.h)", line):
            yield number, item


def sentences(paragraph):
    """Its sentences, with links as their texts."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    hidden = re.sub(r"`[^`]*`", lambda m: "`" + "x" * (len(m[0]) - 2) + "`", text)  # ends no sentence
    gaps = list(re.finditer(r"(?<=[.!?])[)*_]*\s+(?=[\[`*(]*[A-Z0-9`*\[])", hidden))
    begins, ends = [0, *(gap.end() for gap in gaps)], [*(gap.start() for gap in gaps), None]
    return [text[begin:end] for begin, end in zip(begins, ends)]


def prose(source):
    """All that is read as prose: the file, and its pieces with their lines."""
    readmes = [p for room in ROOMS.split("|") for p in sorted((source / room).rglob("README.md"))]
    for document in [*documents(source), *readmes]:
        yield document, paragraphs(document.read_text())
    yield source / "abi/CHANGES", changes((source / "abi/CHANGES").read_text())
    for header in sorted(p for p in source.glob("*/include/tenon/*") if p.suffix in (".h", ".hpp")):
        yield header, comments(header.read_text())


def long_sentences(source):
    for document, pieces in prose(source):
        for line, paragraph in pieces:
            for sentence in sentences(paragraph):
                if len(sentence) > LONGEST:
                    yield f"{document.relative_to(source)}:{line}: {len(sentence)} characters: {sentence[:90]}..."


def glossary(source):
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", (source / "docs/glossary.md").read_text(), re.M)
    if not words or len(words) > MOST_WORDS:
        yield f"glossary.md: {len(words)} words, from 1 to {MOST_WORDS} are expected"
    if words != sorted(words, key=str.lower):
        yield "glossary.md: the words are not in order"


def exists(source, path):
    """Braces and stars as a shell has them."""
    if brace := re.search(r"\{([^{}]*)\}", path):
        return all(exists(source, path[:brace.start()] + word + path[brace.end():]) for word in brace[1].split(","))
    if "VERSION" in path:  # a placeholder
        return True
    return any(source.glob(path.rstrip("/"))) or any(source.glob(f"{path}.*"))  # a test has the name of its file


def missing_paths(source):
    for document in documents(source):
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for path in PATH.findall(line):
                if not exists(source, path):
                    yield f"{document.name}:{number}: {path} does not exist"


def anchor(heading):
    """The name that a heading has in links."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).strip().replace(" ", "-")


def dead_links(source):
    """Links between documents and into the tree; generated documents are read for their links, too."""
    for document in {*documents(source), *(source / "docs").glob("*.md"), *(source / "examples").rglob("*.md")}:
        prose = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)
        for target, section in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", prose):
            to = document.parent / target if target else document
            if not to.exists():
                yield f"{document.name}: the link {target} leads nowhere"
            elif section and section not in map(anchor, re.findall(r"^#+ (.*)$", to.read_text(), re.M)):
                yield f"{document.name}: {target} has no section {section}"


def variables(source):
    """The table of environment variables has those that the library, the CPU plugin and the tool read, and no others."""
    files = [file for room in ("core", "dispatcher", "plugins/cpu") for file in (source / room).rglob("*.c")]
    read = {name for file in [*files, source / "kit/tenon.c"] for name in re.findall(r'"(TENON_[A-Z_]+)"', file.read_text())}
    text = (source / "docs/write-an-application.md").read_text()
    listed = set(re.findall(r"`(TENON_[A-Z_]+)`", "\n".join(re.findall(r"^\| `.*?\|", text, re.M))))
    for name in sorted(read ^ listed):
        yield f"write-an-application.md: {name} is {'not in the table' if name in read else 'read by nobody'}"


def unknown_names(source):
    """Names of ours in lower case, in prose and code, are in a header of the tree. One with a star begins several names."""
    headers = [file for room in ROOMS.split("|") + ["progress"] for suffix in ("h", "hpp") for file in (source / room).rglob(f"*.{suffix}")]
    known = {name for file in headers for name in re.findall(r"\btn_\w+", file.read_text())}
    for document in documents(source):
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for name in re.findall(r"(?<![\w:/-])tn_[a-z0-9_]*[a-z0-9](?![\w*-]|\.\w)", line):
                if name not in known:
                    yield f"{document.name}:{number}: {name} is in no header"


def main():
    source = Path(sys.argv[1])
    failed = 0
    checks = (long_sentences, glossary, missing_paths, dead_links, variables, unknown_names)
    for check in checks:
        findings = list(check(source))
        print("\n".join(findings), end="\n" if findings else "")
        failed += bool(findings)
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
