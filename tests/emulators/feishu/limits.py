"""What Feishu accepts as a message: sizes, card JSON 2.0 to the letter, and what would ping or link.

https://open.feishu.cn/document/feishu-cards/card-json-v2-structure and the page of each component. An unknown
property is an error, as are more than 200 components, 30 KB, or too many tables (230099, "ErrCode: 11310").
"""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.emulators.feishu.world import Json

CARD_BYTES = 30_000  # "30 KB"; the smaller reading
TEXT_BYTES = 150_000
COMPONENTS = 200
TABLES = 5
INPUT_LETTERS = 1_000

EVERY = {"tag", "element_id", "margin"}
PROPERTIES: dict[str, set[str]] = {
    "markdown": {"content", "text_size", "text_align", "icon"},
    "div": {"text", "icon", "width"},
    "hr": set(),
    "button": {
        "type", "size", "width", "text", "icon", "hover_tips", "disabled", "disabled_tips", "confirm", "behaviors",
        "name", "required", "form_action_type",
    },
    "form": {"name", "elements", "direction", "vertical_spacing", "horizontal_spacing", "padding"},
    "input": {
        "name", "required", "placeholder", "default_value", "disabled", "label", "label_position", "width",
        "max_length", "input_type", "rows", "auto_resize", "max_rows", "behaviors", "confirm", "value",
    },
    "select_static": {
        "name", "required", "type", "placeholder", "options", "initial_option", "width", "behaviors", "confirm",
        "disabled",
    },
    "collapsible_panel": {
        "expanded", "background_color", "header", "border", "vertical_spacing", "padding", "elements", "direction",
    },
    "column_set": {"flex_mode", "horizontal_spacing", "horizontal_align", "background_style", "columns"},
    "column": {"width", "weight", "vertical_align", "elements", "background_style", "padding", "vertical_spacing"},
    "table": {"page_size", "row_height", "freeze_first_column", "header_style", "columns", "rows"},
    "plain_text": {"content", "text_size", "text_color", "text_align", "lines"},
    "lark_md": {"content", "text_size", "text_color", "text_align", "lines"},
}  # fmt: skip
CARD = {"schema", "config", "header", "body", "card_link"}
CONFIG = {
    "update_multi",
    "streaming_mode",
    "streaming_config",
    "summary",
    "enable_forward",
    "width_mode",
    "locales",
}
HEADER = {"title", "subtitle", "template", "icon", "padding", "text_tag_list"}
BODY = {"direction", "padding", "vertical_spacing", "horizontal_spacing", "elements"}
PANEL_HEADER = {
    "title",
    "background_color",
    "icon",
    "icon_position",
    "icon_expanded_angle",
    "padding",
    "width",
}
BEHAVIOR = {"type", "value", "default_url"}
COLUMN = {"name", "display_name", "data_type", "width", "horizontal_align", "vertical_align"}
# Only at the root of a card; the pages of both components.
ROOT_ONLY = {"table", "form"}
TEMPLATES = {
    "blue", "wathet", "turquoise", "green", "yellow", "orange", "red", "carmine", "violet", "purple", "indigo",
    "grey", "default",
}  # fmt: skip
BUTTON_TYPES = {
    "default",
    "primary",
    "danger",
    "text",
    "primary_text",
    "danger_text",
    "primary_filled",
    "laser",
}

# What a client would turn into a ping, a link or a picture, wherever it stands.
PING = re.compile(r"</?\s*(?:at|person)\b", re.I)
TAG = re.compile(r"</?\s*(?:link|a|font|text_tag|number_tag|local_datetime|record|audio|img)\b", re.I)
LINK = re.compile(r"!?\[[^\]]*\]\([^)]*\)")
BARE = re.compile(r"(?:https?|ftp|lark|feishu)://\S|\bwww\.\w|(?<![\w.])[\w.+-]+@[\w-]+\.\w{2,}", re.I)


