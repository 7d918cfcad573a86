#!/usr/bin/env python3
"""Whether every test that docs/security.md names is there.

usage: cited_tests.py ROOT

A line of the page names a file and some of its cases: - `x_test.cc`: "one case"; "another case".
The file is somewhere in ROOT/test. Of C++ a case is a TEST_CASE that is not hidden, of a script a
`check "..."`; what is in a comment is none.
"""

import pathlib
import re
import sys

CITED = re.compile(r'`([\w/.-]+\.(?:cc|sh|py))`((?:[:;,]?\s+"(?:[^"\\]|\\.)+")*)')
LITERAL = r'"((?:[^"\\]|\\.)*)"'
# The name, and of C++ the tags.
CASES = {
    ".cc": re.compile(r"TEST_CASE(?:_METHOD)?\(\s*(?:[\w:]+,\s*)?((?:" + LITERAL + r"\s*)+)"
                      r",?\s*((?:" + LITERAL + r"\s*)*)"),
    ".sh": re.compile(r"\bcheck ((?:" + LITERAL + r"))()"),
}
# Text is taken whole, so that what is in it begins no comment.
COMMENTS = {
    ".cc": re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL),
    ".sh": re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE),
}


def cited(page):
    """[(file, [case...])]"""
    return [(match[1], [re.sub(r"\s+", " ", name) for name in re.findall(LITERAL, match[2])])
            for match in CITED.finditer(page)]


def cases_of(name, text):
    suffix = pathlib.Path(name).suffix
    if suffix not in CASES:
        return set()
    text = COMMENTS[suffix].sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
    return {"".join(re.findall(LITERAL, match[1])) for match in CASES[suffix].finditer(text)
            if not re.search(r"\[(?:\.|!hide\])", match[3])}


def complaints(page, files):
    """`files` by name: what is in it."""
    found = cited(page)
    wrong = [] if found else ["the page names no test"]
    for name, cases in found:
        text = files.get(name.rsplit("/", 1)[-1])
        if text is None:
            wrong.append(f"{name} is not there")
            continue
        if not cases and not name.endswith(".py"):
            wrong.append(f"{name}: no case is named")
        known = cases_of(name, text)
        wrong += [f'{name} has no case "{case}"' for case in cases if case not in known]
    return wrong


SELF_FILES = {
    "x_test.cc": 'TEST_CASE("one is kept") {}\nTEST_CASE_METHOD(Fixture,\n  "two "\n  "lines")'
                 '// TEST_CASE("a remark")\n/* TEST_CASE(\n"another remark") */'
                 'TEST_CASE("hidden", "[a][.]") TEST_CASE("hidden too",\n "[.long]" "[b]")'
                 'TEST_CASE("also // this", "[a][random]")',
    "y.sh": 'check "it runs" true\n  # check "it ran" true\n',
    "with-dash.sh": 'check "it runs" true\n',
    "z.py": "",
}
SELF_TEST = [
    ('- `x_test.cc`: "one is kept"; "two\n  lines"\n- `y.sh`: "it runs"; `z.py`', []),
    ("nothing", ["the page names no test"]),
    ('`x_test.cc`: "one is lost"', ['x_test.cc has no case "one is lost"']),
    ('`x_test.cc`: "one is kept"; "two"', ['x_test.cc has no case "two"']),
    ('`w_test.cc`: "one is kept"', ["w_test.cc is not there"]),
    ("`x_test.cc` and `y.sh`", ["x_test.cc: no case is named", "y.sh: no case is named"]),
    ('`y.sh`: "it walks"', ['y.sh has no case "it walks"']),
    ('`y.sh`: "it ran"', ['y.sh has no case "it ran"']),
    ('`x_test.cc`: "a remark"', ['x_test.cc has no case "a remark"']),
    ('`x_test.cc`: "another remark"', ['x_test.cc has no case "another remark"']),
    ('`x_test.cc`: "hidden"', ['x_test.cc has no case "hidden"']),
    ('`x_test.cc`: "hidden too"', ['x_test.cc has no case "hidden too"']),
    ('`x_test.cc`: "also // this"', []),
    ('`with-dash.sh`: "it runs"', []),
    ('`with-dash.sh`: "it ran"', ['with-dash.sh has no case "it ran"']),
    ('`not-there.cc`: "it runs"', ["not-there.cc is not there"]),
]


def main(root):
    cases = [(f"selftest {expected}", [] if complaints(page, SELF_FILES) == expected else [page])
             for page, expected in SELF_TEST]
    files = {path.name: path.read_text(encoding="utf-8")
             for path in pathlib.Path(root, "test").rglob("*")
             if path.suffix in (".cc", ".sh", ".py")}
    page = pathlib.Path(root, "docs/security.md").read_text(encoding="utf-8")
    cases.append(("docs/security.md", complaints(page, files)))
    failed = 0
    for name, found in cases:
        if found:
            failed += 1
            print(f"FAILED: {name}: " + "\n  ".join(found))
    print(f"test cases: {len(cases)} | {len(cases) - failed} passed | {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
