"""The command ``pyhudi``: shows and does what the Python surface shows and does."""
