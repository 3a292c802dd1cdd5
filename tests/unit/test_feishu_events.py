"""What Feishu's payloads mean, and which of its HTTP requests are believed. Payloads as its documents print them."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from Crypto.Cipher import AES

from bot.feishu import events, webhook
from bot.feishu.people import Identity
from bot.settings import SettingsError, load_settings

OURS = Identity("ou_bot", "signoff", "736588c9260f175d")


def received(**message: Any) -> dict[str, Any]:
    """open.feishu.cn/document/server-docs/im-v1/message/events/receive, its example, with our bot mentioned."""
    return {
        "schema": "2.0",
        "header": {
            "event_id": "5e3702a84e847582be8db7fb73283c02",
            "event_type": "im.message.receive_v1",
            "create_time": "1608725989000",
            "token": "rvaYgkND1GOiu5MM0E1rncYC6PLtF7JV",
            "app_id": "cli_9f5343c580712544",
            "tenant_key": "2ca1d211f64f6438",
        },
        "event": {
            "sender": {
                "sender_id": {
                    "union_id": "on_8ed6aa67826108097d9ee143816345",
                    "user_id": "e33ggbyz",
                    "open_id": "ou_84aad35d084aa403a838cf73ee18467",
                },
                "sender_type": "user",
                "tenant_key": "736588c9260f175d",
            },
            "message": {
                "message_id": "om_5ce6d572455d361153b7cb51da133945",
                "create_time": "1609073151345",
                "chat_id": "oc_5ce6d572455d361153b7xx51da133945",
                "chat_type": "group",
                "message_type": "text",
                "content": '{"text":"@_user_1 hello @_user_10 and @_user_2"}',
                "mentions": [
                    {"key": "@_user_1", "id": {"open_id": "ou_bot"}, "name": "Signoff", "tenant_key": "x"},
                    {"key": "@_user_2", "id": {"open_id": "ou_2"}, "name": "Tom", "tenant_key": "x"},
                    {"key": "@_user_10", "id": {"open_id": "ou_10"}, "name": "Ann", "tenant_key": "x"},
                ],
                **message,
            },
        },
    }


def test_a_mention_is_heard_with_names_in_place_of_keys() -> None:
    """Our own mention is left out, those of others stay as names, and @_user_1 is not the beginning of @_user_10."""
    heard = events.heard(received(), OURS)
    assert heard is not None
    assert (heard.text, heard.mentioned, heard.to_other) == ("hello @Ann and @Tom", True, False)
    assert heard.key == "cli_9f5343c580712544:om_5ce6d572455d361153b7cb51da133945"
    assert heard.conversation_id.endswith("xx51da133945:om_5ce6d572455d361153b7cb51da133945")


def test_a_post_is_read_whole() -> None:
    """Title and lines of rich text, bare or by language."""
    post = {
        "title": "T",
        "content": [
            [{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": "a"}],
            [{"tag": "a", "text": "b"}],
        ],
    }
    for content in (post, {"zh_cn": post}):
        heard = events.heard(received(message_type="post", content=json.dumps(content)), OURS)
        assert heard is not None
        assert heard.text == "T\na\nb"


@pytest.mark.parametrize(
    ("content", "kind"),
    [("not json", "text"), ("[]", "text"), ('{"text":null}', "text"), ("", "image"), (None, "post")],
)
def test_odd_contents_are_empty_and_not_errors(content: Any, kind: str) -> None:
    """Whatever a content is, it is heard as nothing rather than failing for ever in its job."""
    heard = events.heard(received(content=content, message_type=kind), OURS)
    assert heard is not None
    assert heard.text == ""


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/kb list", ("kb", "list")), ("／kb add house", ("kb", "add house")), ("/new", ("new", "")),
        ("/ask 年假？", ("ask", "年假？")), ("/kbx", None), ("what is /kb?", None), ("/KB", ("kb", "")),
    ],
)  # fmt: skip
def test_commands_are_words_at_the_beginning(text: str, command: tuple[str, str] | None) -> None:
    """A slash or its full-width twin, in any case; in the middle of a sentence it is none."""
    heard = events.heard(received(content=json.dumps({"text": f"@_user_1 {text}"})), OURS)
    assert heard is not None
    assert heard.command == command


def test_what_does_not_concern_us_is_not_stored() -> None:
    """With im:message.group_msg all that is said in a group arrives; mentions and answers are kept, programs' never."""
    mentions: list[Any] = []
    assert not events.concerns_us(received(mentions=mentions), "ou_bot")
    assert events.concerns_us(received(mentions=mentions, root_id="om_1"), "ou_bot")
    assert events.concerns_us(received(mentions=mentions, chat_type="p2p"), "ou_bot")
    assert events.concerns_us(received(), "ou_bot")
    program = received()
    program["event"]["sender"]["sender_type"] = "app"
    assert not events.concerns_us(program, "ou_bot")
    for other in ("im.message.message_read_v1", "im.chat.member.bot.added_v1", "made.up_v9"):
        body = received()
        body["header"]["event_type"] = other
        assert not events.concerns_us(body, "ou_bot")


