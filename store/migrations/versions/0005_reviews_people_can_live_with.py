"""Reviews by two people, drafts that were sent before their review, and who owns a gap"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("reviews", sa.Column("disposition", sa.Text(), server_default="hold", nullable=False))
    op.add_column(
        "reviews", sa.Column("approved_by", postgresql.ARRAY(sa.Text()), server_default="{}", nullable=False)
    )
    op.create_check_constraint(
        op.f("ck_reviews_disposition"),
        "reviews",
        "disposition in ('hold', 'two_reviewers', 'private', 'sample')",
    )
    op.create_index("ix_reviews_reason_decided_at", "reviews", ["reason", "decided_at"])
    op.create_table(
        "gap_owners",
        sa.Column("question_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("owned_by", sa.Text(), nullable=False),
        sa.Column("owned_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_gap_owners_question_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("question_id", name=op.f("pk_gap_owners")),
    )
    op.execute(
        """
CREATE OR REPLACE FUNCTION signoff_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(current_setting('signoff.erasing', true), '') <> 'on' THEN
    RAISE EXCEPTION 'review_events is append-only';
  END IF;
  RETURN coalesce(NEW, OLD);
END $$
"""
    )
    op.execute(
        """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON review_events
  FOR EACH ROW EXECUTE FUNCTION signoff_append_only()
"""
    )
