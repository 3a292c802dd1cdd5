"""The units, currencies, months and references that numbers.py knows, in both languages. Tables only."""

from fractions import Fraction

__all__ = ["COUNTERS", "EN_UNITS", "MONEY", "MONTHS", "REFERENCES", "ZH_UNITS", "Unit"]

Unit = tuple[str, str, Fraction]  # kind, canonical unit, how many of those one of these is

_DAY = Fraction(1)
_HOUR = Fraction(1, 24)


def _table(rows: str, kind: str, unit: str, factor: Fraction | int) -> dict[str, Unit]:
    return {surface: (kind, unit, Fraction(factor)) for surface in rows.split("|")}


def _alike(surfaces: str, meaning: str) -> dict[str, str]:
    return dict.fromkeys(surfaces.split("|"), meaning)


# Days and months are not convertible (30 days is not a month in any contract); working days are neither.
ZH_UNITS: dict[str, Unit] = {
    **_table("秒|秒钟", "duration", "day", _HOUR / 3600),
    **_table("分钟", "duration", "day", _HOUR / 60),
    **_table("刻钟", "duration", "day", _HOUR / 4),
    **_table("小时|钟头", "duration", "day", _HOUR),
    **_table("天|日|自然日|日历日|日历天|自然天", "duration", "day", _DAY),
    **_table("周|星期|礼拜", "duration", "day", 7),
    **_table("工作日|交易日", "duration", "workday", 1),
    **_table("月", "duration", "month", 1),
    **_table("季度", "duration", "month", 3),
    **_table("年|周年|岁|周岁|年度", "duration", "month", 12),
    **_table("公里|千米", "measure", "m", 1000),
    **_table("米", "measure", "m", 1),
    **_table("厘米|公分", "measure", "m", Fraction(1, 100)),
    **_table("毫米", "measure", "m", Fraction(1, 1000)),
    **_table("英里", "measure", "mile", 1),
    **_table("海里", "measure", "nautical mile", 1),
    **_table("英尺", "measure", "ft", 1),
    **_table("码", "measure", "yd", 1),
    **_table("纳米", "measure", "m", Fraction(1, 10**9)),
    **_table("微米", "measure", "m", Fraction(1, 10**6)),
    **_table("英寸", "measure", "in", 1),
    **_table("吨", "measure", "kg", 1000),
    **_table("公斤|千克", "measure", "kg", 1),
    **_table("克", "measure", "kg", Fraction(1, 1000)),
    **_table("毫克", "measure", "kg", Fraction(1, 10**6)),
    **_table("升", "measure", "l", 1),
    **_table("毫升", "measure", "l", Fraction(1, 1000)),
    **_table("平方米|平米", "measure", "m2", 1),
    **_table("平方公里|平方千米", "measure", "m2", 10**6),
    **_table("公顷", "measure", "m2", 10**4),
    **_table("亩", "measure", "mu", 1),
    **_table("英亩", "measure", "acre", 1),
    **_table("平方英里", "measure", "mi2", 1),
    **_table("平方英尺", "measure", "ft2", 1),
    **_table("磅", "measure", "lb", 1),
    **_table("加仑", "measure", "gal", 1),
    **_table("立方米", "measure", "m3", 1),
    **_table("摄氏度", "measure", "°C", 1),
    **_table("千瓦", "measure", "w", 1000),
    **_table("瓦", "measure", "w", 1),
}

