"""What an adversary gets: each attack with a baseline that lacks the view, and an interval."""
