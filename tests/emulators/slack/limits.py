"""What Slack accepts in a message or a view, block by block, element by element.

Rules: https://docs.slack.dev/reference/block-kit/blocks and /block-elements, /reference/views; the size of a whole
payload is not documented and was reported as about 13,200 characters (slackapi/bolt-js#2509). Unknown fields are
refused: Slack answers invalid_blocks to many of them, and a stand-in that lets them pass would hide a typing error.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

MESSAGE_BLOCKS, VIEW_BLOCKS = 50, 100
PAYLOAD_CHARACTERS = 13_200
MARKDOWN_CHARACTERS = 12_000  # over all markdown blocks of one payload
TEXT_CHARACTERS = 40_000
TABLE_ROWS, TABLE_COLUMNS = 100, 20


class Refused(Exception):
    """An API error. `code` is Slack's, `detail` goes to response_metadata.messages."""

    def __init__(self, code: str, detail: str = "", **more: Any) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code, self.detail, self.more = code, detail, more


def _bad(detail: str) -> Refused:
    return Refused("invalid_blocks", detail)


def check_message(text: str, blocks: Any) -> None:
    """Refuse what chat.postMessage and chat.update would."""
    if blocks is not None and not isinstance(blocks, list):
        raise Refused("invalid_blocks_format", "blocks must be an array")
    if not text and not blocks:
        raise Refused("no_text")
    if blocks:
        if len(blocks) > MESSAGE_BLOCKS:
            raise _bad(f"no more than {MESSAGE_BLOCKS} items allowed [json-pointer:/blocks]")
        if len(json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))) > PAYLOAD_CHARACTERS:
            raise Refused("msg_blocks_too_long")
        check_blocks(blocks, MESSAGE_TYPES)


def check_view(view: Any) -> None:
    """Refuse what views.open, update and push would."""
    if not isinstance(view, dict) or view.get("type") not in ("modal", "home"):
        raise Refused("invalid_arguments", "view must be an object with a type")
    known = {
        "type", "title", "submit", "close", "blocks", "private_metadata", "callback_id", "clear_on_close",
        "notify_on_close", "external_id",
    }  # fmt: skip
    _only(view, known, "view")
    for name in ("title", "submit", "close"):
        if name in view or (name == "title" and view["type"] == "modal"):
            _plain(view.get(name), 24, name)
    if len(view.get("private_metadata", "")) > 3_000:
        raise Refused("invalid_arguments", "private_metadata: 3000")
    if len(view.get("callback_id", "")) > 255:
        raise Refused("invalid_arguments", "callback_id: 255")
    blocks = view.get("blocks")
    if not isinstance(blocks, list) or len(blocks) > VIEW_BLOCKS:
        raise Refused("invalid_arguments", f"blocks: an array of at most {VIEW_BLOCKS}")
    check_blocks(blocks, VIEW_TYPES)
    if any(block["type"] == "input" for block in blocks) and "submit" not in view and view["type"] == "modal":
        raise Refused("invalid_arguments", "a modal with inputs needs submit")


def check_blocks(blocks: list[Any], allowed: frozenset[str]) -> None:
    """Refuse a list of blocks that Slack would; `allowed` are the types of this surface."""
    for index, block in enumerate(blocks):
        if not isinstance(block, dict) or block.get("type") not in allowed:
            kind = block.get("type") if isinstance(block, dict) else block
            raise _bad(f"unsupported type: {kind} [json-pointer:/blocks/{index}/type]")
        try:
            BLOCKS[block["type"]](block)
        except Refused as refused:
            raise _bad(f"{refused.detail} [json-pointer:/blocks/{index}]") from None
    _distinct(blocks)
    if sum(block["type"] == "table" for block in blocks) > 1:
        raise _bad("only_one_table_allowed")
    if sum(len(b.get("text", "")) for b in blocks if b["type"] == "markdown") > MARKDOWN_CHARACTERS:
        raise _bad(f"markdown text: {MARKDOWN_CHARACTERS}")


def _distinct(blocks: list[Any]) -> None:
    """Block ids are used once in a payload, action ids once in a block."""
    seen: set[str] = set()
    for block in blocks:
        identity = block.get("block_id")
        if identity is not None and (len(identity) > 255 or identity in seen):
            raise _bad(f"block_id too long or used twice: {identity}")
        seen.add(identity)
        actions = [e["action_id"] for e in elements_of(block) if e.get("action_id")]
        if len(actions) != len(set(actions)):
            raise _bad(f"an action_id used twice in one block: {actions}")


