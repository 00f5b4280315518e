"""What turns images into features before any method starts."""
