"""Every sentence that people read, by language and key."""

import tomllib
from importlib.resources import files

LANGUAGES = ("en", "zh")


class Words:
    """`words("zh", "declined.body", contact="…")` → the sentence. A missing key or value is a programming error
    and raises KeyError, so that a test finds it before a person does."""

    def __init__(self) -> None:
        self._tables = {
            language: tomllib.loads(files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8"))
            for language in LANGUAGES
        }

    def __call__(self, language: str, key: str, /, **values: object) -> str:
        return self.template(language, key).format(**values)

    def template(self, language: str, key: str) -> str:
        entry: object = self._tables[language if language in LANGUAGES else "en"]
        for part in key.split("."):
            if not isinstance(entry, dict):
                raise KeyError(key)
            entry = entry[part]
        if not isinstance(entry, str):
            raise KeyError(key)
        return entry

    def keys(self, language: str) -> set[str]:
        """All dotted keys of one language."""

        def walk(table: dict[str, object], prefix: str) -> set[str]:
            found: set[str] = set()
            for name, entry in table.items():
                found |= walk(entry, f"{prefix}{name}.") if isinstance(entry, dict) else {prefix + name}
            return found

        return walk(self._tables[language], "")
