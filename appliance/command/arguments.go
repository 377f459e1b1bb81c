package command

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/outcome"
)

// explainArguments lets the commands name a missing or an additional argument. Cobra's own errors
// only count the arguments, and call an additional one an unknown command.
func explainArguments(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		explainArguments(cmd)
		if check := cmd.Args; check != nil && !cmd.HasSubCommands() {
			cmd.Args = func(cmd *cobra.Command, arguments []string) error {
				return explained(cmd, arguments, check(cmd, arguments))
			}
		}
	}
}

// explained replaces an error of Cobra about the number of arguments.
func explained(cmd *cobra.Command, arguments []string, err error) error {
	if err == nil || !strings.HasPrefix(err.Error(), "unknown command ") &&
		!strings.HasPrefix(err.Error(), "accepts ") && !strings.HasPrefix(err.Error(), "requires at least ") {
		return err
	}
	words := argumentWords(cmd)
	switch {
	case len(arguments) < len(words):
		return outcome.Usagef("%s is missing", words[len(arguments)])
	case len(arguments) == len(words):
		return err
	}
	surplus := arguments[len(words)]
	if flags := flagsFor(cmd, surplus); len(flags) > 0 {
		return outcome.Usagef("unexpected argument %q (did you mean %s?)", surplus, strings.Join(flags, " or "))
	}
	return outcome.Usagef("unexpected argument %q", surplus)
}

// argumentWords returns the names of a command's arguments in the line of its usage, such as NAME.
func argumentWords(cmd *cobra.Command) (words []string) {
	for _, word := range strings.Fields(cmd.Use)[1:] {
		word = strings.Trim(word, "[]()")
		if strings.HasPrefix(word, "-") || word == "|" {
			break // flags come after the arguments
		}
		words = append(words, word)
	}
	return words
}

// flagsFor returns the flags that could take an additional argument.
func flagsFor(cmd *cobra.Command, argument string) (flags []string) {
	for _, name := range []string{"infra-env", "cluster", "host", "filename", "file"} {
		flag := cmd.Flags().Lookup(name)
		switch {
		case flag == nil || flag.Changed:
		case flag.Shorthand != "":
			flags = append(flags, fmt.Sprintf("-%s %s", flag.Shorthand, argument))
		default:
			flags = append(flags, fmt.Sprintf("--%s %s", name, argument))
		}
	}
	return flags
}

// Cobra's errors about flags of which one is needed, or which exclude each other.
var (
	noneGiven = regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`)
	manyGiven = regexp.MustCompile(`^if any flags in the group .* none of the others can be; \[(.*)\] were all set$`)
)

// checkFlagGroups returns an error about the flags of a command that were given together, or not at
// all.
func checkFlagGroups(cmd *cobra.Command) error {
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	names := func(found []string) string { return "--" + strings.ReplaceAll(found[1], " ", ", --") }
	if found := noneGiven.FindStringSubmatch(err.Error()); found != nil {
		return outcome.Usagef("one of these flags is missing: %s", names(found))
	}
	if found := manyGiven.FindStringSubmatch(err.Error()); found != nil {
		return outcome.Usagef("give only one of these flags: %s", names(found))
	}
	return outcome.Usagef("%w", err)
}
