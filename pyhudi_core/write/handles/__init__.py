"""Write handles: each writes the rows of one file group (Hudi's create, merge and append handles).

`base` is their protocol, `choice` picks the handle of a file group, `new_file` is a base file in the making.
"""
