package external

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"landfall/appliance/process"
	"landfall/appliance/roots"
)

// ReadSecret reads a secret of the configuration from a file, without the white space around it. It
// rejects a file that other users may read. The file is read for each use, so that a new secret
// needs no restart.
func ReadSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && !process.IsCredential(path) {
		return "", fmt.Errorf("%s has mode %04o, so other users may read it; set its mode to 0600", path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("%s is empty; write the secret into it", path)
	}
	return secret, nil
}

// Authorities returns the system's CA certificates and those of a PEM file. An empty path means the
// system's alone.
func Authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return roots.System(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read CA certificates: %w", err)
	}
	pool, ok := roots.With(text)
	if !ok {
		return nil, fmt.Errorf("%s holds no CA certificate in PEM form; write the certificates of the identity "+
			"provider's authority into it", path)
	}
	return pool, nil
}
