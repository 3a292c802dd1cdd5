"""What two texts do not have in common, sentence by sentence, for a reviewer's eye. Pure."""

import difflib

from store.text import sentences

__all__ = ["differences", "lines"]

SAME, GONE, NEW = "same", "gone", "new"


def differences(before: str, after: str) -> list[list[str]]:
    """[kind, sentence] in reading order; kind: same, gone (only in `before`) or new (only in `after`)."""
    old, new = sentences(before), sentences(after)
    found: list[list[str]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [[SAME, sentence] for sentence in old[a:b]]
            continue
        found += [[GONE, sentence] for sentence in old[a:b]] + [[NEW, sentence] for sentence in new[c:d]]
    return found


def lines(found: list[list[str]], most: int) -> str:
    """The changed sentences, one a line, with − and + before them; at most `most` characters."""
    signs = {GONE: "−", NEW: "+"}
    text = "\n".join(f"{signs[kind]} {sentence}" for kind, sentence in found if kind in signs)
    return text if len(text) <= most else text[: most - 1] + "…"
