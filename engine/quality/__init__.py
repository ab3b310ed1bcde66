"""Do a candidate's weights speak as well as a reference's? Loss, agreement, repetition, a bar."""
