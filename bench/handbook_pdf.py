"""Builds the sample handbook's PDF: the travel standard by city, a table that crosses pages.

    python -m bench.handbook_pdf [TARGET]

The result is committed (bot/handbook/finance/travel-standard.zh.pdf); reportlab's invariant mode makes the bytes the
same on every run, and a test compares them. STSong-Light is one of the Adobe CJK fonts every PDF reader knows: the
file carries text by the UniGB-UCS2-H map and no font, so it stays small and extracts as correct Chinese.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

TARGET = Path(__file__).resolve().parent.parent / "bot/handbook/finance/travel-standard.zh.pdf"
FONT = "STSong-Light"
TITLE = "差旅住宿与补贴标准"
HEAD = "衡麓科技财务部　差旅住宿与补贴标准（FIN-03）"

# Hotel limits for P4-P6, P7-P8, directors; daily meal allowance. All CNY, the figures of FIN-01.
LIMITS = {
    "A": ("550", "700", "900", "120"),
    "B": ("450", "600", "750", "100"),
    "C": ("350", "450", "600", "80"),
}

# City, class, flat sum for the way to and from the airport (CNY), months of the peak season, supplement.
CITIES: tuple[tuple[str, str, str, str, str], ...] = (
    ("北京", "A", "130", "—", "—"),
    ("上海", "A", "120", "—", "—"),
    ("广州", "A", "110", "4 月、10 月", "25%"),
    ("深圳", "A", "110", "—", "—"),
    ("杭州", "B", "100", "4 月、10 月", "20%"),
    ("南京", "B", "100", "—", "—"),
    ("成都", "B", "95", "—", "—"),
    ("重庆", "B", "95", "10 月", "20%"),
    ("武汉", "B", "90", "3 月", "15%"),
    ("西安", "B", "105", "5 月、10 月", "20%"),
    ("天津", "B", "85", "—", "—"),
    ("青岛", "B", "100", "7–8 月", "30%"),
    ("大连", "B", "70", "7–8 月", "20%"),
    ("厦门", "B", "65", "5 月、10 月", "20%"),
    ("长沙", "B", "90", "—", "—"),
    ("郑州", "B", "90", "—", "—"),
    ("沈阳", "B", "75", "—", "—"),
    ("济南", "B", "90", "—", "—"),
    ("合肥", "B", "85", "—", "—"),
    ("福州", "B", "110", "—", "—"),
    ("昆明", "B", "85", "7–8 月", "20%"),
    ("宁波", "B", "75", "—", "—"),
    ("无锡", "B", "60", "—", "—"),
    ("南昌", "B", "80", "—", "—"),
    ("南宁", "B", "85", "—", "—"),
    ("贵阳", "B", "60", "7–8 月", "20%"),
    ("海口", "B", "70", "12–2 月", "30%"),
    ("哈尔滨", "B", "95", "12–2 月", "30%"),
    ("长春", "B", "85", "—", "—"),
    ("石家庄", "B", "90", "—", "—"),
    ("太原", "B", "60", "—", "—"),
    ("兰州", "B", "120", "—", "—"),
    ("西宁", "B", "75", "7–8 月", "30%"),
    ("银川", "B", "70", "—", "—"),
    ("乌鲁木齐", "B", "65", "6–9 月", "25%"),
    ("呼和浩特", "B", "60", "7–8 月", "20%"),
    ("拉萨", "B", "130", "6–9 月", "35%"),
    ("三亚", "C", "75", "11–3 月", "40%"),
    ("丽江", "C", "80", "7–8 月", "30%"),
    ("桂林", "C", "75", "10 月", "20%"),
    ("珠海", "C", "95", "11 月", "20%"),
    ("烟台", "C", "90", "7–8 月", "20%"),
    ("威海", "C", "85", "7–8 月", "20%"),
    ("洛阳", "C", "50", "4 月", "30%"),
    ("扬州", "C", "80", "4 月", "15%"),
    ("绵阳", "C", "45", "—", "—"),
    ("其他城市", "C", "60", "—", "—"),
)

# City or country, hotel limit for all grades, daily allowance. All US dollars.
ABROAD: tuple[tuple[str, str, str], ...] = (
    ("新加坡", "220", "65"),
    ("日本（东京、大阪）", "180", "60"),
    ("韩国（首尔）", "160", "55"),
    ("泰国（曼谷）", "110", "40"),
    ("德国（法兰克福、慕尼黑）", "190", "70"),
    ("英国（伦敦）", "240", "75"),
    ("美国（纽约、旧金山）", "280", "80"),
    ("阿联酋（迪拜）", "170", "60"),
    ("其他国家和地区", "150", "50"),
)

BODY = ParagraphStyle("body", fontName=FONT, fontSize=10.5, leading=17, spaceAfter=6, wordWrap="CJK")
HEADING = ParagraphStyle(
    "heading", parent=BODY, fontSize=14, leading=20, spaceBefore=10, spaceAfter=6, keepWithNext=1
)
COVER = ParagraphStyle("cover", parent=BODY, fontSize=20, leading=28, spaceAfter=4)
SMALL = ParagraphStyle("small", parent=BODY, fontSize=9, leading=14, textColor=colors.HexColor("#444444"))


class NumberedCanvas(Canvas):
    """Draws the running head and “第 n 页 共 m 页”, which needs all pages before the first can be finished."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pages: list[dict[str, Any]] = []

    def showPage(self) -> None:
        self._pages.append(dict(self.__dict__))
        self._startPage()  # type: ignore[attr-defined] # the stubs know public names only

    def save(self) -> None:
        for number, page in enumerate(self._pages, start=1):
            self.__dict__.update(page)
            self._furniture(number, len(self._pages))
            super().showPage()
        super().save()

    def _furniture(self, number: int, total: int) -> None:
        width, height = A4
        self.setFont(FONT, 9)
        self.setFillColor(colors.HexColor("#555555"))
        self.drawString(22 * mm, height - 13 * mm, HEAD)
        self.drawCentredString(width / 2, 10 * mm, f"第 {number} 页 共 {total} 页")
        self.setStrokeColor(colors.HexColor("#999999"))
        self.setLineWidth(0.4)
        self.line(22 * mm, height - 15 * mm, width - 22 * mm, height - 15 * mm)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[float]) -> Table:
    """A ruled table whose header row is repeated on every page it reaches."""
    grid = Table([list(header), *map(list, rows)], colWidths=list(widths), repeatRows=1)
    grid.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, -1), FONT, 9.5),
                ("GRID", (0, 0), (-1, -1), 0.5, colors.HexColor("#666666")),
                ("BACKGROUND", (0, 0), (-1, 0), colors.HexColor("#E8EDF2")),
                ("ALIGN", (1, 0), (-1, -1), "CENTER"),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ]
        )
    )
    return grid


