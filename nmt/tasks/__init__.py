"""Work that is divided into tasks: each is done once, by whichever process, and survives interruptions."""
