"""What a person sees of a message or a view: its words, and the things that can be clicked."""

import html
from typing import Any

from tests.emulators.slack.limits import elements_of


def words(message: dict[str, Any]) -> str:
    """The visible text: of the blocks where there are any, else of `text`."""
    blocks = message.get("blocks")
    if not blocks:
        return html.unescape(message.get("text", ""))
    return "\n".join(filter(None, (_block(block) for block in blocks)))


def _block(block: dict[str, Any]) -> str:
    kind = block["type"]
    if kind == "rich_text":
        return "\n".join(_rich(element) for element in block["elements"])
    if kind == "table":
        return "\n".join(" | ".join(_cell(cell) for cell in row) for row in block["rows"])
    if kind == "markdown":
        return html.unescape(block["text"])
    if kind == "input":
        element = block["element"]
        return f"{block['label']['text']}: {element.get('initial_value', '')}"
    found = [block.get("text"), *block.get("fields", [])]
    found += block.get("elements", []) if kind == "context" else []
    lines = [html.unescape(entry["text"]) for entry in found if isinstance(entry, dict)]
    lines += [label(element) for element in elements_of(block)]
    return "\n".join(lines)


def _rich(element: dict[str, Any]) -> str:
    if element["type"] == "rich_text_list":
        return "\n".join(_rich(section) for section in element["elements"])
    return "".join(
        leaf.get("text")
        or leaf.get("fallback")
        or leaf.get("url")
        or f"@{leaf.get('user_id', leaf.get('range', ''))}"
        for leaf in element["elements"]
    )


def _cell(cell: dict[str, Any]) -> str:
    return str(cell["text"]) if cell["type"] == "raw_text" else _block(cell)


def label(element: dict[str, Any]) -> str:
    if element["type"] == "feedback_buttons":
        return f"{element['positive_button']['text']['text']} / {element['negative_button']['text']['text']}"
    return str(element.get("text", {}).get("text", ""))


def clickable(rendered: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(block, element) pairs that a person can use, top to bottom."""
    return [(block, element) for block in rendered.get("blocks") or [] for element in elements_of(block)]
