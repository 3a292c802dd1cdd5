"""Feishu and Lark. Imported only where FEISHU_APP_ID is set: lark-oapi takes seconds and 168 MB to load."""
