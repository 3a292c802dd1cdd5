"""What a person sees of a message: its words, its buttons, its forms."""

import html
import re
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.emulators.feishu.limits import MOMENT, walk
from tests.emulators.feishu.world import Json

FENCE = re.compile(r"```[^\n`]*\n(.*?)\n?```", re.S)
STYLE = re.compile(r"(\*\*|~~|(?<!\*)\*(?!\*))(?=\S)(.+?)(?<=\S)\1", re.S)
CODE = re.compile(r"`([^`\n]+)`")
LEAD = re.compile(r"^(?:#{1,6} |> ?)", re.M)


def words(msg_type: str, content: Json) -> str:
    """The visible text."""
    if msg_type == "text":
        return str(content["text"])
    if msg_type == "post":
        return "\n".join(
            "".join(str(run.get("text", "")) for run in line)
            for post in content.values()
            for line in post["content"]
        )
    if msg_type == "file":
        return f"[file {content['file_key']}]"
    header = content.get("header", {}).get("title", {}).get("content", "")
    return "\n".join(
        filter(None, [header, *(_element(e) for e in content.get("body", {}).get("elements", []))])
    )


def shown(markdown: str) -> str:
    """Card Markdown as a client shows it: marks gone, entities as their letters."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match.group(1))
        return f"\x00{len(kept) - 1}\x00"

    text = MOMENT.sub(_moment, FENCE.sub(keep, markdown))
    text = CODE.sub(keep, text)
    text = LEAD.sub("", text)
    for _ in range(4):
        text = STYLE.sub(r"\2", text)
    text = html.unescape(text)
    return re.sub("\x00(\\d+)\x00", lambda m: kept[int(m.group(1))], text)


def _moment(match: re.Match[str]) -> str:
    """As a client in Shanghai shows it."""
    at = datetime.fromtimestamp(int(match.group(1)) / 1_000, timezone(timedelta(hours=8)))
    return f"{at:%Y-%m-%d}" if match.group(2) == "date_num" else f"{at:%H:%M}"


def _element(element: Json) -> str:
    tag = element["tag"]
    if tag == "markdown":
        return shown(element["content"])
    if tag == "div":
        return str(element["text"]["content"])
    if tag == "button":
        return f"[{element['text']['content']}]"
    if tag == "table":
        names = [column["name"] for column in element["columns"]]
        head = " | ".join(column["display_name"] for column in element["columns"])
        rows = [" | ".join(str(row.get(name, "")) for name in names) for row in element["rows"]]
        return "\n".join([head, *rows])
    if tag == "input":
        label = element.get("label", {}).get("content", element["name"])
        return f"{label}: {element.get('default_value', '')}"
    if tag == "select_static":
        return " / ".join(option["text"]["content"] for option in element["options"])
    children: list[Json] = element.get("elements") or element.get("columns") or []
    parts = [_element(child) for child in children]
    if tag == "collapsible_panel":
        title = element["header"]["title"]
        parts = [shown(title["content"]) if title["tag"] != "plain_text" else title["content"], *parts]
    return "\n".join(filter(None, parts))


def buttons(content: Json) -> list[Json]:
    """What can be clicked, top to bottom, a form's own buttons left out."""
    inside = {id(e) for form in walk(content) if form["tag"] == "form" for e in walk(form["elements"])}
    return [
        e for e in walk(content) if e["tag"] == "button" and id(e) not in inside and not e.get("disabled")
    ]


def name_of(button: Json) -> str:
    """A button's callback as "action" or "action:choice", by which tests call it."""
    for behavior in button.get("behaviors", []):
        if behavior["type"] == "callback":
            value: dict[str, Any] = behavior["value"]
            return str(value.get("do", ""))
    return "link"


def form(content: Json) -> Json | None:
    return next((e for e in walk(content) if e["tag"] == "form"), None)


def fields(found: Json) -> dict[str, Json]:
    return {e["name"]: e for e in walk(found["elements"]) if e["tag"] in ("input", "select_static")}
