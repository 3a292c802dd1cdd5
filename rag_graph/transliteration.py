"""Names across scripts: is Normandy in 诺曼底的人叫什么? By a table of places and the sound of its consonants. Pure.

Only what is recognised counts: a name that was translated by meaning (Broncos, 野马队) is not, and the question is then
searched like any other.
"""

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

__all__ = ["recognised"]

ALIKE: Final = 0.8  # of two names' consonants in order
LONGEST: Final = 7  # characters of a name's Chinese spelling

_KNOWN = (
    "china chinese:中国 中文 汉语|usa us america american americans:美国"
    "|uk britain british:英国 不列颠|england:英格兰 英国|english:英语 英文 英国|germany:德国"
    "|german germans:德国 德语 德意志|france:法国|french:法国 法语|japan:日本|japanese:日本 日语"
    "|korea korean:韩国 朝鲜 韩语|russia russian:俄罗斯 俄国 俄语|india indian:印度"
    "|italy italian:意大利|spain:西班牙|spanish:西班牙|australia australian:澳大利亚 澳洲"
    "|canada canadian:加拿大|netherlands dutch:荷兰|greece greek:希腊|egypt egyptian:埃及"
    "|turkey turkish:土耳其|poland polish:波兰|sweden swedish:瑞典|norway:挪威"
    "|switzerland swiss:瑞士|austria austrian:奥地利|hungary hungarian:匈牙利|europe european:欧洲"
    "|africa african:非洲|asia asian:亚洲|beijing:北京|shanghai:上海|shenzhen:深圳|guangzhou:广州"
    "|hong:香港|kong:香港|taiwan:台湾|taipei:台北|tokyo:东京|london:伦敦|paris:巴黎|berlin:柏林"
    "|moscow:莫斯科|rome roman:罗马|washington:华盛顿|singapore:新加坡|california:加州 加利福尼亚"
    "|florida:佛罗里达|texas:德克萨斯 得克萨斯|islam islamic islamist:伊斯兰|muslim muslims:穆斯林"
    "|christian christians:基督|jesus:耶稣|bible:圣经|buddhism buddhist:佛教"
    "|mongol mongols mongolia:蒙古|monday:周一 星期一|tuesday:周二 星期二|wednesday:周三 星期三"
    "|thursday:周四 星期四|friday:周五 星期五|saturday:周六 星期六|sunday:周日 星期日|christmas:圣诞"
    "|easter:复活节|tibet tibetan:西藏|vietnam vietnamese:越南|brazil brazilian:巴西|mexico:墨西哥"
)
_SPELT = {
    name: tuple(spelt.split())
    for entry in _KNOWN.split("|")
    for names, spelt in [entry.split(":")]
    for name in names.split()
}

# The consonants that a character of a transliterated name stands for. P b p, F f v w, M, T d t th, N n ng, L l r,
# K g k c q, H, S s z sh ch j x.
_SOUNDS = {
    "P": "巴芭白拜保鲍贝比彼波玻伯勃博布卜帕派佩皮珀普浦坡庇宝柏葡杯毕",
    "PN": "班邦本宾潘庞彭平滨",
    "F": "法菲费佛弗夫福富芙符维威韦瓦沃魏卫渥伍",
    "FN": "凡范方芬丰文万温旺汶",
    "M": "马玛麦迈梅米密莫默摩姆穆木缪茂毛美",
    "MN": "曼芒门蒙明敏",
    "T": "达大戴道德迪蒂底第杜多铎塔泰陶特提图土吐托太台忒堤笛狄",
    "TN": "丹当登邓丁东顿敦坦汤滕田廷汀腾",
    "N": "纳娜奈内尼妮纽努诺涅安昂恩因英扬杨翁",
    "NN": "南宁农",
    "L": "拉腊莱来劳老勒雷蕾利里莉丽理卢鲁路罗洛吕律列烈留尔儿耳黎瑞",
    "LN": "兰朗林琳隆龙伦仑",
    "K": "加嘉卡凯开考柯科克库奎戈格古瓜圭盖高哥葛基",
    "KN": "坎康肯孔昆根贡甘冈金",
    "H": "哈海豪赫黑胡霍华惠怀",
    "HN": "汉汗亨洪罕",
    "S": "萨赛塞沙绍舍施什史士舒斯思司苏索琐扎泽佐祖兹茨齐西希锡谢休修雪查柴彻切奇丘楚乔杰贾吉济季芝朱茱卓叙",
    "SN": "桑森山尚申圣松宋孙辛欣逊昌陈詹津珍真",
    "": "阿艾爱奥埃厄伊依亚雅娅耶叶约尤于乌欧以",
}
_SOUND = {character: sound for sound, characters in _SOUNDS.items() for character in characters}
_LETTERS = (
    (re.compile("ph|gh(?=t)"), "f"),
    (re.compile("sch|tsch|tch|sh|ch|zh|dge?(?=[^aou]|$)(?<=dge)"), "s"),
    (re.compile("th"), "t"),
    (re.compile("ck|qu?"), "k"),
    (re.compile("x"), "ks"),
    (re.compile("c(?=[eiy])"), "s"),
    (re.compile("ng"), "n"),
    (re.compile("wr"), "r"),
    (re.compile("(?<=[a-z])h"), ""),
    (re.compile("[wy](?![aeiou])"), ""),
)
_CLASS = str.maketrans(
    {**dict.fromkeys("bp", "P"), **dict.fromkeys("fvw", "F"), "m": "M", **dict.fromkeys("td", "T"), "n": "N"}
    | {**dict.fromkeys("lr", "L"), **dict.fromkeys("gkc", "K"), "h": "H", **dict.fromkeys("szj", "S")}
    | dict.fromkeys("aeiouy", " ")
)


def recognised(name: str, text: str) -> bool:
    """Is `name` (one word in Latin letters, lower case) in the Chinese `text`, as it is known there or as it sounds?"""
    known = _SPELT.get(name)
    if known is not None:
        return any(spelt in text for spelt in known)
    sound = _latin(name)
    if len(sound) < 3:
        return False  # two consonants are anybody's
    for start in range(len(text)):
        for end in range(start + 2, min(start + LONGEST, len(text)) + 1):
            if text[end - 1] not in _SOUND:
                break
            if SequenceMatcher(None, sound, _han(text[start:end]), autojunk=False).ratio() >= ALIKE:
                return True
    return False


@lru_cache(maxsize=4096)
def _latin(name: str) -> str:
    if not name.isascii() or not name.isalpha():
        return ""
    for pattern, put in _LETTERS:
        name = pattern.sub(put, name)
    return _once(name.translate(_CLASS)).replace(" ", "")


def _han(spelt: str) -> str:
    return _once(" ".join(_SOUND.get(character, "?") for character in spelt)).replace(" ", "")


def _once(sounds: str) -> str:
    return re.sub(r"(.)\1+", r"\1", sounds)
