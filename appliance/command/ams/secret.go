package ams

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// readSecret returns the secret in a file, or for "-" that of standard input. On a terminal, it
// asks for it without showing it.
func readSecret(cmd *cobra.Command, file, question string) (string, error) {
	var text []byte
	var err error
	source := file
	if file == "-" {
		source = "standard input"
		text, err = readInput(cmd, question)
	} else {
		text, err = os.ReadFile(file)
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

func readInput(cmd *cobra.Command, question string) ([]byte, error) {
	in := cmd.InOrStdin()
	terminal, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return io.ReadAll(io.LimitReader(in, 64<<10))
	}
	fmt.Fprint(cmd.ErrOrStderr(), question)
	text, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(cmd.ErrOrStderr())
	return text, err
}