def test_a_click_with_a_text_for_a_value_is_still_a_click() -> None:
    """A value that is no object (oapi-sdk-python#112) has nothing to do, and is no error."""
    body = {
        "header": {},
        "event": {"operator": {"open_id": "ou_1"}, "action": {"value": "approve"}, "context": None},
    }
    click = events.clicked(body)
    assert (click.do, click.user, click.chat) == ("", "ou_1", "")


# --- HTTP

KEY, TOKEN, NOW = "test key", "rvaYgkND1GOiu5MM0E1rncYC6PLtF7JV", 1_609_073_151.0


def sealed(body: dict[str, Any], key: str = KEY) -> bytes:
    plain = json.dumps(body).encode()
    padding = 16 - len(plain) % 16
    cipher = AES.new(hashlib.sha256(key.encode()).digest(), AES.MODE_CBC, b"0" * 16)
    packed = b"0" * 16 + cipher.encrypt(plain + bytes([padding]) * padding)
    return json.dumps({"encrypt": base64.b64encode(packed).decode()}).encode()


def signed(body: bytes, at: float = NOW, key: str = KEY) -> dict[str, str]:
    stamp = str(int(at))
    signature = hashlib.sha256(f"{stamp}nonce{key}".encode() + body).hexdigest()
    # As ASGI spells headers; the SDK looks for X-Lark-Signature only.
    return {"x-lark-request-timestamp": stamp, "x-lark-request-nonce": "nonce", "x-lark-signature": signature}


def test_the_documents_own_example_is_decrypted() -> None:
    """open.feishu.cn, "encrypt key": key "test key", its ciphertext, its plain text."""
    packed = b'{"encrypt":"P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="}'
    assert webhook._plain(packed, "test key") == b"hello world"


def test_a_signed_event_is_opened() -> None:
    """Encrypted with our key, signed, fresh, with our token."""
    body = sealed(received())
    assert webhook.opened(body, signed(body), KEY, TOKEN, NOW)["header"]["event_id"]


@pytest.mark.parametrize("seconds", [-301.0, 301.0, 30 * 86_400.0])
def test_an_old_request_is_a_replay(seconds: float) -> None:
    """Five minutes either way; the SDK takes a signed request for ever."""
    body = sealed(received())
    with pytest.raises(webhook.Forged, match="timestamp"):
        webhook.opened(body, signed(body, NOW - seconds), KEY, TOKEN, NOW)


@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (json.dumps(received()).encode(), {}, "not encrypted"),
        (sealed(received(), "another key"), {}, "not encrypted"),
        (b"", {}, "not encrypted"),
        (b"[]", {}, "not encrypted"),
        (b'{"encrypt":"AAAA"}', {}, "not encrypted"),
        (sealed(received()), {}, "signature"),
        (sealed(received()), signed(b"something else"), "signature"),
    ],
)
def test_forgeries_are_refused(body: bytes, headers: dict[str, str], why: str) -> None:
    """Plain text though a key is set, another key, no or another signature: refused, each with its reason."""
    if why == "not encrypted":
        headers = signed(body)
    with pytest.raises(webhook.Forged, match=why):
        webhook.opened(body, headers, KEY, TOKEN, NOW)


