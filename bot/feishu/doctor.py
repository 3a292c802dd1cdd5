"""What must work for Feishu to work, each with its remedy. Nothing here changes anything in the organisation."""

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.acquaintance import Unknown
from bot.feishu.calls import SCOPES, NoToken, Refused
from bot.feishu.send import FeishuHouse
from bot.findings import Finding

if TYPE_CHECKING:
    from bot.app import App

# Without these nothing is answered; manifests/feishu.yaml says what each is for.
NEEDED = frozenset(
    {
        "cardkit:card:write",
        "contact:contact.base:readonly",
        "contact:user.base:readonly",
        "im:chat.members:read",
        "im:chat:readonly",
        "im:message.group_at_msg:readonly",
        "im:message.p2p_msg:readonly",
        "im:message:readonly",
        "im:message:send_as_bot",
        "im:message:update",
        "im:resource",
        "tenant:tenant:readonly",
    }
)
BETTER = {
    "contact:user.email:readonly": "people are not linked to their Slack accounts by themselves",
    "im:message.group_msg": "follow-ups in topics need a mention",
    "im:message.reactions:read": "who put an emoji on an answer is not told when it is corrected",
    "im:message.reactions:write_only": "no reaction shows that a question was seen",
}
GRANTED = 1  # open.feishu.cn/document/server-docs/application-v6/scope/list: grant_status
MISSING = 99991672
CLICK_CODE = 200340
FRESH = timedelta(minutes=3)


async def examine_feishu(app: "App", house: FeishuHouse) -> list[Finding]:
    """Credentials, permissions, hearing, clicks, and each review chat in Feishu."""
    credentials = await _credentials(house)
    if not credentials.ok:
        return [credentials]
    findings = [credentials, await _permissions(house), await _hearing(app, house), await _clicks(app, house)]
    places = [p.removeprefix("feishu:") for p in app.settings.review.channels if p.startswith("feishu:")]
    return [*findings, *[await _review_chat(app, house, chat) for chat in places]]


async def _credentials(house: FeishuHouse) -> Finding:
    name, domain = "feishu credentials", house.settings.domain
    try:
        ours = await house.people.identity()
    except Refused as error:
        if error.code == MISSING:
            remedy = "Grant it on the permissions page and publish a version of the app."
            return Finding(name, False, error.detail, remedy)
        remedy = "Enable the bot among the app's capabilities and publish a version."
        return Finding(name, False, f"{error.code} {error.detail}".strip(), remedy)
    except (OSError, KeyError) as error:
        if not isinstance(error, NoToken | KeyError):
            remedy = f"Check that this machine reaches {domain} over HTTPS."
            return Finding(name, False, type(error).__name__, remedy)
        # A Lark app at Feishu's address, and the other way round, is an unknown app there.
        remedy = (
            f"Copy App ID and App Secret anew from the credentials page; the app must be one of {domain} "
            "(FEISHU_DOMAIN=feishu for open.feishu.cn, lark for open.larksuite.com)."
        )
        return Finding(name, False, str(error), remedy)
    return Finding(name, True, f"{ours.name or ours.open_id} at {domain}")


async def _permissions(house: FeishuHouse) -> Finding:
    name = "feishu permissions"
    try:
        listed = (await house.calls(SCOPES)).get("scopes") or ()
    except (Refused, OSError) as error:
        return Finding(name, False, str(error), "Publish a version of the app; then try again.")
    granted = {str(scope["scope_name"]) for scope in listed if scope.get("grant_status") == GRANTED}
    missing = sorted(NEEDED - granted)
    if missing:
        remedy = "Grant them on the permissions page (manifests/feishu.yaml) and publish a version."
        return Finding(name, False, f"missing: {', '.join(missing)}", remedy)
    without = [f"{scope} ({effect})" for scope, effect in BETTER.items() if scope not in granted]
    return Finding(name, True, f"without {'; '.join(without)}" if without else f"{len(granted)} granted")


async def _hearing(app: "App", house: FeishuHouse) -> Finding:
    """Whether anything arrives. A connection that pongs and delivers nothing shows only here."""
    name = "feishu events"
    problem = await _connection(app, house)
    if problem.startswith("refused"):
        remedy = (
            "The app secret was changed: put the new one into FEISHU_APP_SECRET and restart `signoff serve`."
        )
        return Finding(name, False, problem, remedy)
    if problem:
        return Finding(name, False, problem, f"Check that this machine reaches {house.settings.domain}.")
    last = await app.store.arrivals.last("feishu")
    if last is None:
        remedy = (
            "Write to the bot. If nothing changes: events page, 长连接 (long connection), subscribe to "
            "im.message.receive_v1 and im.message.recalled_v1, publish a version; `signoff serve` has to run."
        )
        return Finding(name, False, "nothing has ever arrived", remedy)
    return Finding(name, True, f"the last one arrived {last:%Y-%m-%d %H:%M} UTC")


async def _connection(app: "App", house: FeishuHouse) -> str:
    """What the serving process said of its connection last; it says so every minute."""
    if house.settings.uses_webhook:
        return ""
    told = await app.store.kept.get("feishu:", "connection", FRESH)
    return str(told[-1].data["problem"]) if told else "no serving process is connected: start `signoff serve`"


async def _clicks(app: "App", house: FeishuHouse) -> Finding:
    """Callbacks are subscribed to on a page of their own, and Feishu offers no way to ask whether they are: what tells
    is whether a click ever came, once there was something to click."""
    name = "feishu clicks"
    if await app.store.kept.get("feishu:", "clicked"):
        return Finding(name, True, "have arrived")
    if not await app.store.deliveries.any_card("feishu"):
        return Finding(name, True, "no card has been sent yet, so none could arrive")
    remedy = (
        f"If a button shows error {CLICK_CODE}: callbacks page (回调配置, not the events page), 长连接, subscribe to "
        "card.action.trigger, publish a version."
    )
    return Finding(name, False, "cards were sent, and no click has ever arrived", remedy)


async def _review_chat(app: "App", house: FeishuHouse, chat: str) -> Finding:
    name = f"feishu review chat {chat}"
    try:
        found = await house.people.chat(chat)
        inside = await house.people.members(chat)
    except Unknown:
        remedy = f"Add the bot to the group, or correct the id {chat}."
        return Finding(name, False, "Feishu does not show it to the bot", remedy)
    if found.external:
        return Finding(name, False, "people of another organisation are in it", "Take an internal group.")
    if not found.private:
        return Finding(name, False, "everybody can join it and read drafts", "Make it a private group.")
    listed = [p for p in app.settings.review.reviewers if p.startswith("feishu:")]
    outside = [p for p in listed if p.removeprefix("feishu:") not in inside]
    if not listed:
        remedy = 'Name open ids in signoff.toml: reviewers = ["feishu:ou_…"], or link Slack reviewers.'
        return Finding(name, False, "no reviewer is named", remedy)
    if outside:
        return Finding(name, False, f"not in it: {', '.join(outside)}", f"Add them to {found.name}.")
    return Finding(name, True, f"{found.name}, private, {len(listed)} reviewers inside")
