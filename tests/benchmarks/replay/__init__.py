"""The parts of the replay benchmark."""