def test_the_verification_token_counts_too() -> None:
    """Encrypted with our key, but for another app."""
    body = sealed({"type": "url_verification", "challenge": "c", "token": "another"})
    with pytest.raises(webhook.Forged, match="token"):
        webhook.opened(body, {}, KEY, TOKEN, NOW)


def test_trap_37_two_bots_of_one_group_do_not_take_each_others_messages() -> None:
    """Both hear the same message id: the key of what was heard has the app's id before it."""
    ours, theirs = received(), received()
    theirs["header"]["app_id"] = "cli_another"
    assert events.key_of(ours) != events.key_of(theirs)
    heard = events.heard(ours, OURS)
    assert heard is not None
    assert heard.key == events.key_of(ours)


@pytest.mark.parametrize(
    ("given", "domain", "webhook"),
    [
        ({}, "https://open.feishu.cn", False),
        ({"FEISHU_DOMAIN": "lark"}, "https://open.larksuite.com", False),
        ({"FEISHU_DOMAIN": "Lark", "FEISHU_ENCRYPT_KEY": "k"}, "https://open.larksuite.com", True),
        ({"FEISHU_DOMAIN": "https://open.example.com/"}, "https://open.example.com", False),
    ],
)
def test_trap_46_lark_is_another_address_and_http_another_way_in(
    tmp_path: Path, given: dict[str, str], domain: str, webhook: bool
) -> None:
    """feishu, lark or a URL; where the long connection is not to be had, an encrypt key opens the HTTP door."""
    settings = load_settings(tmp_path, {"FEISHU_APP_ID": "cli_1", "FEISHU_APP_SECRET": "s", **given})
    assert settings.feishu is not None
    assert (settings.feishu.domain, settings.feishu.uses_webhook) == (domain, webhook)
    assert "SecretStr('**********')" in repr(settings.feishu)


@pytest.mark.parametrize(
    ("given", "toml", "said"),
    [
        ({"FEISHU_APP_ID": "cli_1"}, "", "FEISHU_APP_SECRET"),
        ({"FEISHU_APP_ID": "cli_1", "FEISHU_APP_SECRET": "s", "FEISHU_DOMAIN": "http://x"}, "", "domain"),
        (
            {"FEISHU_APP_ID": "cli_1", "FEISHU_APP_SECRET": "s"},
            '[feishu]\ntransport = "webhook"\n',
            "FEISHU_ENCRYPT_KEY",
        ),
    ],
)
def test_half_a_set_up_does_not_start(tmp_path: Path, given: dict[str, str], toml: str, said: str) -> None:
    """A missing secret, an address without TLS, an HTTP door without its key: named, and nothing starts."""
    (tmp_path / "signoff.toml").write_text(toml, encoding="utf-8")
    with pytest.raises(SettingsError, match=said):
        load_settings(tmp_path, given)


def item(kind: str, content: dict[str, Any], sender: str = "user", **more: Any) -> dict[str, Any]:
    """A message as the API returns it: there the id of a mention is a text, in events it is an object."""
    return {
        "msg_type": kind,
        "sender": {"sender_type": sender},
        "body": {"content": json.dumps(content)},
        **more,
    }


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (item("text", {"text": "What does ERR_0042 mean?"}), "What does ERR_0042 mean?"),
        (
            item(
                "text",
                {"text": "@_user_1 ask @_user_2"},
                mentions=[
                    {"key": "@_user_1", "id": "ou_bot", "name": "Signoff"},
                    {"key": "@_user_2", "id": "ou_lin", "name": "lin"},
                ],
            ),
            "ask @lin",
        ),
        (item("merge_forward", {"text": "Merged and Forwarded Message"}), ""),
        (item("text", {"text": "15 days [1]"}, sender="app"), ""),
        (item("interactive", {"elements": []}), ""),
    ],
)
def test_what_others_wrote_is_read_as_the_api_returns_it(found: dict[str, Any], said: str) -> None:
    """People's words alone: not what a program wrote, and of a bundle nothing but the messages in it."""
    assert events.words_in(found, "ou_bot") == said
