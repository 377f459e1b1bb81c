package overlay

import "syscall"

// errNoSpace is the error of a full disk.
const errNoSpace = syscall.ENOSPC
