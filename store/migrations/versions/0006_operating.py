"""What a run spent and where its passages ranked; the variant that is being tried"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("variant", sa.Text(), server_default="", nullable=False))
    op.add_column("runs", sa.Column("scores", postgresql.JSONB(), server_default="[]", nullable=False))
    op.add_column("runs", sa.Column("cost", sa.Double(), nullable=True))
    op.add_column("runs", sa.Column("error", sa.Text(), server_default="", nullable=False))
    op.create_index("ix_runs_created_at", "runs", ["created_at"])
    op.create_table(
        "canaries",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("variant", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="running", nullable=False),
        sa.Column("percent", sa.Integer(), nullable=False),
        sa.Column("channels", postgresql.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("steps", postgresql.JSONB(), server_default="[]", nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("step_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state in ('running', 'promoted', 'rolled_back')", name=op.f("ck_canaries_state")
        ),
        sa.CheckConstraint("percent between 0 and 100", name=op.f("ck_canaries_percent")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_canaries")),
    )
    op.create_index(
        "uq_canaries_running",
        "canaries",
        ["state"],
        unique=True,
        postgresql_where=sa.text("state = 'running'"),
    )