class Refused(Exception):
    """Not taken; `code` is the platform's, `status` that of HTTP."""

    def __init__(
        self, code: int, message: str = "", status: int = 400, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(f"{code} {message}")
        self.code, self.message, self.status, self.headers = code, message, status, headers or {}


def bytes_of(content: Any) -> int:
    """What `content` takes in a request: JSON in a JSON string, in UTF-8."""
    packed = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return len(json.dumps(packed, ensure_ascii=False).encode())


def check_content(msg_type: str, content: Json, tables: int = TABLES) -> None:
    """Raises `Refused` with the platform's own code."""
    most = {"interactive": CARD_BYTES, "post": CARD_BYTES, "text": TEXT_BYTES}.get(msg_type)
    if most is not None and bytes_of(content) > most:
        raise Refused(230025, "The length of the message content reaches its limit")
    if msg_type == "interactive" and content.get("type") == "card":
        _only(content, {"type", "data"}, "content")
        _only(content["data"], {"card_id"}, "content.data")
    elif msg_type == "interactive":
        check_card(content, tables)
    elif msg_type == "post":
        _check_post(content)
    elif msg_type == "text":
        if not isinstance(content.get("text"), str) or not content["text"].strip():
            raise Refused(230001, "invalid content: text")
    elif msg_type == "file":
        _only(content, {"file_key"}, "content")
    else:
        raise Refused(230001, f"msg_type {msg_type}")


def _check_post(content: Json) -> None:
    for language, post in content.items():
        if language not in ("zh_cn", "en_us"):
            raise Refused(230001, f"post: {language}")
        _only(post, {"title", "content"}, "post")
        for line in post["content"]:
            for run in line:
                if run.get("tag") not in ("text", "at", "a", "md"):
                    raise Refused(230001, f"post tag {run.get('tag')}")


def check_card(card: Json, tables: int = TABLES) -> None:
    """Card JSON 2.0 to the letter."""
    _only(card, CARD, "card")
    if card.get("schema") != "2.0":
        raise _bad("schema must be 2.0")
    _only(card.get("config", {}), CONFIG, "config")
    if "header" in card:
        _only(card["header"], HEADER, "header")
        _text(card["header"].get("title"), "header.title")
        if card["header"].get("template", "default") not in TEMPLATES:
            raise _bad(f"template {card['header']['template']}")
    _only(card["body"], BODY, "body")
    seen: set[str] = set()
    for element in card["body"]["elements"]:
        _element(element, seen, root=True)
    found = list(walk(card))
    if len(found) > COMPONENTS:
        raise _bad(f"{len(found)} components", 11311)
    if sum(e["tag"] == "table" for e in found) > tables:
        raise _bad("table number over limit", 11310)
    names = [e["name"] for e in found if "name" in e and e["tag"] != "form"]
    if len(names) != len(set(names)):
        raise _bad("duplicate name")


def walk(node: Any) -> Iterator[Json]:
    """Every object with a tag, outermost first."""
    if isinstance(node, dict):
        if isinstance(node.get("tag"), str):
            yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


def _element(element: Any, seen: set[str], *, root: bool = False, form: bool = False) -> None:
    if not isinstance(element, dict) or element.get("tag") not in PROPERTIES:
        raise _bad(f"unknown component {element!r:.60}")
    tag = element["tag"]
    if tag in ROOT_ONLY and not root:
        raise _bad(f"{tag} may stand at the root only")
    _only(element, PROPERTIES[tag] | EVERY, tag)
    identity = element.get("element_id")
    if identity is not None:
        if not re.fullmatch(r"[A-Za-z]\w{0,19}", identity) or identity in seen:
            raise _bad(f"element_id {identity}")
        seen.add(identity)
    check = CHECKS.get(tag)
    if check is not None:
        check(element, form)
    children: list[Any] = element.get("columns" if tag == "column_set" else "elements") or []
    for child in children:
        _element(child, seen, form=form or tag == "form")


def _check_text(element: Json, form: bool) -> None:
    content = element["content"] if element["tag"] == "markdown" else element["text"]["content"]
    if not isinstance(content, str) or not content:
        raise _bad("empty text")
    if element["tag"] == "div":
        _text(element["text"], "div.text")


def _check_button(button: Json, form: bool) -> None:
    _text(button.get("text"), "button.text")
    if button.get("type", "default") not in BUTTON_TYPES:
        raise _bad(f"button type {button['type']}")
    if button.get("form_action_type"):
        if not form or not button.get("name"):
            raise _bad("form_action_type needs a form and a name")
    elif not button.get("behaviors"):
        raise _bad("a button without behaviors")
    for behavior in button.get("behaviors", []):
        _only(behavior, BEHAVIOR, "behavior")
        # A string comes back as a string, which the SDK cannot read (oapi-sdk-python#112).
        if behavior["type"] == "callback" and not isinstance(behavior.get("value"), dict):
            raise _bad("behavior.value must be an object")
        if behavior["type"] == "open_url" and not str(behavior.get("default_url", "")).startswith("https://"):
            raise _bad("behavior.default_url")


def _check_input(element: Json, form: bool) -> None:
    if not form or not element.get("name"):
        raise _bad(f"{element['tag']} outside a form, or without a name")
    if element["tag"] == "select_static":
        for option in element["options"]:
            _only(option, {"text", "value", "icon"}, "option")
            _text(option["text"], "option.text")
            if not isinstance(option["value"], str) or not option["value"]:
                raise _bad("option.value")


def _check_letters(element: Json, form: bool) -> None:
    _check_input(element, form)
    if element["tag"] == "input":
        if not 1 <= element.get("max_length", INPUT_LETTERS) <= INPUT_LETTERS:
            raise _bad("input.max_length")
        if len(element.get("default_value", "")) > element.get("max_length", INPUT_LETTERS):
            raise _bad("input.default_value")
        if element.get("input_type", "text") not in ("text", "multiline_text", "password"):
            raise _bad("input.input_type")
        for name in ("placeholder", "label"):
            if name in element:
                _text(element[name], name)


def _check_form(form: Json, inside: bool) -> None:
    inner = list(walk(form["elements"]))
    if not form.get("name") or not any(e.get("form_action_type") == "submit" for e in inner):
        raise _bad("a form needs a name and a button that submits")


def _check_panel(panel: Json, form: bool) -> None:
    _only(panel["header"], PANEL_HEADER, "panel.header")
    _text(panel["header"].get("title"), "panel.header.title", markdown=True)


def _check_table(table: Json, form: bool) -> None:
    if not 1 <= table.get("page_size", 5) <= 10 or not 1 <= len(table["columns"]) <= 50:
        raise _bad("table size")
    for column in table["columns"]:
        _only(column, COLUMN, "table.column")
        if column["data_type"] not in ("text", "lark_md", "markdown", "number", "date", "options", "persons"):
            raise _bad("table.data_type")
    names = {column["name"] for column in table["columns"]}
    if len(names) != len(table["columns"]) or any(set(row) - names for row in table["rows"]):
        raise _bad("table rows")
    if any(not isinstance(value, str) for row in table["rows"] for value in row.values()):
        raise _bad("table cell")


CHECKS = {
    "markdown": _check_text,
    "div": _check_text,
    "button": _check_button,
    "input": _check_letters,
    "select_static": _check_input,
    "form": _check_form,
    "collapsible_panel": _check_panel,
    "table": _check_table,
}


def _text(value: Any, where: str, *, markdown: bool = False) -> None:
    tags = ("plain_text", "lark_md", "markdown") if markdown else ("plain_text", "lark_md")
    if not isinstance(value, dict) or value.get("tag") not in tags or not value.get("content"):
        raise _bad(f"{where} is no text")
    _only(value, PROPERTIES[value["tag"]] | EVERY, where)


def _only(value: Any, allowed: set[str], where: str) -> None:
    if not isinstance(value, dict):
        raise _bad(f"{where} is no object")
    unknown = set(value) - allowed
    if unknown:
        raise _bad(f"unknown property {where}.{sorted(unknown)[0]}")


def _bad(message: str, code: int = 200621) -> Refused:
    return Refused(230099, f"Failed to create card content, ext=ErrCode: {code}; ErrMsg: {message}")


# --- what would ping, link or be lost


def parsed(content: Any) -> list[str]:
    """The texts of a card that a client parses as Markdown."""
    return [e["content"] for e in walk(content) if e["tag"] in ("markdown", "lark_md") and "content" in e]


def flat(content: Any) -> list[str]:
    """The texts that a client shows as they are."""
    found = [e["content"] for e in walk(content) if e["tag"] == "plain_text"]
    for table in (e for e in walk(content) if e["tag"] == "table"):
        found += [str(cell) for row in table["rows"] for cell in row.values()]
        found += [column["display_name"] for column in table["columns"]]
    return found


def pings(content: Any) -> list[str]:
    """Whatever in a card would notify somebody."""
    return [match.group() for text in parsed(content) for match in PING.finditer(text)]


# A moment in its reader's own time zone; with a `link` it would be one.
# open.feishu.cn/document/…/card-json-v2-components/content-components/rich-text
MOMENT = re.compile(r"<local_datetime millisecond='(\d{13})' format_type='(date_num|time)'></local_datetime>")


def links(content: Any) -> list[str]:
    """Whatever in a card would be a link or a picture: tags, Markdown links, bare addresses."""
    texts = [MOMENT.sub("", text) for text in parsed(content)]
    found = [m.group() for text in texts for rule in (TAG, LINK) for m in rule.finditer(text)]
    found += [m.group() for text in parsed(content) for m in BARE.finditer(html.unescape(text))]
    found += [m.group() for text in flat(content) for m in BARE.finditer(text)]
    return found + [
        behavior["default_url"]
        for element in walk(content)
        for behavior in element.get("behaviors", [])
        if behavior.get("type") == "open_url"
    ]
