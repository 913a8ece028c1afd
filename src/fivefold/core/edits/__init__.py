"""How a decision becomes changes of the view: where it cuts, what it puts in place, what that does to thinking and media."""
