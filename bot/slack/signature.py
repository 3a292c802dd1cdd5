"""Whether Slack signed a request: pure. Bolt checks it too, but after it has parsed the body, and fails on a timestamp
that is no number. docs.slack.dev/authentication/verifying-requests-from-slack
"""

import hashlib
import hmac
import re
from collections.abc import Mapping

WINDOW = 300  # seconds, either way
STAMP = re.compile(r"[0-9]{1,12}")


def signed(body: bytes, headers: Mapping[str, str], secret: str, now: float) -> bool:
    """`headers` by lower-case name. Without a secret nothing is signed."""
    stamp = headers.get("x-slack-request-timestamp", "")
    if not secret or not STAMP.fullmatch(stamp) or abs(now - int(stamp)) > WINDOW:
        return False
    digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={digest}".encode(), headers.get("x-slack-signature", "").encode())
