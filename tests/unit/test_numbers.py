"""Numbers, dates and units: one meaning, many writings."""

from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_graph import numerals
from rag_graph.agreement import agrees, missing, stated
from rag_graph.numbers import Quantity, quantities

PAIRS = [
    ("十五天", "15 days"),
    ("15 天", "fifteen (15) days"),
    ("3 万元", "¥30,000"),
    ("3 万", "30,000"),
    ("两百万", "2 million"),
    ("1200 元", "¥1,200"),
    ("人民币一千二百元", "RMB 1,200"),
    ("100 美元", "$100"),
    ("5%", "百分之五"),
    ("百分之十五", "15 percent"),
    ("五成", "50%"),
    ("千分之五", "0.5%"),
    ("三分之一", "3 分之 1"),
    ("半年", "6 个月"),
    ("一年", "12 months"),
    ("一个半月", "1.5 months"),
    ("两年半", "two and a half years"),
    ("两周", "14 天"),
    ("48 小时", "2 days"),
    ("half a year", "六个月"),
    ("5 个工作日", "five working days"),
    ("一个季度", "three months"),
    ("2024年3月1日", "1 March 2024"),
    ("2024-03-01", "March 1st, 2024"),
    ("二〇二四年三月一日", "2024/3/1"),
    ("3/1/2024", "1 March 2024"),
    ("2024年", "2024"),
    ("下午3点", "15:00"),
    ("下午三点半", "3:30 pm"),
    ("9点", "9 a.m."),
    ("第三条", "Article 3"),
    ("第 3.2 条", "clause 3.2"),
    ("§7(b)", "Section 7(b)"),
    ("第五章", "chapter 5"),
    ("第三季度", "Q3"),
    ("19世纪", "19th century"),
    ("20世纪90年代", "1990s"),
    ("3 公里", "3000 米"),
    ("500 克", "0.5 kg"),
    ("ISO-9001", "iso-9001"),
    ("010-60368258", "010-60368258"),
    ("60 周岁", "60 years old"),
    ("20 多人", "20 people"),
    ("于2024/3/1生效", "March 1, 2024"),
    ("在2024-03-01生效", "2024年3月1日"),
    ("planned for January", "1月"),
    ("上世纪60年代", "the 1960s"),
    ("三分之二", "two-thirds"),
    ("氧-18", "oxygen-18"),
    ("15 亿吨", "1.5 gigatons"),
    ("760nm", "760 纳米"),
    ("3.5 平方英里", "3.5 sq mi"),
    ("24 码", "24-yard"),
    ("4 分 51 秒", "4:51"),
    ("£30m", "3000 万英镑"),
]

DIFFERENT = [
    ("十五天", "五天"),
    ("15 天", "15 个月"),
    ("5 个工作日", "5 天"),
    ("3 万元", "3 万美元"),
    ("5%", "15%"),
    ("30 天", "一个月"),
    ("2024年3月1日", "2024年3月11日"),
    ("2024年3月1日", "3月1日"),
    ("第三条", "第四条"),
    ("第三条", "第三章"),
    ("下午3点", "3 a.m."),
    ("3.2", "3.20.1"),
    ("5 天", "3月5日"),
    ("ISO-9001", "ISO-9002"),
    ("oxygen-18", "oxygen-16"),
    ("the 1960s", "70年代"),
    ("two-thirds", "三分之一"),
    ("£30m", "30 英镑"),
]


def one(text: str) -> Quantity:
    found = [quantity for quantity in quantities(text) if not quantity.soft]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_same_in_both_writings(left: str, right: str) -> None:
    """Two writings of one quantity agree, whichever of them is the claim."""
    assert agrees(one(left), one(right))
    assert agrees(one(right), one(left))


@pytest.mark.parametrize(("claim", "evidence"), DIFFERENT)
def test_different_quantities_do_not_agree(claim: str, evidence: str) -> None:
    """Another number, unit or currency is not agreement, and neither is evidence less exact than the claim."""
    assert not agrees(one(claim), one(evidence))


def test_a_claim_may_be_less_exact_than_its_evidence() -> None:
    """The year of a full date agrees with it, and so does its day of the month."""
    assert agrees(one("2024 年"), one("2024年3月1日"))
    assert agrees(one("每月15日"), one("2024年3月15日"))


