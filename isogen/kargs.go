package isogen

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Operation is the kind of edit of the base's default command line.
type Operation string

// The operations, with the names of the Assisted Installer's API.
const (
	Append  Operation = "append"
	Delete  Operation = "delete"
	Replace Operation = "replace"
)

// KernelArgument is an edit of the live system's command line. The rules are those of
// coreos-installer: deletions are applied first, then additions, then replacements. An argument to
// delete or replace may be missing.
type KernelArgument struct {
	Operation Operation
	Value     string // an argument such as "quiet" or "key=value"; for Replace "key=old=new"
}

// KernelArgumentError reports why kernel arguments cannot be written to the images of a base.
type KernelArgumentError struct {
	Argument string // the invalid value; "" if the problem concerns all values
	Area     string // the file whose area is too small; "" for other problems
	Needed   int64  // size of the command line with its end character in bytes; 0 for other problems
	Had      int64  // size of the area in bytes; 0 for other problems
	Problem  string // a sentence
}

func (e *KernelArgumentError) Error() string { return e.Problem }

// KernelArguments returns the base's default command line after the given edits. It does not check
// the length. It returns a *KernelArgumentError if an argument is invalid or the base does not
// contain its default command line, like bases of OpenShift 4.6.
func (b *Base) KernelArguments(args ...KernelArgument) (string, error) {
	for _, a := range args {
		if err := a.check(); err != nil {
			return "", err
		}
	}
	if b.kargs == nil {
		return "",
			&KernelArgumentError{Problem: fmt.Sprintf("the base ISO %s (%s) has no areas for kernel arguments: leave "+
				"them out or use a newer CoreOS release", b.path, b.volumeID)}
	}
	return edit(b.kargs.standard, args), nil
}

// CheckKernelArguments returns the *KernelArgumentError that Full would return: an argument is
// invalid, a boot loader would misread an argument, the base has no areas, or the arguments are too
// long.
func (b *Base) CheckKernelArguments(args ...KernelArgument) error {
	_, err := b.commandLine(args)
	return err
}

// commandLine returns the command line for the areas of an image. It returns "" if the base has no
// areas and there are no edits.
func (b *Base) commandLine(args []KernelArgument) (string, error) {
	if b.kargs == nil && len(args) == 0 {
		return "", nil
	}
	line, err := b.KernelArguments(args...)
	if err != nil {
		return "", err
	}
	if line == b.kargs.current { // unchanged; the line may fill its area completely
		return line, nil
	}
	for _, a := range args {
		if err := a.checkSyntax(); err != nil && a.Operation != Delete && b.kargs.inScripts() {
			return "", err
		}
	}
	if needed := int64(len(line)) + 1; needed > b.kargs.size {
		where := b.kargs.list[0].file
		return "", &KernelArgumentError{Area: where, Needed: needed, Had: b.kargs.size,
			Problem: fmt.Sprintf("the kernel arguments and the base ISO's own arguments have %d bytes, but the area "+
				"in "+
				"%s has %d: shorten the arguments by %d bytes", needed, where, b.kargs.size, needed-b.kargs.size)}
	}
	return line, nil
}

// replacement matches the value of a Replace operation.
var replacement = regexp.MustCompile(`^([^=]+)=([^=]+)=([^=]+)$`)

// check returns an error for a value that no command line can contain.
func (a KernelArgument) check() error {
	wrong := func(format string, args ...any) error {
		return &KernelArgumentError{Argument: a.Value, Problem: fmt.Sprintf("the kernel argument %q ", a.Value) +
			fmt.Sprintf(format, args...)}
	}
	value := strings.TrimSpace(a.Value)
	switch {
	case a.Operation != Append && a.Operation != Delete && a.Operation != Replace:
		return wrong("has the operation %q: use append, delete or replace", a.Operation)
	case value == "":
		return wrong("is empty: leave it out")
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return wrong("has a line break, a control character or invalid UTF-8: leave it out")
	case strings.Count(value, `"`)%2 == 1:
		return wrong("has an unbalanced double quote: add the other one")
	case a.Operation == Replace && !replacement.MatchString(value):
		return wrong("is not a replacement: write it as key=old=new")
	}
	return nil
}

// checkSyntax returns an error for a value that GRUB would not pass to the kernel unchanged (GRUB
// manual, "Quoting"). isolinux passes all values, but the areas of both boot loaders have the same
// content.
func (a KernelArgument) checkSyntax() error {
	wrong := func(c rune, remedy string) error {
		return &KernelArgumentError{Argument: a.Value,
			Problem: fmt.Sprintf("the kernel argument %q has a %q, which has a special meaning in the boot loader "+
				"GRUB: %s",
				a.Value, c, remedy)}
	}
	quoted, previous := false, ' '
	for _, c := range strings.TrimSpace(a.Value) {
		switch {
		case c == '"':
			quoted = !quoted
		case strings.ContainsRune(`$\'`, c):
			return wrong(c, "leave it out")
		case !quoted && (strings.ContainsRune(`;&|<>{}`, c) || c == '#' && previous == ' '):
			return wrong(c, "put the value in double quotes")
		}
		previous = c
	}
	return nil
}

// edit applies edits to a command line. As in coreos-installer, a value is matched as text between
// blanks. It may therefore contain several consecutive arguments.
func edit(line string, args []KernelArgument) string {
	line = " " + line + " "
	// Both texts begin and end with a blank, which two matches may share. What was inserted is not
	// searched, because new may contain old.
	substitute := func(old, new string) {
		done, rest := "", line
		for {
			before, after, found := strings.Cut(rest, old)
			if !found {
				line = done + rest
				return
			}
			done, rest = done+before+strings.TrimSuffix(new, " "), " "+after
		}
	}
	each := func(op Operation, do func(value string)) {
		for _, a := range args {
			if a.Operation == op {
				do(strings.TrimSpace(a.Value))
			}
		}
	}
	each(Delete, func(v string) { substitute(" "+v+" ", " ") })
	each(Append, func(v string) { line += v + " " })
	each(Replace, func(v string) {
		m := replacement.FindStringSubmatch(v)
		substitute(" "+m[1]+"="+m[2]+" ", " "+m[1]+"="+m[3]+" ")
	})
	return strings.TrimSpace(line)
}
