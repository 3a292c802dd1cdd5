"""Makes the pictures of Slack and Feishu in docs/: `python -m tests.browser.chat_pictures` (needs chromium).

The blocks and cards are those that the stand-ins received from the real application, with the sample handbook; what is
drawn here is only their look, which approximates the clients'.
"""

import asyncio
import html
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

from bot.app import Parts
from bot.words import Words
from rag_graph.models import ExtractiveWriter
from store.database import migrate
from store.embedded import EmbeddedPostgres
from store.embedding import LocalEmbedder
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.emulators.feishu import seen
from tests.emulators.feishu.client import StandIn as FeishuStandIn
from tests.emulators.slack.client import StandIn as SlackStandIn
from tests.emulators.slack.limits import elements_of
from tests.emulators.slack.seen import label
from tests.scenario.driver import Driver, Scene, Seen
from tests.scenario.feishu_team import FeishuDriver, feishu_team
from tests.scenario.slack_driver import SlackDriver
from tests.scenario.slack_team import slack_team
from tests.workspace import fill

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SHELVES = ("hr/leave.{}.md", "hr/working-hours.{}.md", "contracts/service-agreement.{}.md")
WORDS = Words()
FREE = {"en": "How many days of annual leave do I get?", "zh": "没休完的年假有效期到什么时候？"}
PATIENCE = 120.0  # seconds; the local model embeds slowly on a busy machine
FONT = '"Liberation Sans", "Noto Sans CJK SC", sans-serif'
STYLE = f"""
body {{ font: 15px/1.5 {FONT}; color: #1d1c1d; margin: 0; background: #fff }}
main {{ width: 640px; padding: 18px 22px 20px }} button {{ font: 600 13.5px {FONT}; padding: 4px 11px; background: #fff;
margin: 0 7px 7px 0; color: inherit; border: 1px solid #bbb; border-radius: 4px }} pre {{ white-space: pre-wrap }}
blockquote {{ border-left: 4px solid #ddd; margin: 4px 0; padding-left: 12px }}
code {{ background: #f8f8f8; border: 1px solid #ddd; padding: 1px 3px }} ul, ol {{ margin: 4px 0; padding-left: 26px }}
table {{ border-collapse: collapse; margin: 4px 0 }} td, th {{ border: 1px solid #ddd; padding: 3px 8px;
text-align: left }}
.slack .who {{ font-weight: 900 }} .slack .app {{ font-size: 10px; background: #e8e8e8; border-radius: 2px;
padding: 1px 3px; color: #616061; margin-left: 4px; vertical-align: 2px }}
.slack .block {{ margin: 6px 0 }} .slack .context {{ font-size: 12.5px; color: #616061 }}
.slack .header {{ font-size: 18px; font-weight: 900 }}
.slack .primary {{ background: #007a5a; border-color: #007a5a; color: #fff }}
.slack .danger {{ border-color: #e01e5a; color: #e01e5a }}
.feishu main {{ padding: 14px; background: #f2f3f5 }} .feishu article {{ background: #fff; border: 1px solid #dee0e3;
border-radius: 8px; overflow: hidden }} .feishu header {{ font-weight: 600; font-size: 16px; padding: 10px 14px }}
.feishu section {{ padding: 10px 14px 6px }} .feishu .small {{ font-size: 12px; color: #646a73 }}
.feishu p {{ margin: 4px 0 8px }} .feishu button {{ border-radius: 6px; border-color: #d0d3d6; font-weight: 400 }}
.feishu .primary {{ color: #1456f0; border-color: #1456f0 }} .feishu .danger {{ color: #d83931; border-color: #d83931 }}
.feishu details {{ border: 1px solid #dee0e3; border-radius: 6px; padding: 6px 10px; margin: 6px 0 10px }}
.feishu summary {{ font-size: 14px }} .feishu hr {{ border: 0; border-top: 1px solid #dee0e3 }}
"""
COLOURS = {"orange": "#ffead2", "green": "#d9f5d6", "red": "#fde2e2", "grey": "#eff0f1", "default": "#fff"}


