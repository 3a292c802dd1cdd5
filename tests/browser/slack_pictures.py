"""Makes the pictures of Slack in docs/: `python -m tests.browser.slack_pictures` (needs chromium).

The blocks are those that the stand-in received from the real application; what is drawn here is only their look,
which approximates Slack's.
"""

import asyncio
import html
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

from store.database import migrate
from store.embedded import EmbeddedPostgres
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.emulators.slack.client import StandIn
from tests.emulators.slack.limits import elements_of
from tests.emulators.slack.seen import label
from tests.scenario.slack_team import BOT, CONTRACT, LEAVE, slack_team

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
STYLE = """
body { font: 15px/1.45 Lato, "Noto Sans CJK SC", sans-serif; color: #1d1c1d; margin: 0; background: #fff }
main { width: 640px; padding: 18px 22px 20px } .who { font-weight: 900 } .app { font-size: 10px; background: #e8e8e8;
border-radius: 2px; padding: 1px 3px; color: #616061; margin-left: 4px; vertical-align: 2px }
.block { margin: 6px 0 } .context { font-size: 12.5px; color: #616061 } .header { font-size: 18px; font-weight: 900 }
button { font: 700 13.5px Lato, sans-serif; border: 1px solid #bbb; border-radius: 4px; background: #fff;
padding: 4px 11px; margin: 0 7px 7px 0; color: #1d1c1d }
.primary { background: #007a5a; border-color: #007a5a; color: #fff }
.danger { border-color: #e01e5a; color: #e01e5a } code { background: #f8f8f8; border: 1px solid #ddd; padding: 1px 3px }
blockquote { border-left: 4px solid #ddd; margin: 4px 0; padding-left: 12px } pre { white-space: pre-wrap }
"""
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


def _block(block: dict[str, Any]) -> str:
    if block["type"] == "rich_text":
        inner = "".join(map(_element, block["elements"]))
    elif block["type"] == "context":
        inner = "<br>".join(html.escape(element["text"]) for element in block["elements"])
    elif block["type"] == "header":
        inner = html.escape(block["text"]["text"])
    elif block["type"] in ("actions", "context_actions"):
        inner = "".join(_button(element) for element in elements_of(block))
    else:
        raise ValueError(f"no look for {block['type']} yet")
    return f'<div class="block {block["type"]}">{inner}</div>'


def _button(element: dict[str, Any]) -> str:
    if element["type"] == "feedback_buttons":
        return f'<span class="context">{html.escape(label(element))}</span>'
    return f'<button class="{element.get("style", "")}">{html.escape(label(element))}</button>'


def page(message: dict[str, Any]) -> str:
    body = "".join(map(_block, message["blocks"]))
    return f'<style>{STYLE}</style><main><span class="who">Signoff</span><span class="app">APP</span>{body}</main>'


async def messages(url: str, folder: Path) -> dict[str, dict[str, Any]]:
    """An answer and a waiting card, as the stand-in holds them."""
    with StandIn() as stand_in:
        async with slack_team(stand_in, url, folder) as team:
            ts = await team.asked(LEAVE)
            await team.slack.say("U0ADA", "C0GEN", f"{BOT} {CONTRACT}")
            await team.card()
            channels = (await stand_in.world())["channels"]
            (answer,) = [
                m for m in channels["C0GEN"]["messages"] if m["user"] == "U0BOT" and m.get("thread_ts") == ts
            ]
            (card,) = [m for m in channels["C0REVIEW"]["messages"] if m["user"] == "U0BOT"]
            return {"slack-answer": answer, "slack-review": card}


async def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # root's server runs as nobody, who must get in
        server = EmbeddedPostgres(Path(folder) / "home", durable=False)
        url = server.start()
        try:
            await migrate(url)
            shown = await messages(url, Path(folder))
        finally:
            server.stop()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        for name, message in shown.items():
            opened = await browser.new_page(viewport={"width": 690, "height": 200}, device_scale_factor=2)
            await opened.set_content(page(message))
            await opened.locator("main").screenshot(path=PICTURES / f"{name}.png")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
