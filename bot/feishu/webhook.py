"""Events over HTTP, opened and checked: pure.

The SDK's own check takes a signed request for ever, plain text though a key is set, and without a key anything at all;
here a request is encrypted and signed, and no older than five minutes.
open.feishu.cn/document/server-docs/event-subscription-guide/event-subscription-configure-/encrypt-key-encryption-configuration-case
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from Crypto.Cipher import AES

from bot.messages import MALFORMED

WINDOW = 300.0  # seconds, either way
BLOCK = 16


class Forged(Exception):
    """Not from Feishu, or not now; the message says which check failed, for the log."""


def opened(body: bytes, headers: Mapping[str, str], key: str, token: str, now: float) -> dict[str, Any]:
    """The event in a request. `headers` may be spelled as they like; `token` is the verification token, "" for
    unchecked. Raises `Forged`.

    The challenge comes unsigned: that it is encrypted with our key is its proof.
    """
    found = _decrypted(body, key)
    header = found.get("header")
    given = found.get("token") or (header.get("token") if isinstance(header, dict) else "") or ""
    if token and not hmac.compare_digest(token.encode(), str(given).encode("utf-8", "replace")):
        raise Forged("token")
    if found.get("type") == "url_verification":
        return found
    spelled = {name.lower(): value for name, value in headers.items()}
    stamp, nonce = spelled.get("x-lark-request-timestamp", ""), spelled.get("x-lark-request-nonce", "")
    signature = spelled.get("x-lark-signature", "")
    expected = hashlib.sha256((stamp + nonce + key).encode() + body).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise Forged("signature")
    if not stamp.isdigit() or abs(now - float(stamp)) > WINDOW:
        raise Forged("timestamp")
    return found


def _decrypted(body: bytes, key: str) -> dict[str, Any]:
    try:
        found = json.loads(_plain(body, key))
    except (*MALFORMED, binascii.Error) as error:
        raise Forged("not encrypted with our key") from error
    if not isinstance(found, dict):
        raise Forged("not encrypted with our key")
    return found


def _plain(body: bytes, key: str) -> bytes:
    """AES-256-CBC under the key's SHA-256, the first block is the iv, padded as PKCS 7 says."""
    packed = base64.b64decode(json.loads(body)["encrypt"], validate=True)
    cipher = AES.new(hashlib.sha256(key.encode()).digest(), AES.MODE_CBC, packed[:BLOCK])
    plain = cipher.decrypt(packed[BLOCK:])
    return plain[: -plain[-1]]
