"""Everything that builds the embedded demo model: text, teacher, training, export, judging."""
