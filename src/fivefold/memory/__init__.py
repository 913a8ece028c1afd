"""The session memory: a Markdown file that is kept up to date in the background and stands for the conversation (S)."""