EN_UNITS: dict[str, Unit] = {
    **_table("second|seconds|sec|secs", "duration", "day", _HOUR / 3600),
    **_table("minute|minutes|min|mins", "duration", "day", _HOUR / 60),
    **_table("hour|hours|hr|hrs|h", "duration", "day", _HOUR),
    **_table("day|days", "duration", "day", _DAY),
    **_table("week|weeks", "duration", "day", 7),
    **_table("fortnight|fortnights", "duration", "day", 14),
    **_table(
        "working day|working days|business day|business days|workday|workdays", "duration", "workday", 1
    ),
    **_table("trading day|trading days|working-day|business-day", "duration", "workday", 1),
    **_table("month|months", "duration", "month", 1),
    **_table("quarter|quarters", "duration", "month", 3),
    **_table("year|years|yr|yrs", "duration", "month", 12),
    **_table("decade|decades", "duration", "month", 120),
    **_table("kilometre|kilometres|kilometer|kilometers|km", "measure", "m", 1000),
    **_table("metre|metres|meter|meters|m", "measure", "m", 1),
    **_table("centimetre|centimetres|centimeter|centimeters|cm", "measure", "m", Fraction(1, 100)),
    **_table("millimetre|millimetres|millimeter|millimeters|mm", "measure", "m", Fraction(1, 1000)),
    **_table("mile|miles", "measure", "mile", 1),
    **_table("foot|feet|ft", "measure", "ft", 1),
    **_table("yard|yards|yd|yds", "measure", "yd", 1),
    **_table("nm|nanometre|nanometres|nanometer|nanometers", "measure", "m", Fraction(1, 10**9)),
    **_table(
        "µm|micrometre|micrometres|micrometer|micrometers|micron|microns", "measure", "m", Fraction(1, 10**6)
    ),
    **_table("inch|inches", "measure", "in", 1),
    **_table("tonne|tonnes|metric ton|metric tons|ton|tons", "measure", "kg", 1000),
    **_table("megaton|megatons|megatonne|megatonnes", "measure", "kg", 10**9),
    **_table("gigaton|gigatons|gigatonne|gigatonnes", "measure", "kg", 10**12),
    **_table("pound|pounds|lb|lbs", "measure", "lb", 1),
    **_table("gallon|gallons", "measure", "gal", 1),
    **_table("acre|acres", "measure", "acre", 1),
    **_table("square mile|square miles|sq mi|sq miles", "measure", "mi2", 1),
    **_table("square foot|square feet|sq ft", "measure", "ft2", 1),
    **_table("kilogram|kilograms|kilo|kilos|kg|kgs", "measure", "kg", 1),
    **_table("gram|grams|g", "measure", "kg", Fraction(1, 1000)),
    **_table("milligram|milligrams|mg", "measure", "kg", Fraction(1, 10**6)),
    **_table("litre|litres|liter|liters|l|L", "measure", "l", 1),
    **_table("millilitre|millilitres|milliliter|milliliters|ml", "measure", "l", Fraction(1, 1000)),
    **_table("square metre|square metres|square meter|square meters|sqm|sq m|m2", "measure", "m2", 1),
    **_table(
        "square kilometre|square kilometres|square kilometer|square kilometers|km2|sq km",
        "measure",
        "m2",
        10**6,
    ),
    **_table("hectare|hectares|ha", "measure", "m2", 10**4),
    **_table("cubic metre|cubic metres|cubic meter|cubic meters|m3", "measure", "m3", 1),
    **_table("°c|degrees celsius|degree celsius", "measure", "°C", 1),
    **_table("kw|kilowatt|kilowatts", "measure", "w", 1000),
    **_table("kwh", "measure", "kwh", 1),
    **_table("tb|terabyte|terabytes", "measure", "byte", 10**12),
    **_table("gb|gigabyte|gigabytes", "measure", "byte", 10**9),
    **_table("mb|megabyte|megabytes", "measure", "byte", 10**6),
    **_table("kb|kilobyte|kilobytes", "measure", "byte", 1000),
    **_table("mbps", "measure", "bps", 10**6),
    **_table("gbps", "measure", "bps", 10**9),
}

MONEY = {
    **_alike("¥|rmb|cny|人民币|元|圆|块钱|yuan|renminbi", "CNY"),
    **_alike("$|us$|usd|美元|美金|dollar|us dollar|u.s. dollar", "USD"),
    **_alike("€|eur|欧元|euro", "EUR"),
    **_alike("£|gbp|英镑|pound|pounds sterling", "GBP"),
    **_alike("hk$|hkd|港元|港币", "HKD"),
    **_alike("jpy|日元|yen", "JPY"),
}

MONTHS = {
    surface: number
    for number, surfaces in enumerate(
        (
            "jan|january",
            "feb|february",
            "mar|march",
            "apr|april",
            "may",
            "jun|june",
            "jul|july",
            "aug|august",
            "sep|sept|september",
            "oct|october",
            "nov|november",
            "dec|december",
        ),
        1,
    )
    for surface in surfaces.split("|")
}

# What a reference counts. 条, article, section and clause are one thing: translations mix them.
REFERENCES = {
    **_alike("条|节|article|section|clause|sec|art|§", "article"),
    **_alike("章|编|chapter|part", "chapter"),
    **_alike("款|项|paragraph", "paragraph"),
    **_alike("页|page", "page"),
    **_alike("步|step", "step"),
}

COUNTERS = "个名人位次份台项种件家间套级批支只辆层倍届排座所门部篇幅首款张本"
