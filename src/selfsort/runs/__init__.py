"""From a request to a finished run on disk, and what is done with it afterwards."""
