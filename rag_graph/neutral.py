"""Making text that a model or a document wrote harmless to show. Pure.

Nothing in it may ping anybody, link anywhere or bring markup of its own: links come from the citation builder
alone (invariant 8). An address stays readable, as code and without its scheme, which no client turns into a
link. Renderers escape once more; this is what every one of them may rely on.
"""

import html
import re
from collections.abc import Callable, Iterator

__all__ = ["neutralise", "segments"]


# --- what is code -----------------------------------------------------------------------------------------------

# A fence at the left margin opens a code block whatever stands before it. One inside a list or a quotation ends
# where only a full parser knows, so it is not believed: its marks are removed and its text is treated as prose.
_OPENS = re.compile(r"(`{3,})[^`|\n]*|(~{3,})[^|\n]*")
_RUN = re.compile(r"\\.|`+", re.DOTALL)


def segments(text: str) -> Iterator[tuple[bool, str]]:
    """`text` in pieces, each with whether it is code. Joined again they are `text`.

    Code is read strictly: a fence at the left margin, or a span closed on its own line without a table's bar.
    """
    fence = ""
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        opened = _OPENS.fullmatch(bare)
        if fence:
            yield True, line
            if re.fullmatch(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*", bare):
                fence = ""
        elif opened:
            yield True, line
            fence = opened[1] or opened[2]
        else:
            yield from _spans(line)


def _spans(line: str) -> Iterator[tuple[bool, str]]:
    at = 0
    for start, end in _closed_spans(line):
        if start > at:
            yield False, line[at:start]
        yield True, line[start:end]
        at = end
    if at < len(line):
        yield False, line[at:]


def _closed_spans(line: str) -> Iterator[tuple[int, int]]:
    at = 0
    while match := _RUN.search(line, at):
        at = match.end()
        if match.group()[0] == "\\":
            continue
        close = re.compile(rf"(?<!`){match.group()}(?!`)").search(line, at)
        if close and "|" not in line[at : close.start()]:
            yield match.start(), close.end()
            at = close.end()


# --- the whole --------------------------------------------------------------------------------------------------

# Zero-width, bidirectional and tag characters hide an @channel from a pattern and not from a client.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def neutralise(text: str) -> str:
    """`text` with nothing left that pings, links, or marks up beyond Markdown's own formatting.

    Mentions lose their sign (<!channel>, <@U1>, <at …>, @all), links keep their words, images their description,
    HTML is shown as text, and addresses become code without a scheme. Code keeps its characters except where
    they would ping. Doing it twice is the same as once.
    """
    return _settled(_pass, _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def _settled(step: Callable[[str], str], text: str) -> str:
    """Until nothing changes: what one removal joins may be a ping again. Two rounds are usual."""
    for _ in range(len(text) + 8):
        after = step(text)
        if after == text:
            return text
        text = after
    return re.sub(r"[^\w\s]", "", text)  # never seen; letters alone cannot do harm


def _pass(text: str) -> str:
    done: list[str] = []
    for code, piece in segments(text):
        safe = _pingless(piece, _SLACK_IN_CODE) if code else _prose(piece)
        if done and done[-1].endswith("`") and safe.startswith("`"):
            safe = " " + safe
        done.append(safe)
    return "".join(done)


# --- pings ------------------------------------------------------------------------------------------------------

# Slack: <!channel>, <!subteam^S1|@team>, <@U1|name>, <#C1|name>. Feishu: <at user_id="all">…</at>, <person …>.
_SLACK = re.compile(r"<[!@#]+[^<>\s|]*(?:\|([^<>\n]*))?>?")
_SLACK_IN_CODE = re.compile(
    r"<(?:!(?=channel|here|everyone|group|subteam|date)|[@#](?=[A-Z0-9]))[^<>\s|]*(?:\|([^<>\n]*))?>?",
    re.IGNORECASE,
)
_FEISHU = re.compile(r"</?\s*(?:at|person|link)\b[^<>\n]*>?", re.IGNORECASE)
_ALL = r"(?:all|channel|here|everyone|everybody|group|_all)(?![a-z])|所有人|全体"
_SIGN = r"[@＠﹫]++[\s*_~`\\]*+"
_EVERYBODY = re.compile(
    # … except in a mail address, all@all-hands.example
    rf"(?<![A-Za-z0-9@＠﹫]){_SIGN}(?={_ALL})|(?<=[A-Za-z0-9]){_SIGN}(?=(?:{_ALL})(?![A-Za-z0-9-]*\.[A-Za-z]))",
    re.IGNORECASE,
)


def _named(match: re.Match[str]) -> str:
    words = match[1] or match.group().rstrip(">")
    return words.lstrip("<@＠﹫!#")


def _pingless(text: str, slack: re.Pattern[str]) -> str:
    return _EVERYBODY.sub("", _FEISHU.sub("", slack.sub(_named, text)))


# --- links, images, HTML ----------------------------------------------------------------------------------------

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_NESTED = r"[^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*"
_IMAGE = re.compile(rf"!\[([^\[\]\n]*)\](?:\(\s*<?{_NESTED}>?[^()\n]*\)|\[[^\[\]\n]*\])?")
_LINK = re.compile(rf"\[([^\[\]\n]*)\]\(\s*<?(?P<to>{_NESTED})>?(?P<title>\s+[\"'(][^\n]*?)?\s*\)")
_LABELLED = re.compile(r"<(?P<to>[a-z][a-z0-9+.-]{1,31}:[^<>|\s]*)(?:\|(?P<label>[^<>\n]*))?>", re.IGNORECASE)
_BRACKET = re.compile(r"\](?=[:(])")
# A tag, or a mail address in angle brackets, in whose name even a backtick is legal.
_TAG = re.compile(r"<(?=[^\s\d=\u0080-\U0010ffff]|[\d=]\S*?(?:@|\Z)|\Z)")
_FENCE = re.compile(r"~{3,}|`+")
_ADDRESSED = re.compile(r"[a-z][a-z0-9+.-]*:|[./#?]|[\w@-]+\.[a-z]{2,}", re.IGNORECASE)

_TLDS = (
    "com|net|org|edu|gov|int|info|biz|name|pro|mobi|io|ai|co|tv|cc|ly|gg|sh|app|dev|xyz|top|site|online|shop|store|"
    "tech|cloud|link|click|space|website|icu|vip|club|zip|cn|hk|tw|jp|kr|sg|uk|ca|au|nz|de|fr|es|nl|ch|se|dk|pl|cz|"
    "ru|ua|br|mx|eu|example|test|local|internal|corp"
)
_IN_URL = r"[^\s<>`\"'|\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
_HOST = r"(?<![\w.-])(?:[\w.+-]+@)?(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
_URL = re.compile(
    rf"[a-z][a-z0-9+.-]{{1,31}}:/+{_IN_URL}*|(?:mailto|javascript|vbscript|data):(?=\S){_IN_URL}+|www\.{_IN_URL}+"
    rf"|{_HOST}(?:(?:{_TLDS})(?![\w-])(?:[:/?#]{_IN_URL}*)?|[a-z]{{2,24}}/{_IN_URL}+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]*:/+|mailto:)+", re.IGNORECASE)
_TRAILING = ".,;:!?)]}*_~"


def _prose(piece: str) -> str:
    piece = _settled(lambda text: _ENTITY.sub(lambda match: html.unescape(match.group()), text), piece)
    piece = _BREAK.sub(" ", _FENCE.sub("", _UNSEEN.sub("", piece)))
    piece = _pingless(_LABELLED.sub(lambda match: match["label"] or match["to"], piece), _SLACK)
    piece = _IMAGE.sub(r"\1", piece)
    piece = _settled(lambda text: _LINK.sub(_linkless, text), piece)
    piece = _BRACKET.sub("] ", piece)
    piece = re.sub(r"(?<!\\)\\++(?=`)", "", _URL.sub(_shown, piece))  # a backslash would open the code again
    return _TAG.sub("&lt;", piece)


def _linkless(match: re.Match[str]) -> str:
    """The words of a link; a citation mark keeps its brackets, and what was no address stays."""
    label, to = match[1], match["to"]
    addressed = bool(_ADDRESSED.match(to) or match["title"]) or not to
    if label.strip().isdigit():
        return f"[{label}]" if addressed else f"[{label}] ({to})"
    return label if addressed else f"[{label}] ({to})"


def _shown(match: re.Match[str]) -> str:
    whole = match.group()
    address = whole.rstrip(_TRAILING)
    address += ")" * (address.count("(") > address.count(")") and whole[len(address) :].startswith(")"))
    bare = _SCHEME.sub("", address, count=1) if _SCHEME.match(address) else address
    return (f"`{bare}`" if bare else "") + whole[len(address) :]
