"""The package behind the commands in `benchmark/`.

A package imports only those before it: store, data, methods, training, study, report.
`speed` comes after training, beside study and report.
"""
