"""Print the token of the newest state of the table at the location that is given."""

import sys

import pyhudi as hudi

print(hudi.open_table(sys.argv[1]).snapshot_token())
