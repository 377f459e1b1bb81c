package installconfig

import (
	"slices"
	"strings"
)

// installerFlags returns the options of coreos-installer that users may set, as in the Assisted
// Installer.
func installerFlags() []string {
	return []string{"--append-karg", "--delete-karg", "-n", "--copy-network", "--network-dir", "--save-partlabel",
		"--save-partindex", "--image-url", "--image-file"}
}

// CheckInstallerArgs rejects options of coreos-installer that users must not set. It also rejects
// values that a shell could split or expand.
func CheckInstallerArgs(args []string) error {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			if !slices.Contains(installerFlags(), arg) {
				// The text contains that of the Assisted Installer, because scripts search for it.
				return invalid("The installer arguments are invalid: found unexpected flag %s for installer; allowed "+
					"are %s, each value an argument of its own.", arg, strings.Join(installerFlags(), ", "))
			}
			continue
		}
		if arg == "" {
			return invalid("An installer argument is empty; leave it out.")
		}
		if odd := strings.IndexFunc(arg, func(r rune) bool { return !allowedInValue(r) }); odd >= 0 {
			return invalid("The installer argument %q has the character %q, which is not allowed there.", arg,
				[]rune(arg[odd:])[0])
		}
	}
	return nil
}

// allowedInValue reports whether a value of an installer argument may contain the character.
func allowedInValue(r rune) bool {
	switch {
	// this range holds the digits and , - . / : ; <
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '+' <= r && r <= '=':
		return true
	}
	return strings.ContainsRune(`@!#$%*()_"'{}[]`, r)
}
