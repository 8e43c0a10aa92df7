#!/usr/bin/env python3
"""Checks that docs/troubleshooting.md has a place for each sentence by which the sources tell of an error or a warning.

usage: troubleshooting.py SOURCE_TREE [--list]
A place is a pattern in backquotes in the first column of a table; in it "…" stands for any text. Each pattern must match
a sentence, so that the document has none that is gone. --list prints the sentences without a place, and no more.
Then the script adds a sentence to the sources and a pattern to the document, and expects that the check finds both.
"""
import pathlib
import re
import sys

LITERALS = r'(?:"(?:[^"\\\n]|\\.)*"(?:\s*PRI\w+)?\s*)+'
# Calls whose first literal is a sentence: of errors, and of lines of the log that are not mere information.
CALL = re.compile(r'(Status::error|Status::system|log::write|->log|\brefuse|\bgpucoll_refuse|\bopal_output|\bbad|'
                  r'return Status)\s*\(((?:ncclInvalid\w+, (?:"\w+"|kName|function), )?(?:"MPI_\w+", gpucoll\w+,\s*)?[^;"]*?)(' + LITERALS + ')', re.S)
# Sentences that have a name, or that are printed into a line first.
NAMED = re.compile(r'(?:constexpr (?:const )?char\b[^;=]*=|snprintf\(\s*(?:line|text|call|sentence),[^;"]*?,|\? |: |return )\s*(' + LITERALS + ')')
WORDS_OF_NAMED = 6  # shorter ones are parts of sentences
# Parts of sentences that are longer.
PARTS = {"a size (such as 65536 or 64M)", "had run, for all ranks of its device,", "over verbs and tcp between nodes",
         "a part of a large reduction from", "an intercommunicator (its groups' ranks in one row)",
         "remote process exited, did not answer in time, or there was a network error",
         "not configured (is there a subnet manager?)", "a group of gpucoll/mpi.h"}
# What no user reads: tables, descriptions of choices, lines for those who measure.
OTHER_FILES = re.compile(r'/stub/|^src/proto/|base/observe/params_doc|base/observe/trace\.h|plan/tuner\.cpp|base/log\.cpp|base/errors\.def')


def text_of(literals):
    return "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'PRI\w+', '"…"', literals)))


def plain(sentence):
    """Returns the sentence with … for what it fills in."""
    sentence = re.sub(r'%[-+ #0-9.*]*(?:ll|l|z|t|h)?[a-zA-Z]', "…", sentence).replace('\\"', '"').replace("\\n", "")
    return re.sub(r'…[…\s]*…|…+', "…", sentence).strip()


def words(sentence):
    return len(re.findall(r"[A-Za-z][\w'./-]*", sentence))


def sentences(files):
    """Returns {sentence: file} of {file: text}."""
    found = {}
    for name, text in files.items():
        text = re.sub(r'^\s*//.*$', "", text, flags=re.M)
        for call in CALL.finditer(text):
            head, sentence = call.group(1) + call.group(2), plain(text_of(call.group(3)))
            if re.search(r'Level::(info|debug)|log\s*\(\s*[1-9]', head) and "warn" not in head:
                continue
            if words(sentence) >= 2 and sentence not in PARTS:
                found.setdefault(sentence, name)
        for named in NAMED.finditer(text):
            sentence = plain(text_of(named.group(1)))
            if words(sentence) >= WORDS_OF_NAMED and not re.match(r'[,;:|]', sentence) and sentence not in PARTS:
                found.setdefault(sentence, name)
    return found


def patterns(document):
    """Returns the patterns of a document, in their order."""
    rows = re.findall(r'^\| (`.*?) \|', document, flags=re.M)
    return [pattern for row in rows for pattern in re.findall(r'`` ?(.*?) ?``|`([^`]+)`', row) for pattern in pattern if pattern]


def check(files, document):
    """Returns what is wrong, a sentence each, and the sentences that have no place."""
    found, places, used, homeless = sentences(files), patterns(document), set(), []
    wrong = [f"docs/troubleshooting.md: the pattern '{p}' has fewer than two words" for p in places if words(p) < 2]
    expressions = [(p, re.compile(".*".join(map(re.escape, p.split("…"))))) for p in places]
    for sentence, name in found.items():
        fits = [pattern for pattern, expression in expressions if expression.fullmatch(sentence)]
        used.update(fits)
        if not fits:
            homeless.append((name, sentence))
    wrong += [f"{name}: docs/troubleshooting.md has no place for '{sentence}'" for name, sentence in homeless]
    wrong += [f"docs/troubleshooting.md: no sentence of the sources is like '{p}'" for p in places if p not in used]
    return wrong, homeless


def main():
    tree = pathlib.Path(sys.argv[1])
    files = {}
    for path in sorted(tree.glob("src/**/*")):
        name = str(path.relative_to(tree))
        if path.suffix in (".c", ".cpp", ".cu", ".h") and not OTHER_FILES.search(name):
            files[name] = path.read_text()
    document = (tree / "docs/troubleshooting.md").read_text()
    wrong, homeless = check(files, document)
    if "--list" in sys.argv:
        print("\n".join(f"{name}: {sentence}" for name, sentence in homeless))
        return 0
    if wrong:
        print("\n".join(wrong))
        return 1
    new = 'return Status::error(Code::remote, "rank %d has lost its hat: " "buy another");'
    found, _ = check({**files, "src/attic.cpp": new}, document + "\n| `… wears a tie` | x | y |\n")
    expected = ["src/attic.cpp: docs/troubleshooting.md has no place for 'rank … has lost its hat: buy another'",
                "docs/troubleshooting.md: no sentence of the sources is like '… wears a tie'"]
    if found != expected:
        print("troubleshooting.py does not find what is wrong, but this:", *found, sep="\n")
        return 1
    print(f"{len(sentences(files))} sentences have their place")
    return 0


sys.exit(main())