# --- Slack

TAGS = {"bold": "b", "italic": "i", "strike": "s", "code": "code"}
ELEMENTS = {"rich_text_quote": "blockquote", "rich_text_preformatted": "pre", "rich_text_section": "div"}


def _leaf(leaf: dict[str, Any]) -> str:
    text = html.escape(leaf.get("text") or leaf.get("fallback", "")).replace("\n", "<br>")
    for style in leaf.get("style", {}):
        text = f"<{TAGS[style]}>{text}</{TAGS[style]}>"
    return text


def _element(element: dict[str, Any]) -> str:
    if element["type"] == "rich_text_list":
        tag = "ol" if element["style"] == "ordered" else "ul"
        return f"<{tag}>{''.join(f'<li>{_element(item)}</li>' for item in element['elements'])}</{tag}>"
    tag = ELEMENTS[element["type"]]
    return f"<{tag}>{''.join(map(_leaf, element['elements']))}</{tag}>"


def _cell(cell: dict[str, Any]) -> str:
    if cell["type"] == "raw_text":
        return html.escape(cell["text"])
    return "".join(map(_element, cell["elements"]))


def _block(block: dict[str, Any]) -> str:
    if block["type"] == "rich_text":
        inner = "".join(map(_element, block["elements"]))
    elif block["type"] == "context":
        inner = "<br>".join(html.escape(element["text"]) for element in block["elements"])
    elif block["type"] == "header":
        inner = html.escape(block["text"]["text"])
    elif block["type"] == "table":
        rows = ("".join(f"<td>{_cell(cell)}</td>" for cell in row) for row in block["rows"])
        inner = f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
    elif block["type"] in ("actions", "context_actions"):
        inner = "".join(_slack_button(element) for element in elements_of(block))
    else:
        raise ValueError(f"no look for {block['type']} yet")
    return f'<div class="block {block["type"]}">{inner}</div>'


def _slack_button(element: dict[str, Any]) -> str:
    if element["type"] == "feedback_buttons":
        return f'<span class="context">{html.escape(label(element))}</span>'
    return f'<button class="{element.get("style", "")}">{html.escape(label(element))}</button>'


def slack_page(message: Mapping[str, Any]) -> str:
    body = "".join(map(_block, message["blocks"]))
    who = '<span class="who">Signoff</span><span class="app">APP</span>'
    return f'<style>{STYLE}</style><body class="slack"><main>{who}{body}</main></body>'


# --- Feishu


def _shown(element: dict[str, Any]) -> str:
    tag = element["tag"]
    if tag == "markdown":
        return _markdown(element)
    if tag == "div":
        small = "small" if element["text"].get("text_size") == "notation" else ""
        return f'<div class="{small}">{html.escape(element["text"]["content"])}</div>'
    if tag == "hr":
        return "<hr>"
    if tag == "table":
        return _table(element)
    if tag == "button":
        return f'<button class="{element["type"]}">{html.escape(element["text"]["content"])}</button>'
    children = "".join(map(_shown, element.get("elements") or element.get("columns") or ()))
    if tag == "collapsible_panel":
        return f"<details><summary>{html.escape(element['header']['title']['content'])}</summary>{children}</details>"
    if tag in ("column", "column_set"):
        return children
    raise ValueError(f"no look for {tag} yet")


def _table(element: dict[str, Any]) -> str:
    names = [column["name"] for column in element["columns"]]
    head = "".join(f"<th>{html.escape(column['display_name'])}</th>" for column in element["columns"])
    rows = (
        "".join(f"<td>{html.escape(str(row.get(name, '')))}</td>" for name in names)
        for row in element["rows"]
    )
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _markdown(element: dict[str, Any]) -> str:
    """Paragraphs and quotations; what styles there are inside, the words alone."""
    found = []
    for part in str(element["content"]).split("\n\n"):
        bold = part.startswith("**") and part.endswith("**")
        tag = "blockquote" if part.startswith(">") else "b" if bold else "div"
        shown = html.escape(seen.shown(part)).replace("\n", "<br>")
        found.append(f"<{tag}>{shown}</{tag}>" if tag != "b" else f"<div><b>{shown}</b></div>")
    small = "small" if element.get("text_size") == "notation" else ""
    return f'<div class="{small}">{"".join(found)}</div>'


