#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completions of the `tenon` command, made of what `tenon COMMAND --help` prints.

    gen_pages.py TENON VERSION GUIDE FOLDER

Writes FOLDER/man1/tenon.1, FOLDER/man1/tenon-COMMAND.1, and a file for each shell in a folder that is named as the one from
which the shell loads it: completions (bash), site-functions (zsh), vendor_completions.d (fish). GUIDE is the document with the
table of variables of the environment. A help text is: lines of usage, paragraphs, a list of options ("  --name ARG  what it does",
continued at the column of the text), paragraphs.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

FILES = r"FILE|DIR|PLUGIN\.so|LIB\.so"  # words for arguments that are completed with names of files


class Page:
    """The parts of a help text."""

    def __init__(self, text):
        self.usage, self.options, self.before, self.after = [], [], [], []
        for block in text.strip("\n").split("\n\n"):
            lines = block.split("\n")
            if lines[0].startswith("usage: "):
                self.usage = [line[7:] for line in lines]
            elif re.match(r"  -", lines[0]):
                self.options += list(options_of(lines))
            elif not re.match(r"  \S", lines[0]):  # the list of commands is made by the caller
                (self.after if self.options else self.before).append(" ".join(lines))


def options_of(lines):
    """(option, its argument or "", what it does) of a list of options."""
    found = []
    for line in lines:
        option = re.match(r"  (--?[\w-]+)(?: ([^ ]+))?(?:  +| (?=\S))(.*)", line)
        if option:
            found.append([option[1], option[2] or "", option[3]])
        else:
            found[-1][2] += " " + line.strip()
    return (tuple(option) for option in found)


def help_of(tenon, *words):
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([tenon, *words, "--help"], capture_output=True, text=True, check=True, env=environment).stdout


# ---- Manual pages


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def variables_of(guide):
    """(variable, its values, what it does) of the table of variables in a document."""
    rows = re.findall(r"^\| (`[A-Z_]+`[^|]*) \| ([^|]*) \| ([^|]*) \|$", guide, re.M)
    return [tuple(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("`", "") for cell in row) for row in rows]


def manual(name, summary, page, version, others, *, commands=(), variables=()):
    lines = [f'.TH "{roff(name.upper())}" 1 "" "Tenon {version}" "Tenon"', ".SH NAME", f"{roff(name)} \\- {roff(summary)}", ".SH SYNOPSIS", ".nf"]
    lines += [roff(line.strip()) for line in page.usage] + [".fi", ".SH DESCRIPTION"]
    for paragraph in page.before:
        lines += [".PP", roff(paragraph)]
    for title, rows in (("COMMANDS", [(c, "", s) for c, s in commands]), ("OPTIONS", page.options), ("ENVIRONMENT", variables)):
        if rows:
            lines.append(f".SH {title}")
        for word, argument, text in rows:
            lines += [".TP", f"\\fB{roff(word)}\\fR" + (f" \\fI{roff(argument)}\\fR" if argument else ""), roff(text)]
    for paragraph in page.after:
        lines += [".SH EXIT STATUS" if paragraph.startswith("Status ") else ".PP", roff(paragraph.removeprefix("Status "))]
    return "\n".join([*lines, ".SH SEE ALSO", ", ".join(f"\\fB{roff(o)}\\fR(1)" for o in others)]) + "\n"


# ---- Completions


def takes_file(page):
    return any(re.search(rf"^tenon \S+ \[?({FILES})", line.strip()) for line in page.usage) or \
        any(re.search(rf"\] ({FILES})$", line.strip()) for line in page.usage)


def choices_of(text):
    """The words that an option takes, where its text lists them: "a, b, c" at the start, or "a: what it does; b: ..."."""
    listed = re.match(r"\w+(?:, \w+)+\b", text)
    named = re.findall(r"(?:^|; )([\w-]+)(?: \(default\))?: ", text)
    return listed[0].split(", ") if listed else named if len(named) > 1 else []


