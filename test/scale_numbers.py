#!/usr/bin/env python3
"""Checks that docs/scale.md tells where each of its numbers comes from.

usage: scale_numbers.py ROOT

A number with its unit is one of test/bench/results.md, or a word in square brackets in the same sentence, list
item or row of a table names another origin: [computed], [assumed], [source], or [once] for what was
measured by hand. Names (S2, IPv4), code, headings, links and numbers of files and kernels are none.
"""

import pathlib
import re
import sys

ORIGINS = re.compile(r"\[(computed|assumed|source|once)\]")
UNITS = {"times": "x", "x": "x", "us": "us", "ms": "ms", "s": "s", "MB/s": "MB/s", "KB": "KB", "MB": "MB", "GB": "GB",
         "bytes": "B", "B": "B", "%": "%"}
NUMBER = r"\d[\d,]*(?:\.\d+)?"
NO_NUMBERS = (r"`[^`]*`", r"\]\([^)]*\)", r"\bLinux [\d.]+(?: to [\d.]+)?", r"\bDebian \d+", r"\b[A-Za-z]+\d[\w-]*", r"^#.*")


def value_of(text):
    return float(text.replace(",", ""))


def measured_in(results):
    """{(number, unit)} of the rows' values, spreads and ratios."""
    found = set()
    for row in re.findall(r"^\| .+? \| (.*?) \| (.*?) \|", results, re.M):
        unit = ""
        for number, unit in re.findall(rf"^(-?{NUMBER}) ?(\S*)", row[0]):
            found.add((value_of(number), unit))
        for low, high in re.findall(rf"({NUMBER}) to ({NUMBER})", row[1]):
            found.update({(value_of(low), unit), (value_of(high), unit)})
        found.update((value_of(number), UNITS.get(word, "")) for number, word in
                     re.findall(rf"({NUMBER}) (x|us|ms|MB|KB)\b", row[1]))
    return found


def sentences_of(text):
    """Rows of tables, list items and sentences, without what is no number."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for block in re.split(r"\n\s*\n|\n(?=\||- |#)", text):
        block = " ".join(block.split("\n"))
        parts = [block] if block.startswith("|") else re.split(r"(?<=[.:;]) +(?=[A-Z(])", block)
        for part in parts:
            for pattern in NO_NUMBERS:
                part = re.sub(pattern, " ", part)
            yield part


def unexplained(text, measured):
    for sentence in sentences_of(text):
        if ORIGINS.search(sentence):
            continue
        sentence = re.sub(rf"({NUMBER}) (to|and) ({NUMBER}) (us|ms|s|MB|KB|GB|times)\b", r"\1 \4 \2 \3 \4", sentence)
        for number, word in re.findall(rf"(?<![\w.])({NUMBER}) ?([A-Za-z/%]*)", sentence):
            if (value_of(number), UNITS.get(word, "")) not in measured:
                yield number, word, sentence.strip()


def self_test():
    """True if the check notices what it is for."""
    measured = measured_in("| S2 floor | 447 ms | 439 to 471; 1.49 x floor |\n| S2 messages | 127984 |  |\n")
    good = ("It takes 447 ms (439 to 471 ms), 1.49 times the floor.", "| S2 | 127,984 |", "Of 88 MB [computed].",
            "On Linux 6.1, `16` and S4 nothing.")
    bad = ("It takes 448 ms.", "It takes 447 us.", "Of 88 MB [guessed].", "| S2 | 12 |", "1.5 times. Other [computed].")
    return not any(list(unexplained(text, measured)) for text in good) and all(
        list(unexplained(text, measured)) for text in bad)


def main():
    root = pathlib.Path(sys.argv[1])
    if not self_test():
        print("scale_numbers.py: its own test fails")
        return 1
    measured = measured_in((root / "test/bench/results.md").read_text())
    problems = list(unexplained((root / "docs/scale.md").read_text(), measured))
    for number, word, sentence in problems:
        print(f"docs/scale.md: {number} {word}: neither in test/bench/results.md nor with its origin: {sentence[:150]}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
