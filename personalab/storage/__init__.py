"""The files of a data root: JSON, JSONL, the reply's line, locks."""
