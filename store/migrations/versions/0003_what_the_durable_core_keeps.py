"""What the durable core, the data side and the decision side keep beyond the spine"""

from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
