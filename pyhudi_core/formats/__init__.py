"""File formats convert bytes to values and back, in bounded memory. Errors are typed. This package uses no storage and no clock."""
