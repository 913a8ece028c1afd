"""What people read: a conversation analysed, as a page and in the terminal."""
