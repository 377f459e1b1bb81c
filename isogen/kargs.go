package isogen

import (
	"errors"
	"fmt"
)

// Operation is what a KernelArgument does to the base's default command line.
type Operation string

// Operations, by the names of the Assisted Installer's API.
const (
	Append  Operation = "append"
	Delete  Operation = "delete"
	Replace Operation = "replace"
)

// KernelArgument is one edit of the command line that the live system boots with. The rules are
// those of coreos-installer: whatever the order they are given in, deletions come first, then what
// is appended, then replacements.
type KernelArgument struct {
	Operation Operation
	Value     string // an argument as "quiet" or "key=value"; for Replace "key=old=new"
}

// KernelArgumentError says why kernel arguments cannot be put into a base's images.
type KernelArgumentError struct {
	Argument string // the value at fault, "" if it is all of them together
	Area     string // the area that they do not fit in, as a path in the ISO; "" if none
	Needed   int64  // bytes that the command line and its end need, 0 unless it is too long
	Had      int64  // bytes that the area has, 0 unless it is too long
	Problem  string // a sentence
}

func (e *KernelArgumentError) Error() string { return e.Problem }

// ErrNoKernelArguments says that a base has no areas for kernel arguments.
var ErrNoKernelArguments = errors.New("it has no areas for kernel arguments")

// CheckKernelArguments returns a *KernelArgumentError if Full would refuse the arguments.
func (b *Base) CheckKernelArguments(args ...KernelArgument) error {
	_, err := b.KernelArguments(args...)
	return err
}

// KernelArguments returns the base's default command line as the arguments edit it.
func (b *Base) KernelArguments(args ...KernelArgument) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	return "", &KernelArgumentError{Problem: fmt.Sprintf("the base ISO %s cannot take kernel arguments yet", b.path)}
}
