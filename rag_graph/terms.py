"""Which words of a text carry its meaning, in both languages. Pure; the words are cut by store/words.py."""

from functools import lru_cache

from store.words import tokens

__all__ = ["STOP", "content", "is_content"]

_ZH = (
    "的 了 着 过 是 在 和 与 及 或 以及 或者 有 也 都 就 而 并 且 但 但是 被 把 将 对 对于 从 到 为 以 "
    "于 之 其 该 此 这 那 这个 那个 这些 那些 这里 那里 这儿 那儿 这样 那样 它 他 她 它们 他们 她们 我 "
    "你 您 我们 你们 咱们 自己 请 问 请问 吗 呢 吧 啊 呀 哦 嗯 哈 嘛 啦 哇 噢 喔 么 什么 怎么 怎样 "
    "怎么样 怎么办 如何 多少 几 哪 哪个 哪些 哪里 哪儿 哪家 谁 何 何时 时候 什么时候 为什么 为何 是否 "
    "是不是 有没有 能不能 可不可以 可以 能 能够 会 要 想 应 应该 应当 需 需要 必须 等 等等 个 一个 一些 "
    "一下 一种 还 还有 又 再 很 非常 比较 更 最 就是 只 只有 只是 如果 若 因为 所以 那么 然后 另外 关于 "
    "根据 按照 按 由 由于 向 给 让 使 使用 进行 知道 告诉 了解 介绍 说 看 没 没有 不 不是 上 下 中 里 内 "
    "外 后 前 时 年的 日的 的是 是多 多久 多长 多大 多远 咱 俺 啥 咋 咋样 清楚 听说 帮 帮我 查 一般 具体 "
    "大概"
)
_EN = (
    "a an the this that these those it its they them their theirs he him his she her hers i me my mine "
    "we us our ours you your yours is are was were be been being am do does did done have has had having "
    "will would shall should can could may might must of in on at by for from to with without about into "
    "onto over under between among as than and or but nor so if then else when where which who whom "
    "whose what why how while because there here not no yes also too very just only any some each every "
    "all both more most other another such same please tell explain describe know want like need let get "
    "got give make many much long far often old s t re ve ll d m don doesn didn isn aren wasn weren won "
    "until till since during wouldn can't couldn shouldn hello hi thanks thank ok okay oh well really actually"
)


@lru_cache(maxsize=1)
def _stop() -> frozenset[str]:
    """The list, each word also as the tokenizer would give it back (stems, joined single characters)."""
    listed = {*_ZH.split(), *_EN.split()}
    return frozenset(listed | {token for word in _EN.split() for token in tokens(word)})


STOP = _stop()


def is_content(token: str) -> bool:
    """Does `token`, as store.words.tokens gives it, say what a text is about?"""
    return token not in STOP


@lru_cache(maxsize=4096)
def content(text: str) -> tuple[str, ...]:
    """The tokens of `text` that carry meaning, in order, each once."""
    return tuple(dict.fromkeys(token for token in tokens(text) if is_content(token)))
