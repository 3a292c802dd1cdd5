"""Words that are attributes or doings of just anything, and so name no topic: 有效期, 费用, "cost", "process". Tables.

A question made of these alone says nothing about what it is about. Collected from the follow-ups of KdConv, MTRAG and
CAsT and from the usual questions to a handbook.
"""

from store.words import tokens

__all__ = ["ATTRIBUTES_ZH", "GENERIC_EN", "NOUNS_EN"]

_ZH = (
    "时间 日期 时候 时段 时长 有效期 效期 有效 期限 年限 期间 周期 频率 次数 数量 数目 人数 天数 比例 额度 "
    "限额 上限 下限 金额 价格 价钱 价位 价 费用 费 票价 门票 门票费 收费 收取 免费 多钱 钱 地址 地点 位置 "
    "地方 处 区域 方位 路线 电话 号码 联系 联系方式 方式 网址 链接 流程 步骤 手续 程序 方法 办法 途径 "
    "渠道 条件 要求 标准 规定 规则 原则 依据 范围 内容 材料 资料 文件 表格 表 单据 凭证 证明 原因 理由 目的 "
    "意义 作用 用途 影响 后果 结果 区别 差别 不同 关系 例外 情况 情形 限制 问题 办理 申请 审批 批准 提交 "
    "填写 负责 负责人 责任 责任人 部门 人员 人 员工 对象 主体 处理 执行 生效 失效 过期 到期 截止 开始 结束 "
    "开放 营业 开门 关门 规模 面积 大小 高度 长度 特点 特色 优点 缺点 好处 坏处 优势 类型 种类 类别 分类 "
    "名称 名字 全称 简称 含义 意思 定义 说明 解释 例子 背景 历史 由来 来源 作者 版本 级别 等级 评分 评价 "
    "口碑 周边 附近 旁边 边上 周围 里面 里边 景点 景区 东西 事 事情 事项 方面 部分 项目 选择 建议 推荐 注意 "
    "注意事项 游玩 玩 游览 参观 去 来 到 算 适合 适用 了解 知道 听说 听 说 讲 查 找 帮 帮忙 发 给 提供 介绍 "
    "觉得 感觉 认为 希望 打算 准备 需要 应该 可以 可能 大概 大约 具体 详细 准确 一般 通常 平时 最近 目前 "
    "现在 以前 以后 之后 之前 当时 其他 其它 别的 别 另外 主要 重要 比较 特别 非常 相关 方便 合适 不错 好玩 "
    "好 谢谢 麻烦 小时 分钟 天 年 月 日 周 次 个 元 块 万 时 起 有 没有 用 使用 办 做 弄 拿 交 付 支付 收 花 "
    "花费 占 占地 值得 好看 贵 便宜 长 短 高 大 小 多 少 提前 延长 超过 少于 至少 最多 最少 最低 最高 最长 "
    "最短 首先 再次 重新 继续 取消 修改 变更 补 补办 遗失 丢失 有关 里 事儿 啥时 时后 先 后 意外 消息 信息 "
    "号 告诉 哈哈 朋友 兄弟 亲 大家 老师 先生 女士 你好 您好 请问 谢 好吧 行吧 可惜 可真 真 真好 确实 其实 "
    "反正 顺便 挺 够 太 感兴趣 兴趣 想 想去 打听 记得 记 印象 收到 看看 去过 看到 找到 期待 喜欢 担心 要钱 "
    "说完 能游 起来 不算 孩子 小孩 里头 机会 那个 多长时间 多长 长时间 时间上 还有 有没有 据说 一去 票价格 "
    "上午 下午 好像 "
)
_NOUNS = (
    "thing kind type sort example reason cause purpose goal aim way method step process procedure rule "
    "policy requirement condition criteria benefit advantage disadvantage drawback pro con risk danger "
    "problem issue effect impact consequence result outcome difference similarity relationship relation "
    "connection cost price fee amount rate number size length duration time date deadline period limit "
    "limitation exception restriction option alternative choice solution treatment symptom sign feature "
    "characteristic property function role part component element version form name definition meaning "
    "history origin background future trend importance significance place location area region country world "
    "state city people person member team company organization group question answer information detail fact "
    "data list summary explanation recommendation suggestion advice tip idea plan total style level point "
    "term case situation day week month year hour minute "
)
_OTHERS = (
    "main major important common popular famous good best better bad worst big biggest large largest small "
    "first last next new old oldest late latest different typical special certain specific particular "
    "general modern natural possible available necessary legal safe expensive cheap free work use used help "
    "happen change affect mean apply start begin end stop continue need require include involve contain "
    "consist make find take go come see look keep lead call show provide offer recommend suggest prevent "
    "treat avoid improve increase decrease compare contrast relate differ develop create become cover pay "
    "eligible exact exactly today currently usually generally typically originally sure think believe heard "
    "overall qualify receive submit sign approve ask put try add write say said talk speak mention happy "
    "wonder interested interesting curious "
)


def _stems(words: str) -> frozenset[str]:
    return frozenset(stem for word in words.split() for stem in tokens(word))


ATTRIBUTES_ZH = frozenset(_ZH.split())
NOUNS_EN = _stems(_NOUNS)  # may end a name: probation period, expense policy
GENERIC_EN = NOUNS_EN | _stems(_OTHERS)
