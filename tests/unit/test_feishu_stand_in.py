"""The stand-in Feishu is as strict as the original: each rule with what breaks it, without the bot or the SDK."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.emulators.feishu.api import Api, Call, Rules
from tests.emulators.feishu.frames import Frame
from tests.emulators.feishu.limits import Refused, bytes_of, check_card, check_content, links, pings
from tests.emulators.feishu.permissions import Manifest
from tests.emulators.feishu.world import BOT, Message, World

SCOPES = ["contact:user.base:readonly"]
MANIFEST = Manifest(
    {"permissions": {"needed": SCOPES}, "events": {"subscribed": []}, "callbacks": {"subscribed": []}}
)
TEXT = {"tag": "plain_text", "content": "x"}


def card(*elements: Any, **more: Any) -> dict[str, Any]:
    return {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": list(elements)}, **more}


def markdown(content: str = "x", **more: Any) -> dict[str, Any]:
    return {"tag": "markdown", "content": content, **more}


def table(rows: int = 1) -> dict[str, Any]:
    column = {"name": "a", "display_name": "A", "data_type": "text"}
    return {"tag": "table", "page_size": 5, "columns": [column], "rows": [{"a": "1"}] * rows}


def button(**more: Any) -> dict[str, Any]:
    return {"tag": "button", "text": TEXT, "behaviors": [{"type": "callback", "value": {"do": "x"}}], **more}


LONG_INPUT = {"tag": "input", "name": "a", "max_length": 1_001}
SUBMIT = button(name="b", form_action_type="submit")
GOOD = [card(markdown(), {"tag": "hr"}, button(), *[table()] * 5), card(*[markdown()] * 200)]
BAD = [
    card(markdown(colour="red")),
    card(markdown(), footer={}),
    {**card(markdown()), "schema": "1.0"},
    card({"tag": "chart"}),
    card(*[table()] * 6),
    card(*[markdown()] * 201),
    card({"tag": "collapsible_panel", "header": {"title": TEXT}, "elements": [table()]}),
    card(button(behaviors=[{"type": "callback", "value": "approve"}])),
    card(button(behaviors=[])),
    card({"tag": "input", "name": "a"}),
    card({"tag": "form", "name": "f", "elements": [{"tag": "input", "name": "a"}]}),
    card({"tag": "form", "name": "f", "elements": [LONG_INPUT, SUBMIT]}),
    card(markdown("")),
    card(markdown(element_id="1")),
    card(markdown(element_id="a"), markdown(element_id="a")),
    card(markdown(), header={"title": {"tag": "plain_text", "content": ""}}),
]  # fmt: skip


@pytest.mark.parametrize("content", GOOD)
def test_cards_within_the_rules_are_taken(content: dict[str, Any]) -> None:
    """Five tables, two hundred components: still good."""
    check_content("interactive", content)


@pytest.mark.parametrize("content", BAD)
def test_cards_beyond_the_rules_are_refused(content: dict[str, Any]) -> None:
    """An unknown property is an error in 2.0, and so is every limit of its pages."""
    with pytest.raises(Refused) as refused:
        check_card(content)
    assert refused.value.code == 230099


def test_thirty_kilobytes_are_counted_as_they_travel() -> None:
    """JSON in a JSON string, in UTF-8: a quotation mark is four bytes, a Chinese letter three."""
    assert bytes_of({"a": '"'}) - bytes_of({"a": ""}) == 4
    assert bytes_of({"a": "签"}) - bytes_of({"a": ""}) == 3
    for letters in ('"' * 8_000, "签" * 10_000):
        with pytest.raises(Refused) as refused:
            check_content("interactive", card(markdown(letters)))
        assert refused.value.code == 230025


@pytest.mark.parametrize(
    "text",
    ["<at id=all></at>", "< AT user_id='x'>", "<person id='x'/>", "[a](https://x.example)", "www.x.example", "![](k)",
     "https://x.example", "a@b.example", "&#104;ttps://x.example"],
)  # fmt: skip
def test_pings_and_links_are_seen(text: str) -> None:
    """Whatever a client would make one of, however it is spelled."""
    assert pings(card(markdown(text))) + links(card(markdown(text)))


# --- the addresses


@pytest.fixture
def api() -> Api:
    return Api(World(), MANIFEST, Rules())


def refused(run: Callable[[], Any]) -> int:
    with pytest.raises(Refused) as found:
        run()
    return found.value.code


def packed(content: Any) -> str:
    return json.dumps(content)


def reply(api: Api, message: str, **body: Any) -> dict[str, Any]:
    content = {"msg_type": "text", "content": packed({"text": "x"}), **body}
    return api.reply(Call({"message_id": message}, {}, content))


def asked(api: Api, chat: str = "oc_general") -> str:
    made = Message(api.world.fresh("om"), chat, "ou_ada", "text", {"text": "q"}, api.world.clock.now())
    return api.world.put(made).message_id


def test_replies_have_their_rules(api: Api) -> None:
    """Another kind of id, a recalled message, a group without topics, a chat without the bot: each its own code."""
    assert refused(lambda: reply(api, "omt_1")) == 99992354
    message = asked(api)
    api.world.messages[message].recalled = True
    assert refused(lambda: reply(api, message)) == 230011
    assert refused(lambda: reply(api, asked(api, "oc_flat"), reply_in_thread=True)) == 230071
    assert refused(lambda: reply(api, asked(api, "oc_nobot"))) == 230002


def test_a_uuid_posts_once_within_an_hour(api: Api) -> None:
    """The same one again is the same message; an hour later it is another."""
    message = asked(api)
    first, again = (reply(api, message, uuid="u1")["message_id"] for _ in range(2))
    api.world.clock.wind(3_601)
    assert first == again != reply(api, message, uuid="u1")["message_id"]
    assert refused(lambda: reply(api, message, uuid="u" * 51)) == 99992402


def test_a_card_is_changed_by_patch_for_fourteen_days(api: Api) -> None:
    """Its own sender, update_multi before and after, not too old; PUT is for words."""
    message = reply(api, asked(api), msg_type="interactive", content=packed(card(markdown())))["message_id"]

    def patched(content: Any) -> Any:
        return api.patch(Call({"message_id": message}, {}, {"content": packed(content)}))

    patched(card(markdown("y")))
    assert refused(lambda: patched({**card(markdown()), "config": {}})) == 230099
    assert refused(lambda: api.put(Call({"message_id": message}, {}, {"content": packed({})}))) == 230001
    api.world.clock.wind(14 * 86_400 + 1)
    assert refused(lambda: patched(card(markdown()))) == 230031


def test_a_card_entity_streams_under_a_growing_sequence_for_ten_minutes(api: Api) -> None:
    """300317 for a sequence that does not grow, 200850 once at ten minutes, 300309 from then on; sent once only."""
    streaming = card(markdown(element_id="body"))
    streaming["config"]["streaming_mode"] = True
    body = {"type": "card_json", "data": packed(streaming)}
    card_id = api.create_card(Call({}, {}, body))["card_id"]

    def grown(sequence: int) -> Any:
        path = {"card_id": card_id, "element_id": "body"}
        return api.stream(Call(path, {}, {"content": "more", "sequence": sequence}))

    grown(5)
    assert refused(lambda: grown(5)) == 300317
    api.world.clock.wind(601)
    assert refused(lambda: grown(6)) == 200850
    assert refused(lambda: grown(7)) == 300309
    sent = {"msg_type": "interactive", "content": packed({"type": "card", "data": {"card_id": card_id}})}
    reply(api, asked(api), **sent)
    assert refused(lambda: reply(api, asked(api), **sent)) == 230099


def test_a_callbacks_token_updates_twice_within_half_an_hour(api: Api) -> None:
    """And only after the callback was answered: before, the answer takes it back."""
    message = reply(api, asked(api), msg_type="interactive", content=packed(card(markdown())))["message_id"]
    token = {"message_id": message, "at": api.world.clock.now(), "uses": 0, "answered": False}
    api.world.card_tokens["c-1"] = token

    def update(text: str) -> Any:
        return api.delayed(Call({}, {}, {"token": "c-1", "card": card(markdown(text))}))

    update("early")
    assert "early" not in str(api.world.messages[message].content)
    token["answered"] = True
    update("late")
    assert "late" in str(api.world.messages[message].content)
    assert refused(lambda: update("third")) == 230099


def test_people_of_others_and_names_without_permission_are_not_shown(api: Api) -> None:
    """41050 for another organisation; a name needs a permission of its own."""
    shown = api.user(Call({"user_id": "ou_ada"}, {}, {}))["user"]
    assert shown["name"] == "ada"
    assert "email" not in shown
    assert refused(lambda: api.user(Call({"user_id": "ou_eve"}, {}, {}))) == 41050
    assert BOT in api.world.chats["oc_general"].members


def test_frames_survive_their_own_encoding() -> None:
    """Numbers of several bytes, no payload, many headers."""
    frame = Frame(
        1, {f"k{n}": "v" * n for n in range(200)}, b"\x00\xff" * 300, service=33_554_698, sequence=2**40
    )
    decoded = Frame.decode(frame.encode())
    assert (decoded.headers, decoded.payload, decoded.service) == (frame.headers, frame.payload, 33_554_698)
    assert decoded.sequence == 2**40
