"""From scripts, files and folders to what is submitted."""
