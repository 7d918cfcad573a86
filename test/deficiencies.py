#!/usr/bin/env -S python3 -B
"""Whether docs/kube-proxy.md and the tests name the same deficiencies of kube-proxy's IPVS mode.

usage: deficiencies.py ROOT

The page has a heading "### Item N: ..." for each, and under it a line for each file with cases that hold
us to it: - `x_test.cc`: "one case"; "another case". These are the cases with the tag [item-N]
(`unit_sync '[item-9]'` runs those of item 9). An item has one case at least. Every test file that the page
names is there, and so is every section of the page that a comment cites ("docs/kube-proxy.md, sections 4.4
and 6").
"""

import pathlib
import re
import sys

from cited_tests import CASES, COMMENTS, LITERAL, cited

PAGE = "docs/kube-proxy.md"
ITEM = re.compile(r"^### Item (\d+): .*\n((?:(?!#).*\n)*)", re.M)
SECTION = re.compile(r"^##+ (\d+(?:\.\d+)?)\.? ", re.M)
CITATION = re.compile(r"docs/kube-proxy\.md,? sections? (\d[\d., and]*)")
LINE_START = re.compile(r"\n[ \t]*(?://|#)?[ \t]*")
TEST_FILE = re.compile(r"`(\w+_test\.(?:cc|sh))`")


def tagged(files):
    """{item: {(file, case)}}, of cases that run by themselves."""
    found = {}
    for name, text in files.items():
        if not name.endswith("_test.cc"):
            continue
        text = COMMENTS[".cc"].sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
        for match in CASES[".cc"].finditer(text):
            case, tags = ("".join(re.findall(LITERAL, match[part])) for part in (1, 3))
            if re.search(r"\[(?:\.|!hide\])", tags):
                continue
            for item in re.findall(r"\[item-(\d+)\]", tags):
                found.setdefault(int(item), set()).add((name, case))
    return found


def line_of(file, cases):
    return f"- `{file}`: " + "; ".join(f'"{case}"' for case in sorted(cases))


def item_complaints(page, files):
    items = {int(number): {(name, case) for name, cases in cited(text) for case in cases}
             for number, text in ITEM.findall(page)}
    held = tagged(files)
    for item in sorted(items.keys() | held.keys()):
        if item not in items:
            yield f"the page has no item {item}, which cases have for a tag"
        elif item not in held:
            yield f"item {item} has no case"
        elif items[item] != held[item]:
            yield f"item {item} should have:"
            for file in sorted({name for name, _ in held[item]}):
                yield line_of(file, {case for name, case in held[item] if name == file})


def complaints(page, files):
    """`files` by name: what is in it."""
    wrong = list(item_complaints(page, files))
    wrong += [f"{name} is not there" for name in sorted(set(TEST_FILE.findall(page)) - files.keys())]
    sections = set(SECTION.findall(page))
    for name, text in files.items():
        for numbers in CITATION.findall(LINE_START.sub(" ", text)):
            wrong += [f"{name} cites section {number}, which the page does not have"
                      for number in re.findall(r"\d+(?:\.\d+)?", numbers) if number not in sections]
    return wrong


SELF_PAGE = """## 4. Fields\n### 4.1 Flags\nTests: `a_test.cc`.\n## 19. Deficiencies
### Item 1: one\nIt harms.\n\n- `a_test.cc`: "x"; "y\n  z"\n### Item 2: two\n- `b_test.cc`: "x"\n"""
SELF_FILES = {
    "a_test.cc": '// docs/kube-proxy.md, sections 4\n// and 4.1.\nTEST_CASE("x", "[a][item-1]") {}\n'
                 'TEST_CASE("y "\n  "z",\n  "[item-1]") {}\nTEST_CASE("w", "[.][item-2]") {}',
    "b_test.cc": 'TEST_CASE_METHOD(Fixture, "x", "[item-2]") {}',
}
SELF_TEST = [
    ("", {}, []),
    ("### Item 3: three\n", {}, ["item 3 has no case"]),
    ("", {"c_test.cc": 'TEST_CASE("x", "[item-3]") {}'},
     ["the page has no item 3, which cases have for a tag"]),
    ("", {"b_test.cc": 'TEST_CASE("v", "[item-2]") {}'},
     ["item 2 should have:", '- `b_test.cc`: "v"']),
    ("", {"b_test.cc": '// TEST_CASE("x", "[item-2]") {}'}, ["item 2 has no case"]),
    ("`c_test.cc`\n", {}, ["c_test.cc is not there"]),
    ("", {"c.py": "# (docs/kube-proxy.md, sections 4.2,\n# 5 and 19)"},
     ["c.py cites section 4.2, which the page does not have",
      "c.py cites section 5, which the page does not have"]),
]


def main(root):
    for more, files, expected in SELF_TEST:
        found = complaints(SELF_PAGE + more, SELF_FILES | files)
        if found != expected:
            print(f"selftest: {found} is not {expected}")
            return 1
    page = pathlib.Path(root, PAGE).read_text(encoding="utf-8")
    files = {path.name: path.read_text(encoding="utf-8")
             for room in ("test", "cmd", "proxier", "ipset", "netlink")
             for path in pathlib.Path(root, room).rglob("*")
             if path.suffix in (".cc", ".h", ".py", ".sh")}
    del files[pathlib.Path(__file__).name]
    wrong = complaints(page, files)
    print("\n".join(wrong) if wrong else f"{len(ITEM.findall(page))} items, each with its cases")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