def feishu_page(card: Mapping[str, Any]) -> str:
    head = ""
    if card.get("header"):
        colour = COLOURS[card["header"].get("template", "default")]
        title = html.escape(card["header"]["title"]["content"])
        head = f'<header style="background: {colour}">{title}</header>'
    body = "".join(map(_shown, card["body"]["elements"]))
    article = f"<article>{head}<section>{body}</section></article>"
    return f'<style>{STYLE}</style><body class="feishu"><main>{article}</main></body>'


# --- what is drawn


async def told(driver: Driver, language: str) -> tuple[str, str]:
    """An answer and a waiting card: the ids of their messages."""
    scene = Scene(driver)
    free, held = FREE[language], WORDS(language, "web.home.suggest.held")
    await fill(driver.app, tuple(name.format(language) for name in SHELVES))
    question = await driver.say("ada", "general", free)
    answer = await scene.until(lambda: _last(scene, question), PATIENCE)
    await driver.say("ada", "general", held)
    card = await scene.until(lambda: _card(scene), PATIENCE)
    return answer.id, card.id


async def _last(scene: Scene, question: str) -> Seen | None:
    """The answer, once it is no stream any more."""
    shown = await scene.answers("general", question)
    return next((message for message in shown if "passage:1" in message.buttons), None)


async def _card(scene: Scene) -> Seen | None:
    shown = await scene.driver.see("rena", "review")
    return next((message for message in shown if "approve" in message.buttons), None)


async def slack(url: str, folder: Path, language: str) -> dict[str, str]:
    parts = Parts(embedder=LocalEmbedder(), writer=ExtractiveWriter())
    with SlackStandIn() as stand_in:
        async with slack_team(stand_in, url, folder, parts=parts, language=language, handbook={}) as team:
            answer, card = await told(SlackDriver(team), language)
            world = (await stand_in.world())["channels"]
            messages = {m["ts"]: m for place in world.values() for m in place["messages"]}
            return {"answer": slack_page(messages[answer]), "review": slack_page(messages[card])}


async def feishu(url: str, folder: Path, language: str) -> dict[str, str]:
    parts = Parts(embedder=LocalEmbedder(), writer=ExtractiveWriter())
    with FeishuStandIn() as stand_in:
        async with feishu_team(stand_in, url, folder, parts=parts, language=language, handbook={}) as team:
            answer, card = await told(FeishuDriver(team), language)
            messages = {m["message_id"]: m["shown"] for m in (await stand_in.world())["messages"]}
            return {"answer": feishu_page(messages[answer]), "review": feishu_page(messages[card])}


async def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    pages: dict[str, str] = {}
    for platform, drawn in (("slack", slack), ("feishu", feishu)):
        for language in FREE:
            with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
                Path(folder).chmod(0o755)  # root's server runs as nobody, who must get in
                server = EmbeddedPostgres(Path(folder) / "home", durable=False)
                url = server.start()
                try:
                    await migrate(url)
                    for name, page in (await drawn(url, Path(folder), language)).items():
                        ending = "" if language == "en" else f".{language}"
                        pages[f"{platform}-{name}{ending}"] = page
                finally:
                    server.stop()
    await take(pages)


async def take(pages: Mapping[str, str]) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for name, page in pages.items():
            opened = await browser.new_page(viewport={"width": 690, "height": 200}, device_scale_factor=2)
            await opened.set_content(page)
            await opened.locator("main").screenshot(path=PICTURES / f"{name}.png")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