def subcommands_of(page):
    """`list` and `convert` of "tenon file [list] FILE" and "tenon file convert FILE FILE"."""
    return [word[1] for word in (re.match(r"tenon \S+ \[?([a-z]+)\]?(?: |$)", line.strip()) for line in page.usage) if word]


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash(pages):
    cases = []
    for name, page in pages.items():
        files = "|".join(option for option, argument, _ in page.options if re.fullmatch(FILES, argument))
        values = "|".join(option for option, argument, _ in page.options if argument and not re.fullmatch(FILES, argument))
        words = " ".join([*(option for option, _, _ in page.options), "--help"])
        cases.append(f"    {name})\n"
                     + (f"      case $previous in {files}) COMPREPLY=($(compgen -f -- \"$word\")); return ;; esac\n" if files else "")
                     + "".join(f"      case $previous in {option}) COMPREPLY=($(compgen -W {quoted(' '.join(choices_of(what)))} -- \"$word\")); return ;; esac\n"
                               for option, argument, what in page.options if argument and choices_of(what))
                     + (f"      case $previous in {values}) return ;; esac\n" if values else "")
                     + f"      COMPREPLY=($(compgen -W {quoted(words)} -- \"$word\"))\n"
                     + ("      [[ $word == -* ]] || COMPREPLY=($(compgen -f -- \"$word\"))\n" if takes_file(page) else "")
                     + (f"      [[ $COMP_CWORD -gt 2 || $word == -* ]] || COMPREPLY+=($(compgen -W {quoted(' '.join(subcommands_of(page)))} -- \"$word\"))\n"
                        if subcommands_of(page) else "")
                     + "      ;;\n")
    return ("# Made by gen_pages.py. Completion of tenon for bash.\n_tenon() {\n"
            "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n  COMPREPLY=()\n"
            "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
            f"    COMPREPLY=($(compgen -W {quoted(' '.join([*pages, '--help', '--version']))} -- \"$word\"))\n    return\n  fi\n"
            "  case ${COMP_WORDS[1]} in\n" + "".join(cases) + "  esac\n}\ncomplete -o filenames -F _tenon tenon\n")


def zsh(pages, summaries):
    def text(words):
        return words.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")

    cases = []
    for name, page in pages.items():
        rows = [quoted("--help[prints what the command does]")]
        for option, argument, what in page.options:
            values = f"({' '.join(choices_of(what))})" if choices_of(what) else "_files" if re.fullmatch(FILES, argument) else " "
            value = f":{argument}:{values}" if argument else ""
            rows.append(quoted(f"{option}[{text(what)}]{value}"))
        if subcommands_of(page):
            rows.append(quoted(f"1:command or file:{{ compadd {' '.join(subcommands_of(page))}; _files }}"))
        if takes_file(page):
            rows.append(quoted("*:file:_files"))
        cases.append(f"    {name}) _arguments " + " \\\n      ".join(rows) + " ;;\n")
    names = "\n".join("    " + quoted(f"{name}:{text(summaries[name])}") for name in pages)
    return ("#compdef tenon\n# Made by gen_pages.py. Completion of tenon for zsh.\n_tenon() {\n  local -a commands=(\n" + names
            + "\n  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
              "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n" + "".join(cases)
            + "  esac\n}\n_tenon \"$@\"\n")


def fish(pages, summaries):
    lines = ["# Made by gen_pages.py. Completion of tenon for fish.", "complete -c tenon -f"]
    for name, page in pages.items():
        lines.append(f"complete -c tenon -n __fish_use_subcommand -a {name} -d {quoted(summaries[name])}")
        under = f"complete -c tenon -n '__fish_seen_subcommand_from {name}'"
        for option, argument, what in [*page.options, ("--help", "", "prints what the command does")]:
            value = " -r -F" if re.fullmatch(FILES, argument) else " -x" if argument else ""
            if argument and choices_of(what):
                value += f" -a {quoted(' '.join(choices_of(what)))}"
            lines.append(f"{under} -l {option.lstrip('-')}{value} -d {quoted(what)}")
        if subcommands_of(page):
            lines.append(f"complete -c tenon -n '__fish_seen_subcommand_from {name}; and test (count (commandline -opc)) -eq 2'"
                         f" -a {quoted(' '.join(subcommands_of(page)))}")
        if takes_file(page):
            lines.append(f"{under} -F")
    return "\n".join(lines) + "\n"


def main():
    tenon, version, guide, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    top = help_of(tenon)
    summaries = dict(re.findall(r"^  ([\w-]+) +(\S.*)$", top, re.M))
    pages = {name: Page(help_of(tenon, name)) for name in summaries}
    names = ["tenon", *(f"tenon-{name}" for name in pages)]
    manuals = {f"tenon-{name}": manual(f"tenon-{name}", summaries[name], page, version, [n for n in names if n != f"tenon-{name}"])
               for name, page in pages.items()}
    manuals["tenon"] = manual("tenon", "the command of the Tenon tensor runtime", Page(top), version, names[1:],
                              commands=summaries.items(), variables=variables_of(guide.read_text()))
    files = {f"man1/{name}.1": text for name, text in manuals.items()}
    files |= {"completions/tenon": bash(pages), "site-functions/_tenon": zsh(pages, summaries), "vendor_completions.d/tenon.fish": fish(pages, summaries)}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
