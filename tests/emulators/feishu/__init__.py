"""A strict stand-in for Feishu and Lark: their addresses, their rules, their faults, and the people who use them.

Rules come from https://open.feishu.cn/document (named where they are enforced) and from the traps that others met;
where the documents contradict each other the stricter reading is taken. It shares no code with lark-oapi: bot and
stand-in cannot have the same misreading of a frame.
"""
