"""The frame that questions come in, in both languages: politeness, thanks, spellings of one thing, and the words that
ask. Tables only; `rag_graph.likeness` reads them.
"""

import re

__all__ = [
    "ARTICLES",
    "ASKS_EN",
    "ASKS_ZH",
    "LATIN_ZH",
    "LIGHT_EN",
    "LIGHT_ZH",
    "NAMED",
    "ORDINARY",
    "POLITE_EN",
    "POLITE_ZH",
    "RELATION",
    "SELF",
    "SPELT_EN",
    "SPELT_ZH",
    "STARTS",
    "THANKS_EN",
    "THANKS_ZH",
    "WORD",
]

# --- English ------------------------------------------------------------------------------------------------------

POLITE_EN = re.compile(
    r"^(?:(?:hi|hello|hey|dear|good (?:morning|afternoon|evening))"
    r"(?: (?:there|all|team|everyone|everybody|folks|signoff))?"
    r"|please|pls|excuse me|sorry|so|ok(?:ay)?|well|um+|just (?:checking|wondering)"
    r"|(?:a )?quick (?:question|one)|question"
    r"|(?:i|we) (?:have|had|'ve got|have got|'ve) a (?:quick )?question"
    r"|(?:does|do) (?:anyone|anybody|you|someone|we)(?: here)?(?: happen to)? know|(?:anyone|anybody) know|any ideas?"
    r"|(?:can|could|would|will) (?:you|anyone|anybody|someone|somebody)(?: please| kindly)? "
    r"(?:tell|explain to|remind|inform|show|let) (?:me|us)(?: know)?(?: about)?|(?:can|could|may|might) i ask(?: you)?"
    r"|(?:please )?(?:tell|remind|inform) (?:me|us)|(?:please )?let (?:me|us) know"
    r"|(?:i|we)(?: would|'d) (?:really )?(?:like|love|want|need) to (?:know|find out|ask|learn)"
    r"|(?:i|we) (?:want|need|wish)(?:ed)? to (?:know|find out|ask|learn)"
    r"|(?:i was|i am|i'm|we were|we are) (?:just )?(?:wondering|curious|asking)|i wonder(?:ed)?|(?:i )?wonder"
    r"|what i (?:want|need)(?: to know)? is|my question is|the question is"
    r"|according to (?:the|our) (?:handbook|policy|documents)"
    r"|asking for a (?:friend|colleague))\b[\s,.:;!–—-]*"
)
THANKS_EN = re.compile(
    r"[\s,.;!–—-]*\b(?:please|pls|thanks(?: a lot| so much| in advance)?|thank you(?: very much| in advance)?"
    r"|thx|cheers"
    r"|(?:do you|does anyone|anyone|anybody) know|any ideas?|exactly|if (?:you|i) may(?: ask)?"
    r"|asking for a (?:friend|colleague))"
    r"[\s.!?]*$"
)
SPELT_EN = (
    (re.compile(r"\b(what|who|where|when|how|why|which|that|there|it|he|she)'s\b"), r"\1 is"),
    (re.compile(r"\b(what|who|where|how|why|they|we|you)'re\b"), r"\1 are"),
    (re.compile(r"\bcan't\b|\bcannot\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\bwhat is the (?:total )?number of\b"), "how many"),
    (re.compile(r"\bwhat is the reason (?:that|why|for which)\b|\bfor what reason\b|\bhow come\b"), "why"),
    (
        re.compile(
            r"\b(?:is it possible to|(?:am i|are we|is one) (?:allowed|permitted) to|may (?:i|we|one))\b"
        ),
        "can i",
    ),
    (
        re.compile(r"\b(?:(?:do i|do we) (?:have|need) to|must (?:i|we|one)|(?:am i|are we) required to)\b"),
        "must i",
    ),
    (
        re.compile(
            r"\bhow (?:can|could|do|should|might|would) (?:i|we|you|one|somebody|someone)\b|\bhow to\b"
        ),
        "how i",
    ),
    (re.compile(r"\b(?:in|on|at) (?=(?:what|which) (?:year|month|date|day|time)\b)"), ""),
    (re.compile(r"\b(?:in|at) (?:what|which) (?:place|location)\b"), "where"),
    (re.compile(r"\b(?:by|to|for|with|from|of) whom\b"), lambda m: m.group().replace("whom", "who")),
)
ASKS_EN: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("amount", re.compile(r"\bhow (?:many|much)\b")),
    ("length", re.compile(r"\bhow (?:long|much time)\b")),
    ("often", re.compile(r"\bhow (?:often|frequently)\b")),
    ("distance", re.compile(r"\bhow far\b")),
    ("age", re.compile(r"\bhow old\b")),
    (
        "degree",
        re.compile(
            r"\bhow (?=(?:big|large|tall|high|deep|fast|wide|heavy|hot|cold|close|quickly|soon|late|early)\b)"
        ),
    ),
    ("manner", re.compile(r"\bhow\b")),
    ("year", re.compile(r"\b(?:what|which) year\b")),
    ("month", re.compile(r"\b(?:what|which) month\b")),
    ("day", re.compile(r"\b(?:what|which) (?:date|day)\b")),
    ("time", re.compile(r"\bwhen\b|\bwhat time\b")),
    ("place", re.compile(r"\bwhere\b")),
    ("person", re.compile(r"\bwho(?:m|se)?\b")),
    ("reason", re.compile(r"\bwhy\b")),
    ("thing", re.compile(r"\bwhat\b|\bwhich\b")),
)
WORD = re.compile(r"#|[^\W_]+(?:[._+/&'-][^\W_]+)*\+*", re.UNICODE)
# Dropped: they change no meaning, or follow from the word order. What is kept says who does what to whom.
_ARTICLES = "the a an do does"
ARTICLES = frozenset(_ARTICLES.split())
SELF = {"we": "i", "you": "i", "one": "i", "our": "my", "your": "my", "us": "me"}
_LIGHT_EN = "is are was were be been being am has have had did will would can could i my me it that this # of"
LIGHT_EN = frozenset(_LIGHT_EN.split())
_RELATION = (
    "from to by than against before after between into over under with without 从 到 被 把 由 比 向 给 对 让"
)
RELATION = frozenset(_RELATION.split())
NAMED = re.compile(r"(?<![\w'])(?:[A-Z][\w&.'-]*|[\w-]*\d[\w-]*|\w+[A-Z]\w*)")
STARTS = re.compile(r"(?:^|[.!?:]\s+|[\"“]\s*)$")
_ORDINARY = (
    "i what which who whom whose when where why how is are was were do does did can could may might "
    "must shall should will would has have had in on at by for from to of with the a an if please "
    "tell hi hello hey thanks thank could under during after before according does isn't aren't "
    "don't english chinese"
)
ORDINARY = frozenset(_ORDINARY.split())


