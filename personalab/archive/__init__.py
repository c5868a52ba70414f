"""What the story keeps in the formats of other programs: pure rules, no file is opened here."""
