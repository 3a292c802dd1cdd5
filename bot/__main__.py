"""`python -m bot` is `signoff`."""

from bot.cli import main

main()
