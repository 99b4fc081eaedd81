"""Reads and writes by Apache Hudi itself, judged row by row against this project."""
