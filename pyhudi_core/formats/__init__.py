"""File formats convert bytes to values and back, in bounded memory. Errors are typed. Nothing here knows a storage or a clock."""
