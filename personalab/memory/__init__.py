"""What characters remember about people, and how it is learned: pure rules without I/O."""
