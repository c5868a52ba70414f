"""The steps that run a project: every skill on every case, judged and ranked."""
