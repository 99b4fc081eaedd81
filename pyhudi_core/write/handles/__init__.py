"""Write handles: each writes the rows of one file group (Hudi's create, merge and append handles).

`base` is their protocol, and `choice` chooses the handle of a file group. `new_file` writes a new base file; create and merge handles use it.
"""