# --- Chinese ------------------------------------------------------------------------------------------------------

POLITE_ZH = re.compile(
    r"^(?:请问(?:一下)?|你好|您好|大家好|hi|hello|嗨|各位|麻烦(?:您|你)?(?:帮我|帮忙)?(?:问|查|看|告诉我)?(?:一?下)?|劳驾|打扰(?:了|一下)?|不好意思"
    r"|(?:我|我们)?(?:就|还)?(?:想|要)(?:要)?(?:请教|请问|问问|问|了解|知道|咨询|确认|打听)(?:一?下)?|(?:我|我们)想(?=知道)"
    r"|(?:你|您)?(?:能不能|能否|可以|可否|能)(?:请你|请您)?(?:帮我|跟我|给我)?(?:告诉|说说|讲讲|说明|介绍|查)(?:一?下)?(?:我|我们)?(?:一?下)?"
    r"|(?:请)?(?:告诉|提醒)(?:我|我们)(?:一?下)?|(?:请)?帮我?(?:忙)?(?:查|看|问)(?:一?下)?|有(?:没有)?人知道|有谁知道|谁知道"
    r"|(?:你|您|大家|你们)知道|求问|求助|问(?:一下|个问题)|有个问题(?:想问)?|根据(?:手册|规定|文件|制度)|按照?(?:手册|规定|制度))"
    r"(?:的是)?[\s,，、.。:：;；!！~—-]*"
)
THANKS_ZH = re.compile(
    r"[\s,，、.。;；!！~]*(?:谢谢(?:您|你|大家|了)?|多谢|感谢|麻烦了|拜托了?|有人知道[吗么]?|(?:你|您)?知道[吗么]|求解答?|请告知|请指教"
    r"|(?<=[^是])[呢呀啊哈哦])[\s.。!！?？~]*$"
)
ASKS_ZH: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("age", re.compile(r"多大(?:年纪|岁数|年龄|了)?(?=[?？。\s]*$)|多大(?:年纪|岁数|年龄)|几岁|多少岁")),
    ("distance", re.compile(r"多远")),
    ("often", re.compile(r"多久一次|多长时间一次|多经常")),
    ("length", re.compile(r"多长时间|多久|多少时间")),
    ("reason", re.compile(r"为什么|为何|为啥|什么原因|因何|何故|何以|怎么会")),
    ("year", re.compile(r"哪一?年|何年")),
    ("month", re.compile(r"哪一?个?月|几月(?!几)")),
    ("day", re.compile(r"哪一?[天日]|几月几[日号]")),
    ("time", re.compile(r"什么时候|什么时间|什么时刻|何时|几时|几点")),
    ("place", re.compile(r"哪里|哪儿|何处|何地|什么地方|什么位置|啥地方")),
    ("person", re.compile(r"谁|何人|什么人|哪个人|哪位(?=[?？。\s]*$)")),
    ("degree", re.compile(r"多(?=[大高深快宽重热冷早晚])")),
    ("amount", re.compile(r"多少|几(?![乎何率])|若干|多(?=少)")),
    ("manner", re.compile(r"怎么样?|怎样|如何|咋样?")),
    (
        "polar",
        re.compile(
            r"是否|是不是|能不能|能否|可不可以|可否|有没有|要不要|需不需要|会不会|(?:吗|(?<![什怎这那多要])么)(?=[?？。!！\s]*$)"
        ),
    ),
    (
        "thing",
        re.compile(
            r"什么|哪一?(?:位|个|些|种|类|项|支|部|座|条|款|所|家|本|首|场|届)?|何(?=种|物|事|方|国|地)|啥"
        ),
    ),
)
LIGHT_ZH = re.compile(r"一下|我们|你们|咱们|他们|其中|[的了呢啊呀吗吧么个我你您咱请有是在于]|[^\w#%+.-]|_")
LATIN_ZH = re.compile(r"[A-Za-z][A-Za-z0-9._+/&-]*")
SPELT_ZH = (
    (re.compile(r"能够|可以|可(?=[^能以])|能(?=[^力量源])"), "能"),
    (re.compile(r"需要|须(?=[^知])|必须|得(?=[^到出以了])"), "需"),
    (re.compile(r"我司|咱们?公司|我们公司|本公司"), "公司"),
    (re.compile(r"多少[天日](?=[^\d])"), "多少天"),
)
