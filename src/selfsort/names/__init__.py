"""What clusters of pictures may be called: words that most pictures of a cluster share, and few others."""
