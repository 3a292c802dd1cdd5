"""When a text states a fact: by its wording, however it is set. Pure."""

import re
import unicodedata

__all__ = ["normalise", "states", "states_all"]


def normalise(text: str) -> str:
    """Width, case, thousands separators, Markdown marks and layout made equal; no space beside a Chinese character.

    A table row and the sentence that says the same compare equal: `| 满 3 年 | 12 天 |` becomes "满3年12天".
    """
    text = unicodedata.normalize("NFKC", text).lower()
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"\[\d+\]", " ", text)  # citation marks
    text = re.sub(r"[\u2010-\u2015]", "-", text)
    text = re.sub(r"[\u2018\u2019]", "'", text)
    text = re.sub(r"[\s|*`>_#]+", " ", text)
    return re.sub(r" ?([\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]) ?", r"\1", text).strip()


def states(text: str, wording: str) -> bool:
    """Whether `text` contains `wording` after normalisation; a figure is not found inside a longer one."""
    wanted = normalise(wording)
    before = r"(?<![\d.])" if wanted[:1].isdigit() else ""
    after = r"(?!\.?\d)" if wanted[-1:].isdigit() else ""
    return re.search(before + re.escape(wanted) + after, normalise(text)) is not None


def states_all(text: str, facts: tuple[tuple[str, ...], ...]) -> bool:
    """Whether `text` states every fact; each is a group of wordings, of which one is enough. False of no facts."""
    return bool(facts) and all(any(states(text, wording) for wording in group) for group in facts)
