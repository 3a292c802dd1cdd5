"""Office equations (OMML) in one line, near LaTeX: enough to be found and read, not to be typeset. Pure."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from lxml import etree

__all__ = ["equation"]

_Element: TypeAlias = etree._Element


def equation(element: _Element) -> str:
    """The equation's text: fractions, powers, roots and sums by their LaTeX names."""
    return "".join(_piece(child) for child in element).strip()


def _piece(element: _Element) -> str:
    tag = element.tag
    name = tag.rpartition("}")[2] if isinstance(tag, str) else ""
    if name == "t":
        return element.text or ""
    if name.endswith("Pr"):
        return ""
    return _FORMS.get(name, equation)(element)


def _part(element: _Element, name: str) -> str:
    found = element.find(f"{{*}}{name}")
    return "" if found is None else equation(found)


def _sign(element: _Element, name: str, default: str) -> str:
    found = element.find(f"{{*}}{_PROPERTIES[name]}/{{*}}{name}")
    if found is None:
        return default
    return next((value for key, value in found.items() if key.endswith("val")), "")


_PROPERTIES = {"chr": "naryPr", "begChr": "dPr", "endChr": "dPr"}


def _nary(element: _Element) -> str:
    sign = _sign(element, "chr", "∫")
    low, high = _part(element, "sub"), _part(element, "sup")
    return f"{sign}{f'_{{{low}}}' if low else ''}{f'^{{{high}}}' if high else ''}{_part(element, 'e')}"


def _root(element: _Element) -> str:
    degree = _part(element, "deg")
    return f"\\sqrt{f'[{degree}]' if degree else ''}{{{_part(element, 'e')}}}"


def _delimited(element: _Element) -> str:
    inside = ", ".join(equation(part) for part in element.iterfind("{*}e"))
    return _sign(element, "begChr", "(") + inside + _sign(element, "endChr", ")")


_FORMS: Mapping[str, Callable[[_Element], str]] = {
    "f": lambda e: f"\\frac{{{_part(e, 'num')}}}{{{_part(e, 'den')}}}",
    "sSup": lambda e: f"{_part(e, 'e')}^{{{_part(e, 'sup')}}}",
    "sSub": lambda e: f"{_part(e, 'e')}_{{{_part(e, 'sub')}}}",
    "sSubSup": lambda e: f"{_part(e, 'e')}_{{{_part(e, 'sub')}}}^{{{_part(e, 'sup')}}}",
    "rad": _root,
    "nary": _nary,
    "d": _delimited,
    "func": lambda e: f"\\{_part(e, 'fName')}({_part(e, 'e')})",
    "limLow": lambda e: f"{_part(e, 'e')}_{{{_part(e, 'lim')}}}",
    "limUpp": lambda e: f"{_part(e, 'e')}^{{{_part(e, 'lim')}}}",
    "mr": lambda e: " & ".join(equation(part) for part in e.iterfind("{*}e")) + "; ",
    "eqArr": lambda e: "; ".join(equation(part) for part in e.iterfind("{*}e")),
}
