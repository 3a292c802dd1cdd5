"""Everything an operator can set, read once at start and immutable afterwards.

The environment and `signoff.toml` are read here and nowhere else. What is wrong is reported all at once.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

# Libraries decide at import whether to phone home and what they take out of a database (facts: Haystack writes
# ~/.haystack and posts events; LangSmith traces when its variables are set in a developer's shell; LangGraph imports
# whatever a checkpoint names). This comes before any of them, and `bot` itself imports this module first.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["HAYSTACK_LOGGING_IGNORE_STRUCTLOG"] = "True"
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LANGCHAIN_TRACING_V2"] = "false"
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from bot.hours import Hours
from bot.variants import faults as variant_faults
from rag_graph.policy import Rules, RulesInvalid
from store.dictionary import Dictionary


class SettingsError(Exception):
    """The settings are not usable; the message lists everything that is wrong and where."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Endpoint(_Frozen):
    """An OpenAI-compatible endpoint. Only SIGNOFF_… variables set one: a developer's own key in the shell must
    not send the handbook away."""

    base_url: str
    api_key: SecretStr = SecretStr("none")
    model: str

    @field_validator("base_url")
    @classmethod
    def _http(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value.rstrip("/")


class Workspace(_Frozen):
    name: str = "Signoff"
    contact: str = ""  # whom to ask when the documents have no answer; a person, a channel, an address
    channels: tuple[str, ...] = ("general", "hr", "legal")
    question_characters: Annotated[int, Field(ge=100, le=20_000)] = 4_000


class Role(_Frozen):
    """How a model is used for one purpose; `model` is the endpoint's own where not said."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    tokens: Annotated[int, Field(ge=16, le=32_000)] | None = None
    model: str | None = None


class Price(_Frozen):
    """Of a million tokens."""

    prompt: Annotated[float, Field(ge=0)]
    completion: Annotated[float, Field(ge=0)]


class Prices(_Frozen):
    """What models cost, by their names at the endpoint. A run that asked one without a price has no cost."""

    currency: Annotated[str, Field(max_length=12)] = ""  # a word: USD, CNY, 元
    models: dict[str, Price] = Field(default_factory=dict)


class Model(_Frozen):
    """The language model beyond its endpoint, which the environment names."""

    window: Annotated[int, Field(ge=2_000, le=2_000_000)] = 8_000  # tokens, question and answer together
    fallback: str | None = None  # another model at the endpoint, asked once when a role's own gave up
    # For all model and tool calls of one question, retries included; what is not written then is quoted.
    question_seconds: Annotated[float, Field(ge=1, le=3_600)] = 60
    text: Literal["full", "redacted", "none"] = "redacted"  # of prompts, as they are kept with each run
    prices: Prices = Prices()
    draft: Role = Role()
    rewrite: Role = Role()
    assess: Role = Role()
    summarise: Role = Role()
    prompts: str | None = (
        None  # a folder beside signoff.toml; its files replace shipped prompts of the same name
    )


class Search(_Frozen):
    candidates: Annotated[int, Field(ge=1, le=50)] = 10
    kept: Annotated[int, Field(ge=1, le=10)] = 3
    retry_below: Annotated[float, Field(ge=0, le=1)] = 0.6
    abstain_below: Annotated[float, Field(ge=0, le=1)] = 0.6
    iterations: Annotated[int, Field(ge=1, le=3)] = 2
    deduplicate: Annotated[str, Field(pattern=r"^(document|off|cap:[1-9]\d?)$")] = "cap:4"
    dictionary: tuple[str, ...] = ()  # words of this house, found as a whole beside their parts
    rerank_candidates: Annotated[int, Field(ge=1, le=100)] = 20  # read by the reranker, where one is set
    rerank_seconds: Annotated[float, Field(gt=0)] = 3.0

    @field_validator("dictionary")
    @classmethod
    def _words(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return Dictionary.of(value).words


class Ingest(_Frozen):
    chunk_characters: Annotated[int, Field(ge=100, le=4_000)] = 400
    overlap_characters: Annotated[int, Field(ge=0, le=1_000)] = 80
    max_megabytes: Annotated[int, Field(ge=1, le=500)] = 50
    max_pages: Annotated[int, Field(ge=1, le=10_000)] = 2_000
    # What reading one file may take; its process is ended beyond.
    max_seconds: Annotated[float, Field(ge=1)] = 900
    max_memory_megabytes: Annotated[int, Field(ge=300)] = 1_500
    # Hosts whose pages may be read though they lie in a private network, and on any port: wiki.corp.example,
    # *.corp.example.
    intranet_hosts: tuple[str, ...] = ()
    refetch_hours: Annotated[float, Field(ge=0)] = 24  # how often a page is looked at again; 0: never


class Queue(_Frozen):
    """When the reviewers of a queue are there, and how long a draft waits until somebody is told. Minutes are working
    minutes; a zero takes the step out."""

    zone: str = "UTC"
    hours: dict[str, tuple[str, ...]] = Field(
        default_factory=dict
    )  # mon-fri = ["09:00-18:00"]; without any: always
    holidays: tuple[str, ...] = ()  # 2026-10-01, 2026-10-01/2026-10-07
    remind_minutes: Annotated[float, Field(ge=0)] = 60
    second_minutes: Annotated[float, Field(ge=0)] = 240
    timeout_minutes: Annotated[float, Field(ge=0)] = 480
    second: tuple[
        str, ...
    ] = ()  # who is asked as second reviewer: slack:U…, feishu:ou_…; else the review channels
    private_draft: bool = False  # whether the asker may then see the unverified draft alone

    @model_validator(mode="after")
    def _readable(self) -> "Queue":
        Hours.parse(self.zone, self.hours, self.holidays)
        return self


class Climb(_Frozen):
    """The trust ramp (rag_graph/ramp.py)."""

    after: Annotated[int, Field(ge=0)] = 0  # approvals in a row without an edit; 0: off
    percent: Annotated[float, Field(gt=0, le=100)] = 10


class Review(_Frozen):
    reviewers: tuple[str, ...] = ("web:reviewer", "cli:reviewer")
    admins: tuple[str, ...] = ("web:admin", "cli:admin")
    channels: tuple[str, ...] = ()  # where cards are posted: slack:C…, feishu:oc_…
    language: Annotated[str, Field(pattern="^(zh|en)$")] = "en"  # of those cards
    allow_own: bool = False
    # Whether what a person signed serves the same question again, for how long before it is looked at again (0: while
    # its sources stand), and how far back answers are corrected when a source changes (0: never).
    verified: bool = True
    verified_days: Annotated[float, Field(ge=0)] = 180
    correct_days: Annotated[float, Field(ge=0)] = 14
    hard_limit_hours: Annotated[float, Field(gt=0)] = 24 * 14
    rules: tuple[dict[str, Any], ...] = ()
    queues: dict[str, Queue] = Field(default_factory=dict)  # "default" for rules that name none
    ramp: Climb = Climb()


class Retention(_Frozen):
    checkpoints_days: Annotated[float, Field(ge=0)] = 7
    inbox_hours: Annotated[float, Field(ge=24)] = 48
    runs_days: Annotated[float, Field(ge=0)] = 90  # then a run keeps its numbers and loses its words


class Limits(_Frozen):
    """What may be asked. A zero lifts a limit."""

    minutes: Annotated[float, Field(gt=0)] = 10
    person_questions: Annotated[int, Field(ge=0)] = 30  # in so many minutes, refilled evenly
    channel_questions: Annotated[int, Field(ge=0)] = 300
    waiting_questions: Annotated[int, Field(ge=0)] = 2_000  # accepted and not begun, in all conversations
    away_minutes: Annotated[float, Field(gt=0)] = 10  # a message that comes this late is not answered unasked


# It is put into messages as it stands: nothing that Slack or Feishu would read as the end of a link.
ADDRESS = re.compile(r"https?://[\w.~:-]+(?:/[\w.~%/-]*)?", re.ASCII)


class Operations(_Frozen):
    """Where those who run Signoff read what nobody else can be told: slack:C…, feishu:oc_…; else in the review
    channels, else in the log and `signoff doctor` alone."""

    alerts: tuple[str, ...] = ()
    # Where the console is reached, for the link from a message to its run: https://signoff.corp.example; "": no link.
    address: str = ""

    @field_validator("address")
    @classmethod
    def _reachable(cls, value: str) -> str:
        if value and not ADDRESS.fullmatch(value):
            raise ValueError("must be an address such as https://signoff.corp.example")
        return value.rstrip("/")


class Variant(_Frozen):
    """What differs from [model] and [search] while a variant is tried; bot/variants.py checks it against those."""

    model: dict[str, Any] = Field(default_factory=dict)
    search: dict[str, Any] = Field(default_factory=dict)


class Canary(_Frozen):
    """How a variant comes to all conversations (rag_graph/canary.py)."""

    steps: tuple[Annotated[int, Field(ge=1, le=100)], ...] = (5, 20, 100)  # percentages
    days: Annotated[float, Field(ge=0)] = 7  # that each takes at least
    questions: Annotated[int, Field(ge=0)] = 100  # of the variant's, that each takes at least
    advance: bool = False  # by itself, once both are there

    @model_validator(mode="after")
    def _rising(self) -> "Canary":
        if list(self.steps) != sorted(set(self.steps)) or self.steps[-1:] != (100,):
            raise ValueError("steps must rise and end with 100")
        return self


class Slack(_Frozen):
    """One Slack app in one workspace. With an app token events come over Socket Mode, without one over
    `POST /slack/events`, whose signing secret is then needed."""

    bot_token: SecretStr
    app_token: SecretStr | None = None
    signing_secret: SecretStr | None = None
    api_url: str = "https://slack.com/api/"
    # Which messages of a thread are answered without a mention: none, the asker's, or everybody's.
    follow: Literal["mentions", "asker", "thread"] = "asker"
    # The same by channel id.
    follow_in: dict[str, Literal["mentions", "asker", "thread"]] = Field(default_factory=dict)
    guests: bool = False
    shared_channels: tuple[
        str, ...
    ] = ()  # ids of Slack Connect channels that may be answered in all the same


DOMAINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}


class Feishu(_Frozen):
    """One self-built app in one Feishu or Lark organisation. Events come over the long connection; with an encrypt key
    over `POST /feishu/events` and `/feishu/card`, unless `transport` says otherwise."""

    app_id: str
    app_secret: SecretStr
    domain: str = DOMAINS["feishu"]  # feishu, lark or a URL
    encrypt_key: SecretStr | None = None
    verification_token: SecretStr | None = None
    transport: Literal["auto", "connection", "webhook"] = "auto"
    # Which messages of a topic are answered without a mention: none, the asker's, or everybody's.
    follow: Literal["mentions", "asker", "thread"] = "asker"
    # The same by chat id.
    follow_in: dict[str, Literal["mentions", "asker", "thread"]] = Field(default_factory=dict)
    shared_chats: tuple[str, ...] = ()  # ids of external groups that may be answered in all the same

    @field_validator("domain")
    @classmethod
    def _address(cls, value: str) -> str:
        found = DOMAINS.get(value.lower(), value).rstrip("/")
        if not found.startswith(("https://", "http://127.0.0.1", "http://localhost")):
            raise ValueError("must be feishu, lark, or an address that begins with https://")
        return found

    @property
    def uses_webhook(self) -> bool:
        chosen = {"connection": False, "webhook": True}.get(self.transport)
        return self.encrypt_key is not None if chosen is None else chosen


class Settings(_Frozen):
    """What the composition root is given."""

    _environment: frozenset[str] = PrivateAttr(default=frozenset())
    home: Path
    config: Path
    database_url: SecretStr | None = None
    # Where the first leads to PgBouncer: the server itself, for LISTEN, session locks and migrations.
    database_direct_url: SecretStr | None = None
    llm: Endpoint | None = None
    embedding: Endpoint | None = None
    rerank: Endpoint | None = None
    local_embedding: bool = True
    console_token: SecretStr | None = None
    workspace: Workspace = Workspace()
    model: Model = Model()
    search: Search = Search()
    ingest: Ingest = Ingest()
    review: Review = Review()
    retention: Retention = Retention()
    limits: Limits = Limits()
    operations: Operations = Operations()
    canary: Canary = Canary()
    variants: dict[str, Variant] = Field(default_factory=dict)
    slack: Slack | None = None
    feishu: Feishu | None = None
    audiences: dict[str, tuple[str, ...]] = Field(default_factory=dict)  # collection → principals
    # collection → how its documents are cut; guessed for each document where none is set
    profiles: dict[str, Literal["structured", "messages", "faq"]] = Field(default_factory=dict)

    @property
    def environment(self) -> frozenset[str]:
        """The fields that the environment gave, dotted: "llm.model". What else is set stands in signoff.toml."""
        return self._environment

    @property
    def rules(self) -> Rules:
        rules = Rules.parse(list(self.review.rules))
        unknown = [rule for rule in rules.rules if rule.queue and rule.queue not in self.review.queues]
        if unknown:
            raise RulesInvalid(
                [f'rule "{rule.name}": there is no [review.queues.{rule.queue}]' for rule in unknown]
            )
        return rules

    def direct(self, url: str) -> str:
        """Where the server behind `url` is reached without PgBouncer."""
        return self.database_direct_url.get_secret_value() if self.database_direct_url else url


# What the environment may say, and the field that it sets.
VARIABLES: Mapping[str, str] = {
    "SIGNOFF_HOME": "home",
    "SIGNOFF_CONFIG": "config",
    **{f"SIGNOFF_{name.upper()}": name for name in ("database_url", "database_direct_url", "console_token")},
    **{
        f"SIGNOFF_{name.upper()}_{key.upper()}": f"{name}.{key}"
        for name in ("llm", "embedding", "rerank")
        for key in ("base_url", "api_key", "model")
    },
    **{
        f"SLACK_{key.upper()}": f"slack.{key}"
        for key in ("bot_token", "app_token", "signing_secret", "api_url")
    },
    **{
        f"FEISHU_{key.upper()}": f"feishu.{key}"
        for key in ("app_id", "app_secret", "domain", "encrypt_key", "verification_token")
    },
}


def default_home() -> Path:
    """Where the embedded database and signoff.toml live unless SIGNOFF_HOME or --home says otherwise."""
    return Path(platformdirs.user_data_dir("signoff", appauthor=False))


def load_settings(
    home: Path | None = None, environ: Mapping[str, str] | None = None, *, config: Path | None = None
) -> Settings:
    """Read the environment and signoff.toml (or `config`). Raises `SettingsError` naming every fault."""
    env = dict(os.environ if environ is None else environ)
    root = (home or Path(env.get("SIGNOFF_HOME") or default_home())).expanduser().absolute()
    named = config is not None or "SIGNOFF_CONFIG" in env
    config = config or Path(env.get("SIGNOFF_CONFIG") or root / "signoff.toml")
    values = _read_toml(config, named=named)
    faults: list[str] = []
    for name in ("llm", "embedding", "rerank"):
        values |= _endpoint(env, name, faults)
    named_secrets = ("database_url", "database_direct_url", "console_token")
    secrets = {name: env.get(f"SIGNOFF_{name.upper()}") for name in named_secrets}
    values |= {name: secret for name, secret in secrets.items() if secret}
    if "database_direct_url" in values and "database_url" not in values:
        faults.append("SIGNOFF_DATABASE_URL missing beside SIGNOFF_DATABASE_DIRECT_URL")
    values |= _slack(env, values.pop("slack", {}), faults)
    values |= _feishu(env, values.pop("feishu", {}), faults)
    try:
        settings = Settings(home=root, config=config, **values)
        settings._environment = frozenset(field for name, field in VARIABLES.items() if env.get(name))
        _ = settings.rules
        faults += variant_faults(settings)
    except ValidationError as error:
        # The values themselves stay out of the message: one of them may be a secret.
        faults += [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
    except ValueError as error:
        faults.append(str(error))
    if faults:
        raise SettingsError(
            "\n".join(["The settings cannot be used:", *(f"  - {fault}" for fault in faults)])
        )
    return settings


def _read_toml(path: Path, *, named: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise SettingsError(f"{path} does not exist. Name a signoff.toml (SIGNOFF_CONFIG).") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from None


def _endpoint(env: Mapping[str, str], name: str, faults: list[str]) -> dict[str, Any]:
    """{name: endpoint} where one is set, else nothing."""
    prefix = f"SIGNOFF_{name.upper()}_"
    given = {key: env.get(prefix + key.upper(), "") for key in ("base_url", "api_key", "model")}
    if not given["base_url"] and not given["model"]:
        return {}
    missing = [prefix + key.upper() for key in ("base_url", "model") if not given[key]]
    if missing:
        faults.append(f"{', '.join(missing)} missing: an endpoint needs both its address and its model")
        return {}
    return {name: {key: value for key, value in given.items() if value}}


def _slack(env: Mapping[str, str], chosen: Mapping[str, Any], faults: list[str]) -> dict[str, Any]:
    """Slack's settings; none without a bot token, whatever signoff.toml says: then the platform does not start."""
    names = ("bot_token", "app_token", "signing_secret", "api_url")
    given = {name: env[f"SLACK_{name.upper()}"] for name in names if env.get(f"SLACK_{name.upper()}")}
    if "bot_token" not in given:
        return {}
    if "app_token" not in given and "signing_secret" not in given:
        faults.append(
            "SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP) missing beside SLACK_BOT_TOKEN"
        )
    return {"slack": {**chosen, **given}}


def _feishu(env: Mapping[str, str], chosen: Mapping[str, Any], faults: list[str]) -> dict[str, Any]:
    """Feishu's or Lark's settings; none without an app id, whatever signoff.toml says."""
    names = ("app_id", "app_secret", "domain", "encrypt_key", "verification_token")
    given = {name: env[f"FEISHU_{name.upper()}"] for name in names if env.get(f"FEISHU_{name.upper()}")}
    if "app_id" not in given:
        return {}
    if "app_secret" not in given:
        faults.append("FEISHU_APP_SECRET missing beside FEISHU_APP_ID")
    elif chosen.get("transport") == "webhook" and "encrypt_key" not in given:
        # Without it anybody could send events (lark-oapi accepts forged ones then).
        faults.append(
            "FEISHU_ENCRYPT_KEY missing: POST /feishu/events needs it, the long connection does not"
        )
    return {"feishu": {**chosen, **given}} if "app_secret" in given else {}