def test_a_date_is_put_together_from_two_places() -> None:
    """A date whose year stands in one sentence and whose day in another is not missing."""
    assert not missing(quantities("2024年3月1日生效"), quantities("2024年度制度。自3月1日起执行。"))
    assert missing(quantities("2023年3月1日生效"), quantities("2024年度制度。自3月1日起执行。"))


def test_a_fall_is_no_range() -> None:
    """From 75 % in 1970 to 55 %: the year before the second figure does not take its unit."""
    said = quantities("declined from 75.8% in 1970 to 55.1% by 2010")
    assert not missing(said, quantities("从1970年的75.8%降至2010年的55.1%"))


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("two-lane road", "两车道的乡村小路"),
        ("第二次世界大战", "World War II"),
        ("3 lineages", "三大谱系"),
        ("1 家", "only one"),
    ],
)
def test_evidence_states_what_no_claim_must_prove(claim: str, evidence: str) -> None:
    """A single numeral inside a word, or a Roman one, is evidence of its number."""
    assert not missing(quantities(claim), stated(evidence))


def test_missing_names_what_no_evidence_states() -> None:
    """Only the swapped number is reported; the same number in another unit of time is not a match."""
    evidence = quantities("满 1 年不满 10 年的，年休假 5 天；满 10 年的 10 天。")
    assert [q.text for q in missing(quantities("You get 5 days, then 12 days, after 1 year."), evidence)] == [
        "12 days"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "一些员工",
        "十分重要",
        "万一出错",
        "统一安排",
        "一个人",
        "no one",
        "一点也不",
        "千万不要",
        "You may march",
        "唯一",
    ],
)
def test_words_that_look_like_numbers(text: str) -> None:
    """Everyday words with numerals inside are not claims."""
    assert not [quantity for quantity in quantities(text) if not quantity.soft]


def test_ranges_share_their_unit() -> None:
    """In 5 至 10 天 the five are days too, in both languages."""
    for text in ("5 至 10 天", "5–10 days", "5 to 10 days"):
        assert [f"{q.value} {q.unit}" for q in quantities(text)] == ["5 day", "10 day"]


def test_a_full_width_comma_separates() -> None:
    """A Chinese comma between digits does not make one number of them."""
    assert [q.amount for q in quantities("共有20，300人待定")] == [20, 300]


def han(number: int) -> str:
    """`number` as it is written in Chinese."""
    digits, out = "零一二三四五六七八九", ""
    for size, word in ((10**8, "亿"), (10**4, "万")):
        if number >= size:
            rest = number % size
            return (
                han(number // size)
                + word
                + ("零" if 0 < rest < size // 10 else "")
                + (han(rest) if rest else "")
            )
    for size, word in ((1000, "千"), (100, "百"), (10, "十")):
        if number >= size:
            out += digits[number // size] + word
            if 0 < number % size < size // 10:
                out += "零"
            number %= size
        elif out and number and out[-1] != "零":
            continue
    return out + (digits[number] if number else "") or "零"


@given(st.integers(min_value=1, max_value=10**10))
def test_han_numerals_read_back(number: int) -> None:
    """Every number written in Chinese reads back as itself."""
    assert numerals.read(han(number)) == number


@given(st.integers(min_value=0, max_value=10**9))
def test_grouped_numerals_read_back(number: int) -> None:
    """Thousands separators do not change a number."""
    assert numerals.read(f"{number:,}") == number


@given(st.dates(min_value=date(1900, 1, 1), max_value=date(2199, 12, 31)))
def test_every_way_to_write_a_date(day: date) -> None:
    """Five writings of any date agree with each other."""
    ways = [
        f"{day.year}年{day.month}月{day.day}日",
        day.isoformat(),
        f"{day.year}.{day.month}.{day.day}",
        f"{day.day} {day:%B} {day.year}",
        f"{day:%b} {day.day}, {day.year}",
    ]
    read = [one(way) for way in ways]
    assert all(agrees(left, right) for left in read for right in read)


@given(st.text(max_size=80))
def test_any_text_is_read_without_error(text: str) -> None:
    """Whatever people write, reading it neither fails nor finds a quantity outside it."""
    for quantity in quantities(text):
        assert quantity.text
        assert isinstance(quantity.value, (Fraction, str, tuple))