def story() -> list[Flowable]:
    """The document's text in reading order."""
    paragraph, heading = partial(Paragraph, style=BODY), partial(Paragraph, style=HEADING)
    cities = [
        (city, kind, *LIMITS[kind][:3], LIMITS[kind][3], airport, months, more)
        for city, kind, airport, months, more in CITIES
    ]
    return [
        Paragraph(TITLE, COVER),
        Paragraph("文件编号 FIN-03；版本 V2026.2；生效日期 2026-02-01；归口部门：财务部", SMALL),
        heading("一、适用范围"),
        paragraph(
            "本标准是《费用报销制度》（FIN-01）的附件，规定境内各城市和境外各地的住宿上限、餐补、机场交通包干与旺季上浮，"
            "适用于全体员工因公出差。报销时限、审批额度和发票要求以 FIN-01 为准。"
        ),
        paragraph(
            "住宿在上限以内实报实销。餐补和机场交通包干无需发票，按差旅申请单自动计发。"
            "总部所在的苏州市不属于出差城市，外地员工到总部工作的，住宿由行政部统一安排。"
        ),
        heading("二、境内城市标准"),
        paragraph("下表金额单位为人民币元；住宿为每晚上限，餐补为每天标准，机场交通为每次单程包干。"),
        table(
            ("城市", "类别", "P4–P6", "P7–P8", "总监及以上", "餐补", "机场交通", "旺季", "旺季上浮"),
            cities,
            [20 * mm, 12 * mm, 16 * mm, 16 * mm, 22 * mm, 13 * mm, 19 * mm, 24 * mm, 20 * mm],
        ),
        Spacer(1, 8),
        paragraph("旺季上浮只适用于住宿上限，不适用于餐补。上浮后的金额四舍五入到 10 元。"),
        heading("三、境外标准"),
        paragraph("境外住宿和餐补以美元计，不分职级，按财务部每月 1 日公布的汇率折算。"),
        table(("国家或城市", "住宿上限（美元/晚）", "餐补（美元/天）"), ABROAD, [62 * mm, 50 * mm, 50 * mm]),
        Spacer(1, 8),
        paragraph(
            "境外出差由公司统一购买旅行保险，保额 500,000 元；签证费、电话卡和必要的疫苗接种费凭票报销。"
            "海外漫游须在出发前 2 个工作日向 IT 服务部申请开通。"
        ),
        heading("四、长期出差"),
        paragraph(
            "在同一城市连续住宿超过 15 天的，自第 16 天起住宿上限按 80% 执行，餐补不变。"
            "预计超过 45 天的应租用公寓，月租不超过当地住宿上限的 15 倍，由部门负责人批准。"
        ),
        paragraph("长期出差期间，每满 30 天可报销一次往返家庭所在地的交通费，占用的周末不另计调休。"),
        heading("五、预订与超标"),
        paragraph(
            "机票、火车票和酒店一律在差旅平台预订，优先选择协议酒店；协议酒店的价格高于上限时，以协议价为准，不算超标。"
            "会议主办方指定酒店的，可以上浮 20%，须附会议通知。"
        ),
        paragraph(
            "因展会、自然灾害等原因订不到上限以内房间的，须在入住前取得总监的书面批准。事后补批的，超标部分报销一半。"
            "因公务变化产生的退改费用由公司承担，因个人原因产生的由个人承担。"
        ),
        heading("六、附则"),
        paragraph(
            "本标准每年 2 月修订一次。城市类别的调整由财务总监批准，自公布次月起执行；已经批准的差旅申请按原标准报销。"
            "对标准有疑问的，请联系财务部差旅组，邮箱 travel@henglu.example。"
        ),
    ]


def build(target: Path) -> None:
    """Write the PDF to `target`. The bytes depend on this file and on reportlab's version alone."""
    pdfmetrics.registerFont(UnicodeCIDFont(FONT))
    document = SimpleDocTemplate(
        str(target),
        pagesize=A4,
        leftMargin=22 * mm,
        rightMargin=22 * mm,
        topMargin=22 * mm,
        bottomMargin=20 * mm,
        title=TITLE,
        author="衡麓科技财务部",
        subject="FIN-03",
        lang="zh-CN",
        invariant=1,
    )
    document.build(story(), canvasmaker=NumberedCanvas)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
