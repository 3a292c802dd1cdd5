"""Settings are read once, name every fault at once, and never show a secret."""

from pathlib import Path

import pytest

from bot.settings import SettingsError, load_settings


def write(folder: Path, text: str) -> Path:
    (folder / "signoff.toml").write_text(text, encoding="utf-8")
    return folder


def test_an_empty_environment_is_enough(tmp_path: Path) -> None:
    """The first start needs no account, no key and no file."""
    settings = load_settings(tmp_path, {})
    assert settings.llm is None
    assert settings.database_url is None
    assert settings.search.kept == 3


def test_a_developers_own_key_is_not_used(tmp_path: Path) -> None:
    """Only SIGNOFF_ variables set an endpoint: nothing else in the shell sends the handbook away."""
    settings = load_settings(
        tmp_path, {"OPENAI_API_KEY": "sk-own", "OPENAI_BASE_URL": "http://elsewhere.example"}
    )
    assert settings.llm is None
    assert settings.embedding is None


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    """An operator mends the whole file in one go."""
    home = write(tmp_path, "[search]\nkept = 99\nnonsense = 1\n")
    with pytest.raises(SettingsError) as error:
        load_settings(home, {"SIGNOFF_LLM_BASE_URL": "http://127.0.0.1:1/v1"})
    message = str(error.value)
    assert "search.kept" in message
    assert "search.nonsense" in message
    assert "SIGNOFF_LLM_MODEL" in message


def test_a_faulty_review_rule_is_named(tmp_path: Path) -> None:
    """A rule that would never match because of a typo is refused at start."""
    home = write(tmp_path, '[[review.rules]]\nname = "legal"\ncolections = ["contracts"]\naction = "hold"\n')
    with pytest.raises(SettingsError, match=r"legal.*colections"):
        load_settings(home, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[review.rules]]\nname = "a"\naction = "hold"\nqueue = "legal"\n', r"no \[review.queues.legal\]"),
        ('[review.queues.default]\nzone = "Mars"\n', r"review.queues.default.*no time zone 'Mars'"),
        ('[review.queues.default]\nhours = { mon = ["9 to 5"] }\n', r"no stretch of a day"),
        ("[review.ramp]\npercent = 0\n", r"review.ramp.percent"),
    ],
)
def test_a_faulty_queue_or_ramp_is_named(tmp_path: Path, text: str, says: str) -> None:
    """With the table it stands in, before anything is held by it."""
    with pytest.raises(SettingsError, match=says):
        load_settings(write(tmp_path, text), {})


def test_secrets_stay_out_of_texts(tmp_path: Path) -> None:
    """Neither the settings' repr nor an error about them holds a secret."""
    env = {
        "SIGNOFF_LLM_BASE_URL": "http://127.0.0.1:1/v1",
        "SIGNOFF_LLM_API_KEY": "sk-very-secret",
        "SIGNOFF_LLM_MODEL": "m",
        "SIGNOFF_DATABASE_URL": "postgresql://u:hidden-password@h/db",
        "SIGNOFF_CONSOLE_TOKEN": "console-secret",
    }
    text = repr(load_settings(tmp_path, env))
    with pytest.raises(SettingsError) as error:
        load_settings(write(tmp_path, "[search]\nkept = 0"), env)
    for secret in ("sk-very-secret", "hidden-password", "console-secret"):
        assert secret not in text
        assert secret not in str(error.value)


def test_a_named_config_must_exist(tmp_path: Path) -> None:
    """A misspelt SIGNOFF_CONFIG is said, not replaced by defaults."""
    with pytest.raises(SettingsError, match="does not exist"):
        load_settings(tmp_path, {"SIGNOFF_CONFIG": str(tmp_path / "other.toml")})


def test_settings_cannot_change_after_start(tmp_path: Path) -> None:
    """What a process was started with is what it runs with."""
    settings = load_settings(tmp_path, {})
    with pytest.raises(ValueError, match="frozen"):
        setattr(settings.search, "kept", 5)  # noqa: B010 - the type checker refuses the plain assignment


def test_the_example_is_valid_and_holds_contracts(tmp_path: Path) -> None:
    """The file that a newcomer gets parses, and its contract rule is there."""
    example = Path(__file__).parents[2] / "signoff.example.toml"
    settings = load_settings(write(tmp_path, example.read_text(encoding="utf-8")), {})
    assert [rule["name"] for rule in settings.review.rules] == ["contracts", "low-confidence"]
