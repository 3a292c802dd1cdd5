"""Keep tokens in their rows: reading them back from TOAST cost a keyword search five times its own work"""

from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE chunks SET (toast_tuple_target = 8160)")
