package ams

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
)

// readSecret returns the secret in a file, or for "-" that of standard input. On a terminal, it
// asks for it without showing it.
func readSecret(cmd *cobra.Command, file, question string) (string, error) {
	var text []byte
	var asked bool
	var err error
	source := file
	if file == "-" {
		source = "standard input"
		text, asked, err = action.ReadHidden(cmd.InOrStdin(), cmd.ErrOrStderr(), question)
	}
	if !asked {
		text, err = action.Read(io.LimitReader(cmd.InOrStdin(), 64<<10), file)
	}
	if err != nil {
		return "", fmt.Errorf("read the credentials: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("read the credentials: %s is empty", source)
	}
	return secret, nil
}