def elements_of(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The interactive elements of a block, in reading order."""
    found = list(block.get("elements", [])) if block["type"] in ("actions", "context_actions") else []
    for name in ("accessory", "element"):
        if isinstance(block.get(name), dict):
            found.append(block[name])
    return found


# --- blocks


def _section(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id", "text", "fields", "accessory", "expand"}, "section")
    if not block.get("text") and not block.get("fields"):
        raise _bad("section needs text or fields")
    if "text" in block:
        _text(block["text"], 3_000, "section text")
    fields = block.get("fields", [])
    if len(fields) > 10:
        raise _bad("section fields: 10")
    for entry in fields:
        _text(entry, 2_000, "section field")
    if "accessory" in block:
        check_element(block["accessory"])


def _header(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id", "text"}, "header")
    _plain(block.get("text"), 150, "header text")


def _context(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id", "elements"}, "context")
    elements = block.get("elements", [])
    if not 1 <= len(elements) <= 10:
        raise _bad("context elements: 1 to 10")
    for element in elements:
        _text(element, 3_000, "context text")


def _actions(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id", "elements"}, "actions")
    elements = block.get("elements", [])
    if not 1 <= len(elements) <= 25:
        raise _bad("actions elements: 1 to 25")
    for element in elements:
        check_element(element)


def _context_actions(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id", "elements"}, "context_actions")
    elements = block.get("elements", [])
    if not 1 <= len(elements) <= 5:
        raise _bad("context_actions elements: 1 to 5")
    for element in elements:
        if element.get("type") not in ("feedback_buttons", "icon_button"):
            raise _bad("context_actions take feedback_buttons and icon_button")
        check_element(element)


def _divider(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id"}, "divider")


def _markdown(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id", "text"}, "markdown")
    if not isinstance(block.get("text"), str) or not block["text"]:
        raise _bad("markdown needs text")
    if len(block["text"]) > MARKDOWN_CHARACTERS:
        raise _bad(f"markdown text: {MARKDOWN_CHARACTERS}")


def _input(block: Mapping[str, Any]) -> None:
    known = {"type", "block_id", "label", "element", "dispatch_action", "hint", "optional"}
    _only(block, known, "input")
    _plain(block.get("label"), 2_000, "label")
    if "hint" in block:
        _plain(block["hint"], 2_000, "hint")
    if not isinstance(block.get("element"), dict):
        raise _bad("input needs an element")
    check_element(block["element"])


def _table(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id", "rows", "column_settings"}, "table")
    rows = block.get("rows")
    if not isinstance(rows, list) or not 1 <= len(rows) <= TABLE_ROWS:
        raise _bad(f"table rows: 1 to {TABLE_ROWS}")
    width = len(rows[0])
    for row in rows:
        if not 1 <= len(row) <= TABLE_COLUMNS or len(row) != width:
            raise _bad(f"table columns: 1 to {TABLE_COLUMNS}, the same in every row")
        for cell in row:
            _cell(cell)
    for setting in block.get("column_settings", []):
        if setting is not None:
            _only(setting, {"align", "is_wrapped"}, "column_settings")
            if setting.get("align", "left") not in ("left", "center", "right"):
                raise _bad("column_settings align")


def _cell(cell: Any) -> None:
    if not isinstance(cell, dict):
        raise _bad("a table cell is an object")
    if cell.get("type") == "raw_text":
        _only(cell, {"type", "text"}, "raw_text")
        if not isinstance(cell.get("text"), str) or not cell["text"]:
            raise _bad("raw_text needs text")
    elif cell.get("type") == "rich_text":
        _rich_text(cell)
    else:
        raise _bad(f"a table cell cannot be {cell.get('type')}")


# --- rich text: https://docs.slack.dev/reference/block-kit/blocks/rich-text-block

STYLES = {"bold", "italic", "strike", "code", "underline", "highlight", "client_highlight", "unlink"}
LEAVES = {
    "text": {"type", "text", "style"},
    "link": {"type", "url", "text", "unsafe", "style"},
    "user": {"type", "user_id", "style"},
    "usergroup": {"type", "usergroup_id", "style"},
    "channel": {"type", "channel_id", "style"},
    "broadcast": {"type", "range", "style"},
    "emoji": {"type", "name", "unicode", "skin_tone", "style"},
    "date": {"type", "timestamp", "format", "url", "fallback"},
    "color": {"type", "value"},
}


def _rich_text(block: Mapping[str, Any]) -> None:
    _only(block, {"type", "block_id", "elements"}, "rich_text")
    if not block.get("elements"):
        raise _bad("rich_text needs elements")
    for element in block["elements"]:
        _rich_element(element)


def _rich_element(element: Mapping[str, Any]) -> None:
    kind = element.get("type")
    if kind == "rich_text_list":
        _rich_list(element)
        return
    if kind not in ("rich_text_section", "rich_text_preformatted", "rich_text_quote"):
        raise _bad(f"rich_text cannot hold {kind}")
    _only(element, {"type", "elements", "border", "language"}, str(kind))
    if not isinstance(element.get("elements"), list):
        raise _bad(f"{kind} needs elements")
    for leaf in element["elements"]:
        _leaf(leaf)


def _rich_list(element: Mapping[str, Any]) -> None:
    _only(element, {"type", "elements", "style", "indent", "offset", "border"}, "rich_text_list")
    if element.get("style") not in ("bullet", "ordered"):
        raise _bad("rich_text_list style")
    if not 0 <= element.get("indent", 0) <= 8:
        raise _bad("rich_text_list indent: 0 to 8")
    if not element.get("elements"):
        raise _bad("rich_text_list needs elements")
    for section in element["elements"]:
        if section.get("type") != "rich_text_section":
            raise _bad("rich_text_list holds sections")
        _rich_element(section)


def _leaf(leaf: Mapping[str, Any]) -> None:
    kind = str(leaf.get("type"))
    if kind not in LEAVES:
        raise _bad(f"unknown rich text element {kind}")
    _only(leaf, LEAVES[kind], kind)
    if kind == "text" and (not isinstance(leaf.get("text"), str) or not leaf["text"]):
        raise _bad("a text element needs text")
    style = leaf.get("style", {})
    if (
        not isinstance(style, dict)
        or set(style) - STYLES
        or not all(isinstance(v, bool) for v in style.values())
    ):
        raise _bad("style")


# --- elements: https://docs.slack.dev/reference/block-kit/block-elements

ELEMENTS: dict[str, set[str]] = {
    "button": {"text", "url", "value", "style", "confirm", "accessibility_label", "visible_to_user_ids"},
    "feedback_buttons": {"positive_button", "negative_button"},
    "icon_button": {"icon", "text", "value", "confirm", "accessibility_label", "visible_to_user_ids"},
    "static_select": {"options", "option_groups", "initial_option", "placeholder", "confirm", "focus_on_load"},
    "overflow": {"options", "confirm"},
    "radio_buttons": {"options", "initial_option", "confirm", "focus_on_load"},
    "checkboxes": {"options", "initial_options", "confirm", "focus_on_load"},
    "conversations_select": {"placeholder", "initial_conversation", "default_to_current_conversation", "filter",
                             "response_url_enabled", "confirm", "focus_on_load"},
    "multi_conversations_select": {"placeholder", "initial_conversations", "max_selected_items", "filter",
                                   "default_to_current_conversation", "confirm", "focus_on_load"},
    "plain_text_input": {"initial_value", "multiline", "min_length", "max_length", "dispatch_action_config",
                         "focus_on_load", "placeholder"},
    "url_text_input": {"initial_value", "dispatch_action_config", "focus_on_load", "placeholder"},
    "file_input": {"filetypes", "max_files"},
}  # fmt: skip


def check_element(element: Any) -> None:
    kind = element.get("type") if isinstance(element, dict) else None
    if kind not in ELEMENTS:
        raise _bad(f"unknown element {kind}")
    _only(element, ELEMENTS[kind] | {"type", "action_id"}, kind)
    if len(element.get("action_id", "")) > 255:
        raise _bad("action_id: 255")
    if "placeholder" in element:
        _plain(element["placeholder"], 150, "placeholder")
    check = _CHECKS.get(kind)
    if check:
        check(element)


def _button(element: Mapping[str, Any]) -> None:
    _plain(element.get("text"), 75, "button text")
    if len(element.get("value", "")) > 2_000 or len(element.get("url", "")) > 3_000:
        raise _bad("button value: 2000, url: 3000")
    if element.get("style", "primary") not in ("primary", "danger"):
        raise _bad("button style")
    if "confirm" in element:
        _only(element["confirm"], {"title", "text", "confirm", "deny", "style"}, "confirm")


def _feedback(element: Mapping[str, Any]) -> None:
    for name in ("positive_button", "negative_button"):
        chosen = element.get(name)
        if not isinstance(chosen, dict):
            raise _bad(f"feedback_buttons needs {name}")
        _only(chosen, {"text", "value", "accessibility_label"}, name)
        _plain(chosen.get("text"), 75, name)
        if not 1 <= len(chosen.get("value", "")) <= 2_000:
            raise _bad(f"{name} value: 1 to 2000")


def _options(element: Mapping[str, Any]) -> None:
    options = element.get("options", [])
    longest = {"overflow": 5, "radio_buttons": 10, "checkboxes": 10}.get(element["type"], 100)
    if not 1 <= len(options) <= longest:
        raise _bad(f"{element['type']} options: 1 to {longest}")
    for option in options:
        _only(option, {"text", "value", "description", "url"}, "option")
        _text(option.get("text"), 75, "option text")
        if not 1 <= len(option.get("value", "")) <= 150:
            raise _bad("option value: 1 to 150")


def _plain_input(element: Mapping[str, Any]) -> None:
    if not 1 <= element.get("max_length", 3_000) <= 3_000:
        raise _bad("max_length: 1 to 3000")
    if len(element.get("initial_value", "")) > element.get("max_length", 3_000):
        raise _bad("initial_value is longer than max_length")


def _file_input(element: Mapping[str, Any]) -> None:
    if not 1 <= element.get("max_files", 10) <= 10:
        raise _bad("max_files: 1 to 10")


_CHECKS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "button": _button,
    "feedback_buttons": _feedback,
    "static_select": _options,
    "overflow": _options,
    "radio_buttons": _options,
    "checkboxes": _options,
    "plain_text_input": _plain_input,
    "file_input": _file_input,
}


def _only(given: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = set(given) - known
    if unknown:
        raise _bad(f"{what}: no additional properties allowed: {', '.join(sorted(unknown))}")


def _plain(text: Any, longest: int, what: str) -> None:
    if not isinstance(text, dict) or text.get("type") != "plain_text":
        raise _bad(f"{what} must be plain_text")
    _text(text, longest, what)


def _text(text: Any, longest: int, what: str) -> None:
    if not isinstance(text, dict) or text.get("type") not in ("plain_text", "mrkdwn"):
        raise _bad(f"{what} must be a text object")
    _only(
        text,
        {"type", "text", "emoji"} if text["type"] == "plain_text" else {"type", "text", "verbatim"},
        what,
    )
    if not isinstance(text.get("text"), str) or not 1 <= len(text["text"]) <= longest:
        raise _bad(f"{what}: 1 to {longest} characters")


BLOCKS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "section": _section,
    "header": _header,
    "context": _context,
    "actions": _actions,
    "context_actions": _context_actions,
    "divider": _divider,
    "markdown": _markdown,
    "rich_text": _rich_text,
    "table": _table,
    "input": _input,
}
MESSAGE_TYPES = frozenset(BLOCKS) - {"input"}
VIEW_TYPES = frozenset(BLOCKS) - {"markdown", "table", "context_actions"}

# --- what would ping or lead away

PING = re.compile(
    r"<!(?:channel|here|everyone|subteam\^[^>]*)(?:\|[^>]*)?>|<@[UW][A-Z0-9]+(?:\|[^>]*)?>|@(?:channel|here|everyone)\b"
)
LINK = re.compile(
    r"<(?:https?|mailto|tel|slack):[^>]*>|(?:https?|slack)://[^\s<>|]+|mailto:[^\s\u2060]|\]\([^)\s\u2060]+\)"
    r"|\bwww\.[^\s\u2060]",
    re.I,
)


def pings(blocks: list[dict[str, Any]], text: str) -> list[str]:
    """Everything in a message that would notify somebody or a whole channel."""
    found = [match.group() for piece in _parsed(blocks, text) for match in PING.finditer(piece)]
    return found + [
        str(leaf) for leaf in leaves(blocks) if leaf["type"] in ("user", "usergroup", "broadcast")
    ]


def links(blocks: list[dict[str, Any]], text: str) -> list[str]:
    """Everything in a message that a reader could follow out of it."""
    found = [match.group() for piece in _parsed(blocks, text) for match in LINK.finditer(piece)]
    found += [leaf["url"] for leaf in leaves(blocks) if leaf["type"] == "link"]
    return found + [e["url"] for block in blocks for e in elements_of(block) if e.get("url")]


def _parsed(blocks: list[dict[str, Any]], text: str) -> list[str]:
    """The strings that Slack parses for mentions and links: the text, mrkdwn objects, markdown blocks."""
    found = [text]

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") in ("mrkdwn", "markdown"):
                found.append(node.get("text", ""))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(blocks)
    return found


def leaves(blocks: Any) -> list[dict[str, Any]]:
    """The rich text leaves of some blocks, table cells included, in reading order."""
    found: list[dict[str, Any]] = []

    def walk(node: Any, inside: bool) -> None:
        if isinstance(node, dict):
            kind = str(node.get("type", ""))
            if inside and kind in LEAVES:
                found.append(node)
                return
            for value in node.values():
                walk(value, inside or kind == "rich_text")
        elif isinstance(node, list):
            for value in node:
                walk(value, inside)

    walk(blocks, False)
    return found
