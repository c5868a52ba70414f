"""The files of the lab: assets, projects, sessions."""
